//! Clients of Coniql use the relay as if it were Coniql.
//!
//! Topology: soft IOCs with Channel Access, a relay with `--coniql`, clients with GraphQL over WebSocket and HTTP.

pub(crate) mod client;
mod clients;
mod http;
mod messages;
mod results;
