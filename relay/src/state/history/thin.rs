//! Thins a range for a plot: the first, smallest, largest and last sample of each interval, and the first of those that aren't
//! finite, with its worst alarm.
//!
//! Samples are taken one by one, so that the memory is bounded by the points that are wanted.

use std::ops::Range;

use pvwire_schema::types::{Alarm, Skips};

use super::{PastBin, PastSample, PastValue};

/// Samples that stand for a bin, but for one that isn't finite.
const PER_BIN: usize = 4;

/// A sample with its number in the range.
type Numbered = (u64, PastSample);

/// A sample with a finite number, and that number.
type Measured = (f64, Numbered);

/// The samples of one interval.
#[derive(Debug)]
struct Bin {
    /// Intervals are numbered in their order.
    interval: usize,
    first: Numbered,
    last: Numbered,
    /// The smallest and the largest finite number, if there is any.
    extremes: Option<(Measured, Measured)>,
    /// The first number that isn't finite: a curve has a gap there.
    gap: Option<Numbered>,
    updates: u32,
    worst: Alarm,
    skips: Skips,
}

/// How samples are divided.
#[derive(Debug)]
enum Division {
    /// By their times, into intervals of equal length from this time on. The times of the interval of the newest sample are
    /// kept, since the next one is mostly in it and a division takes longer than all the rest.
    Times {
        from_ns: i64,
        span_ns: i128,
        newest: (Range<i64>, usize),
    },
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
                newest: (0..0, 0),
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
        let numbered = (self.pushed, sample);
        self.pushed += 1;
        match self.bins.last_mut() {
            Some(last) if !is_new(last, interval) => last.take(numbered),
            _ => self.bins.push(Bin::new(interval, numbered)),
        }
    }

    /// The interval of the next sample.
    fn interval(&mut self, time_ns: i64) -> usize {
        match &mut self.division {
            Division::Times { newest, .. } if newest.0.contains(&time_ns) => newest.1,
            Division::Times {
                from_ns,
                span_ns,
                newest,
            } => {
                let most = (self.points / PER_BIN) as i128;
                let (from, span) = (i128::from(*from_ns), *span_ns);
                let along = (i128::from(time_ns) - from).clamp(0, span - 1);
                let interval = along * most / span;
                let begin = |interval: i128| (from + (interval * span + most - 1) / most) as i64;
                *newest = (begin(interval)..begin(interval + 1), interval as usize);
                interval as usize
            }
            Division::Numbers { power } => (self.pushed >> *power) as usize,
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
        let mut bin = Self {
            interval,
            extremes: None,
            gap: None,
            updates: 0,
            worst: sample.1.alarm,
            skips: Skips::NONE,
            last: sample.clone(),
            first: sample.clone(),
        };
        bin.take(sample);
        bin
    }

    /// Adds the sample after all of these.
    fn take(&mut self, sample: Numbered) {
        match number(&sample.1.value) {
            Some(size) if size.is_finite() => self.stretch((size, &sample), (size, &sample)),
            Some(_) if self.gap.is_none() => self.gap = Some(sample.clone()),
            _ => {}
        }
        self.count(1, sample.1.alarm, sample.1.skips);
        self.last = sample;
    }

    /// Adds the bin after this one, whose interval becomes that of both.
    fn join(&mut self, next: Self) {
        if let Some((low, high)) = &next.extremes {
            self.stretch((low.0, &low.1), (high.0, &high.1));
        }
        self.gap = self.gap.take().or(next.gap);
        self.interval = next.interval;
        self.last = next.last;
        self.count(next.updates, next.worst, next.skips);
    }

    fn stretch(&mut self, low: (f64, &Numbered), high: (f64, &Numbered)) {
        let owned = |(size, sample): (f64, &Numbered)| (size, sample.clone());
        let (smallest, largest) = (self.extremes).get_or_insert_with(|| (owned(low), owned(high)));
        if low.0.total_cmp(&smallest.0).is_lt() {
            *smallest = owned(low);
        }
        if high.0.total_cmp(&largest.0).is_gt() {
            *largest = owned(high);
        }
    }

    fn count(&mut self, updates: u32, worst: Alarm, skips: Skips) {
        self.updates = self.updates.saturating_add(updates);
        if worst.severity as u8 > self.worst.severity as u8 {
            self.worst = worst;
        }
        let sum = &mut self.skips;
        sum.relay = sum.relay.saturating_add(skips.relay);
        sum.source = sum.source.saturating_add(skips.source);
        sum.filter = sum.filter.saturating_add(skips.filter);
        sum.bus = sum.bus.saturating_add(skips.bus);
    }

    fn finish(self, samples: &mut Vec<PastSample>) -> PastBin {
        let mut kept = vec![self.first, self.last];
        if let Some(((_, low), (_, high))) = self.extremes {
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
    fn each_sample_is_in_the_interval_of_its_time() {
        let limits = (-7_i64, 1_000_003);
        let samples: Vec<_> = (-20..1_000_020)
            .step_by(37)
            .map(|n| sample(n, 1.0))
            .collect();
        let (_, bins) = thinned(samples.clone(), limits, 120);
        let mut counts = [0_u32; 30];
        for sample in &samples {
            let along = (sample.time_ns - limits.0).clamp(0, 1_000_009);
            counts[(along * 30 / 1_000_010) as usize] += 1;
        }
        let found: Vec<_> = bins.iter().map(|bin| bin.updates).collect();
        assert_eq!(found, counts);
        let whole = (i64::MIN, i64::MAX);
        let far = [i64::MIN, -1, 0, 1, i64::MAX].map(|time_ns| sample(time_ns, 1.0));
        let (kept, bins) = thinned(far.to_vec(), whole, 4);
        assert_eq!((kept.len(), bins.len()), (2, 1));
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
