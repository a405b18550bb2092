//! Clients of PVWS use the relay as if it were PVWS.
//!
//! Topology: soft IOCs with Channel Access and pvAccess, a relay with `--pvws`, WebSocket clients that send and
//! receive text messages only.

mod classes;
pub(crate) mod client;
mod clients;
mod formulas;
mod hangs;
mod http;
mod life;
mod limits;
mod messages;
mod names;
mod puts;
mod values;
