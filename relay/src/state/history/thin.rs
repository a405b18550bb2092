//! Thins a range for a plot: the first, smallest, largest and last sample of each interval, with its worst alarm.
//!
//! Samples are taken one by one, so that the memory is bounded by the points that are wanted.

use pvwire_schema::types::{Alarm, Skips};

use super::{PastBin, PastSample, PastValue};

/// Samples that stand for a bin.
const PER_BIN: usize = 4;

/// A sample with its number in the range.
type Numbered = (u64, PastSample);

/// The samples of one interval.
#[derive(Debug)]
struct Bin {
    /// Intervals are numbered by their time.
    interval: usize,
    first: Numbered,
    last: Numbered,
    /// The smallest and the largest number, if there is any.
    extremes: Option<(Numbered, Numbered)>,
    updates: u32,
    worst: Alarm,
    skips: Skips,
}

/// Thins the samples that are pushed.
#[derive(Debug)]
pub struct Thinner {
    from_ns: i64,
    span_ns: i128,
    points: usize,
    pushed: u64,
    /// All samples, as long as they are no more than `points`.
    all: Vec<PastSample>,
    bins: Vec<Bin>,
}

impl Thinner {
    /// Returns at most about `points` samples of a range: all of them, without bins, if they are no more.
    #[must_use]
    pub fn new((from_ns, to_ns): (i64, i64), points: usize) -> Self {
        Self {
            from_ns,
            span_ns: i128::from(to_ns).saturating_sub(from_ns.into()).max(1),
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
        let most = self.points / PER_BIN;
        let along = i128::from(sample.time_ns) - i128::from(self.from_ns);
        let along = along.clamp(0, self.span_ns - 1);
        let interval = (along * most as i128 / self.span_ns) as usize;
        let bin = Bin::new(interval, (self.pushed, sample));
        self.pushed += 1;
        match self.bins.last_mut() {
            Some(last) if last.interval == interval => last.join(bin),
            _ => {
                if self.bins.len() == most {
                    // The IOC's clock has stepped back, so that intervals of time are met several times.
                    self.halve();
                }
                self.bins.push(bin);
            }
        }
    }

    /// Joins each two bins that follow each other.
    fn halve(&mut self) {
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
        let number = number(&sample.1.value).filter(|number| !number.is_nan());
        Self {
            interval,
            extremes: number.map(|_| (sample.clone(), sample.clone())),
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
        range: (i64, i64),
        points: usize,
    ) -> (Vec<PastSample>, Vec<PastBin>) {
        let mut thinner = Thinner::new(range, points);
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
        samples[5001].alarm.severity = Severity::Major;
        samples[7000].value = PastValue::Number(f64::NAN);
        samples[8000].skips.source = 5;
        let (kept, bins) = thinned(samples, (0, 10_000), 400);
        assert!(kept.len() <= 400 && bins.len() == 100);
        let has = |wanted: f64| {
            kept.iter()
                .any(|kept| kept.value == PastValue::Number(wanted))
        };
        assert!(has(7.0) && has(-7.0));
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
    fn few_samples_are_returned_as_they_are() {
        let samples: Vec<_> = (0..50).map(|n| sample(n, 1.0)).collect();
        assert_eq!(thinned(samples.clone(), (0, 50), 50), (samples, vec![]));
    }
}
