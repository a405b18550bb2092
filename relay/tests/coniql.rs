//! Clients of Coniql use the relay as if it were Coniql.
//!
//! Topology: soft IOCs with Channel Access, a relay with `--coniql`, clients with GraphQL over WebSocket and HTTP.

pub(crate) mod client;
mod clients;
mod computing;
mod gone;
mod http;
mod max_rate;
mod messages;
mod results;
