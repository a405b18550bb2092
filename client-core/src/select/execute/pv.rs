//! The state of one PV, as programs read it: from a store's slot, or from any other table.

use pvwire_schema::types::{Alarm, BlobValue, Connection, Detail, Metadata};

use super::Surroundings;
use super::elements::Elements;
use crate::format;
use crate::store::{
    ACCESS_PUTS, ACCESS_READ, ACCESS_UNKNOWN, ACCESS_WRITE, CAUSES, LOCAL_SCHEME, NO_DIGITS,
    PvState, SEVERITY_UNKNOWN, Slot, Store, Text, kind, state,
};

/// The state of one PV. Numbers without their own type are those of the store, see
/// [`PvState`].
pub trait Pv {
    /// The name that was requested, with or without its source.
    fn name(&self) -> &str;
    /// One of [`kind`].
    fn kind(&self) -> u8;
    /// The number, or the double nearest to a large integer.
    fn number(&self) -> f64;
    /// Appends the string, or the digits of a large integer.
    fn push_text(&self, to: &mut Vec<u8>);
    /// The elements of an array of strings.
    fn texts(&self) -> &[String];
    /// The value if it is an array of numbers or a structure.
    fn elements(&self) -> Option<Elements<'_>>;
    /// The metadata; the default before they are known.
    fn metadata(&self) -> &Metadata;
    /// Whether the metadata are known.
    fn has_metadata(&self) -> bool;
    /// Digits after the point of a number's text, or [`NO_DIGITS`].
    fn digits(&self) -> u8 {
        NO_DIGITS
    }
    /// Time stamp: whole seconds past the POSIX epoch and the remaining nanoseconds.
    fn time(&self) -> (f64, u32);
    /// User tag and alarm message, if the server sends them.
    fn detail(&self) -> Option<&Detail>;
    /// 0 to 3, or [`SEVERITY_UNKNOWN`].
    fn severity(&self) -> u8;
    /// Alarm condition.
    fn alarm_status(&self) -> u16;
    /// The wire's `ConnectionState`, or one of [`state`].
    fn state(&self) -> u8;
    /// Start of the connection state: milliseconds past the POSIX epoch, NaN if unknown.
    fn since_ms(&self) -> f64;
    /// When the PV's server or the relay was last heard from, in milliseconds past the POSIX epoch;
    /// NaN while they answer.
    fn heard_ms(&self) -> f64;
    /// A combination of [`ACCESS_READ`] and the constants after it.
    fn access(&self) -> u8;
    /// Why the name was refused; empty if it was not.
    fn reason(&self) -> &str;
    /// Values skipped so far: one count per cause, in the order of the causes' numbers.
    fn skips(&self) -> &[f64];
}

/// One slot of a store, with what a program reads besides the store.
#[derive(Clone, Copy, Debug)]
pub struct SlotPv<'a> {
    pub(super) store: &'a Store,
    pub(super) slot: Slot,
    pub(super) surroundings: Surroundings<'a>,
}

impl<'a> SlotPv<'a> {
    /// The PV of a slot.
    #[must_use]
    pub const fn new(store: &'a Store, slot: Slot, surroundings: Surroundings<'a>) -> Self {
        Self {
            store,
            slot,
            surroundings,
        }
    }

    fn at(&self) -> usize {
        self.slot as usize
    }

    #[inline]
    fn pv_state(&self) -> &'a PvState {
        &self.store.pvs[self.at()]
    }
}

