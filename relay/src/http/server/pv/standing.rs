//! What a PV's state means for a request by plain HTTP: a value, or the error that says why it has no value.

use std::time::Duration;

use hyper::StatusCode;
use pvwire_http::{Sample, Snapshot};
use pvwire_schema::types::{BlobValue, ConnectionState, NameProblem, Node, SkipCause};

use crate::http::server::answer::Refusal;
use crate::ingest::RowValue;
use crate::queries::watch::PvState;
use crate::state::registry;

/// What is known of a PV at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is connected, and its first value has not arrived, for this reason if one is known.
    Awaited(String),
    /// It is searched and not found yet, with the reason if a server has it that can't be reached.
    Searched(String),
    /// It is connected and has a value.
    Current,
    /// Its server can't be reached or doesn't respond: the last value, if there is one, is outdated.
    Outdated,
    /// It is not found, with the reason if a server has it that can't be reached.
    NotFound(String),
    /// Its server is connected and has no such PV, for this reason.
    Missing(String),
    /// It is connected, and its server can't send the value, for this reason.
    Unsent(String),
    /// It is connected, and its IOC doesn't let the relay read it.
    Unreadable,
}

impl Standing {
    pub(super) fn of(state: &PvState) -> Self {
        let reason = || state.reason().to_owned();
        match state.connection.state {
            ConnectionState::Connected if state.connection.heard_ns != 0 => Self::Outdated,
            ConnectionState::Connected if !state.connection.read => Self::Unreadable,
            ConnectionState::Connected if state.latest.is_some() => Self::Current,
            ConnectionState::Connected if state.is_refused => Self::Unsent(reason()),
            ConnectionState::Connected => Self::Awaited(reason()),
            ConnectionState::Disconnected => Self::Outdated,
            ConnectionState::NotFound if state.is_missing => Self::Missing(reason()),
            ConnectionState::NotFound => Self::NotFound(reason()),
            ConnectionState::Connecting => Self::Searched(reason()),
        }
    }

    /// Whether it isn't known yet what the PV is.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Awaited(_) | Self::Searched(_))
    }

    /// Whether a stream of events shows it: what the PV is, or why that isn't known.
    pub(super) fn is_shown(&self) -> bool {
        match self {
            Self::Searched(reason) | Self::Awaited(reason) => !reason.is_empty(),
            other => !other.is_open(),
        }
    }

    /// Whether no server has answered for the PV.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Self::NotFound(reason) | Self::Searched(reason) if reason.is_empty())
    }

    /// Why the PV has no current value, with the status that says so.
    pub(super) fn error(self, patience: Duration) -> (StatusCode, String) {
        let (status, message) = match self {
            // A server has answered searches for the PV, and the reason says what it doesn't do.
            Self::NotFound(reason) | Self::Searched(reason) | Self::Awaited(reason)
                if !reason.is_empty() =>
            {
                return (StatusCode::GATEWAY_TIMEOUT, reason);
            }
            Self::Missing(reason) => return (StatusCode::NOT_FOUND, reason),
            Self::Unsent(reason) => return (StatusCode::SERVICE_UNAVAILABLE, reason),
            Self::Unreadable => (
                StatusCode::FORBIDDEN,
                "the IOC doesn't let the relay read this PV",
            ),
            Self::NotFound(_) => (
                StatusCode::NOT_FOUND,
                "no server has this PV: check the name and the addresses that the relay searches",
            ),
            Self::Outdated => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the PV's server can't be reached or doesn't respond; its last value is outdated",
            ),
            Self::Searched(_) => {
                let message = format!(
                    "no server has answered for this PV within {} ms: check the name and the addresses that the relay \
                     searches, or give it more time with timeout_ms",
                    patience.as_millis()
                );
                return (StatusCode::NOT_FOUND, message);
            }
            Self::Awaited(_) | Self::Current => {
                let message = format!("the PV has no value within {} ms", patience.as_millis());
                return (StatusCode::GATEWAY_TIMEOUT, message);
            }
        };
        (status, message.to_owned())
    }
}

/// The answer to a refused name.
pub(super) fn refused_name(refusal: registry::Refusal) -> Refusal {
    let status = match refusal.problem {
        NameProblem::NotAllowed => StatusCode::FORBIDDEN,
        NameProblem::NoSuchField => StatusCode::NOT_FOUND,
        NameProblem::BadName | NameProblem::NoSuchSource => StatusCode::BAD_REQUEST,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    (status, format!("{}\n", refusal.message)).into()
}

/// The state as selections read it.
pub(super) fn snapshot<'a>(name: &'a str, state: &'a PvState) -> Snapshot<'a> {
    let skips = state.skips.map(|count| count as f64);
    let pv = Snapshot::new(name, &state.connection, state.metadata.as_deref()).with_skips(skips);
    let Some(latest) = &state.latest else {
        return pv;
    };
    let sample = match &latest.value {
        RowValue::Number(number) => Sample::Number(*number),
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => Sample::Blob(blob),
    };
    let detail = latest.detail.as_deref();
    pv.with_value(sample, latest.time_ns, latest.alarm, detail)
}

/// The value, if it is a structure.
pub(super) fn structure(state: &PvState) -> Option<&Node> {
    match &state.latest.as_ref()?.value {
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => match &**blob {
            BlobValue::Structure(node) => Some(node),
            _ => None,
        },
        RowValue::Number(_) => None,
    }
}

/// The number of updates that have happened since the PV is followed: those that the relay has got, and those that
/// were left out before for another reason than the client's interval.
pub(super) fn updates(state: &PvState) -> u64 {
    let before = [SkipCause::Relay, SkipCause::Source, SkipCause::Bus];
    let left_out = before.map(|cause| state.skips[usize::from(cause.number())]);
    state.updates + left_out.iter().sum::<u64>()
}
