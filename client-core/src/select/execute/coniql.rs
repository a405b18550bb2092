//! Reads the fields that Coniql 0.4.2 shows in other forms.

use pvwire_schema::types::ValueType;

use super::fields::{Letter, constant};
use super::readers::{Reader, has_units};
use super::results::{Cell, Results};
use super::{Pv, lists};
use crate::format;
use crate::store::kind;

mod numpy;

/// Coniql's own simulated PVs, the only ones that say more than Channel Access.
const SIMULATED: &str = "ssim://";

impl<P: Pv> Reader<'_, P> {
    pub(super) fn coniql(&self, letter: Letter, to: &mut Results) {
        match letter {
            Letter::Float => self.coniql_float(to),
            Letter::String => self.coniql_string(false, to),
            Letter::StringWithUnits => self.coniql_string(true, to),
            Letter::StringArray(length) => self.coniql_elements(length, to),
            // Both ends are required: that without a limit is as far as numbers go.
            Letter::Low(range) => {
                to.number(finite_or(self.limits(range).low, f64::MIN));
            }
            Letter::High(range) => {
                to.number(finite_or(self.limits(range).high, f64::MAX));
            }
            Letter::Datetime => {
                let (seconds, nanoseconds) = self.pv.time();
                let offset = to.offset;
                push_local(seconds, nanoseconds, offset, &mut to.text);
                to.end(Cell::Text);
            }
            Letter::Quality => {
                // What sends no alarm has none.
                let severity = if self.is_connected() && !self.is_unresponsive() {
                    self.severity().unwrap_or(0)
                } else {
                    INVALID
                };
                to.counted(Cell::Constant, constant::QUALITIES + u32::from(severity));
            }
            Letter::Message => {
                let detail = self.pv.detail().filter(|_| self.is_simulated());
                to.text_of(detail.map_or("", |detail| &detail.message));
            }
            Letter::Description if self.is_simulated() => {
                to.text_of(&self.pv.metadata().description);
            }
            Letter::Description => {
                let name = self.pv.name();
                to.text_of(name.split_once("://").map_or(name, |(_, bare)| bare));
            }
            Letter::Role if self.is_simulated() => {
                to.counted(Cell::Constant, constant::READ_ONLY);
            }
            Letter::Role => to.counted(Cell::Constant, constant::READ_WRITE),
            Letter::Widget => match self.pv.kind() {
                _ if !self.is_simulated() => to.counted(Cell::Constant, constant::TEXT_INPUT),
                kind::ARRAY => to.text_of("PLOTY"),
                _ => to.counted(Cell::Constant, constant::TEXT_UPDATE),
            },
            Letter::Form if self.is_simulated() => to.text_of("DEFAULT"),
            Letter::Form => to.mark(Cell::Null),
        }
    }

    /// Python writes each float with a point, and reads it as a float only then.
    fn coniql_float(&self, to: &mut Results) {
        let Some(number) = self.number().filter(|number| number.is_finite()) else {
            return to.mark(Cell::Null);
        };
        let start = to.text.len();
        format::push_shortest(number, false, &mut to.text);
        let digits = to.text.get(start..).unwrap_or_default();
        if !digits.iter().any(|byte| matches!(byte, b'.' | b'e')) {
            to.text.extend_from_slice(b".0");
        }
        to.end(Cell::Integer);
    }

    fn is_simulated(&self) -> bool {
        self.pv.name().starts_with(SIMULATED)
    }

    /// Digits after the point; Coniql shows none where the server gives no precision.
    fn digits(&self) -> usize {
        let precision = self.pv.metadata().precision;
        precision.map_or(0, |digits| digits.unsigned_abs().into())
    }

    fn coniql_string(&self, with_units: bool, to: &mut Results) {
        let metadata = self.pv.metadata();
        let is_number = matches!(self.pv.kind(), kind::NUMBER | kind::LARGE_INTEGER);
        match self.pv.kind() {
            kind::NUMBER => {
                let number = self.pv.number();
                match lists::choice(metadata, number).filter(|_| !with_units) {
                    Some(label) => to.text.extend_from_slice(label.as_bytes()),
                    None => format::push_fixed(number, self.digits(), &mut to.text),
                }
            }
            kind::TEXT | kind::LARGE_INTEGER => self.pv.push_text(&mut to.text),
            kind::ARRAY => {
                let elements = self.pv.elements();
                // NAME.FIELD$ is EPICS's way to ask for a long string.
                let is_string = self.pv.name().as_bytes().last() == Some(&b'$');
                if !is_string || !lists::push_characters(elements, to) {
                    let (value_type, bytes) = elements
                        .map_or((ValueType::UInt8, &[][..]), |it| (it.value_type, it.bytes));
                    numpy::push(value_type, bytes, &mut to.text);
                }
            }
            kind::TEXT_ARRAY => numpy::push_texts(self.pv.texts(), &mut to.text),
            _ => lists::push_structure(self.pv.elements(), metadata, to),
        }
        if with_units && is_number && has_units(metadata.value_type) && !metadata.units.is_empty() {
            to.text.push(b' ');
            to.text.extend_from_slice(metadata.units.as_bytes());
        }
        to.end(Cell::Text);
    }

    /// Elements of an array of numbers; the labels of enums are not shown.
    fn coniql_elements(&self, length: u32, to: &mut Results) {
        let Some(elements) = (self.pv.elements()).filter(|_| self.pv.kind() == kind::ARRAY) else {
            return match self.pv.kind() {
                kind::TEXT_ARRAY => lists::texts(self.pv.texts(), length, to),
                _ => to.mark(Cell::Null),
            };
        };
        let count = lists::limited(lists::count(&elements), length);
        to.counted(Cell::Texts, count as u32);
        for element in lists::elements(elements.value_type, elements.bytes).take(count) {
            match element {
                lists::Element::Number(number) => {
                    format::push_fixed(number, self.digits(), &mut to.text);
                }
                lists::Element::Signed(integer) => format::push_signed(integer, &mut to.text),
                lists::Element::Unsigned(integer) => format::push_unsigned(integer, &mut to.text),
            }
            to.end(Cell::Text);
        }
    }
}

/// A limit as a number that JSON has; `unset` if there is no limit.
fn finite_or(limit: f64, unset: f64) -> f64 {
    if limit.is_nan() {
        unset
    } else {
        limit.clamp(f64::MIN, f64::MAX)
    }
}

/// The number of the quality `INVALID`.
const INVALID: u8 = 3;

/// Local time without a zone, as Python's `datetime.fromtimestamp(…).isoformat()` writes it: rounded
/// to microseconds, which are left out if they are zero.
fn push_local(seconds: f64, nanoseconds: u32, offset: Option<fn(i64) -> i32>, to: &mut Vec<u8>) {
    let time = seconds + f64::from(nanoseconds) / 1e9;
    let mut whole = time.floor();
    let mut microseconds = ((time - whole) * 1e6).round_ties_even();
    if microseconds >= 1e6 {
        whole += 1.0;
        microseconds = 0.0;
    }
    let shift = offset.map_or(0, |offset| offset(whole as i64));
    let start = to.len();
    format::push_iso((whole + f64::from(shift)) * 1000.0, to);
    // Without milliseconds and zone.
    let end = to.len().saturating_sub(".000Z".len()).max(start);
    to.truncate(end);
    if microseconds > 0.0 {
        to.push(b'.');
        let digits = 1_000_000 + microseconds as u64;
        let at = to.len();
        format::push_unsigned(digits, to);
        to.remove(at);
    }
}