impl Pv for SlotPv<'_> {
    #[inline]
    fn name(&self) -> &str {
        self.store.name(self.slot)
    }

    #[inline]
    fn kind(&self) -> u8 {
        self.pv_state().kind
    }

    #[inline]
    fn number(&self) -> f64 {
        self.pv_state().value
    }

    fn push_text(&self, to: &mut Vec<u8>) {
        if let Text::One(text) = self.store.text(self.slot) {
            to.extend_from_slice(text.as_bytes());
        }
    }

    #[inline]
    fn texts(&self) -> &[String] {
        match self.store.text(self.slot) {
            Text::Many(list) => list,
            Text::None | Text::One(_) => &[],
        }
    }

    #[inline]
    fn elements(&self) -> Option<Elements<'_>> {
        self.surroundings.elements
    }

    #[inline]
    fn digits(&self) -> u8 {
        self.pv_state().digits
    }

    #[inline]
    fn metadata(&self) -> &Metadata {
        self.store.metadata(self.slot)
    }

    #[inline]
    fn has_metadata(&self) -> bool {
        self.store.metadata_version[self.at()] != 0
    }

    #[inline]
    fn time(&self) -> (f64, u32) {
        let pv = self.pv_state();
        (pv.seconds, pv.nanoseconds)
    }

    #[inline]
    fn detail(&self) -> Option<&Detail> {
        self.store.detail(self.slot)
    }

    #[inline]
    fn severity(&self) -> u8 {
        self.pv_state().severity
    }

    #[inline]
    fn alarm_status(&self) -> u16 {
        self.pv_state().alarm_status
    }

    #[inline]
    fn state(&self) -> u8 {
        self.pv_state().state
    }

    #[inline]
    fn since_ms(&self) -> f64 {
        self.store.since_ms[self.at()]
    }

    fn heard_ms(&self) -> f64 {
        let ms = self.pv_state().heard_ms;
        let relay_ms = self.surroundings.heard_ms;
        if ms.is_nan() && !relay_ms.is_nan() && !self.name().starts_with(LOCAL_SCHEME) {
            return relay_ms;
        }
        ms
    }

    #[inline]
    fn access(&self) -> u8 {
        self.pv_state().access
    }

    fn reason(&self) -> &str {
        self.store.reason(self.slot)
    }

    #[inline]
    fn skips(&self) -> &[f64] {
        &self.store.skips[self.at() * CAUSES..][..CAUSES]
    }
}

/// A value that is not in a store.
#[derive(Clone, Copy, Debug)]
pub enum Sample<'a> {
    /// A number, or the index of an enum's choice.
    Number(f64),
    /// Any other value; a structure must be whole.
    Blob(&'a BlobValue),
}

/// The state of one PV that is not in a store, for example in a relay's table. It borrows what is
/// large.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    name: &'a str,
    sample: Option<Sample<'a>>,
    kind: u8,
    metadata: Option<&'a Metadata>,
    detail: Option<&'a Detail>,
    seconds: f64,
    nanoseconds: u32,
    severity: u8,
    alarm_status: u16,
    state: u8,
    since_ms: f64,
    heard_ms: f64,
    access: u8,
    reason: &'a str,
    skips: [f64; CAUSES],
}

/// Metadata before any are known.
static NO_METADATA: Metadata = Metadata {
    value_type: pvwire_schema::types::ValueType::Unknown,
    element_count: 0,
    units: String::new(),
    precision: None,
    choices: Vec::new(),
    display: pvwire_schema::types::Limits::NONE,
    control: pvwire_schema::types::Limits::NONE,
    warning: pvwire_schema::types::Limits::NONE,
    alarm: pvwire_schema::types::Limits::NONE,
    description: String::new(),
    epoch: 0,
    type_id: String::new(),
    form: String::new(),
    missing_field: String::new(),
};

impl<'a> Snapshot<'a> {
    /// A PV without a value. `metadata` are `None` until the PV was connected.
    #[must_use]
    pub fn new(name: &'a str, connection: &Connection, metadata: Option<&'a Metadata>) -> Self {
        let access = u8::from(connection.read) * ACCESS_READ
            + u8::from(connection.write) * ACCESS_WRITE
            + u8::from(connection.puts) * ACCESS_PUTS
            + u8::from(connection.write_unknown) * ACCESS_UNKNOWN;
        let milliseconds = |ns: i64| ns.div_euclid(1_000_000) as f64;
        Self {
            name,
            sample: None,
            kind: kind::NONE,
            metadata,
            detail: None,
            seconds: 0.0,
            nanoseconds: 0,
            severity: SEVERITY_UNKNOWN,
            alarm_status: 0,
            state: connection.state.number(),
            since_ms: milliseconds(connection.since_ns),
            heard_ms: match connection.heard_ns {
                0 => f64::NAN,
                heard_ns => milliseconds(heard_ns),
            },
            access,
            reason: "",
            skips: [0.0; CAUSES],
        }
    }

    /// A name that was refused, for this reason.
    #[must_use]
    pub fn refused(name: &'a str, reason: &'a str) -> Self {
        let nothing = Connection::default();
        Self {
            state: state::REFUSED,
            since_ms: f64::NAN,
            reason,
            ..Self::new(name, &nothing, None)
        }
    }

