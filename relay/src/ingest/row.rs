//! Rows and events: what sources send to the intake.

use std::sync::Arc;

use pvwire_schema::types::{Alarm, BlobValue, Connection, Detail, Filter, Metadata, PvId};

use super::handover::Handover;
use crate::limits::memory::PvCharge;

/// A value on its way through the relay.
#[derive(Clone, Debug, PartialEq)]
pub enum RowValue {
    /// A number, or an enum's index.
    Number(f64),
    /// Any other value; shared, never copied again.
    Blob(Arc<BlobValue>),
    /// A structure of which a part changed.
    Structure {
        /// All of it.
        whole: Arc<BlobValue>,
        /// What changed since the row before.
        part: Arc<BlobValue>,
    },
}

impl RowValue {
    /// The value for a receiver that doesn't have the row before.
    #[must_use]
    pub fn into_whole(self) -> Self {
        match self {
            Self::Structure { whole, .. } => Self::Blob(whole),
            other => other,
        }
    }
}

/// The form in which the clients of a door get a PV.
///
/// Their messages name the PV as they wrote it and say whether they may write it. Clients for whom both are
/// equal get the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The name as the clients wrote it.
    pub spelling: String,
    /// Prefix of the PV's name.
    pub scheme: &'static str,
    /// The relay's rules let these clients write the PV.
    pub may_write: bool,
    /// Least time between two updates while the value is an array; the filter has that of other values.
    pub array_interval_ms: u32,
}

/// One update of one PV.
#[derive(Clone, Debug)]
pub struct Row {
    /// The PV.
    pub pv: PvId,
    /// Number of the update within `epoch`, from 1.
    pub sequence: u32,
    /// Updates before this one that the source squashed. The sequence counts them.
    pub squashed: u32,
    /// Identifies type and element count of the value; unique in the process.
    pub epoch: u32,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// The value.
    pub value: RowValue,
    /// Alarm severity and condition.
    pub alarm: Alarm,
    /// User tag and alarm message.
    pub detail: Option<Arc<Detail>>,
}

/// What happens to a PV except updates.
#[derive(Clone, Debug)]
pub enum Event {
    /// The relay has opened the PV.
    Opened {
        /// Its name with its source; `None` in tests of single lines.
        name: Option<Arc<str>>,
        /// Whether the relay takes puts to it.
        puts: bool,
        /// Charged with the memory of its value.
        charge: Option<Arc<PvCharge>>,
    },
    /// The relay has closed the PV and forgets its value.
    Closed,
    /// Whether the relay takes puts to it has changed.
    Puts(bool),
    /// Its search is queued; `Searched` says when it begins.
    Queued,
    /// Its search has begun. That is at once after `Opened`, unless it is `Queued`.
    Searched,
    /// Connected. `epoch` is another than before if type or element count have changed.
    Connected {
        /// See [`Row::epoch`].
        epoch: u32,
    },
    /// Host and port of the server that it connects to, before `Connected`.
    Server(Arc<str>),
    /// When its server was last heard from, in nanoseconds past the POSIX epoch. Sources that know
    /// it send this before `Disconnected`.
    Heard(i64),
    /// Connected, but its server has stopped answering.
    Unresponsive {
        /// When it was last heard from, in nanoseconds past the POSIX epoch.
        heard_ns: i64,
    },
    /// Its server answers again.
    Responsive,
    /// The PV may not be read any more, so its value must not be shown. Values that come when it
    /// may be read again have this epoch.
    Withdrawn {
        /// See [`Row::epoch`].
        epoch: u32,
    },
    /// Connected, but the server can't send the value: the last one is out of date.
    Refused {
        /// See [`Row::epoch`].
        epoch: u32,
        /// The server's error.
        reason: String,
    },
    /// The connection is lost.
    Disconnected,
    /// Access rights of the relay.
    Access {
        /// It may read the value.
        read: bool,
        /// It may write the value.
        write: bool,
    },
    /// It may be read. The source can't tell whether it may be written: a put shows it.
    AccessUntried,
    /// Its server is connected and has no such field. Nothing that came before is valid.
    Missing {
        /// See [`Row::epoch`].
        epoch: u32,
        /// A sentence that says which fields exist.
        reason: String,
    },
    /// Why the PV has no value although its server is known: a sentence, until it is connected or sends metadata.
    /// Empty: there is no reason any more.
    Reason(String),
    /// Type and element count alone, just after `Connected`: shown if `Metadata` doesn't come.
    Shape(Box<Metadata>),
    /// Its complete metadata.
    Metadata(Box<Metadata>),
    /// Its description, from a source that sends it separately; empty if there is no description. A
    /// later `Metadata` contains it too.
    Description(String),
    /// Another line feeds the PV from now on; see [`Line::succeed`](super::Line::succeed).
    Succeeded {
        /// Its number, which its events have in place of the PV's opening.
        line: u32,
    },
    /// Another line shall feed the PV without a gap; see [`Line::hand_over`](super::Line::hand_over).
    HandingOver {
        /// Its number.
        line: u32,
        /// Told when it feeds the PV.
        to: Arc<Handover>,
    },
    /// A handover that isn't finished is ended.
    Kept,
    /// Connection and access rights as another relay shows them.
    Mirrored(Connection),
    /// The bus between relays has lost this many updates before the next one.
    LostOnBus(u32),
    /// A filtered PV is opened.
    FilteredOpened {
        /// The PV.
        base: PvId,
        /// Selects its updates.
        filter: Filter,
        /// Set for the clients of a door.
        form: Option<Arc<Form>>,
        /// Charged with the memory of its value.
        charge: Option<Arc<PvCharge>>,
    },
    /// The filtered PV is closed.
    FilteredClosed,
}

impl Event {
    /// Whether it shows that the server of the PV answers.
    #[must_use]
    pub fn is_sign_of_life(&self) -> bool {
        match self {
            Self::Connected { .. }
            | Self::Missing { .. }
            | Self::Metadata(_)
            | Self::Responsive => true,
            // What a server does after it has answered a search.
            Self::Reason(reason) => !reason.is_empty(),
            _ => false,
        }
    }
}

/// An event and the opening of the PV that it belongs to.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The PV.
    pub pv: PvId,
    /// Tells late events of a closed PV from those of the next PV with its number.
    pub opening: u32,
    /// What happened.
    pub event: Event,
}
