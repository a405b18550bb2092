//! The state of one client of a door, whose messages depend on those before them.
//!
//! Clients of pvwire's protocol number their requests and PVs. Clients of a door name PVs in each message and
//! may subscribe a PV twice, so the relay has to remember what each of them has subscribed.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Connection, Filter, Metadata, NameProblem, PutValue, PvId};

use crate::fanout::frame::Frame;
use crate::ingest::weight::Weight;
use crate::ingest::{Form, OpEnd, RowValue};
use crate::state::table::Latest;

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
    /// Write and read PVs; `Dialogue::ran` takes the response that is made of the outcome.
    Run(Errand, Respond),
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

/// Puts and then reads, whose outcomes belong together.
#[derive(Clone, Debug, Default)]
pub struct Errand {
    /// Tells it from the client's other errands.
    pub number: u32,
    /// The values to write.
    pub puts: Vec<Written>,
    /// Whether the puts wait for the completion of their records.
    pub wait: bool,
    /// How long each put may take.
    pub put_timeout: Duration,
    /// The names of the PVs to read, and how long to wait for the value of each.
    pub reads: Vec<(String, Duration)>,
    /// Whether the client shows descriptions, which some sources send only when asked.
    pub describe: bool,
}

/// A value to write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The name of the PV, with its prefix.
    pub name: String,
    /// The value.
    pub value: PutValue,
    /// The text to write in its place if the PV's value is a single string.
    pub literal: Option<String>,
}

/// A connected PV's value and metadata.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its type and display information.
    pub metadata: Arc<Metadata>,
    /// Its value.
    pub latest: Latest,
    /// Connection and access rights.
    pub connection: Connection,
}

impl Seen {
    /// About how many array elements its value has.
    #[must_use]
    pub fn elements(&self) -> usize {
        match &self.latest.value {
            RowValue::Number(_) => 1,
            RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
                Weight::of(blob).bytes() / size_of::<f64>()
            }
        }
    }
}

/// Why a read has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// None came in time.
    #[error("{name} has no value within {} s", waited.as_secs_f64())]
    NoValue {
        /// The PV.
        name: String,
        /// How long the read waited.
        waited: Duration,
    },
    /// The client may not read the PV, or not so often, for this reason.
    #[error("{0}")]
    NotAllowed(String),
    /// The relay can't serve the PV, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// The outcome of an errand.
#[derive(Debug, Default)]
pub struct Ran {
    /// Of each put.
    pub puts: Vec<OpEnd>,
    /// Of each read: the PV, or the reason why it has no value.
    pub reads: Vec<Result<Seen, ReadError>>,
}

impl Ran {
    /// About how many array elements a response may have.
    #[must_use]
    pub fn elements(&self) -> usize {
        let read = self.reads.iter().flatten();
        let elements: usize = read.map(Seen::elements).sum();
        elements + self.reads.len() + self.puts.len()
    }
}

/// Writes the response to an errand, on any thread: it may be as large as all values together.
pub struct Respond(pub WriteResponse);

/// Makes a response in JSON of the outcome of an errand.
pub type WriteResponse = Box<dyn FnOnce(&Ran) -> Vec<u8> + Send>;

impl fmt::Debug for Respond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Respond")
    }
}

/// A message in the form in which a door's [`MessageReader`] gives it to its [`Dialogue`].
pub type ReadMessage = Box<dyn Any + Send>;

/// Reads the messages of clients of a door without their state, on any thread: a message may be long, and take long to
/// read.
pub trait MessageReader: Send + Sync {
    /// Reads a message.
    fn read(&self, message: &[u8]) -> ReadMessage;
}

/// The protocol state of one client of a door.
pub trait Dialogue: Send {
    /// Reads the client's messages.
    fn reader(&self) -> Arc<dyn MessageReader>;

    /// Takes a message that `reader` has read. The subscriptions that it ends and begins are returned by `cleared` and
    /// `wanted`.
    fn take(&mut self, message: ReadMessage) -> Option<Ask>;

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

    /// The client's messages in a frame that its group shares; `None` if the frame has them already.
    fn addressed(&self, _shared: &Frame) -> Option<Frame> {
        None
    }

    /// An errand has this response; returns the answer to the client, if there is one.
    fn ran(&mut self, _number: u32, _response: &[u8]) -> Option<Frame> {
        None
    }

    /// Called at the beginning and about twice a second, with the time since the client connected.
    fn passing(&mut self, _connected: Duration) -> Option<Ask> {
        None
    }
}
