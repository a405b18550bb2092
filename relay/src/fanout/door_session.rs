//! The state of one client of a door, whose messages depend on those before them.
//!
//! Clients of pvwire's protocol number their requests and PVs. Clients of a door name PVs in each message and
//! may subscribe a PV twice, so the relay has to remember what each of them has subscribed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Filter, NameProblem, PutValue, PvId};

use crate::compute::Size;
use crate::fanout::frame::Frame;
use crate::ingest::{Form, OpEnd};
use crate::state::batch::{Batch, Respond};

/// A PV that a client of a door wants.
#[derive(Clone, Debug)]
pub struct WantedPv {
    /// The name with its prefix.
    pub name: String,
    /// Selects its updates.
    pub filter: Filter,
    /// Its form, in which `may_write` says whether this door takes puts at all.
    pub form: Form,
    /// Whether the client shows the description, which some sources send only when asked.
    pub describe: bool,
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
pub enum DoorAction {
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
    /// Write and read PVs; `DoorSession::batch_done` takes the response that is made of the outcome.
    Run(Batch, Respond),
    /// Log the client in by a token.
    LogIn {
        /// The token.
        token: String,
        /// The code with which the connection is closed if the token is refused.
        refused: u16,
        /// What is sent otherwise.
        greeting: Frame,
    },
    /// Close the connection with this code and reason.
    Close(u16, String),
}

/// A message in the form in which a door's [`MessageReader`] gives it to its [`DoorSession`].
pub type ReadMessage = Box<dyn Any + Send>;

/// Reads the messages of clients of a door without their state, on any thread: a message may be long, and take long to
/// read.
pub trait MessageReader: Send + Sync {
    /// Reads a message.
    fn read(&self, message: &[u8]) -> ReadMessage;

    /// How long that may take.
    fn size(&self, message: &[u8]) -> Size {
        Size::of(message.len())
    }
}

/// The protocol state of one client of a door.
pub trait DoorSession: Send {
    /// Reads the client's messages.
    fn reader(&self) -> Arc<dyn MessageReader>;

    /// Takes a message that `reader` has read. The subscriptions that it ends and begins are returned by `cleared` and
    /// `wanted`.
    fn take(&mut self, message: ReadMessage) -> Option<DoorAction>;

    /// Whether a subscription has to begin or end.
    fn has_changes(&self) -> bool;

    /// Takes the subscriptions that end.
    fn cleared(&mut self) -> Vec<PvId>;

    /// Takes the next PVs to subscribe.
    fn wanted(&mut self) -> Vec<WantedPv>;

    /// The names that it has subscribed.
    fn held(&self, most: usize) -> Vec<HeldName>;

    /// A PV is subscribed.
    fn accepted(&mut self, form: &Arc<Form>, pv: PvId);

    /// A PV is refused; appends the messages that tell the client to `out`.
    fn refused(&mut self, form: &Form, problem: NameProblem, message: &str, out: &mut Vec<u8>);

    /// Appends the messages that count further refused PVs.
    fn more_refused(&mut self, count: usize, out: &mut Vec<u8>);

    /// A put has ended; returns the answer to the client, if there is one.
    fn put_ended(&mut self, number: u32, end: &OpEnd) -> Option<Frame>;

    /// The rules have changed: subscribes each PV again for which `may_write` gives another result than before.
    fn rights_changed(&mut self, may_write: &dyn Fn(&str) -> bool);

    /// The client's messages in a frame that its group shares; `None` if the frame has them already.
    fn addressed(&self, _shared: &Frame) -> Option<Frame> {
        None
    }

    /// An batch has this response; returns the answer to the client, if there is one.
    fn batch_done(&mut self, _number: u32, _response: &[u8]) -> Option<Frame> {
        None
    }

    /// Called at the beginning and about twice a second, with the time since the client connected.
    fn passing(&mut self, _connected: Duration) -> Option<DoorAction> {
        None
    }
}
