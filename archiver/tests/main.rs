//! Answers of a real appliance, answers that another implementation of protobuf wrote, and damaged ones.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
mod damaged;
mod recorded;
