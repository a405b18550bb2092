//! The client's engine: decodes a relay's frames, stores the state of PVs, compiles selections and
//! executes them, and evaluates formulas.
//!
//! The crate does no I/O and knows neither a browser nor an operating system: messages arrive as
//! bytes, requests leave as bytes, and time is passed in. `wasm-client/wasm` is its interface for
//! JavaScript.

#![forbid(unsafe_code)]

pub mod format;
pub mod formula;
pub mod ingest;
pub mod local;
pub mod select;
pub mod store;
