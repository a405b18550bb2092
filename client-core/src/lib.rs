//! The client's engine: decodes a relay's frames, stores the state of PVs, compiles selections and
//! executes them, and evaluates formulas.
//!
//! The crate does no I/O and depends on neither a browser nor an operating system: messages arrive as
//! bytes, requests leave as bytes, and time is passed in. It has no global state; several clients in
//! one process are independent. It compiles natively and for WebAssembly.
//!
//! # Embedding
//!
//! A native program uses an [`Engine`](engine::Engine) and holds the WebSocket itself, with the
//! subprotocol `pvwire.v1`. After each message, and when [`due`](engine::Engine::due) says so, it
//! sends what [`requests`](engine::Engine::requests) returns, which includes acknowledgements and
//! pings. When the connection is lost, the program calls
//! [`disconnected`](engine::Engine::disconnected) and connects again. The engine subscribes every PV
//! again; until then each PV keeps its last value and is marked as outdated.
//!
//! ```no_run
//! use std::time::{Duration, SystemTime};
//! use pvwire_core::engine::{Engine, Event, Filter, Put, PutValue};
//! use pvwire_core::select;
//!
//! # trait Socket { fn send(&mut self, bytes: Vec<u8>); fn receive(&mut self, until: Option<SystemTime>) -> Option<Vec<u8>>; }
//! # fn run(mut socket: Box<dyn Socket>) -> Result<(), Box<dyn std::error::Error>> {
//! let selection = select::program("{ value { string(units: true) } status { severity } }")?;
//! let mut engine = Engine::new();
//! let names = ["SR:CURRENT", "SR:LIFETIME", "=`SR:CURRENT` * `SR:LIFETIME`"];
//! engine.open(names, Filter::ALL, SystemTime::now());
//!
//! engine.connected(SystemTime::now());
//! let put = Put::new("SR:SETPOINT", PutValue::Number(200.0));
//! engine.put([put], false, SystemTime::now());
//! loop {
//!     for request in engine.requests(SystemTime::now())? {
//!         socket.send(request);
//!     }
//!     if let Some(message) = socket.receive(engine.due()) {
//!         engine.receive(message, SystemTime::now())?;
//!     }
//!     for change in engine.changes() {
//!         if let Some(view) = engine.read(change.pv) {
//!             println!("{} is {}: {}", view.name(), view, view.select(&selection).to_json());
//!         }
//!     }
//!     for event in engine.events() {
//!         if let Event::Put(_, Err(error)) = event {
//!             eprintln!("{error}");
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! `examples/rust` is a complete program with `tungstenite`.
//!
//! A host that schedules requests itself, as the browser's TypeScript does, uses the
//! [`Session`](ingest::Session) below the engine; `wasm-client/wasm` is its interface for
//! JavaScript.

#![forbid(unsafe_code)]

pub mod engine;
pub mod format;
pub mod formula;
pub mod graphql;
pub mod ingest;
pub mod local;
pub mod select;
pub mod store;
