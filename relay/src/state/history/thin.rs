//! Thins a range for a plot: the first, smallest, largest and last sample of each interval, and the first of those that aren't
//! finite, with its worst alarm.
//!
//! Samples are taken one by one, so that the memory is bounded by the points that are wanted.

use pvwire_schema::types::{Alarm, Skips};

use super::{PastBin, PastSample, PastValue};

/// Samples that stand for a bin, but for one that isn't finite.
const PER_BIN: usize = 4;

/// A sample with its number in the range.
type Numbered = (u64, PastSample);

/// The samples of one interval.
#[derive(Debug)]
struct Bin {
    /// Intervals are numbered in their order.
    interval: usize,
    first: Numbered,
    last: Numbered,
    /// The smallest and the largest finite number, if there is any.
    extremes: Option<(Numbered, Numbered)>,
    /// The first number that isn't finite: a curve has a gap there.
    gap: Option<Numbered>,
    updates: u32,
    worst: Alarm,
    skips: Skips,
}

/// How samples are divided.
#[derive(Debug)]
enum Division {
    /// By their times, into intervals of equal length from this time on.
    Times { from_ns: i64, span_ns: i128 },
    /// By their numbers, into intervals of 2 to the power of this.
    Numbers { power: u32 },
}

/// Thins the samples that are pushed.
#[derive(Debug)]
pub struct Thinner {
    division: Division,
    points: usize,
    pushed: u64,
    /// All samples, as long as they are no more than `points`.
    all: Vec<PastSample>,
    bins: Vec<Bin>,
}

impl Thinner {
    /// Returns at most about `points` samples of a range: all of them, without bins, if they are no more. The intervals
    /// of a range without limits have about equal numbers of samples: a single time stamp that is years off would
    /// otherwise leave all others in one of them.
    #[must_use]
    pub fn new(limits: Option<(i64, i64)>, points: usize) -> Self {
        let division = match limits {
            Some((from_ns, to_ns)) => Division::Times {
                from_ns,
                span_ns: i128::from(to_ns).saturating_sub(from_ns.into()).max(1),
            },
            None => Division::Numbers { power: 0 },
        };
        Self {
            division,
            points: points.max(PER_BIN),
            pushed: 0,
            all: Vec::new(),
            bins: Vec::new(),
        }
    }

    /// Takes the next sample.
    pub fn push(&mut self, sample: PastSample) {
        if self.bins.is_empty() {
            self.all.push(sample);
            if self.all.len() > self.points {
                for sample in std::mem::take(&mut self.all) {
                    self.bin(sample);
                }
            }
        } else {
            self.bin(sample);
        }
    }

    fn bin(&mut self, sample: PastSample) {
        let is_new = |last: &Bin, interval: usize| last.interval != interval;
        let mut interval = self.interval(sample.time_ns);
        let is_full = self.bins.len() == self.points / PER_BIN;
        if is_full && (self.bins.last()).is_some_and(|last| is_new(last, interval)) {
            // By times: the IOC's clock has stepped back, so that intervals are met several times.
            self.halve();
            interval = self.interval(sample.time_ns);
        }
        let bin = Bin::new(interval, (self.pushed, sample));
        self.pushed += 1;
        match self.bins.last_mut() {
            Some(last) if !is_new(last, interval) => last.join(bin),
            _ => self.bins.push(bin),
        }
    }

    /// The interval of the next sample.
    fn interval(&self, time_ns: i64) -> usize {
        match self.division {
            Division::Times { from_ns, span_ns } => {
                let most = (self.points / PER_BIN) as i128;
                let along = i128::from(time_ns) - i128::from(from_ns);
                (along.clamp(0, span_ns - 1) * most / span_ns) as usize
            }
            Division::Numbers { power } => (self.pushed >> power) as usize,
        }
    }

    /// Joins each two bins that follow each other.
    fn halve(&mut self) {
        if let Division::Numbers { power } = &mut self.division {
            *power += 1;
            self.bins.iter_mut().for_each(|bin| bin.interval /= 2);
        }
        let mut bins = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut bin) = bins.next() {
            if let Some(next) = bins.next() {
                bin.join(next);
            }
            self.bins.push(bin);
        }
    }

    /// The samples that remain, and the bins that they stand for.
    #[must_use]
    pub fn finish(self) -> (Vec<PastSample>, Vec<PastBin>) {
        let mut samples = self.all;
        let bins = self.bins.into_iter().map(|bin| bin.finish(&mut samples));
        let bins = bins.collect();
        (samples, bins)
    }
}

impl Bin {
    fn new(interval: usize, sample: Numbered) -> Self {
        let is_finite = number(&sample.1.value).map(f64::is_finite);
        let extremes = (is_finite == Some(true)).then(|| (sample.clone(), sample.clone()));
        Self {
            interval,
            extremes,
            gap: (is_finite == Some(false)).then(|| sample.clone()),
            updates: 1,
            worst: sample.1.alarm,
            skips: sample.1.skips,
            last: sample.clone(),
            first: sample,
        }
    }

