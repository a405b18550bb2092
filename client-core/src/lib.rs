//! The client's engine: decodes a relay's frames, stores the state of PVs, compiles selections and
//! executes them.
//!
//! The crate does no I/O and knows neither a browser nor an operating system: messages arrive as
//! bytes, requests leave as bytes, and time is passed in. `wasm-client/wasm` is its interface for
//! JavaScript.

#![forbid(unsafe_code)]

pub mod format;
pub mod ingest;
pub mod select;
pub mod store;
