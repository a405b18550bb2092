//! Reads the fields of one slot.

use pvwire_schema::types::{ConnectionState, Limits, ValueType};

use super::fields::{Presence, Range, Read, constant};
use super::results::{Cell, Results};
use super::{Pv, SlotPv, Surroundings, apart, lists};
use crate::format;
use crate::store::{
    ACCESS_PUTS, ACCESS_READ, ACCESS_REFUSED, ACCESS_TAKEN, ACCESS_UNKNOWN, ACCESS_WRITE,
    NO_DIGITS, Slot, Store, kind, state,
};

const CONNECTING: u8 = ConnectionState::Connecting as u8;
const CONNECTED: u8 = ConnectionState::Connected as u8;

/// Severities that EPICS knows.
const SEVERITIES: u8 = 4;

/// Every integer of 64 bits is smaller.
const INTEGERS_END: f64 = 18_446_744_073_709_551_616.0;

/// Whether a newly requested PV has enough data to show.
#[must_use]
pub fn settled(store: &Store, slot: Slot) -> bool {
    is_settled(&SlotPv::new(store, slot, Surroundings::default()))
}

/// See [`settled`].
pub(crate) fn is_settled(pv: &impl Pv) -> bool {
    if pv.kind() != kind::NONE {
        return true;
    }
    // A value follows, unless the PV may not be read.
    match pv.state() {
        CONNECTING => false,
        CONNECTED => pv.access() & ACCESS_READ == 0,
        _ => true,
    }
}

/// One PV.
pub(super) struct Reader<'a, P> {
    pub(super) pv: &'a P,
}

