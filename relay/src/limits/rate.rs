//! A token bucket: how often something may happen in the long run, and how often at once.

use std::time::Instant;

/// A token bucket: holds up to `most` tokens and gains `per_second` of them every second.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn new(per_second: usize, most: usize, now: Instant) -> Self {
        let most = most as f64;
        Self {
            per_second: per_second as f64,
            most,
            left: most,
            at: now,
        }
    }

    /// Tokens available at this time.
    pub fn left(&mut self, now: Instant) -> usize {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + seconds * self.per_second).min(self.most);
        self.left as usize
    }

    /// Takes up to `count` tokens.
    pub fn take(&mut self, count: usize) {
        self.left = (self.left - count as f64).max(0.0);
    }

    /// Takes one token; returns whether one was available.
    pub fn take_one(&mut self, now: Instant) -> bool {
        let available = self.left(now) > 0;
        self.take(usize::from(available));
        available
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn burst_passes_and_then_the_rate_holds() {
        let start = Instant::now();
        let mut bucket = Bucket::new(2, 3, start);
        let mut taken = |after: u64| bucket.take_one(start + Duration::from_millis(after));
        assert_eq!(
            [taken(0), taken(0), taken(0), taken(0)],
            [true, true, true, false]
        );
        assert_eq!([taken(400), taken(600), taken(600)], [false, true, false]);
        assert_eq!(
            [taken(9000), taken(9000), taken(9000), taken(9000)],
            [true, true, true, false]
        );
    }
}
