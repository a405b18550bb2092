//! Update filters: which updates of a PV pass, by rate, deadband and count.
//!
//! This module has no I/O and no clock: times are passed in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::Filter;

use crate::ingest::Form;

mod less;
mod mean;

pub use self::less::less_of;
pub use self::mean::Mean;

/// A filter as part of a key. Two keys are equal if the same updates pass and have the same form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterKey {
    min_interval_ms: u32,
    deadband_bits: u64,
    every: u32,
    /// For arrays: stride, length, points, and whether elements have 32 bits.
    less: (u32, u32, u32, bool),
    average: bool,
    form: Option<Arc<Form>>,
}

impl FilterKey {
    /// The key of a filter and, for the clients of a door, a form.
    #[must_use]
    pub fn new(filter: Filter, form: Option<Arc<Form>>) -> Self {
        Self {
            form,
            min_interval_ms: filter.min_interval_ms,
            deadband_bits: filter.deadband.to_bits(),
            every: filter.every,
            less: (
                filter.stride,
                filter.max_length,
                filter.points,
                filter.float32,
            ),
            average: filter.average,
        }
    }

    /// Whether it has a form, and so is for clients of a door.
    #[must_use]
    pub fn has_form(&self) -> bool {
        self.form.is_some()
    }
}

/// Largest count and longest interval. A larger number was negative or infinite in the client, and
/// no update would pass.
const LARGEST: u32 = i32::MAX.cast_unsigned();

/// Why a filter is refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The deadband is negative or not finite.
    #[error("a deadband is a number from 0 up, not {0}")]
    Deadband(f64),
    /// One point can't be a smallest and a largest element.
    #[error("a smallest and a largest element are 2 points at least, not 1")]
    OnePoint,
    /// An average of single updates.
    #[error(
        "an average needs a maximum rate or one in how many updates, which say how many updates it is made of"
    )]
    AverageOfOne,
    /// A count or interval is too large.
    #[error("{what} is at most {LARGEST}, not {number}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its value.
        number: u32,
    },
}

/// The normal form of a filter, which equal ones share; `None` if every update passes.
///
/// # Errors
/// When no update can pass the filter.
pub fn checked(filter: Filter) -> Result<Option<Filter>, FilterError> {
    if !filter.deadband.is_finite() || filter.deadband < 0.0 {
        return Err(FilterError::Deadband(filter.deadband));
    }
    if filter.points == 1 {
        return Err(FilterError::OnePoint);
    }
    for (what, number) in [
        ("a minimum interval in milliseconds", filter.min_interval_ms),
        ("one in how many updates", filter.every),
        ("a stride", filter.stride),
        ("a maximum length", filter.max_length),
        ("a number of points", filter.points),
    ] {
        if number > LARGEST {
            return Err(FilterError::TooLarge { what, number });
        }
    }
    if filter.average && filter.min_interval_ms == 0 && filter.every < 2 {
        return Err(FilterError::AverageOfOne);
    }
    let filter = Filter {
        // One in one update, and a deadband of -0, have no effect.
        every: if filter.every == 1 { 0 } else { filter.every },
        deadband: filter.deadband.abs(),
        stride: if filter.stride == 1 { 0 } else { filter.stride },
        // Points come in pairs, so an odd one has no effect.
        points: filter.points & !1,
        ..filter
    };
    Ok((filter != Filter::default()).then_some(filter))
}

/// The newest update of a PV, compared with the last one that passed.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The difference of their sequences.
    pub steps: u32,
    /// Both values, if they are numbers to which a deadband applies.
    pub numbers: Option<(f64, f64)>,
    /// Whether it passes regardless of the filter.
    pub urgent: bool,
    /// Whether it is an array.
    pub is_array: bool,
}

/// What happens to an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass,
    /// It passes at this time, unless a newer one comes before.
    Hold(Instant),
    /// It is left out.
    Leave,
}

/// Decides which updates pass.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    filter: Filter,
    /// Replaces the filter's interval while the value is an array.
    array_interval_ms: u32,
    passed: Instant,
}

impl Gate {
    /// A gate that an update has just passed.
    #[must_use]
    pub fn new(filter: Filter, now: Instant) -> Self {
        Self {
            filter,
            array_interval_ms: filter.min_interval_ms,
            passed: now,
        }
    }

    /// The same gate with another minimum interval between arrays.
    #[must_use]
    pub fn with_array_interval(self, array_interval_ms: u32) -> Self {
        Self {
            array_interval_ms,
            ..self
        }
    }

    /// Decides about the newest update.
    #[must_use]
    pub fn verdict(&self, candidate: Candidate, now: Instant) -> Verdict {
        let Filter {
            min_interval_ms,
            deadband,
            every,
            ..
        } = self.filter;
        if candidate.urgent {
            return Verdict::Pass;
        }
        let within = deadband > 0.0
            && (candidate.numbers)
                .is_some_and(|(passed, newest)| is_within(passed, newest, deadband));
        if within || candidate.steps < every {
            return Verdict::Leave;
        }
        let interval_ms = if candidate.is_array {
            self.array_interval_ms
        } else {
            min_interval_ms
        };
        let open = self.passed + Duration::from_millis(interval_ms.into());
        if now < open {
            return Verdict::Hold(open);
        }
        Verdict::Pass
    }