    /// Adds the bin after this one, whose interval becomes that of both.
    fn join(&mut self, next: Self) {
        let size = |sample: &Numbered| number(&sample.1.value).unwrap_or_default();
        if let Some((low, high)) = next.extremes {
            let (smallest, largest) =
                (self.extremes).get_or_insert_with(|| (low.clone(), high.clone()));
            if size(&low).total_cmp(&size(smallest)).is_lt() {
                *smallest = low;
            }
            if size(&high).total_cmp(&size(largest)).is_gt() {
                *largest = high;
            }
        }
        self.gap = self.gap.take().or(next.gap);
        self.interval = next.interval;
        self.last = next.last;
        self.updates = self.updates.saturating_add(next.updates);
        if next.worst.severity as u8 > self.worst.severity as u8 {
            self.worst = next.worst;
        }
        let (sum, more) = (&mut self.skips, next.skips);
        sum.relay = sum.relay.saturating_add(more.relay);
        sum.source = sum.source.saturating_add(more.source);
        sum.filter = sum.filter.saturating_add(more.filter);
        sum.bus = sum.bus.saturating_add(more.bus);
    }

    fn finish(self, samples: &mut Vec<PastSample>) -> PastBin {
        let mut kept = vec![self.first, self.last];
        if let Some((low, high)) = self.extremes {
            kept.extend([low, high]);
        }
        kept.extend(self.gap);
        kept.sort_unstable_by_key(|(number, _)| *number);
        kept.dedup_by_key(|(number, _)| *number);
        let bin = PastBin {
            samples: kept.len() as u32,
            updates: self.updates,
            worst: self.worst,
            skips: self.skips,
        };
        samples.extend(kept.into_iter().map(|(_, sample)| sample));
        bin
    }
}

fn number(value: &PastValue) -> Option<f64> {
    match value {
        PastValue::Number(number) => Some(*number),
        PastValue::Int64(number) => Some(*number as f64),
        PastValue::UInt64(number) => Some(*number as f64),
        PastValue::Text(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_schema::types::Severity;

    fn thinned(
        samples: Vec<PastSample>,
        range: impl Into<Option<(i64, i64)>>,
        points: usize,
    ) -> (Vec<PastSample>, Vec<PastBin>) {
        let mut thinner = Thinner::new(range.into(), points);
        samples.into_iter().for_each(|sample| thinner.push(sample));
        thinner.finish()
    }

    fn sample(time_ns: i64, value: f64) -> PastSample {
        PastSample {
            time_ns,
            value: PastValue::Number(value),
            alarm: Alarm::NONE,
            skips: Skips::NONE,
        }
    }

    #[test]
    fn no_peak_and_no_alarm_is_lost_by_thinning() {
        let mut samples: Vec<_> = (0..10_000).map(|n| sample(n, 0.0)).collect();
        samples[3333].value = PastValue::Number(7.0);
        samples[3334].value = PastValue::Number(-7.0);
        samples[3335].value = PastValue::Number(f64::INFINITY);
        samples[3336].value = PastValue::Number(f64::NEG_INFINITY);
        samples[5001].alarm.severity = Severity::Major;
        samples[7000].value = PastValue::Number(f64::NAN);
        samples[8000].skips.source = 5;
        let (kept, bins) = thinned(samples, (0, 10_000), 400);
        assert!(kept.len() <= 402 && bins.len() == 100);
        assert!(kept.iter().any(|kept| kept.time_ns == 7000));
        let has = |wanted: f64| {
            kept.iter()
                .any(|kept| kept.value == PastValue::Number(wanted))
        };
        assert!(has(7.0) && has(-7.0) && has(f64::INFINITY));
        assert_eq!((kept[0].time_ns, kept[kept.len() - 1].time_ns), (0, 9_999));
        let worst: Vec<_> = bins.iter().map(|bin| bin.worst.severity).collect();
        assert_eq!((worst[50], worst[51]), (Severity::Major, Severity::NoAlarm));
        assert_eq!(bins.iter().map(|bin| bin.updates).sum::<u32>(), 10_000);
        assert_eq!(
            bins.iter().map(|bin| bin.samples).sum::<u32>() as usize,
            kept.len()
        );
        assert_eq!(bins[80].skips.source, 5);
    }

    #[test]
    fn clock_that_steps_back_again_and_again_gives_no_more_points() {
        let samples: Vec<_> = (0..10_000).map(|n| sample(n % 100, n as f64)).collect();
        let (kept, bins) = thinned(samples, (0, 100), 400);
        assert!(kept.len() <= 400 && bins.len() <= 100);
        assert_eq!(kept[kept.len() - 1].value, PastValue::Number(9_999.0));
    }

    #[test]
    fn time_stamps_that_are_years_off_leave_a_curve_of_the_others() {
        let mut samples: Vec<_> = (0..10_000).map(|n| sample(n, 0.0)).collect();
        samples[0].time_ns = -1_000_000_000_000;
        samples[5_000].time_ns = 1_000_000_000_000;
        samples[7_001].value = PastValue::Number(7.0);
        for points in [400, 37] {
            let (kept, bins) = thinned(samples.clone(), None::<(i64, i64)>, points);
            assert!(kept.len() <= points && bins.len() >= points / PER_BIN / 2);
            let most = bins.iter().map(|bin| bin.updates).max().unwrap();
            assert!(most as usize <= 4 * 10_000 / bins.len(), "{most}");
            let updates: u32 = bins.iter().map(|bin| bin.updates).sum();
            assert_eq!(updates, 10_000);
            assert!(kept.contains(&samples[7_001]));
            assert_eq!(
                (kept[0].time_ns, kept[kept.len() - 1].time_ns),
                (samples[0].time_ns, 9_999)
            );
        }
    }

    #[test]
    fn few_samples_are_returned_as_they_are() {
        let samples: Vec<_> = (0..50).map(|n| sample(n, 1.0)).collect();
        assert_eq!(thinned(samples.clone(), (0, 50), 50), (samples, vec![]));
    }
}
