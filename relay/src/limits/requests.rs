//! What one client may ask for: requests, puts and calls per second, and requests without an answer.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::limits::rate::Bucket;

/// Requests of one client that are read before other clients get their turn.
pub const REQUESTS_PER_TURN: usize = 32;

/// Requests of one client that may wait for their answers at the same time.
pub const MAX_OPEN_REQUESTS: usize = 64;

/// A client may use the rate of this many seconds at once.
pub const BURST_SECONDS: usize = 10;

/// Longest time for which a get may wait for first values.
pub const LONGEST_GET: Duration = Duration::from_secs(60);

/// Longest time for which a put may wait for its completion: some motors take that long.
pub const LONGEST_PUT: Duration = Duration::from_secs(3600);

/// Rates of one client.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Messages per second, WebSocket's control and continuation frames included.
    pub requests_per_s: usize,
    /// Puts and calls per second.
    pub puts_per_s: usize,
}

/// A client sends requests faster than `max_requests_per_s` allows, or waits for too many answers.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many requests")]
pub struct TooManyRequests;

/// What one client may still ask for.
#[derive(Debug)]
pub struct RequestBudget {
    requests: Bucket,
    puts: Bucket,
    open: usize,
}

impl RequestBudget {
    /// A full budget.
    #[must_use]
    pub fn new(limits: RequestLimits, now: Instant) -> Self {
        let bucket = |per_second| Bucket::new(per_second, BURST_SECONDS * per_second, now);
        Self {
            requests: bucket(limits.requests_per_s),
            puts: bucket(limits.puts_per_s),
            open: 0,
        }
    }

    /// Counts received WebSocket frames; each counts as one request.
    ///
    /// # Errors
    /// When they are more than the rate allows.
    pub fn take_frames(&mut self, frames: usize, now: Instant) -> Result<(), TooManyRequests> {
        if self.requests.left(now) < frames {
            return Err(TooManyRequests);
        }
        self.requests.take(frames);
        Ok(())
    }

    /// Counts a put or call; returns whether the rate allows it.
    pub fn take_put(&mut self, now: Instant) -> bool {
        self.puts.take_one(now)
    }

    /// Counts a request that is answered later.
    ///
    /// # Errors
    /// When `MAX_OPEN_REQUESTS` wait already.
    pub fn open(&mut self) -> Result<(), TooManyRequests> {
        if self.open >= MAX_OPEN_REQUESTS {
            return Err(TooManyRequests);
        }
        self.open += 1;
        Ok(())
    }

    /// Whether one more request may be opened.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open < MAX_OPEN_REQUESTS
    }

    /// A request that was opened has its answer.
    pub fn answered(&mut self) {
        self.open -= 1;
    }
}

/// The time-out of a request: `default` when the client names none, and at most `longest`.
#[must_use]
pub fn timeout(asked_ms: u32, default: Duration, longest: Duration) -> Duration {
    match asked_ms {
        0 => default,
        some => Duration::from_millis(some.into()).min(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_has_its_rates_and_a_bounded_number_of_open_requests() {
        let now = Instant::now();
        let limits = RequestLimits {
            requests_per_s: 2,
            puts_per_s: 1,
        };
        let mut budget = RequestBudget::new(limits, now);
        assert_eq!(budget.take_frames(20, now), Ok(()));
        assert_eq!(budget.take_frames(1, now), Err(TooManyRequests));
        assert_eq!(budget.take_frames(2, now + Duration::from_secs(1)), Ok(()));
        let puts = (0..12).filter(|_| budget.take_put(now)).count();
        assert_eq!(puts, 10);
        for _ in 0..MAX_OPEN_REQUESTS {
            budget.open().unwrap();
        }
        assert_eq!(budget.open(), Err(TooManyRequests));
        budget.answered();
        assert_eq!(budget.open(), Ok(()));
    }

    #[test]
    fn time_out_is_the_default_or_what_was_asked_up_to_the_longest() {
        let of = |asked_ms| timeout(asked_ms, Duration::from_secs(5), LONGEST_GET);
        assert_eq!(of(0), Duration::from_secs(5));
        assert_eq!(of(1), Duration::from_millis(1));
        assert_eq!(of(u32::MAX), LONGEST_GET);
    }
}
