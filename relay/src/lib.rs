//! The relay: EPICS process variables in, one encoded frame per tick and group out.
//!
//! Modules are listed in the order an update passes them; each may use those before it and none of
//! those after it. `config`, `file_reads`, `latency`, `log_queue`, `metrics`, `pulse` and `shutdown` stand beside the way.

#![forbid(unsafe_code)]

pub mod config;
pub mod file_reads;
pub mod latency;
pub mod log_queue;
pub mod metrics;
pub mod pulse;
pub mod shutdown;

pub mod quota;

pub mod source;

pub mod rule;

pub mod auth;

pub mod caller;

pub mod descriptor;

pub mod wish;

pub mod registry;

pub mod table;

pub mod tick;

pub mod set;

pub mod dirty;

pub mod frame;

pub mod large;

pub mod group;

pub mod audit;

pub mod operation;

pub mod request;

pub mod session;

pub mod socket;

pub mod stream;

pub mod shard;

pub mod admin;

pub mod keys;

pub mod tls;

pub mod reload;

pub mod connection;

pub mod server;
