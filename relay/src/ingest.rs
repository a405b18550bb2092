//! What must a protocol offer so that the relay can monitor PVs through it?

pub mod ca;
pub mod host;
pub mod intake;
pub mod operation;
pub mod pva;
pub mod search;
pub mod sim;
mod user;
pub mod weight;

pub use intake::{Event, FilteredLine, Intake, Line, Notice, Row, RowValue};
pub use operation::{Call, LastPut, OpDone, OpEnd, OpTicket, Put, Sent};
use pvwire_schema::types::Outcome;

/// Where a name waits while it is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// With the few that a client asks for now and then.
    Front,
    /// With the names of clients that ask for very many at once.
    Crowd,
}

/// A protocol that PVs are reached by.
pub trait Source: Send + Sync {
    /// The scheme before `://` in PV names, such as `ca`.
    fn scheme(&self) -> &'static str;

    /// Opens the one monitor of a PV. Never waits; what comes of it arrives by `line`. Names in the
    /// `queue` of a crowd may be searched more slowly, so that they don't hold up the others.
    ///
    /// # Errors
    /// Says why the protocol can't carry the name, for its author.
    fn open(&self, name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, String>;

    /// Whether the relay can bear what one more PV costs, asked before `open` by one thread at a time.
    ///
    /// # Errors
    /// Says what is wrong with the name, for its author.
    fn has_room(&self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    /// Bytes that the value of a PV will take, as far as its name says; 0 when it doesn't.
    fn value_bytes(&self, _name: &str) -> usize {
        0
    }

    /// Calls a service. Never waits; what becomes of it is told to `done`, once.
    fn call(&self, _name: &str, _call: Call, done: OpDone) -> Box<dyn OpTicket> {
        let why = "this source has no services to call";
        done(OpEnd::failed(Outcome::NotSupported, why));
        Box::new(Sent)
    }

    /// Looks for all its servers again, by their host names. Never waits; meanwhile its PVs are
    /// disconnected.
    fn renew(&self) {}
}

/// Learns the form in which a PV is to be shown, or nothing when no server tells. Called once.
pub type FormAnswer = Box<dyn FnOnce(Option<String>) + Send>;

/// Finds out by another protocol what Channel Access doesn't tell of a PV.
pub trait Forms: Send + Sync {
    /// Asks once for the form of the PV of this name, as `String`. Never waits.
    fn ask(&self, name: &str, answer: FormAnswer);
}

/// An open monitor. Dropping it closes it.
pub trait Monitor: Send {
    /// Elements a second that the relay itself makes for it; 0 for PVs of an IOC.
    fn load(&self) -> u64 {
        0
    }

    /// Has the PV's description told with its metadata, from now on and after each reconnect, if the
    /// source doesn't tell it anyway. Never waits. True when an `Event::Description` tells it apart from
    /// the metadata, once for each connection; the event is empty when there is no description.
    fn describe(&self) -> bool {
        false
    }

    /// Writes to the PV as soon as it is connected. Never waits; what becomes of it is told to
    /// `done`, once, unless it is cancelled.
    fn put(&self, _put: Put, done: OpDone) -> Box<dyn OpTicket> {
        let why = "nothing can be written to PVs of this source";
        done(OpEnd::failed(Outcome::NotSupported, why));
        Box::new(Sent)
    }
}
