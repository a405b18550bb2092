//! Generators: what makes the values of a simulated PV, and their alarms.

use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Alarm, BlobValue, Metadata, Severity, ValueType};

use super::name;
use crate::ingest::RowValue;

/// A function that a name can call to make a generator.
pub(super) type Function = name::Function<Generator, GeneratorError>;

/// Why there is no generator with these arguments, each of which is valid.
#[derive(Debug, thiserror::Error)]
pub(super) enum GeneratorError {
    /// A range is empty.
    #[error("{low_name} is {low}, which is not below {high_name}, {high}")]
    EmptyRange {
        low_name: &'static str,
        low: f64,
        high_name: &'static str,
        high: f64,
    },
    /// One thread can't make as many elements.
    #[error(
        "{size} elements every {interval:?} are {per_s:.0} a second, and at most {max} are allowed",
        max = MAX_ELEMENTS_PER_S
    )]
    TooFast {
        size: u32,
        interval: Duration,
        per_s: f64,
    },
    /// An array is too large.
    #[error("{width} × {height} are more than {max} elements, the maximum", max = MAX_ELEMENTS)]
    TooLarge { width: u32, height: u32 },
}

/// Most elements of an array: 80 MB of doubles.
pub(super) const MAX_ELEMENTS: u32 = 10_000_000;

/// Most elements that one PV makes per second. All generators share a thread, which is fully used
/// by about this many sines.
pub(super) const MAX_ELEMENTS_PER_S: f64 = 50e6;

/// Elements that every update counts for in addition to its own: the cost of a small update.
const ELEMENTS_PER_UPDATE: f64 = 64.0;

/// Limit of numbers in names: larger than anything measured, and small enough that sums and
/// products of a few are finite.
pub(super) const HUGE: f64 = 1e15;

/// Alarm status numbers of `alarm.h`.
const HIHI: u16 = 3;
const HIGH: u16 = 4;
const LOLO: u16 = 5;
const LOW: u16 = 6;

/// The moment of an update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Nanoseconds past the POSIX epoch.
    pub(super) time_ns: i64,
    /// Number of the update since the PV was opened, from 0.
    pub(super) update: u64,
}

impl Moment {
    /// The elapsed part of the current period, from 0 to 1.
    pub(super) fn phase(self, period_s: f64) -> f64 {
        let period_ns = ((period_s * 1e9) as i64).max(1);
        self.time_ns.rem_euclid(period_ns) as f64 / period_ns as f64
    }

    /// An index below `count` that goes up by one with each update.
    pub(super) fn turn(self, count: usize) -> usize {
        (self.update % count as u64) as usize
    }
}

/// When the values of a generator come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// The first at once, the others together with those of other generators of the same interval.
    AtOnce,
    /// The first at once, the others one interval after the one before.
    FromStart,
    /// The first after one interval, the others one interval after the one before.
    AfterInterval,
    /// One at once, and no others.
    Once,
}

/// A source of values that depend on the moment alone.
pub(super) struct Generator {
    pub(super) metadata: Metadata,
    pub(super) interval: Duration,
    pub(super) pace: Pace,
    /// A number at a limit has an alarm, not only one beyond it.
    pub(super) alarms_at_limits: bool,
    /// Every second update is a disconnection instead of a value.
    pub(super) is_intermittent: bool,
    value: Box<dyn Fn(Moment) -> RowValue + Send>,
}

impl Generator {
    /// The value at a moment; a number comes with the alarm that follows from its limits.
    pub(super) fn sample(&self, at: Moment) -> (RowValue, Alarm) {
        let value = (self.value)(at);
        let (severity, status) = match value {
            RowValue::Number(number) => self.alarm(number),
            RowValue::Blob(_) | RowValue::Structure { .. } => (Severity::NoAlarm, 0),
        };
        (value, Alarm { severity, status })
    }

    /// Elements per second, as they count against the relay's limits. A slow generator counts as
    /// one value per second, because its last value stays in memory.
    pub(super) fn load(&self) -> u64 {
        let elements = f64::from(self.metadata.element_count) + ELEMENTS_PER_UPDATE;
        (elements / self.interval.as_secs_f64().min(1.0)) as u64
    }

