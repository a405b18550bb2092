//! The state of one PV as plain values.

use std::fmt;
use std::time::{Duration, SystemTime};

use pvwire_schema::types::{Array, ConnectionState, Metadata, Node, Severity, SkipCause};

use crate::format::push_number;
use crate::select::execute::{self, Held, Program, SlotPv, Surroundings};
use crate::store::{
    ACCESS_PUTS, ACCESS_READ, ACCESS_REFUSED, ACCESS_TAKEN, ACCESS_WRITE, CAUSES, PvState,
    SEVERITY_UNKNOWN, Slot, Store, Text, kind, state,
};

/// A PV's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A floating point number, an integer of at most 53 bits, or the index of an enum's choice.
    Number(f64),
    /// An integer of 64 bits.
    Integer(i128),
    /// A string.
    Text(&'a str),
    /// An array of strings.
    Texts(&'a [String]),
    /// An array of numbers; its elements share the message's memory.
    Array(&'a Array),
    /// A structure.
    Structure(&'a Node),
    /// A value of a type that this version does not know.
    Unknown,
}

/// When the IOC says the value was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStamp {
    /// The time.
    pub time: SystemTime,
    /// The user tag; 0 by default.
    pub user_tag: i32,
}

/// A PV's alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm<'a> {
    /// The severity.
    pub severity: Severity,
    /// The alarm condition of Channel Access, or 100 plus the alarm status class of pvAccess.
    pub status: u16,
    /// The message; may be empty.
    pub message: &'a str,
}

/// A PV's connection state. It is independent of the alarm severity: a PV that is not connected
/// keeps its last value, which is outdated.
///
/// A selection (see [`View::select`]) shows [`State::Unresponsive`] as browsers do: `state` is
/// `connected`, and `unresponsive` is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State<'a> {
    /// The relay searches for the PV.
    Connecting,
    /// No server has answered for the PV.
    NotFound,
    /// The value is current.
    Connected,
    /// The PV is connected, but its server or the relay has stopped responding: the value was
    /// current when the server was [last heard](View::last_heard).
    Unresponsive,
    /// The PV's server can't be reached.
    Disconnected,
    /// The relay can't be reached.
    RelayLost,
    /// The relay refused the name, for this reason.
    Refused(&'a str),
}

/// The state of one PV at this moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    name: &'a str,
    store: &'a Store,
    slot: Slot,
    held: &'a Held,
    /// Time of the relay's last message if the value comes from a relay that doesn't answer; NaN
    /// otherwise.
    heard_ms: f64,
}

impl<'a> View<'a> {
    pub(super) fn new(
        name: &'a str,
        store: &'a Store,
        slot: Slot,
        held: &'a Held,
        heard_ms: f64,
    ) -> Self {
        Self {
            name,
            store,
            slot,
            held,
            heard_ms,
        }
    }

