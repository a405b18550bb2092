//! Gets, puts, calls and questions as a program makes them, and their results.

use std::time::Duration;

use bytes::Bytes;
use pvwire_schema::types::{NameError, Node, Outcome, PutValue};

use super::{Pv, View};
use crate::select::execute::Held;
use crate::store::{Slot, Store};

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// Name of the PV.
    pub name: String,
    /// The value.
    pub value: PutValue,
    /// Whether the answer waits until the IOC has processed the record (put-completion).
    pub wait: bool,
    /// How long the relay waits for the IOC's answer.
    pub timeout: Duration,
    /// Write only if the PV is still at the update that this open PV shows.
    pub only_if: Option<Pv>,
    /// Refuse the value if it is outside the control limits of the PV, before anything is written.
    pub check_limits: bool,
}

impl Put {
    /// A put that does not wait for completion, with a timeout of ten seconds.
    pub fn new(name: impl Into<String>, value: PutValue) -> Self {
        Self {
            name: name.into(),
            value,
            wait: false,
            timeout: Duration::from_secs(10),
            only_if: None,
            check_limits: false,
        }
    }
}

/// What the server answered to a put that was carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutDone {
    /// The value that the PV has now, if it differs from the one written; `message` says why.
    pub readback: Option<Node>,
    /// Empty if the value was written as given.
    pub message: String,
}

/// Why a put was not carried out, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The relay or the IOC answered that it failed.
    #[error("{message}")]
    Failed {
        /// The kind of failure.
        outcome: Outcome,
        /// The reason.
        message: String,
    },
    /// There is no connection to the relay.
    #[error("there is no connection to the relay; nothing was sent")]
    NotConnected,
    /// The connection to the relay was lost before the answer.
    #[error("the connection to the relay was lost before the answer; the put may have been done")]
    Lost,
    /// `only_if` names a PV that was closed or shows no current update.
    #[error("the PV that the put is bound to shows no current update; nothing was sent")]
    NoUpdate,
    /// The value is larger than the longest request that the relay accepts.
    #[error(
        "the value does not fit in the {max_bytes} bytes of the relay's longest request; nothing was sent"
    )]
    TooLarge {
        /// The longest request.
        max_bytes: usize,
    },
    /// Another put of the same `all_permitted` group can't be sent.
    #[error("the puts can't be sent as one group; nothing was sent")]
    Withheld,
}

impl PutError {
    /// Whether the value may have been written nevertheless.
    #[must_use]
    pub fn may_be_written(&self) -> bool {
        match self {
            Self::Failed { outcome, .. } => outcome.may_be_done(),
            Self::Lost => true,
            _ => false,
        }
    }
}

/// Why a call of a service has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The relay or the service answered that it failed.
    #[error("{message}")]
    Failed {
        /// The kind of failure.
        outcome: Outcome,
        /// The reason.
        message: String,
    },
    /// There is no connection to the relay.
    #[error("there is no connection to the relay; nothing was sent")]
    NotConnected,
    /// The arguments are larger than the longest request that the relay accepts.
    #[error(
        "the arguments do not fit in the {max_bytes} bytes of the relay's longest request; nothing was sent"
    )]
    TooLarge {
        /// The longest request.
        max_bytes: usize,
    },
    /// The connection to the relay was lost before the answer.
    #[error("the connection to the relay was lost before the answer; the call may have been done")]
    Lost,
}

/// The answer to a get.
#[derive(Debug, Default)]
pub struct Got {
    pub(super) pieces: Vec<Piece>,
}

/// The answer to one request: a part of the names.
#[derive(Debug)]
pub(super) struct Piece {
    /// Index of its first name among the names of the get.
    pub(super) from: usize,
    pub(super) names: Vec<String>,
    pub(super) store: Store,
    pub(super) held: Held,
    pub(super) errors: Vec<NameError>,
}

impl Got {
    /// The PVs in the order of the names, each with its state or the error.
    pub fn iter(&self) -> impl Iterator<Item = Result<View<'_>, &NameError>> {
        self.pieces.iter().flat_map(|piece| {
            piece.names.iter().enumerate().map(|(at, name)| {
                let error = piece.errors.iter().find(|error| error.index as usize == at);
                match error {
                    Some(error) => Err(error),
                    None => Ok(View::new(
                        name,
                        &piece.store,
                        at as Slot,
                        &piece.held,
                        f64::NAN,
                    )),
                }
            })
        })
    }
}

/// One page of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerPage {
    /// The content, in the form that the service defines. It keeps its message in memory.
    pub content: Bytes,
    /// No further page follows.
    pub is_last: bool,
}

/// Why a question has no answer, or no further page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The relay answered that it failed. `NotSupported`: the relay knows no questions.
    #[error("{message}")]
    Failed {
        /// The kind of failure.
        outcome: Outcome,
        /// The reason.
        message: String,
    },
    /// There is no connection to the relay.
    #[error("there is no connection to the relay; nothing was sent")]
    NotConnected,
    /// The connection to the relay was lost before the last page.
    #[error("the connection to the relay was lost before the answer was complete")]
    Lost,
}
