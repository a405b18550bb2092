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
        // The clock may have been read before that of the call before.
        self.at = self.at.max(now);
        let most = self.most.max(self.left);
        self.left = (self.left + seconds * self.per_second).min(most);
        self.left as usize
    }

    /// Whether it holds as many tokens as it can.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.left(now);
        self.left >= self.most
    }

    /// Gains the tokens from `since` until now above the most too: no client could use them meanwhile.
    pub fn gain_all(&mut self, since: Instant, now: Instant) {
        self.left(since);
        self.left = self.left.min(self.most);
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.left += seconds * self.per_second;
        self.at = self.at.max(now);
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
    fn time_in_which_no_token_can_be_taken_is_not_lost() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut bucket = Bucket::new(2, 3, start);
        bucket.gain_all(after(10), after(20));
        assert_eq!(bucket.left(after(30)), 3 + 20);
        bucket.gain_all(after(40), after(41));
        assert_eq!(
            bucket.left(after(41)),
            3 + 2,
            "what was not used then is gone"
        );
    }

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
