//! The wire between relay and client: its types, its encoder and its decoder.
//!
//! PROTOCOL.md beside this crate says what the messages mean; `fbs/` holds the schema that the
//! generated code and every other language's reader are made from.

#![deny(unsafe_code)]

pub mod close;
pub mod decode;
pub mod encode;
mod generated;
pub mod limits;
mod lz4;
pub mod types;
mod varint;

/// WebSocket subprotocol that client and relay must agree on in the handshake.
pub const SUBPROTOCOL: &str = "pvwire.v1";

/// The same for a client that wants the columns of numbers packed, as over a slow link.
pub const LZ4_SUBPROTOCOL: &str = "pvwire.v1.lz4";
