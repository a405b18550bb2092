//! The state of one client of a door, whose messages depend on those before them.
//!
//! Clients of pvwire's protocol number their requests and PVs. Clients of a door name PVs in each message and
//! may subscribe a PV twice, so the relay has to remember what each of them has subscribed.

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

/// A name that a client of a door has subscribed.
#[derive(Clone, Debug)]
pub struct HeldName {
    /// As the client wrote it.
    pub spelling: String,
    /// The PV's name with its prefix; `None` if the relay has no such source.
    pub name: Option<String>,
    /// The PV; `None` until the relay has accepted the subscription.
    pub pv: Option<PvId>,
}

/// An action that a message asks for at once.
#[derive(Debug)]
pub enum Ask {
    /// Send this frame.
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

/// The protocol state of one client of a door.
pub trait Dialogue: Send {
    /// Takes a message. The subscriptions that it ends and begins are returned by `cleared` and `wanted`.
    fn take(&mut self, message: &[u8]) -> Option<Ask>;

    /// Whether a subscription has to begin or end.
    fn has_changes(&self) -> bool;

    /// Takes the subscriptions that end.
    fn cleared(&mut self) -> Vec<PvId>;

    /// Takes the next PVs to subscribe.
    fn wanted(&mut self) -> Vec<WantedPv>;

    /// The names that it has subscribed.
    fn held(&self) -> Vec<HeldName>;

    /// A PV is subscribed.
    fn accepted(&mut self, form: &Arc<Form>, pv: PvId);

    /// A PV is refused; appends the messages that tell the client to `out`.
    fn refused(&mut self, form: &Form, problem: NameProblem, message: &str, out: &mut Vec<u8>);

    /// Appends the messages that count further refused PVs.
    fn more_refused(&mut self, count: usize, out: &mut Vec<u8>);

    /// A put has ended; returns the answer to the client, if there is one.
    fn put_ended(&mut self, number: u32, end: &OpEnd) -> Option<Frame>;

    /// The rules have changed: subscribes each PV again for which `may_write` gives another result than before.
    fn judge_again(&mut self, may_write: &dyn Fn(&str) -> bool);
}
