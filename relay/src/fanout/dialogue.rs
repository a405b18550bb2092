//! One client's side of a protocol in which a message's meaning depends on those before it.
//!
//! Clients of pvwire's own protocol number their requests and PVs. Clients of a door name PVs in each message,
//! and may ask for a PV twice, so that the relay has to remember what each of them has asked for.

use std::sync::Arc;

use pvwire_schema::types::{Filter, NameProblem, PutValue, PvId};

use crate::fanout::frame::Frame;
use crate::ingest::{Form, OpEnd};

/// A PV that a client of a door wants.
#[derive(Clone, Debug)]
pub struct WantedPv {
    /// The name with its prefix.
    pub name: String,
    /// Selects its updates.
    pub filter: Filter,
    /// Its form, in which `may_write` says whether this door takes puts at all.
    pub form: Form,
}

/// What a message asks for at once.
#[derive(Debug)]
pub enum Ask {
    /// Send this.
    Send(Frame),
    /// Write a PV.
    Put {
        /// Number of the put.
        number: u32,
        /// Name of the PV, with its prefix.
        name: String,
        /// The value.
        value: PutValue,
    },
}

/// The state of one client's side.
pub trait Dialogue: Send {
    /// Takes a message. What it subscribes and ends is asked for by `cleared` and `wanted`.
    fn take(&mut self, message: &[u8]) -> Option<Ask>;

    /// Whether there is something to subscribe or to end.
    fn has_changes(&self) -> bool;

    /// The subscriptions that end.
    fn cleared(&mut self) -> Vec<PvId>;

    /// The next PVs to subscribe.
    fn wanted(&mut self) -> Vec<WantedPv>;

    /// A PV is subscribed.
    fn accepted(&mut self, form: &Arc<Form>, pv: PvId);

    /// A PV is refused; returns what the client is told.
    fn refused(&mut self, form: &Form, problem: NameProblem, message: &str) -> Option<Frame>;

    /// A put has ended; returns what the client is told.
    fn put_ended(&mut self, number: u32, end: &OpEnd) -> Option<Frame>;

    /// The rules have changed: subscribes again each PV whose name `may_write` judges otherwise than before.
    fn judge_again(&mut self, may_write: &dyn Fn(&str) -> bool);
}