    fn alarm(&self, number: f64) -> (Severity, u16) {
        // An absent limit is NaN, and no number is beyond it.
        let Metadata { alarm, warning, .. } = &self.metadata;
        let is_at = |limit: f64| self.alarms_at_limits && number == limit;
        match number {
            _ if number > alarm.high || is_at(alarm.high) => (Severity::Major, HIHI),
            _ if number < alarm.low || is_at(alarm.low) => (Severity::Major, LOLO),
            _ if number > warning.high || is_at(warning.high) => (Severity::Minor, HIGH),
            _ if number < warning.low || is_at(warning.low) => (Severity::Minor, LOW),
            _ => (Severity::NoAlarm, 0),
        }
    }

    /// A double; `at` makes it.
    pub(super) fn number(
        interval: Duration,
        metadata: Metadata,
        at: impl Fn(Moment) -> f64 + Send + 'static,
    ) -> Self {
        let metadata = Metadata {
            value_type: ValueType::Float64,
            element_count: 1,
            ..metadata
        };
        Self::new(interval, metadata, move |moment| {
            RowValue::Number(at(moment))
        })
    }

    /// An array of doubles; `at` makes a function from index to element.
    pub(super) fn doubles<E: Fn(usize) -> f64>(
        interval: Duration,
        size: u32,
        metadata: Metadata,
        at: impl Fn(Moment) -> E + Send + 'static,
    ) -> Result<Self, GeneratorError> {
        let bytes = move |moment| {
            let element = at(moment);
            let mut bytes = Vec::with_capacity(size as usize * 8);
            for index in 0..size as usize {
                bytes.extend_from_slice(&element(index).to_le_bytes());
            }
            bytes
        };
        Self::array(interval, ValueType::Float64, size, metadata, bytes)
    }

    /// An array; `bytes` makes its elements.
    pub(super) fn array(
        interval: Duration,
        value_type: ValueType,
        size: u32,
        metadata: Metadata,
        bytes: impl Fn(Moment) -> Vec<u8> + Send + 'static,
    ) -> Result<Self, GeneratorError> {
        let per_s = f64::from(size) / interval.as_secs_f64();
        if per_s > MAX_ELEMENTS_PER_S {
            return Err(GeneratorError::TooFast {
                size,
                interval,
                per_s,
            });
        }
        let metadata = Metadata {
            value_type,
            element_count: size,
            ..metadata
        };
        Ok(Self::new(interval, metadata, move |moment| {
            let array = BlobValue::array(value_type, size, bytes(moment));
            RowValue::Blob(Arc::new(array))
        }))
    }

    /// Values of any type, with all of their metadata.
    pub(super) fn new(
        interval: Duration,
        metadata: Metadata,
        value: impl Fn(Moment) -> RowValue + Send + 'static,
    ) -> Self {
        let value = Box::new(value);
        Self {
            metadata,
            interval,
            pace: Pace::AtOnce,
            alarms_at_limits: false,
            is_intermittent: false,
            value,
        }
    }
}

/// What tests of generators share.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(in crate::ingest::sim) fn after(time_s: f64, update: u64) -> Moment {
        let time_ns = (time_s * 1e9) as i64;
        Moment { time_ns, update }
    }

    pub(in crate::ingest::sim) fn number(value: &RowValue) -> f64 {
        match value {
            RowValue::Number(number) => *number,
            RowValue::Blob(_) | RowValue::Structure { .. } => panic!("{value:?} is not a number"),
        }
    }

    pub(in crate::ingest::sim) fn doubles(value: &RowValue) -> Vec<f64> {
        match value {
            RowValue::Blob(blob) => match &**blob {
                BlobValue::Array(array) => array.numbers(),
                _ => panic!("{value:?} is not an array"),
            },
            RowValue::Number(_) | RowValue::Structure { .. } => panic!("{value:?} is not an array"),
        }
    }
}
