//! Sources of PVs: the traits that a protocol implements, and its implementations.

pub mod ca;
pub mod directory;
pub mod feed;
pub mod formula;
pub mod handover;
pub mod host;
pub mod intake;
pub mod line;
pub mod local;
pub mod name_files;
pub mod name_services;
pub mod operation;
pub mod pva;
pub mod recording;
pub mod replay;
pub mod row;
pub mod search;
pub mod sim;
mod user;
pub mod weight;

pub use intake::Intake;
pub use line::{FilteredLine, Line};
pub use operation::{Call, LastPut, OnBehalf, OpDone, OpEnd, OpTicket, Put};
use pvwire_schema::types::{Outcome, PvId};
pub use row::{Event, Form, Notice, Row, RowValue};
use std::error::Error;
use std::sync::Arc;

/// The queue in which a name waits for its search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// With the few names that clients add now and then.
    Front,
    /// With the names of clients that add many at once.
    Crowd,
}

/// Why a source doesn't open a PV.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The protocol can't carry the name; its author must change it.
    #[error("{0}")]
    Name(Box<dyn Error + Send + Sync>),
    /// The library of the protocol didn't start.
    #[error("the relay has no client of {protocol}: {why}")]
    NoClient {
        /// The protocol.
        protocol: &'static str,
        /// What the library says.
        why: String,
    },
    /// The operator has not enabled the source.
    #[error("{what} are off: the relay's operator enables them ({setting})")]
    Disabled {
        /// What the source provides.
        what: &'static str,
        /// The key of the configuration.
        setting: &'static str,
    },
}

impl OpenError {
    /// For an error of the name.
    pub fn name(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Name(error.into())
    }
}

/// The relay can't make the values of one more simulated PV.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "this PV makes {load} elements a second and the relay's other simulated PVs make {taken}; \
     all of them may make {most}"
)]
pub struct Overload {
    /// Elements per second of the PV.
    pub load: u64,
    /// Elements per second of the PVs that are open.
    pub taken: u64,
    /// The maximum of all together.
    pub most: u64,
}

/// A protocol through which the relay reaches PVs.
pub trait Source: Send + Sync {
    /// The scheme before `://` in PV names, such as `ca`.
    fn scheme(&self) -> &'static str;

    /// The part of a name that identifies its PV. Names with equal keys are names of one PV.
    fn key<'a>(&self, name: &'a str) -> &'a str {
        name
    }

    /// The names of the PVs from which the values of this one are computed. The registry holds them while the PV
    /// is open, and a client may read the PV if it may read all of them.
    fn inputs(&self, _name: &str) -> Arc<[String]> {
        Arc::default()
    }

    /// Opens the one monitor of a PV. Doesn't block; events and updates arrive through `line`. Names in
    /// `Queue::Crowd` may be found later, so that they don't delay the others.
    ///
    /// # Errors
    /// Why there is no such PV in this source.
    fn open(&self, name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, OpenError>;

    /// Whether the relay can make the values of one more PV. Called before `open`, by one thread at a
    /// time.
    ///
    /// # Errors
    /// The load of the PV and of those that are open.
    fn has_room(&self, _name: &str) -> Result<(), Overload> {
        Ok(())
    }

    /// Bytes of the PV's value, if its name determines them; otherwise 0.
    fn value_bytes(&self, _name: &str) -> usize {
        0
    }

    /// Calls a service. Doesn't block; `done` is called once, with the outcome.
    fn call(&self, _name: &str, _call: Call, done: OpDone) -> OpTicket {
        let why = "this source has no services to call";
        done(OpEnd::failed(Outcome::NotSupported, why));
        OpTicket::ended()
    }

    /// Resolves the host names of its servers again and reconnects. Doesn't block; its PVs are
    /// disconnected meanwhile.
    fn renew(&self) {}
}

/// Takes the display form of a PV, or `None` if no server has it. Called once.
pub type FormAnswer = Box<dyn FnOnce(Option<String>) + Send>;

/// Asks another protocol for properties of a PV that Channel Access doesn't have.
pub trait Forms: Send + Sync {
    /// Asks once for the display form of a PV, such as `String`. Doesn't block.
    fn ask(&self, name: &str, answer: FormAnswer);
}

/// An open monitor. Dropping it closes it.
pub trait Monitor: Send {
    /// Elements per second that the relay makes for it; 0 for PVs of an IOC.
    fn load(&self) -> u64 {
        0
    }

    /// The numbers of its inputs, in the order of `Source::inputs`. Called once, after the PV was opened.
    fn follow(&self, _inputs: Vec<PvId>) {}

    /// Whether it stays open for a while after its last holder left.
    fn lingers(&self) -> bool {
        true
    }

    /// Asks for the PV's description, now and after each reconnect, unless it is part of the metadata
    /// anyway. Doesn't block. Returns true if the description comes in an `Event::Description`, once per
    /// connection; it is empty if there is no description.
    fn describe(&self) -> bool {
        false
    }

    /// Writes to the PV as soon as it is connected. Doesn't block; `done` is called once, with the
    /// outcome, unless the put is cancelled.
    fn put(&self, _put: Put, done: OpDone) -> OpTicket {
        let why = "PVs of this source can't be written";
        done(OpEnd::failed(Outcome::NotSupported, why));
        OpTicket::ended()
    }
}