impl<P: Pv> Reader<'_, P> {
    #[inline]
    pub(super) fn is_present(&self, presence: Presence) -> bool {
        let has_value = self.pv.kind() != kind::NONE;
        match presence {
            Presence::Always => true,
            Presence::Value => has_value,
            // On the wire the time is 0 if the server sends no time stamp.
            Presence::Time => {
                let (seconds, nanoseconds) = self.pv.time();
                has_value && (seconds != 0.0 || nanoseconds != 0)
            }
            Presence::Display => self.pv.has_metadata(),
            Presence::Range(range) => {
                let limits = self.limits(range);
                !limits.low.is_nan() || !limits.high.is_nan()
            }
            #[cfg(feature = "graphql")]
            Presence::Current => has_value && self.is_connected(),
            #[cfg(feature = "graphql")]
            Presence::Limits(range) => {
                let limits = self.limits(range);
                has_units(self.pv.metadata().value_type)
                    && !(limits.low.is_nan() && limits.high.is_nan())
            }
        }
    }

    pub(super) fn limits(&self, range: Range) -> Limits {
        let metadata = self.pv.metadata();
        match range {
            Range::Control => metadata.control,
            Range::Display => metadata.display,
            Range::Alarm => metadata.alarm,
            Range::Warning => metadata.warning,
        }
    }

    fn state(&self) -> u8 {
        self.pv.state()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state() == CONNECTED
    }

    pub(super) fn is_unresponsive(&self) -> bool {
        self.is_connected() && !self.pv.heard_ms().is_nan()
    }

    /// Whether the IOC permits puts; `None` if only a put can show it.
    fn mutable(&self) -> Option<bool> {
        let access = self.pv.access();
        if !self.is_connected() || access & ACCESS_REFUSED != 0 {
            return Some(false);
        }
        if access & ACCESS_TAKEN != 0 {
            return Some(true);
        }
        (access & ACCESS_UNKNOWN == 0).then_some(access & ACCESS_WRITE != 0)
    }

    fn is_readable(&self) -> bool {
        self.is_connected() && self.pv.access() & ACCESS_READ != 0
    }

    /// Why the PV has no value although its server is known, as the relay says; empty without a reason.
    fn missing_field(&self) -> &str {
        match self.state() {
            state::REFUSED | state::RELAY_LOST => "",
            _ => &self.pv.metadata().missing_field,
        }
    }

    pub(super) fn severity(&self) -> Option<u8> {
        Some(self.pv.severity()).filter(|severity| *severity < SEVERITIES)
    }

    /// The number of a scalar; NaN for a NaN.
    pub(super) fn number(&self) -> Option<f64> {
        let is_number = matches!(self.pv.kind(), kind::NUMBER | kind::LARGE_INTEGER);
        is_number.then(|| self.pv.number())
    }

    /// Appends the cells of a field. What changes with every update is read in the caller's loop;
    /// the loop stays small, because browsers compile large functions badly.
    #[inline(always)]
    pub(super) fn read(&self, read: Read, to: &mut Results) {
        match read {
            Read::Float => match self.number() {
                Some(number) if number.is_finite() => to.number(number),
                _ => to.mark(Cell::Null),
            },
            Read::Seconds => {
                let (seconds, nanoseconds) = self.pv.time();
                to.number(with_fraction(seconds, nanoseconds));
            }
            Read::Datetime => {
                let (seconds, nanoseconds) = self.pv.time();
                to.times.push(seconds, nanoseconds, &mut to.text);
                to.end_ascii();
            }
            Read::String => self.string(to),
            Read::Quality => self.quality(to),
            _ => self.read_other(read, to),
        }
    }

    #[inline(never)]
    fn read_other(&self, read: Read, to: &mut Results) {
        match read {
            Read::Number => match self.number() {
                Some(number) => to.number(number),
                None => to.mark(Cell::Null),
            },
            Read::StringWithUnits => self.any_string(true, to),
            Read::Nanoseconds => to.number(self.pv.time().1.into()),
            Read::UserTag => {
                let detail = self.pv.detail();
                to.number(detail.map_or(0, |detail| detail.user_tag).into());
            }
            Read::Id => to.mark(Cell::Id),
            Read::Skipped => {
                to.number(self.pv.skips().iter().sum::<f64>() + 0.0);
            }
            Read::Skips(cause) => {
                let count = self.pv.skips().get(usize::from(cause));
                to.number(count.copied().unwrap_or(0.0));
            }
            Read::Text
            | Read::Array
            | Read::Exact
            | Read::Bigint
            | Read::Structure
            | Read::Structures
            | Read::StringArray(_)
            | Read::Float64Array(_) => {
                self.value(read, to);
            }
            Read::Severity | Read::AlarmStatus | Read::Message | Read::Mutable | Read::Writable => {
                self.status(read, to)
            }
            Read::State
            | Read::Connected
            | Read::Since
            | Read::LastHeard
            | Read::Unresponsive
            | Read::Readable
            | Read::Reason => self.connection(read, to),
            #[cfg(feature = "graphql")]
            Read::Coniql(letter) => self.coniql(letter, to),
            _ => self.display(read, to),
        }
    }

    fn quality(&self, to: &mut Results) {
        let is_known = self.is_connected() && !self.is_unresponsive();
        let severity = self.severity().filter(|_| is_known).unwrap_or(SEVERITIES);
        to.counted(Cell::Constant, constant::QUALITIES + u32::from(severity));
    }

    fn display(&self, read: Read, to: &mut Results) {
        let metadata = self.pv.metadata();
        match read {
            Read::Low(range) => to.number_or_null(self.limits(range).low),
            Read::High(range) => to.number_or_null(self.limits(range).high),
            Read::Type => {
                let number = u32::from(metadata.value_type.number());
                to.counted(Cell::Constant, constant::TYPES + number);
            }
            Read::ElementCount => to.number(metadata.element_count.into()),
            Read::Description => to.text_of(&metadata.description),
            Read::TypeId => to.text_of(&metadata.type_id),
            Read::Units => to.text_of(&metadata.units),
            Read::Precision => match metadata.precision {
                Some(digits) => to.number(digits.into()),
                None => to.mark(Cell::Null),
            },
            Read::Choices if metadata.value_type == ValueType::Enum => {
                lists::texts(&metadata.choices, 0, to);
            }
            Read::Form if !metadata.form.is_empty() => to.text_of(&metadata.form),
            Read::GraphqlForm if !metadata.form.is_empty() => {
                let upper = metadata.form.bytes().map(|byte| byte.to_ascii_uppercase());
                to.text.extend(upper);
                to.end(Cell::Text);
            }
            Read::GraphqlUnits if has_units(metadata.value_type) => to.text_of(&metadata.units),
            Read::Role | Read::Widget => {
                let is_readable = self.pv.access() & ACCESS_READ != 0;
                let (role, widget) = match self.mutable() {
                    Some(false) => (constant::READ_ONLY, constant::TEXT_UPDATE),
                    _ if is_readable => (constant::READ_WRITE, constant::TEXT_INPUT),
                    _ => (constant::WRITE_ONLY, constant::TEXT_INPUT),
                };
                to.counted(
                    Cell::Constant,
                    if read == Read::Role { role } else { widget },
                );
            }
            _ => to.mark(Cell::Null),
        }
    }

    fn status(&self, read: Read, to: &mut Results) {
        let access = self.pv.access();
        match read {
            Read::Severity => match self.severity() {
                Some(0) => to.counted(Cell::Constant, constant::ALARM_STATUSES),
                Some(severity) => {
                    to.counted(Cell::Constant, constant::SEVERITIES + u32::from(severity));
                }
                None => to.mark(Cell::Null),
            },
            Read::AlarmStatus if self.severity().is_none() && self.pv.alarm_status() == 0 => {
                to.mark(Cell::Null);
            }
            Read::AlarmStatus => self.alarm_status(to),
            Read::Message => self.message(to),
            Read::Mutable => to.boolean(self.mutable() != Some(false)),
            _ if access & ACCESS_PUTS == 0 => to.boolean(false),
            _ => match self.mutable() {
                Some(mutable) => to.boolean(mutable),
                None => to.mark(Cell::Null),
            },
        }
    }

    fn alarm_status(&self, to: &mut Results) {
        let status = u32::from(self.pv.alarm_status());
        match status.checked_sub(100) {
            _ if status < constant::ALARM_STATUS_COUNT => {
                to.counted(Cell::Constant, constant::ALARM_STATUSES + status);
            }
            Some(class) if class < constant::ALARM_CLASS_COUNT => {
                to.counted(Cell::Constant, constant::ALARM_CLASSES + class);
            }
            _ => {
                format::push_unsigned(status.into(), &mut to.text);
                to.end(Cell::Text);
            }
        }
    }

    fn message(&self, to: &mut Results) {
        let now = self.state();
        let missing = self.missing_field();
        if now == state::REFUSED {
            to.text_of(self.pv.reason());
        } else if !missing.is_empty() {
            to.text_of(missing);
        } else if now != CONNECTED {
            to.counted(Cell::Constant, constant::NOT_CONNECTED + u32::from(now));
        } else if self.is_unresponsive() {
            to.counted(Cell::Constant, constant::NO_NEWS);
        } else if matches!(self.severity(), None | Some(0)) {
            to.counted(Cell::Constant, constant::EMPTY);
        } else {
            match self.pv.detail() {
                Some(detail) if !detail.message.is_empty() => to.text_of(&detail.message),
                _ => self.alarm_status(to),
            }
        }
    }

    fn connection(&self, read: Read, to: &mut Results) {
        match read {
            Read::State => to.counted(Cell::Constant, constant::STATES + u32::from(self.state())),
            Read::Connected => to.boolean(self.is_connected()),
            Read::Since => push_time(self.pv.since_ms(), to),
            Read::LastHeard => push_time(self.pv.heard_ms(), to),
            Read::Unresponsive => to.boolean(self.is_unresponsive()),
            Read::Readable => to.boolean(self.is_readable()),
            _ if self.state() == state::REFUSED => to.text_of(self.pv.reason()),
            _ if !self.missing_field().is_empty() => to.text_of(self.missing_field()),
            _ if self.is_connected() && !self.is_readable() => {
                to.counted(Cell::Constant, constant::NO_READ_ACCESS);
            }
            _ => to.mark(Cell::Null),
        }
    }

    /// Whether an object can be made from the slot's array or structure, or this object; `plan` has
    /// the lines of its fields.
    #[inline(never)]
    pub(super) fn apart(&self, read: Read, plan: &[u8], to: &mut Results) {
        let id = &self.pv.metadata().type_id;
        let can = match (read, self.pv.kind()) {
            (Read::Base64(_), kind::ARRAY) => true,
            (Read::Table, kind::STRUCTURE) => id.starts_with("epics:nt/NTTable:"),
            (Read::NdArray, kind::STRUCTURE) => id.starts_with("epics:nt/NTNDArray:"),
            _ => false,
        };
        if can && to.whole {
            apart::object(read, plan, self.pv.elements()).write(to);
        } else {
            to.mark(if can { Cell::Apart } else { Cell::Null });
        }
    }

    fn value(&self, read: Read, to: &mut Results) {
        let kind = self.pv.kind();
        match (read, kind) {
            (Read::Text, kind::TEXT) => self.own_text(Cell::Text, to),
            (Read::Text, kind::ARRAY) => {
                if !self.characters(to) {
                    to.mark(Cell::Null);
                }
            }
            (Read::Array, kind::ARRAY) => to.mark(Cell::Array),
            (Read::Array, kind::TEXT_ARRAY) => self.own_texts(0, to),
            (Read::Exact, _) => self.exact(Cell::Text, to),
            (Read::Bigint, _) => self.exact(Cell::Integer, to),
            (Read::Structure, kind::STRUCTURE) => to.mark(Cell::Structure),
            (Read::Structures, kind::STRUCTURE) => to.mark(Cell::Structures),
            (Read::StringArray(length), kind::TEXT_ARRAY) => self.own_texts(length, to),
            (Read::StringArray(length), kind::ARRAY) => {
                let elements = self.pv.elements();
                lists::elements_as_texts(elements, self.pv.metadata(), length, to);
            }
            (Read::Float64Array(length), kind::ARRAY) => to.counted(Cell::Doubles, length),
            _ => to.mark(Cell::Null),
        }
    }

    /// An integer with all its digits. A number that no integer type holds is a value of another
    /// type than the metadata say.
    fn exact(&self, cell: Cell, to: &mut Results) {
        let number = self.pv.number();
        match self.pv.kind() {
            kind::LARGE_INTEGER => self.own_text(cell, to),
            kind::NUMBER
                if number.trunc() == number
                    && number.abs() < INTEGERS_END
                    && is_integer(self.pv.metadata().value_type) =>
            {
                // Without the sign of a zero.
                format::push_fixed(number + 0.0, 0, &mut to.text);
                to.end(cell);
            }
            _ => to.mark(Cell::Null),
        }
    }

    fn own_text(&self, cell: Cell, to: &mut Results) {
        self.pv.push_text(&mut to.text);
        to.end(cell);
    }

    fn own_texts(&self, length: u32, to: &mut Results) {
        lists::texts(self.pv.texts(), length, to);
    }

    /// Appends the text in an array of characters; `false` if it is another array.
    fn characters(&self, to: &mut Results) -> bool {
        match self.pv.elements() {
            Some(elements) => lists::characters(elements, to),
            None => false,
        }
    }

    /// The value as an operator reads it.
    #[inline]
    fn string(&self, to: &mut Results) {
        let digits = self.pv.digits();
        if self.pv.kind() == kind::NUMBER && digits != NO_DIGITS {
            format::push_fixed(self.pv.number(), digits.into(), &mut to.text);
            to.end_ascii();
        } else {
            self.any_string(false, to);
        }
    }

    /// The same for every value, with units or without.
    #[inline(never)]
    fn any_string(&self, with_units: bool, to: &mut Results) {
        self.push_string(to);
        let metadata = self.pv.metadata();
        if with_units && has_units(metadata.value_type) && !metadata.units.is_empty() {
            to.text.push(b' ');
            to.text.extend_from_slice(metadata.units.as_bytes());
        }
        to.end(Cell::Text);
    }

    fn push_string(&self, to: &mut Results) {
        let metadata = self.pv.metadata();
        match self.pv.kind() {
            kind::NUMBER => {
                let value = self.pv.number();
                match lists::choice(metadata, value) {
                    Some(label) => to.text.extend_from_slice(label.as_bytes()),
                    None => format::push_number(
                        value,
                        metadata.precision,
                        metadata.value_type,
                        &mut to.text,
                    ),
                }
            }
            kind::TEXT | kind::LARGE_INTEGER => self.pv.push_text(&mut to.text),
            kind::ARRAY => {
                // NAME.FIELD$ is EPICS's way to ask for a long string.
                let elements = self.pv.elements();
                let is_string = elements.is_some_and(|elements| elements.is_text)
                    || metadata.form == "String"
                    || self.pv.name().as_bytes().last() == Some(&b'$');
                if !is_string || !lists::push_characters(self.pv.elements(), to) {
                    lists::push_array(self.pv.elements(), metadata, to);
                }
            }
            kind::TEXT_ARRAY => lists::push_text_array(self.pv.texts(), to),
            kind::STRUCTURE => lists::push_structure(self.pv.elements(), metadata, to),
            _ => {
                let text = super::CONSTANTS.get(constant::UNKNOWN_VALUE as usize);
                to.text.extend_from_slice(text.unwrap_or(&"").as_bytes());
            }
        }
    }
}

/// Times whose sum with a fraction is rounded to far fewer digits than the fraction has: multiplying
/// gives the same sum there as dividing, which takes several times as long.
const COARSE: std::ops::Range<f64> = (1_u64 << 30) as f64..(1_u64 << 40) as f64;

/// A time as one number.
#[inline]
pub(super) fn with_fraction(seconds: f64, nanoseconds: u32) -> f64 {
    let nanoseconds = f64::from(nanoseconds);
    if COARSE.contains(&seconds) {
        seconds + nanoseconds * 1e-9
    } else {
        seconds + nanoseconds / 1e9
    }
}

fn push_time(ms: f64, to: &mut Results) {
    if ms.is_nan() {
        to.mark(Cell::Null);
    } else {
        format::push_iso(ms, &mut to.text);
        to.end(Cell::Text);
    }
}

pub(super) fn has_units(value_type: ValueType) -> bool {
    !matches!(value_type, ValueType::Enum | ValueType::String)
}

fn is_integer(value_type: ValueType) -> bool {
    (ValueType::Int8.number()..=ValueType::UInt64.number()).contains(&value_type.number())
}
