//! How late did updates arrive?

use serde_json::{Value, json};

/// Width of a bucket.
const BUCKET_NS: i64 = 50_000;
/// The last bucket holds all that was later.
const BUCKETS: usize = 200_000;

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
    pub(crate) fn add(&mut self, delay_ns: i64) {
        let bucket = (delay_ns / BUCKET_NS).clamp(0, BUCKETS as i64 - 1) as usize;
        self.buckets[bucket] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(delay_ns);
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
            delays.add(n * 1_000_000 - 1);
        }
        assert_eq!(delays.quantile_ms(0.5), 50.0);
        assert_eq!(delays.quantile_ms(0.99), 99.0);
    }
}
