//! Tests of the clients of Channel Access and pvAccess against real servers.
//!
//! Each test runs in its own process with its own ports.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod allocations;
mod ca_channels;
mod ca_monitors;
mod ca_put;
#[cfg(feature = "interpose")]
mod ca_recv;
#[cfg(not(feature = "interpose"))]
mod ca_without_recv;
mod pva_monitors;
mod pva_operations;
mod pva_scripted;
mod pva_servers;
mod pva_structures;
mod support;
