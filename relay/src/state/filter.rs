//! Update filters: which updates of a PV pass, by rate, deadband and count.
//!
//! This module has no I/O and no clock: times are passed in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::Filter;

use crate::ingest::Form;

mod array_filter;
mod mean;

pub use self::array_filter::less_of;
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

/// Maximum time by which an update may come before its interval is over.
const MAX_TOLERANCE: Duration = Duration::from_millis(20);

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
            deadband, every, ..
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
        let interval = self.interval(candidate.is_array);
        let open = self.passed + interval;
        if now + tolerance(interval) < open {
            return Verdict::Hold(open);
        }
        Verdict::Pass
    }

    /// An update has passed. If it came at about the time at which the gate opened, the next interval counts from that
    /// time and not from now: otherwise each delay of a PV that changes once in an interval would add up, until one of
    /// its updates is left out. A source that is a hundredth faster than the interval says is followed.
    pub fn passed(&mut self, candidate: Candidate, now: Instant) {
        let interval = self.interval(candidate.is_array);
        let open = self.passed + interval;
        self.passed = if candidate.urgent || now >= open + interval {
            now
        } else if now >= open {
            open
        } else {
            // It passed within the tolerance.
            (self.passed + interval * 99 / 100).max(now)
        };
    }

    fn interval(&self, is_array: bool) -> Duration {
        let interval_ms = if is_array {
            self.array_interval_ms
        } else {
            self.filter.min_interval_ms
        };
        Duration::from_millis(interval_ms.into())
    }
}

/// Time by which an update may come before its interval is over. Updates of a PV that changes once in an interval come
/// a little early or late.
fn tolerance(interval: Duration) -> Duration {
    (interval / 10).min(MAX_TOLERANCE)
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
            verdict(filter, 3, (0.0, 2.0), 89),
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

    /// Which of a PV's updates pass: those that are due when the gate opens, and those that arrive then. `arrivals_us`
    /// are in microseconds after the gate's first update.
    fn passing(interval_ms: u32, arrivals_us: impl Iterator<Item = u64>) -> Vec<usize> {
        let filter = Filter {
            min_interval_ms: interval_ms,
            ..ALL
        };
        let start = Instant::now();
        let mut gate = Gate::new(filter, start);
        let candidate = Candidate {
            steps: 1,
            numbers: None,
            urgent: false,
            is_array: false,
        };
        let mut passed = Vec::new();
        let mut held: Option<(usize, Instant)> = None;
        for (number, arrival_us) in arrivals_us.enumerate() {
            let now = start + Duration::from_micros(arrival_us);
            // The tick that passes a held update is a little late.
            if let Some((waiting, due)) = held.take_if(|(_, due)| *due < now) {
                gate.passed(candidate, due + Duration::from_millis(1).min(now - due));
                passed.push(waiting);
            }
            held = match gate.verdict(candidate, now) {
                Verdict::Hold(due) => Some((number, due)),
                _ => {
                    gate.passed(candidate, now);
                    passed.push(number);
                    None
                }
            };
        }
        passed
    }

    #[test]
    fn updates_that_come_once_in_an_interval_all_pass() {
        let random = |number: u64| number.wrapping_mul(6_364_136_223_846_793_005) >> 50;
        for phase_us in [0, 300, 50_000, 99_700] {
            // In microseconds: up to 3 ms late, by a clock that is exact, slow, or fast by 50 in a million.
            for period_us in [100_000, 100_005, 99_995] {
                let arrivals = (1..2_000).map(|number| {
                    number * period_us + phase_us + random(number) * 3_000 / (1 << 14)
                });
                let passed = passing(100, arrivals);
                // Two at most, before the gate opens when the updates come.
                assert!(passed.len() >= 1_999 - 2, "{phase_us}: {}", passed.len());
            }
        }
    }

    #[test]
    fn updates_that_come_faster_are_as_many_as_the_interval_allows() {
        for period_us in [1_000, 33_000, 70_000] {
            let count = 20_000_000 / period_us;
            let passed = passing(100, (1..=count).map(|number| number * period_us));
            assert!((196..=203).contains(&passed.len()), "{}", passed.len());
        }
    }
}
