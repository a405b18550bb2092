//! Puts that are only done within the control limits of their PV: they wait until the limits are known, and are
//! refused before anything is sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, Limits, Metadata, Outcome, PutValue, PvId, ValueType};

use super::{Action, Ended, Operation, Operations};
use crate::fanout::control::{ControlRequest, TableRead};
use crate::ingest::OpEnd;
use crate::state::table::Table;

/// Interval at which the limits are read while they aren't known.
const READ_EVERY: Duration = Duration::from_millis(50);

/// What is known of the control limits of a PV.
#[derive(Clone, Debug)]
pub(super) enum KnownLimits {
    /// Its first connection, or its metadata, have still to come.
    NotYet,
    /// It is disconnected, or its server doesn't have it, so that a put fails by itself.
    Unreachable,
    /// Its metadata has them.
    Known(Arc<Metadata>),
}

fn known_limits(table: &Table, pv: PvId) -> KnownLimits {
    let Some(entry) = table.get(pv) else {
        return KnownLimits::NotYet;
    };
    let metadata = entry.metadata.as_ref();
    let metadata = metadata.filter(|metadata| metadata.value_type != ValueType::Unknown);
    match (entry.connection.state, metadata) {
        (ConnectionState::Connected, Some(metadata)) => KnownLimits::Known(Arc::clone(metadata)),
        (ConnectionState::Disconnected, _) => KnownLimits::Unreachable,
        _ if entry.missing().is_some() => KnownLimits::Unreachable,
        _ => KnownLimits::NotYet,
    }
}

impl Operation {
    /// The same operation; if `within_limits`, a put is refused when its value is outside the control limits of its PV.
    #[must_use]
    pub fn within_limits(mut self, within_limits: bool) -> Self {
        self.within_limits = within_limits;
        self
    }

    /// Why the value to put is outside the limits; `None` if it isn't.
    fn outside(&self, metadata: &Metadata) -> Option<String> {
        match &self.action {
            Some(Action::Put(put)) => outside_limits(&put.value, metadata),
            Some(Action::Call(_)) | None => None,
        }
    }
}

impl Operations {
    /// Whether a put has to wait for limits: its own, or those of an earlier put of its client to the same PV, because
    /// puts are sent in order.
    pub(super) fn waits_for_limits(&self, operation: &Operation) -> bool {
        let is_before = |other: &Operation| {
            other.reads_limits && (other.client, other.pv) == (operation.client, operation.pv)
        };
        operation.within_limits || (self.has_limit_checks && self.open.values().any(is_before))
    }

    /// Keeps a put until the limits of its PV are known.
    pub(super) fn read_limits(&mut self, number: u64, pv: PvId, mut operation: Operation) {
        self.has_limit_checks = true;
        operation.reads_limits = true;
        self.open.insert(number, operation);
        self.request_limits(number, pv);
    }

    fn request_limits(&self, number: u64, pv: PvId) {
        let (found, wake) = (Arc::clone(&self.limits_found), Arc::clone(&self.wake));
        let read = TableRead::new(move |table| {
            found.push((number, known_limits(table, pv)));
            wake();
        });
        self.control.push(ControlRequest::Read(read));
    }

    /// Continues with the puts whose limits are known now.
    pub(super) fn check_limits(&mut self, now: Instant) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some((number, found)) = self.limits_found.pop() {
            if matches!(found, KnownLimits::NotYet) {
                self.limit_reads.push_back((now + READ_EVERY, number));
                continue;
            }
            let pv = self.open.get(&number).and_then(|operation| operation.pv);
            // Those that found the limits unknown come first.
            let is_of_pv = |other: &u64| self.open.get(other).is_some_and(|other| other.pv == pv);
            let before = self.limit_reads.iter().map(|(_, other)| *other);
            let before: Vec<_> = before.filter(is_of_pv).collect();
            self.limit_reads
                .retain(|(_, other)| !before.contains(other));
            for number in before.into_iter().chain([number]) {
                if let Some(operation) = self.take_permitted(number, &mut ended, now) {
                    ended.extend(self.resume_within_limits(number, operation, &found, now));
                }
            }
        }
        while let Some(&(due, number)) = self.limit_reads.front()
            && due <= now
        {
            self.limit_reads.pop_front();
            if let Some(pv) = self.open.get(&number).and_then(|operation| operation.pv) {
                self.request_limits(number, pv);
            }
        }
        ended
    }
}

impl Operations {
    /// Continues with a put whose limits are known, or refuses it.
    fn resume_within_limits(
        &mut self,
        number: u64,
        mut operation: Operation,
        found: &KnownLimits,
        now: Instant,
    ) -> Option<Ended> {
        operation.reads_limits = false;
        let outside = match found {
            KnownLimits::Known(metadata) if operation.within_limits => operation.outside(metadata),
            _ => None,
        };
        let Some(why) = outside else {
            return self.note_old_value(number, operation, now);
        };
        self.deadlines.remove(&(operation.deadline, number));
        let end = OpEnd::failed(Outcome::BadValue, why);
        Some(self.finish(number, operation, end, now))
    }
}