    /// With its last value, the value's time in nanoseconds past the POSIX epoch, and its alarm.
    #[must_use]
    pub fn with_value(
        self,
        sample: Sample<'a>,
        time_ns: i64,
        alarm: Alarm,
        detail: Option<&'a Detail>,
    ) -> Self {
        Self {
            kind: kind_of(sample),
            sample: Some(sample),
            ..self.with_time(time_ns, alarm, detail)
        }
    }

    /// With time and alarm of a value that is not shown here.
    #[must_use]
    pub fn with_time(mut self, time_ns: i64, alarm: Alarm, detail: Option<&'a Detail>) -> Self {
        const SECOND_NS: i64 = 1_000_000_000;
        self.seconds = time_ns.div_euclid(SECOND_NS) as f64;
        self.nanoseconds = time_ns.rem_euclid(SECOND_NS) as u32;
        if alarm != Alarm::NONE {
            self.severity = alarm.severity.number();
            self.alarm_status = alarm.status;
        }
        self.detail = detail;
        self
    }

    /// With the numbers of values that were skipped, by the numbers of their causes.
    #[must_use]
    pub const fn with_skips(mut self, skips: [f64; CAUSES]) -> Self {
        self.skips = skips;
        self
    }
}

fn kind_of(sample: Sample<'_>) -> u8 {
    match sample {
        Sample::Number(_) => kind::NUMBER,
        Sample::Blob(blob) => match blob {
            BlobValue::Text(_) => kind::TEXT,
            BlobValue::TextArray(_) => kind::TEXT_ARRAY,
            BlobValue::Int64(_) | BlobValue::UInt64(_) => kind::LARGE_INTEGER,
            BlobValue::Array(_) => kind::ARRAY,
            BlobValue::Structure(_) | BlobValue::StructurePart(_) => kind::STRUCTURE,
        },
    }
}

impl Pv for Snapshot<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn kind(&self) -> u8 {
        self.kind
    }

    fn number(&self) -> f64 {
        match self.sample {
            Some(Sample::Number(number)) => number,
            Some(Sample::Blob(BlobValue::Int64(integer))) => *integer as f64,
            Some(Sample::Blob(BlobValue::UInt64(integer))) => *integer as f64,
            _ => f64::NAN,
        }
    }

    fn push_text(&self, to: &mut Vec<u8>) {
        match self.sample {
            Some(Sample::Blob(BlobValue::Text(text))) => to.extend_from_slice(text.as_bytes()),
            Some(Sample::Blob(BlobValue::Int64(integer))) => format::push_signed(*integer, to),
            Some(Sample::Blob(BlobValue::UInt64(integer))) => format::push_unsigned(*integer, to),
            _ => {}
        }
    }

    fn texts(&self) -> &[String] {
        match self.sample {
            Some(Sample::Blob(BlobValue::TextArray(texts))) => texts,
            _ => &[],
        }
    }

    fn elements(&self) -> Option<Elements<'_>> {
        match self.sample? {
            Sample::Blob(BlobValue::Array(array)) => Some(Elements::array(array)),
            Sample::Blob(BlobValue::Structure(node) | BlobValue::StructurePart(node)) => {
                Some(Elements::structure(node))
            }
            _ => None,
        }
    }

    fn metadata(&self) -> &Metadata {
        self.metadata.unwrap_or(&NO_METADATA)
    }

    fn has_metadata(&self) -> bool {
        self.metadata.is_some()
    }

    fn time(&self) -> (f64, u32) {
        (self.seconds, self.nanoseconds)
    }

    fn detail(&self) -> Option<&Detail> {
        self.detail
    }

    fn severity(&self) -> u8 {
        self.severity
    }

    fn alarm_status(&self) -> u16 {
        self.alarm_status
    }

    fn state(&self) -> u8 {
        self.state
    }

    fn since_ms(&self) -> f64 {
        self.since_ms
    }

    fn heard_ms(&self) -> f64 {
        self.heard_ms
    }

    fn access(&self) -> u8 {
        self.access
    }

    fn reason(&self) -> &str {
        self.reason
    }

    fn skips(&self) -> &[f64] {
        &self.skips
    }
}
