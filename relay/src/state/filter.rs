//! Which updates of a PV pass for somebody who doesn't want all of them?
//!
//! No I/O and no clock here: the time is passed in.

use std::time::{Duration, Instant};

use pvwire_schema::types::Filter;

mod less;

pub use self::less::less_of;

/// A filter as part of a key: equal when the same updates pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterKey {
    min_interval_ms: u32,
    deadband_bits: u64,
    every: u32,
    /// Of arrays: stride, length, points, and whether in 32 bits.
    less: (u32, u32, u32, bool),
}

impl From<Filter> for FilterKey {
    fn from(filter: Filter) -> Self {
        Self {
            min_interval_ms: filter.min_interval_ms,
            deadband_bits: filter.deadband.to_bits(),
            every: filter.every,
            less: (
                filter.stride,
                filter.max_length,
                filter.points,
                filter.float32,
            ),
        }
    }
}

/// Largest count and longest interval. What is larger was a negative number when a client made it, or an
/// infinite one: it would hold back every update.
const LARGEST: u32 = i32::MAX.cast_unsigned();

/// The filter in the one form that equal ones share; `None` when every update passes.
///
/// # Errors
/// Says what is wrong with a filter that no update can pass.
pub fn checked(filter: Filter) -> Result<Option<Filter>, String> {
    if !filter.deadband.is_finite() || filter.deadband < 0.0 {
        return Err(format!(
            "a deadband is a number from 0 up, not {}",
            filter.deadband
        ));
    }
    if filter.points == 1 {
        return Err("a smallest and a largest element are 2 points at least, not 1".to_owned());
    }
    for (what, number) in [
        ("a minimum interval in milliseconds", filter.min_interval_ms),
        ("one in how many updates", filter.every),
        ("a stride", filter.stride),
        ("a maximum length", filter.max_length),
        ("a number of points", filter.points),
    ] {
        if number > LARGEST {
            return Err(format!("{what} is at most {LARGEST}, not {number}"));
        }
    }
    let filter = Filter {
        // One in one, and minus nothing, are as good as nothing.
        every: if filter.every == 1 { 0 } else { filter.every },
        deadband: filter.deadband.abs(),
        stride: if filter.stride == 1 { 0 } else { filter.stride },
        // One more brings nothing: they come in pairs.
        points: filter.points & !1,
        ..filter
    };
    Ok((filter != Filter::default()).then_some(filter))
}

/// The newest update of a PV, compared with the last one that passed.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// How many updates further it is.
    pub steps: u32,
    /// Both values, where they are numbers that a deadband makes sense for.
    pub numbers: Option<(f64, f64)>,
    /// It may not be withheld.
    pub urgent: bool,
}

/// What becomes of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass,
    /// It passes at this time, if no newer one comes before.
    Hold(Instant),
    /// It doesn't.
    Leave,
}

/// Decides which updates pass.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    filter: Filter,
    passed: Instant,
}

impl Gate {
    /// A gate through which something has passed just now.
    #[must_use]
    pub fn new(filter: Filter, now: Instant) -> Self {
        Self {
            filter,
            passed: now,
        }
    }

    /// What becomes of the newest update.
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
        let open = self.passed + Duration::from_millis(min_interval_ms.into());
        if now < open {
            return Verdict::Hold(open);
        }
        Verdict::Pass
    }

    /// Something passed.
    pub fn passed(&mut self, now: Instant) {
        self.passed = now;
    }
}

fn is_within(passed: f64, newest: f64, deadband: f64) -> bool {
    // The difference of two infinities is none, nor is that of what is no number.
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
        };
        assert_eq!(
            Gate::new(filter, start).verdict(candidate, start),
            Verdict::Pass
        );
    }

    #[test]
    fn equal_filters_are_one_key_and_impossible_ones_are_refused() {
        let minus_nothing = Filter {
            deadband: -0.0,
            every: 1,
            ..ALL
        };
        assert_eq!(checked(minus_nothing), Ok(None));
        let key = |filter| FilterKey::from(checked(filter).unwrap().unwrap());
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
            let message = checked(impossible).unwrap_err();
            assert!(
                message.contains(" is at most 2147483647, not 42949672"),
                "{message}"
            );
        }
        for deadband in [-1.0, f64::NAN, f64::INFINITY] {
            let message = checked(Filter { deadband, ..ALL }).unwrap_err();
            assert_eq!(
                message,
                format!("a deadband is a number from 0 up, not {deadband}")
            );
        }
    }
}