/// The number in a text as both protocols read it: decimal, or hexadecimal after `0x`. Other texts are refused later.
fn number_in(text: &str) -> Option<f64> {
    let text = text.trim();
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => (-1.0, &text[1..]),
        [b'+', ..] => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    match hex {
        // A spelling that only a server may know is outside every range.
        Some(hex) => u64::from_str_radix(hex, 16).map_or(Some(sign * f64::INFINITY), |integer| {
            Some(sign * integer as f64)
        }),
        None => text.parse().ok(),
    }
}

/// Why a value is outside the control limits of a PV; `None` if it isn't, or if the PV has no limits.
fn outside_limits(value: &PutValue, metadata: &Metadata) -> Option<String> {
    let Limits { low, high } = metadata.control;
    let is_number = !matches!(
        metadata.value_type,
        ValueType::Unknown
            | ValueType::String
            | ValueType::Enum
            | ValueType::Boolean
            | ValueType::Structure
    );
    // As in records, limits that are equal or reversed are no limits; neither are those that are NaN.
    let has_limits = low < high;
    if !is_number || !has_limits {
        return None;
    }
    let is_text = matches!(value, PutValue::Text(_));
    if is_text && metadata.element_count != 1 && metadata.value_type.element_bytes() == Some(1) {
        // The characters of an array.
        return None;
    }
    let number = |text: &String| number_in(text);
    let numbers = match value {
        PutValue::Number(number) => vec![*number],
        PutValue::Int64(integer) => vec![*integer as f64],
        PutValue::UInt64(integer) => vec![*integer as f64],
        PutValue::Text(text) => number(text).into_iter().collect(),
        PutValue::TextArray(texts) => texts.iter().filter_map(number).collect(),
        PutValue::Array(array) => array.numbers(),
    };
    // NaN is within no limits.
    let outside = (numbers.into_iter()).find(|number| !(low..=high).contains(number))?;
    let unit = if metadata.units.is_empty() { "" } else { " " };
    Some(format!(
        "{outside} is outside the control limits of the PV, {low} to {high}{unit}{}; nothing was written",
        metadata.units
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(value_type: ValueType, low: f64, high: f64) -> Metadata {
        Metadata {
            value_type,
            element_count: 1,
            control: Limits { low, high },
            units: "mA".into(),
            ..Metadata::default()
        }
    }

    #[test]
    fn number_outside_the_limits_is_refused_in_every_form() {
        let of = |value| outside_limits(&value, &metadata(ValueType::Float64, -1.5, 20.0));
        assert_eq!(
            of(PutValue::Number(20.5)).unwrap(),
            "20.5 is outside the control limits of the PV, -1.5 to 20 mA; nothing was written"
        );
        for value in [
            PutValue::Number(f64::INFINITY),
            PutValue::Text("NaN".into()),
            PutValue::Int64(-2),
            PutValue::UInt64(u64::MAX),
            PutValue::Text(" 21 ".into()),
            PutValue::Text("0x15".into()),
            PutValue::Text("-0X2".into()),
            PutValue::TextArray(vec!["1".into(), "-1.6".into()]),
        ] {
            assert!(of(value.clone()).is_some(), "{value:?}");
        }
        for value in [
            PutValue::Number(20.0),
            PutValue::Number(-1.5),
            PutValue::Int64(0),
            PutValue::Text("20".into()),
            PutValue::Text("0x14".into()),
            PutValue::Text("high".into()),
        ] {
            assert_eq!(of(value), None);
        }
    }

    #[test]
    fn text_for_an_array_of_characters_is_no_number() {
        let characters = Metadata {
            element_count: 40,
            ..metadata(ValueType::UInt8, 0.0, 5.0)
        };
        let text = PutValue::Text("9".into());
        assert_eq!(outside_limits(&text, &characters), None);
        assert!(outside_limits(&PutValue::Number(9.0), &characters).is_some());
    }

    #[test]
    fn pv_without_limits_takes_every_number() {
        for (value_type, low, high) in [
            (ValueType::Float64, 0.0, 0.0),
            (ValueType::Float64, 5.0, -5.0),
            (ValueType::Int32, f64::NAN, f64::NAN),
            (ValueType::Float64, 0.0, f64::NAN),
            (ValueType::Enum, 0.0, 1.0),
            (ValueType::String, 0.0, 1.0),
        ] {
            let metadata = metadata(value_type, low, high);
            assert_eq!(outside_limits(&PutValue::Number(9.0), &metadata), None);
        }
    }
}