    /// The name that was requested.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The last value; `None` if none has arrived.
    #[must_use]
    pub fn value(&self) -> Option<Value<'a>> {
        let text = self.store.text(self.slot);
        let pv = self.pv_state();
        let value = match (pv.kind, text) {
            (kind::NONE, _) => return None,
            (kind::NUMBER, _) => Some(Value::Number(pv.value)),
            (kind::TEXT, Text::One(text)) => Some(Value::Text(text)),
            (kind::TEXT_ARRAY, Text::Many(texts)) => Some(Value::Texts(texts)),
            (kind::LARGE_INTEGER, Text::One(digits)) => digits.parse().ok().map(Value::Integer),
            (kind::ARRAY, _) => self.held.array(self.slot).map(Value::Array),
            (kind::STRUCTURE, _) => self.held.structure(self.slot).map(Value::Structure),
            _ => None,
        };
        Some(value.unwrap_or(Value::Unknown))
    }

    /// The PV's fields that a compiled selection selects.
    #[must_use]
    pub fn select(&self, selection: &Program) -> execute::Value {
        execute::value(selection, &self.pv())
    }

    /// The state as GraphQL documents read it.
    #[must_use]
    pub fn pv(&self) -> SlotPv<'a> {
        SlotPv::new(self.store, self.slot, self.surroundings())
    }

    fn surroundings(&self) -> Surroundings<'a> {
        Surroundings {
            heard_ms: self.heard_ms,
            elements: self.held.elements(self.slot),
        }
    }

    /// The label of an enum's value.
    #[must_use]
    pub fn choice(&self) -> Option<&'a str> {
        let Some(Value::Number(index)) = self.value() else {
            return None;
        };
        let choices = &self.metadata()?.choices;
        let label = choices.get(index as usize)?;
        (index >= 0.0).then_some(label)
    }

    /// The time stamp; `None` if the server sends none.
    #[must_use]
    pub fn time(&self) -> Option<TimeStamp> {
        let (seconds, nanoseconds) = (self.pv_state().seconds, self.pv_state().nanoseconds);
        if seconds == 0.0 && nanoseconds == 0 {
            return None;
        }
        let epoch = SystemTime::UNIX_EPOCH;
        let past = Duration::from_secs(seconds.abs() as u64);
        let whole = if seconds < 0.0 {
            epoch.checked_sub(past)
        } else {
            epoch.checked_add(past)
        };
        Some(TimeStamp {
            time: whole?.checked_add(Duration::from_nanos(nanoseconds.into()))?,
            user_tag: (self.store.detail(self.slot)).map_or(0, |detail| detail.user_tag),
        })
    }

    /// The alarm; `None` if the server sends none.
    #[must_use]
    pub fn alarm(&self) -> Option<Alarm<'a>> {
        let severity = self.pv_state().severity;
        let detail = self.store.detail(self.slot);
        (severity != SEVERITY_UNKNOWN).then(|| Alarm {
            severity: Severity::from_number(severity),
            status: self.pv_state().alarm_status,
            message: detail.map_or("", |detail| &detail.message),
        })
    }

    /// Type, units, limits, choices and other metadata; `None` before they arrive.
    #[must_use]
    pub fn metadata(&self) -> Option<&'a Metadata> {
        let version = self.store.metadata_version[self.at()];
        (version != 0).then(|| self.store.metadata(self.slot))
    }

    /// The connection state.
    #[must_use]
    pub fn state(&self) -> State<'a> {
        match self.pv_state().state {
            state::RELAY_LOST => State::RelayLost,
            state::REFUSED => State::Refused(self.store.reason(self.slot)),
            wire => match ConnectionState::from_number(wire) {
                ConnectionState::Connecting => State::Connecting,
                ConnectionState::NotFound => State::NotFound,
                ConnectionState::Connected if self.last_heard().is_some() => State::Unresponsive,
                ConnectionState::Connected => State::Connected,
                ConnectionState::Disconnected => State::Disconnected,
            },
        }
    }

    /// Start of the connection state, if it is known.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        epoch_time(self.store.since_ms[self.at()])
    }

    /// When the PV's server was last heard from, if the PV is disconnected or its server or the
    /// relay does not answer: the value was current until then.
    #[must_use]
    pub fn last_heard(&self) -> Option<SystemTime> {
        let of_server = epoch_time(self.pv_state().heard_ms);
        of_server.or_else(|| epoch_time(self.heard_ms))
    }

    /// Whether the PV's server is known to be silent, whatever the relay does.
    pub(super) fn is_server_silent(&self) -> bool {
        !self.pv_state().heard_ms.is_nan()
    }

    /// Whether the value may be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.access() & ACCESS_READ != 0
    }

    /// Whether a put of this client is expected to succeed: the relay permits puts, and so do the
    /// IOC's access rights or the result of this client's last put.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let access = self.access();
        let permitted = access & ACCESS_TAKEN != 0
            || access & ACCESS_WRITE != 0 && access & ACCESS_REFUSED == 0;
        permitted && access & ACCESS_PUTS != 0
    }

    /// How many values were skipped since the PV was opened, for each cause.
    pub fn skipped(&self) -> impl Iterator<Item = (SkipCause, u64)> + use<'a> {
        let skips = &self.store.skips[self.at() * CAUSES..][..CAUSES];
        let causes = SkipCause::ALL.iter().copied();
        causes.zip(skips.iter().map(|count| *count as u64))
    }

    fn access(&self) -> u8 {
        self.pv_state().access
    }

    pub(super) fn pv_state(&self) -> &'a PvState {
        &self.store.pvs[self.at()]
    }

    fn at(&self) -> usize {
        self.slot as usize
    }
}

/// The value as an operator reads it: the choice of an enum, or a number with the PV's precision
/// and units.
impl fmt::Display for View<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(choice) = self.choice() {
            return out.write_str(choice);
        }
        let metadata = self.metadata();
        match self.value() {
            None => out.write_str("no value")?,
            Some(Value::Number(number)) => {
                let precision = metadata.and_then(|known| known.precision);
                let value_type = metadata.map_or_else(Default::default, |known| known.value_type);
                let mut text = Vec::new();
                push_number(number, precision, value_type, &mut text);
                out.write_str(&String::from_utf8_lossy(&text))?;
            }
            Some(Value::Integer(integer)) => write!(out, "{integer}")?,
            Some(Value::Text(text)) => out.write_str(text)?,
            Some(Value::Texts(texts)) => write!(out, "{texts:?}")?,
            Some(Value::Array(array)) => write!(out, "[{} × {:?}]", array.count, array.value_type)?,
            Some(Value::Structure(node)) => write!(out, "structure {}", node.type_id)?,
            Some(Value::Unknown) => out.write_str("a value of unknown type")?,
        }
        match metadata {
            Some(known) if !known.units.is_empty() => write!(out, " {}", known.units),
            _ => Ok(()),
        }
    }
}

fn epoch_time(ms: f64) -> Option<SystemTime> {
    let since = Duration::try_from_secs_f64(ms / 1e3).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}