    /// An update has passed.
    pub fn passed(&mut self, now: Instant) {
        self.passed = now;
    }
}

fn is_within(passed: f64, newest: f64, deadband: f64) -> bool {
    // The difference of two infinities, or with NaN, is not a number.
    passed == newest || (passed.is_nan() && newest.is_nan()) || (newest - passed).abs() <= deadband
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Filter = Filter::ALL;

    fn verdict(filter: Filter, steps: u32, numbers: (f64, f64), after_ms: u64) -> Verdict {
        let start = Instant::now();
        let candidate = Candidate {
            steps,
            numbers: Some(numbers),
            urgent: false,
            is_array: false,
        };
        Gate::new(filter, start).verdict(candidate, start + Duration::from_millis(after_ms))
    }

    #[test]
    fn value_passes_when_it_differs_by_more_than_the_deadband() {
        let filter = Filter {
            deadband: 0.5,
            ..ALL
        };
        for (passed, newest, passes) in [
            (1.0, 1.5, false),
            (1.0, 1.6, true),
            (1.0, 0.4, true),
            (1.0, f64::NAN, true),
            (f64::NAN, f64::NAN, false),
            (f64::NAN, 1.0, true),
            (f64::INFINITY, f64::INFINITY, false),
            (f64::INFINITY, f64::NEG_INFINITY, true),
            (f64::INFINITY, 1.0, true),
        ] {
            let expected = if passes {
                Verdict::Pass
            } else {
                Verdict::Leave
            };
            let found = verdict(filter, 1, (passed, newest), 0);
            assert_eq!(found, expected, "{passed} to {newest}");
        }
    }

    #[test]
    fn all_that_is_asked_for_must_be_fulfilled() {
        let filter = Filter {
            min_interval_ms: 100,
            deadband: 1.0,
            every: 3,
            ..Filter::ALL
        };
        assert_eq!(verdict(filter, 3, (0.0, 2.0), 100), Verdict::Pass);
        assert_eq!(verdict(filter, 2, (0.0, 2.0), 100), Verdict::Leave);
        assert_eq!(verdict(filter, 3, (0.0, 1.0), 100), Verdict::Leave);
        assert!(matches!(
            verdict(filter, 3, (0.0, 2.0), 99),
            Verdict::Hold(_)
        ));
    }

    #[test]
    fn urgent_update_passes_whatever_was_asked() {
        let start = Instant::now();
        let filter = Filter {
            min_interval_ms: 100,
            deadband: 1.0,
            every: 3,
            ..Filter::ALL
        };
        let candidate = Candidate {
            steps: 1,
            numbers: Some((1.0, 1.0)),
            urgent: true,
            is_array: false,
        };
        assert_eq!(
            Gate::new(filter, start).verdict(candidate, start),
            Verdict::Pass
        );
    }

    #[test]
    fn arrays_of_a_door_have_their_own_interval() {
        let start = Instant::now();
        let filter = Filter {
            min_interval_ms: 100,
            ..ALL
        };
        let gate = Gate::new(filter, start).with_array_interval(500);
        let later = start + Duration::from_millis(100);
        let mut candidate = Candidate {
            steps: 1,
            numbers: None,
            urgent: false,
            is_array: false,
        };
        assert_eq!(gate.verdict(candidate, later), Verdict::Pass);
        candidate.is_array = true;
        let held = Verdict::Hold(start + Duration::from_millis(500));
        assert_eq!(gate.verdict(candidate, later), held);
    }

    #[test]
    fn equal_filters_are_one_key_and_impossible_ones_are_refused() {
        let minus_nothing = Filter {
            deadband: -0.0,
            every: 1,
            ..ALL
        };
        assert_eq!(checked(minus_nothing), Ok(None));
        let key = |filter| FilterKey::new(checked(filter).unwrap().unwrap(), None);
        let tenth = Filter { every: 10, ..ALL };
        assert_eq!(
            key(tenth),
            key(Filter {
                deadband: -0.0,
                ..tenth
            })
        );
        assert_eq!(checked(Filter { stride: 1, ..ALL }), Ok(None));
        let points = |points| Filter { points, ..ALL };
        assert_eq!(key(points(1_000)), key(points(1_001)));
        assert!(checked(points(1)).is_err());
        let minus_three = (-3_i32).cast_unsigned();
        for impossible in [
            Filter {
                every: minus_three,
                ..ALL
            },
            Filter {
                min_interval_ms: u32::MAX,
                ..ALL
            },
            Filter {
                stride: minus_three,
                ..ALL
            },
            Filter {
                max_length: minus_three,
                ..ALL
            },
            Filter {
                points: minus_three,
                ..ALL
            },
        ] {
            let message = checked(impossible).unwrap_err().to_string();
            assert!(
                message.contains(" is at most 2147483647, not 42949672"),
                "{message}"
            );
        }
        let average = Filter {
            average: true,
            ..ALL
        };
        assert!(checked(average).is_err(), "of single updates");
        let of_ten = Filter {
            every: 10,
            ..average
        };
        assert_ne!(key(of_ten), key(tenth));
        for deadband in [-1.0, f64::NAN, f64::INFINITY] {
            let message = checked(Filter { deadband, ..ALL }).unwrap_err().to_string();
            assert_eq!(
                message,
                format!("a deadband is a number from 0 up, not {deadband}")
            );
        }
    }
}
