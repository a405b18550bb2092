//! A fleet of relays: the bus between them, its members, and which of them owns a PV.
//!
//! [`members`] and [`ownership`] are state machines without I/O and without a clock: the caller passes the time
//! and the messages. This crate knows neither EPICS nor the frames that the messages contain.

#![forbid(unsafe_code)]

pub mod bus;
#[cfg(any(test, feature = "testing"))]
pub mod in_process;
pub mod member;
pub mod members;
pub mod nats;
pub mod ownership;
pub mod pieces;
pub mod refusals;
pub mod seal;
pub mod subject;

pub use bus::{Answer, AskError, Bus, Kind, Receiver, Reply};
pub use member::{MemberId, Presence, PresenceError, Role, Site, SiteError};
pub use refusals::{Refusal, Refusals};
