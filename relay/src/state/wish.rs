//! Which updates of a PV pass for somebody who doesn't want all of them?
//!
//! No I/O and no clock here: the time is passed in.

use std::time::{Duration, Instant};

use pvwire_schema::types::Wish;

mod less;

pub use self::less::less_of;

/// A wish as part of a key: equal when the same updates pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WishKey {
    min_interval_ms: u32,
    deadband_bits: u64,
    every: u32,
    /// Of arrays: stride, length, points, and whether in 32 bits.
    less: (u32, u32, u32, bool),
}

impl From<Wish> for WishKey {
    fn from(wish: Wish) -> Self {
        Self {
            min_interval_ms: wish.min_interval_ms,
            deadband_bits: wish.deadband.to_bits(),
            every: wish.every,
            less: (wish.stride, wish.max_length, wish.points, wish.float32),
        }
    }
}

/// Largest count and longest interval. What is larger was a negative number when a client made it, or an
/// infinite one: it would hold back every update.
const LARGEST: u32 = i32::MAX.cast_unsigned();

/// The wish in the one form that equal ones share; `None` when every update is wished.
///
/// # Errors
/// A sentence for a person, when no update fits it.
pub fn checked(wish: Wish) -> Result<Option<Wish>, String> {
    if !wish.deadband.is_finite() || wish.deadband < 0.0 {
        return Err(format!(
            "a deadband is a number from 0 up, not {}",
            wish.deadband
        ));
    }
    if wish.points == 1 {
        return Err("a smallest and a largest element are 2 points at least, not 1".to_owned());
    }
    for (what, number) in [
        ("a minimum interval in milliseconds", wish.min_interval_ms),
        ("one in how many updates", wish.every),
        ("a stride", wish.stride),
        ("a maximum length", wish.max_length),
        ("a number of points", wish.points),
    ] {
        if number > LARGEST {
            return Err(format!("{what} is at most {LARGEST}, not {number}"));
        }
    }
    let wish = Wish {
        // One in one, and minus nothing, are as good as nothing.
        every: if wish.every == 1 { 0 } else { wish.every },
        deadband: wish.deadband.abs(),
        stride: if wish.stride == 1 { 0 } else { wish.stride },
        // One more brings nothing: they come in pairs.
        points: wish.points & !1,
        ..wish
    };
    Ok((wish != Wish::default()).then_some(wish))
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

/// Lets those updates pass that are wished.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    wish: Wish,
    passed: Instant,
}

impl Gate {
    /// A gate through which something has passed just now.
    #[must_use]
    pub fn new(wish: Wish, now: Instant) -> Self {
        Self { wish, passed: now }
    }

    /// What becomes of the newest update.
    #[must_use]
    pub fn verdict(&self, candidate: Candidate, now: Instant) -> Verdict {
        let Wish {
            min_interval_ms,
            deadband,
            every,
            ..
        } = self.wish;
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

    const ALL: Wish = Wish::ALL;

    fn verdict(wish: Wish, steps: u32, numbers: (f64, f64), after_ms: u64) -> Verdict {
        let start = Instant::now();
        let candidate = Candidate {
            steps,
            numbers: Some(numbers),
            urgent: false,
        };
        Gate::new(wish, start).verdict(candidate, start + Duration::from_millis(after_ms))
    }

    #[test]
    fn value_passes_when_it_differs_by_more_than_the_deadband() {
        let wish = Wish {
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
            let found = verdict(wish, 1, (passed, newest), 0);
            assert_eq!(found, expected, "{passed} to {newest}");
        }
    }

    #[test]
    fn all_that_is_asked_for_must_be_fulfilled() {
        let wish = Wish {
            min_interval_ms: 100,
            deadband: 1.0,
            every: 3,
            ..Wish::ALL
        };
        assert_eq!(verdict(wish, 3, (0.0, 2.0), 100), Verdict::Pass);
        assert_eq!(verdict(wish, 2, (0.0, 2.0), 100), Verdict::Leave);
        assert_eq!(verdict(wish, 3, (0.0, 1.0), 100), Verdict::Leave);
        assert!(matches!(verdict(wish, 3, (0.0, 2.0), 99), Verdict::Hold(_)));
    }

    #[test]
    fn urgent_update_passes_whatever_was_asked() {
        let start = Instant::now();
        let wish = Wish {
            min_interval_ms: 100,
            deadband: 1.0,
            every: 3,
            ..Wish::ALL
        };
        let candidate = Candidate {
            steps: 1,
            numbers: Some((1.0, 1.0)),
            urgent: true,
        };
        assert_eq!(
            Gate::new(wish, start).verdict(candidate, start),
            Verdict::Pass
        );
    }

    #[test]
    fn equal_wishes_are_one_key_and_impossible_ones_are_refused() {
        let minus_nothing = Wish {
            deadband: -0.0,
            every: 1,
            ..ALL
        };
        assert_eq!(checked(minus_nothing), Ok(None));
        let key = |wish| WishKey::from(checked(wish).unwrap().unwrap());
        let tenth = Wish { every: 10, ..ALL };
        assert_eq!(
            key(tenth),
            key(Wish {
                deadband: -0.0,
                ..tenth
            })
        );
        assert_eq!(checked(Wish { stride: 1, ..ALL }), Ok(None));
        let points = |points| Wish { points, ..ALL };
        assert_eq!(key(points(1_000)), key(points(1_001)));
        assert!(checked(points(1)).is_err());
        let minus_three = (-3_i32).cast_unsigned();
        for impossible in [
            Wish {
                every: minus_three,
                ..ALL
            },
            Wish {
                min_interval_ms: u32::MAX,
                ..ALL
            },
            Wish {
                stride: minus_three,
                ..ALL
            },
            Wish {
                max_length: minus_three,
                ..ALL
            },
            Wish {
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
            let message = checked(Wish { deadband, ..ALL }).unwrap_err();
            assert_eq!(
                message,
                format!("a deadband is a number from 0 up, not {deadband}")
            );
        }
    }
}
