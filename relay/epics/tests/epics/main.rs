//! Do the clients of Channel Access and pvAccess tell what real servers do, and nothing else?
//!
//! Each test runs in a process of its own, with ports of its own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod allocations;
mod ca_monitors;
mod ca_put;
mod ca_recv;
mod pva_calls;
mod pva_monitors;
mod pva_operations;
mod pva_refused;
mod pva_structures;
mod pva_undecodable;
mod support;
