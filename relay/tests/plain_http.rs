//! Scripts use PVs by plain HTTP, under the rules and limits of all clients.
//!
//! Topology: a soft IOC with Channel Access and pvAccess, a pvAccess server of structures, a relay, and HTTP requests
//! as `curl` makes them.

mod access;
mod browsers;
mod client;
mod get;
mod put;
mod stream;
