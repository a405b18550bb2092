//! Counts the values that a client received and those that it missed. Every PV counts up by one.

use std::iter::Sum;

/// What came of the values of some streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) updates: u64,
    /// Left out between two that came.
    pub(crate) missing: u64,
    /// The same value once more.
    pub(crate) repeated: u64,
    /// Less than the one before, or no whole number.
    pub(crate) wrong: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            updates: sum.updates + one.updates,
            missing: sum.missing + one.missing,
            repeated: sum.repeated + one.repeated,
            wrong: sum.wrong + one.wrong,
        })
    }
}

/// One client's PVs.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    last: Vec<Option<u64>>,
    empty: usize,
}

impl Tally {
    pub(crate) fn new(pvs: usize) -> Self {
        Self {
            counts: Counts::default(),
            last: vec![None; pvs],
            empty: pvs,
        }
    }

    /// Whether every PV had a value.
    pub(crate) fn is_complete(&self) -> bool {
        self.empty == 0
    }

    /// Counts from here.
    pub(crate) fn begin(&mut self) {
        self.counts = Counts::default();
    }

    pub(crate) fn take(&mut self, pv: usize, value: f64) {
        let counts = &mut self.counts;
        if value < 0.0 || value.fract() != 0.0 {
            counts.wrong += 1;
            return;
        }
        let value = value as u64;
        match self.last[pv].replace(value) {
            None => self.empty -= 1,
            Some(last) if value == last => {
                counts.repeated += 1;
                return;
            }
            Some(last) if value < last => {
                counts.wrong += 1;
                return;
            }
            Some(last) => counts.missing += value - last - 1,
        }
        counts.updates += 1;
    }
}

/// Values that some PVs are behind others at the end: left out, too, or late. One may be on its way.
/// The PVs are of one scan and began at the same value.
pub(crate) fn behind<'a>(tallies: impl Iterator<Item = &'a Tally> + Clone) -> u64 {
    let reached = || {
        tallies
            .clone()
            .flat_map(|tally| tally.last.iter().flatten())
    };
    let furthest = reached().max().copied().unwrap_or(0);
    let behind = |value: &u64| (furthest - value).saturating_sub(1);
    reached().map(behind).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_repetitions_and_steps_back_are_counted_once_it_began() {
        let mut tally = Tally::new(2);
        tally.take(0, 5.0);
        assert!(!tally.is_complete());
        tally.take(1, 1.0);
        assert!(tally.is_complete());
        tally.take(0, 9.0);
        tally.begin();
        for value in [10.0, 12.0, 12.0, 16.0, 15.0, 15.5, f64::NAN] {
            tally.take(0, value);
        }
        let counts = Counts {
            updates: 3,
            missing: 4,
            repeated: 1,
            wrong: 3,
        };
        assert_eq!(tally.counts, counts);
        assert_eq!([counts, counts].into_iter().sum::<Counts>().missing, 8);
    }

    #[test]
    fn pv_that_stops_is_behind_by_all_but_one_update() {
        let (mut first, mut second) = (Tally::new(2), Tally::new(1));
        for value in 101..=108 {
            first.take(0, f64::from(value));
            first.take(1, f64::from(value.min(107)));
        }
        second.take(0, 102.0);
        assert_eq!(behind([&first, &second].into_iter()), 5);
    }
}
