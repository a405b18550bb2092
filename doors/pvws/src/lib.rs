//! The protocol of PVWS (PV Web Socket): names, client messages, and the texts of updates.
//!
//! This crate has no I/O and no clock: the relay owns the sockets and the PVs, and passes times in. Clients get
//! the same messages as from PVWS, key by key; `docs/how-to/move-from-pvws.md` lists the differences.

#![forbid(unsafe_code)]

mod formula;
mod java;
mod json;
mod life;
pub mod local;
mod message;
mod name;
mod report;
mod socket;
mod text;
mod update;
mod vtype;
mod websocket;

pub use formula::{
    Computed, Formula, FormulaError, Known, MOST_INPUTS, MOST_WORK, failed as formula_failed,
};
pub use life::{Life, Received, State};
pub use message::{Message, Written, read};
pub use name::{Dialect, Target, target};
pub use report::{SocketSeen, brief, elements, got, info, pool, sockets, summary};
pub use socket::{Reply, Settings, Socket, Wanted};
pub use vtype::{Sample, Value};
pub use websocket::text_message;
