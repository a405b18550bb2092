//! Histograms of the age of updates: when the relay receives them, and when it has handed them to sockets.
//!
//! Only a sample of the updates is counted, which gives the same distribution and costs next to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Histogram buckets; upper bounds in microseconds, the last is +Inf.
pub const BOUNDS_MICROS: [u64; 12] = [
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];

/// Number of buckets, that of +Inf included.
pub const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// One in this many updates of a PV is counted on receipt: reading the clock takes a tenth of the time of
/// taking in an update.
const RECEIVED_EVERY: u32 = 16;

/// Updates of one tick that are counted when they have been sent.
pub const SENT_SAMPLES: usize = 8;

/// The counts of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// Updates in each bucket.
    pub counts: [u64; BUCKETS],
    /// Sum of all ages.
    pub sum_micros: u64,
}

/// Counts ages. Any thread may add at any time; nothing is locked or allocated.
#[derive(Debug, Default)]
pub struct AgeCounter {
    counts: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
}

impl AgeCounter {
    /// Counts the age of an update; both times are in nanoseconds past the POSIX epoch. A time stamp in the
    /// future, from an IOC whose clock is ahead, counts as age 0.
    pub fn add(&self, stamp_ns: i64, now_ns: i64) {
        let micros = u64::try_from(now_ns.saturating_sub(stamp_ns) / 1000).unwrap_or(0);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Whether the update with this sequence number is counted on receipt. The first one after a connection
    /// is not counted: it is as old as the PV's last change.
    #[must_use]
    pub fn is_sampled(sequence: u32) -> bool {
        sequence % RECEIVED_EVERY == RECEIVED_EVERY / 2
    }

    /// Counts the age that an update has now, unless it has no time stamp.
    pub fn add_now(&self, stamp_ns: i64) {
        if stamp_ns != 0 {
            self.add(stamp_ns, wall_ns());
        }
    }

    /// The counts until now.
    #[must_use]
    pub fn read(&self) -> Ages {
        Ages {
            counts: self
                .counts
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed)),
            sum_micros: self.sum_micros.load(Ordering::Relaxed),
        }
    }

    /// Copies the counts of another counter.
    pub fn set(&self, ages: Ages) {
        for (mine, count) in self.counts.iter().zip(ages.counts) {
            mine.store(count, Ordering::Relaxed);
        }
        self.sum_micros.store(ages.sum_micros, Ordering::Relaxed);
    }
}

/// The present time of this machine's clock, in nanoseconds past the POSIX epoch.
#[must_use]
pub fn wall_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A counter of ages as a Prometheus histogram.
#[derive(Debug)]
pub struct AgeMetric(pub Arc<AgeCounter>);

impl EncodeMetric for AgeMetric {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Ages { counts, sum_micros } = self.0.read();
        let bounds = BOUNDS_MICROS
            .iter()
            .map(|bound| *bound as f64 / 1e6)
            .chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let sum = sum_micros as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn age_is_counted_in_the_bucket_that_it_does_not_exceed() {
        let ages = AgeCounter::default();
        for age in [0, 1, 2, 3, 5000, 5001] {
            ages.add(7 * MS, (7 + age) * MS);
        }
        let read = ages.read();
        assert_eq!(read.counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(read.sum_micros, 10_007_000);
    }

    #[test]
    fn stamp_in_the_future_has_age_zero() {
        let ages = AgeCounter::default();
        ages.add(i64::MAX, 0);
        ages.add(0, i64::MIN);
        let Ages { counts, sum_micros } = ages.read();
        assert_eq!((counts[0], sum_micros), (2, 0));
    }

    #[test]
    fn one_update_in_sixteen_is_counted_and_not_the_first() {
        let sampled = (1..=RECEIVED_EVERY).filter(|sequence| AgeCounter::is_sampled(*sequence));
        assert_eq!(sampled.collect::<Vec<_>>(), [RECEIVED_EVERY / 2]);
        let (ages, other) = (AgeCounter::default(), AgeCounter::default());
        // Without a time stamp it has no age.
        ages.add_now(0);
        ages.add_now(1);
        assert_eq!(ages.read().counts.iter().sum::<u64>(), 1);
        other.set(ages.read());
        assert_eq!(other.read(), ages.read());
    }
}
