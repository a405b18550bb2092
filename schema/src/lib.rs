//! The wire protocol between relay and client: types, encoder and decoder.
//!
//! PROTOCOL.md describes the messages; `fbs/` is the schema from which the generated code and readers in
//! other languages are made.

#![deny(unsafe_code)]

pub mod close;
pub mod decode;
pub mod encode;
mod field;
mod generated;
pub mod limits;
mod lz4;
pub mod types;
pub mod varint;

/// WebSocket subprotocol that client and relay must agree on in the handshake.
pub const SUBPROTOCOL: &str = "pvwire.v1";

/// Subprotocol of a client that requests packed columns of numbers, for example on a slow link.
pub const LZ4_SUBPROTOCOL: &str = "pvwire.v1.lz4";
