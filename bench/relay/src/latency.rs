//! Latency of updates.

use serde_json::{Value, json};

/// Width of a bucket.
const BUCKET_NS: i64 = 50_000;
/// The last bucket holds all that was later.
const BUCKETS: usize = 200_000;

/// Time stamps of a frame's rows, near ones taken together, so that they needn't be gone through
/// one by one for every client that gets the frame.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// A stamp, the oldest of its bucket's width, and how many there are.
    near: Vec<(i64, u64)>,
}

impl Stamps {
    pub(crate) fn add(&mut self, time_ns: i64) {
        match self.near.last_mut() {
            Some((oldest, count)) if (time_ns - *oldest).abs() < BUCKET_NS => {
                *oldest = (*oldest).min(time_ns);
                *count += 1;
            }
            _ => self.near.push((time_ns, 1)),
        }
    }
}

/// Counts of delays from the IOC's time stamp to the client's read.
#[derive(Debug)]
pub(crate) struct Delays {
    buckets: Vec<u64>,
    count: u64,
    max_ns: i64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            max_ns: 0,
        }
    }
}

impl Delays {
    pub(crate) fn add(&mut self, delay_ns: i64, count: u64) {
        let bucket = (delay_ns / BUCKET_NS).clamp(0, BUCKETS as i64 - 1) as usize;
        self.buckets[bucket] += count;
        self.count += count;
        self.max_ns = self.max_ns.max(delay_ns);
    }

    /// A frame's rows, read at this time.
    pub(crate) fn add_all(&mut self, now_ns: i64, stamps: &Stamps) {
        for (time_ns, count) in &stamps.near {
            self.add(now_ns - time_ns, *count);
        }
    }

    fn quantile_ms(&self, quantile: f64) -> f64 {
        let wanted = (self.count as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (bucket as i64 + 1) as f64 * BUCKET_NS as f64 / 1e6;
            }
        }
        f64::NAN
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "p50Ms": self.quantile_ms(0.5),
            "p90Ms": self.quantile_ms(0.9),
            "p95Ms": self.quantile_ms(0.95),
            "p99Ms": self.quantile_ms(0.99),
            "p999Ms": self.quantile_ms(0.999),
            "maxMs": self.max_ns as f64 / 1e6,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_ends_of_buckets() {
        let mut delays = Delays::default();
        for n in 1..=100 {
            delays.add(n * 1_000_000 - 1, 1);
        }
        assert_eq!(delays.quantile_ms(0.5), 50.0);
        assert_eq!(delays.quantile_ms(0.95), 95.0);
        assert_eq!(delays.quantile_ms(0.99), 99.0);
    }

    #[test]
    fn near_stamps_count_as_their_oldest() {
        let mut stamps = Stamps::default();
        for time_us in [100, 90, 130, 1000, 1049, 1050] {
            stamps.add(time_us * 1000);
        }
        assert_eq!(stamps.near, [(90_000, 3), (1_000_000, 2), (1_050_000, 1)]);
        let mut delays = Delays::default();
        delays.add_all(2_090_000, &stamps);
        assert_eq!((delays.count, delays.max_ns), (6, 2_000_000));
    }
}
