//! How old is an update when the relay gets it, and when it has been handed to the clients' sockets?
//!
//! Counted in bars as Prometheus wants them. A few updates of many are looked at, which says the same
//! of how long things take and costs next to nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Upper ends of the bars but for the last, which has none.
pub const ENDS_MICROS: [u64; 12] = [
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];

/// Bars, that without an end included.
pub const BARS: usize = ENDS_MICROS.len() + 1;

/// Of the updates of one PV one in so many is looked at on receipt: reading the clock takes a tenth as
/// long as taking in an update.
const RECEIVED_EVERY: u32 = 16;

/// Of the updates of one tick so many are looked at when they have been sent.
pub const SENT_SAMPLES: usize = 8;

/// What was counted up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// Updates in each bar.
    pub counts: [u64; BARS],
    /// All their ages together.
    pub sum_micros: u64,
}

/// Counts ages. Anybody may add at any time; nothing is locked or allocated.
#[derive(Debug, Default)]
pub struct AgeCounter {
    counts: [AtomicU64; BARS],
    sum_micros: AtomicU64,
}

impl AgeCounter {
    /// Counts an update that was stamped then, both in nanoseconds past the POSIX epoch. One whose stamp
    /// is still to come has the age 0: the IOC's clock is ahead.
    pub fn add(&self, stamp_ns: i64, now_ns: i64) {
        let micros = u64::try_from(now_ns.saturating_sub(stamp_ns) / 1000).unwrap_or(0);
        let bar = ENDS_MICROS.partition_point(|end| *end < micros);
        self.counts[bar].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Whether the update with this sequence is looked at on receipt. The first one since a connection
    /// is to be left out: it is as old as the PV's last change.
    #[must_use]
    pub fn is_sampled(sequence: u32) -> bool {
        sequence % RECEIVED_EVERY == RECEIVED_EVERY / 2
    }

    /// Counts an update that was stamped then and is here now.
    pub fn add_now(&self, stamp_ns: i64) {
        self.add(stamp_ns, wall_ns());
    }

    /// What was counted until now.
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

    /// Takes over what another one counted.
    pub fn set(&self, ages: Ages) {
        for (mine, count) in self.counts.iter().zip(ages.counts) {
            mine.store(count, Ordering::Relaxed);
        }
        self.sum_micros.store(ages.sum_micros, Ordering::Relaxed);
    }
}

/// Nanoseconds past the POSIX epoch by this machine's clock.
#[must_use]
pub fn wall_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A counter of ages as Prometheus reads it.
#[derive(Debug)]
pub struct AgeMetric(pub Arc<AgeCounter>);

impl EncodeMetric for AgeMetric {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Ages { counts, sum_micros } = self.0.read();
        let ends = ENDS_MICROS
            .iter()
            .map(|end| *end as f64 / 1e6)
            .chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
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
    fn age_falls_in_the_bar_that_it_does_not_exceed() {
        let ages = AgeCounter::default();
        for age in [0, 1, 2, 3, 5000, 5001] {
            ages.add(7 * MS, (7 + age) * MS);
        }
        let read = ages.read();
        assert_eq!(read.counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(read.sum_micros, 10_007_000);
    }

    #[test]
    fn stamp_that_is_still_to_come_has_no_age() {
        let ages = AgeCounter::default();
        ages.add(i64::MAX, 0);
        ages.add(0, i64::MIN);
        let Ages { counts, sum_micros } = ages.read();
        assert_eq!((counts[0], sum_micros), (2, 0));
    }

    #[test]
    fn one_update_in_sixteen_is_looked_at_and_not_the_first() {
        let sampled = (1..=RECEIVED_EVERY).filter(|sequence| AgeCounter::is_sampled(*sequence));
        assert_eq!(sampled.collect::<Vec<_>>(), [RECEIVED_EVERY / 2]);
        let (ages, other) = (AgeCounter::default(), AgeCounter::default());
        ages.add_now(0);
        assert_eq!(ages.read().counts.iter().sum::<u64>(), 1);
        other.set(ages.read());
        assert_eq!(other.read(), ages.read());
    }
}
