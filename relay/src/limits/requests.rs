//! What one client may ask for: requests, puts and calls per second, and requests without an answer.

use std::time::{Duration, Instant};

use pvwire_schema::limits::MAX_NAMES;
use thiserror::Error;

use crate::limits::rate::Bucket;

/// Requests of one client that are read before other clients get their turn.
pub const REQUESTS_PER_TURN: usize = 32;

/// Requests of one client that may wait for their answers at the same time.
pub const MAX_OPEN_REQUESTS: usize = 64;

/// A client may use the rate of this many seconds at once.
pub const BURST_SECONDS: usize = 10;

/// How often a client may name all PVs that it may subscribe at once: a page names each when it starts, and the
/// pages that share a connection do so one after the other.
const NAMES_BURST: usize = 4;

/// Tokens of one client that may be checked per second. A signature takes as long as many other requests.
const TOKENS_PER_S: usize = 10;

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
    /// PVs that the requests of a client may name at once; in the long run each counts as a request.
    pub names_at_once: usize,
}

impl RequestLimits {
    /// Names at once of a client that may subscribe this number of PVs. A request of any size passes.
    #[must_use]
    pub fn names_at_once(subscriptions: usize) -> usize {
        NAMES_BURST * subscriptions.max(MAX_NAMES)
    }

    /// The rates of this many clients together.
    #[must_use]
    pub fn of_clients(self, clients: usize) -> Self {
        Self {
            requests_per_s: clients * self.requests_per_s,
            puts_per_s: clients * self.puts_per_s,
            names_at_once: clients * self.names_at_once,
        }
    }
}

/// A client sends requests faster than `max_requests_per_s` allows, or waits for too many answers.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many requests")]
pub struct TooManyRequests;

/// The requests of a client name more PVs than `max_requests_per_s` allows.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "your requests name PVs too fast: this one names {asked}, {left} are left, and {per_s} come back every second \
     (max_requests_per_s); subscribe each PV once, or wait"
)]
pub struct TooManyNames {
    asked: usize,
    left: usize,
    per_s: usize,
}

/// What one client may still ask for.
#[derive(Debug)]
pub struct RequestBudget {
    requests: Bucket,
    names: Bucket,
    names_at_once: usize,
    requests_per_s: usize,
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
            names: Bucket::new(limits.requests_per_s, limits.names_at_once, now),
            names_at_once: limits.names_at_once,
            requests_per_s: limits.requests_per_s,
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

    /// Counts a token like a part of a second's requests, of which there are `TOKENS_PER_S`.
    ///
    /// # Errors
    /// When they are more than the rate allows.
    pub fn take_token(&mut self, now: Instant) -> Result<(), TooManyRequests> {
        self.take_frames(self.requests_per_s.div_ceil(TOKENS_PER_S), now)
    }

    /// The relay has not read what the client sent since then.
    pub fn was_unread(&mut self, since: Instant, now: Instant) {
        self.requests.gain_all(since, now);
        self.puts.gain_all(since, now);
    }

    /// Counts the PVs that a request names.
    ///
    /// # Errors
    /// When they are more than the rate allows; then none are counted.
    pub fn take_names(&mut self, asked: usize, now: Instant) -> Result<(), TooManyNames> {
        self.check_names(asked, now)?;
        self.names.take(asked);
        Ok(())
    }

    /// Whether a request may name this number of PVs.
    ///
    /// # Errors
    /// When they are more than the rate allows.
    pub fn check_names(&mut self, asked: usize, now: Instant) -> Result<(), TooManyNames> {
        let (left, per_s) = (self.names.left(now), self.requests_per_s);
        if left < asked {
            return Err(TooManyNames { asked, left, per_s });
        }
        Ok(())
    }

    /// Whether it has named as many PVs lately as the largest request can, or more.
    pub fn has_named_many(&mut self, now: Instant) -> bool {
        self.names.left(now) + MAX_NAMES <= self.names_at_once
    }

    /// Whether the client may name a further PV.
    pub fn may_name(&mut self, now: Instant) -> bool {
        self.names.left(now) > 0
    }

    /// Counts the PVs that a client names whose requests are not refused, but wait until `may_name`.
    pub fn spend_names(&mut self, asked: usize) {
        self.names.take(asked);
    }

    /// Counts a put or call; returns whether the rate allows it.
    pub fn take_put(&mut self, now: Instant) -> bool {
        self.puts.take_one(now)
    }

    /// Counts the puts of a batch; returns whether the rate allows them. If not, none are counted.
    pub fn take_puts(&mut self, asked: usize, now: Instant) -> bool {
        let within = asked <= self.puts.left(now);
        self.puts.take(if within { asked } else { 0 });
        within
    }

    /// Whether no put and no name counts any more.
    pub fn is_unused(&mut self, now: Instant) -> bool {
        self.puts.is_full(now) && self.names.is_full(now)
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
            names_at_once: RequestLimits::names_at_once(20_000),
        };
        let mut budget = RequestBudget::new(limits, now);
        assert_eq!(budget.take_frames(20, now), Ok(()));
        assert_eq!(budget.take_frames(1, now), Err(TooManyRequests));
        assert_eq!(budget.take_frames(2, now + Duration::from_secs(1)), Ok(()));
        let (since, now) = (now + Duration::from_secs(20), now + Duration::from_secs(40));
        budget.was_unread(since, now);
        assert_eq!(
            budget.take_frames(60, now),
            Ok(()),
            "20 at once, 2 a second"
        );
        assert_eq!(budget.take_frames(1, now), Err(TooManyRequests));
        let puts = (0..40).filter(|_| budget.take_put(now)).count();
        assert_eq!(puts, 10 + 20, "10 at once, 1 a second");
        for _ in 0..MAX_OPEN_REQUESTS {
            budget.open().unwrap();
        }
        assert_eq!(budget.open(), Err(TooManyRequests));
        budget.answered();
        assert_eq!(budget.open(), Ok(()));
    }

    #[test]
    fn client_names_its_pvs_at_once_and_then_as_fast_as_it_may_make_requests() {
        let now = Instant::now();
        let limits = RequestLimits {
            requests_per_s: 1_000,
            puts_per_s: 1,
            names_at_once: RequestLimits::names_at_once(20_000),
        };
        let mut budget = RequestBudget::new(limits, now);
        for named in 0..8 {
            assert_eq!(budget.has_named_many(now), named > 0);
            assert_eq!(budget.take_names(10_000, now), Ok(()));
        }
        let refused = budget.take_names(10_000, now).unwrap_err();
        assert!(refused.to_string().contains("max_requests_per_s"));
        let later = now + Duration::from_secs(10);
        assert_eq!(budget.take_names(10_000, later), Ok(()));
        assert!(budget.take_names(1, later).is_err());
        assert_eq!(
            budget.take_frames(1_000, later),
            Ok(()),
            "a separate bucket"
        );
        // A request of the greatest length passes however few PVs a client may subscribe.
        assert!(RequestLimits::names_at_once(10) >= MAX_NAMES);
    }

    #[test]
    fn tokens_whose_signatures_are_checked_count_as_many_requests() {
        let now = Instant::now();
        let of = |requests_per_s| {
            let limits = RequestLimits {
                requests_per_s,
                puts_per_s: 1,
                names_at_once: 1,
            };
            let mut budget = RequestBudget::new(limits, now);
            let later = now + Duration::from_secs(1);
            let tokens = |budget: &mut RequestBudget, now| {
                let taken = (0..10_000).take_while(|_| budget.take_token(now).is_ok());
                taken.count()
            };
            [tokens(&mut budget, now), tokens(&mut budget, later)]
        };
        assert_eq!(of(1_000), [100, 10]);
        assert_eq!(of(5), [50, 5], "a client with a small rate may log in");
    }

    #[test]
    fn time_out_is_the_default_or_what_was_asked_up_to_the_longest() {
        let of = |asked_ms| timeout(asked_ms, Duration::from_secs(5), LONGEST_GET);
        assert_eq!(of(0), Duration::from_secs(5));
        assert_eq!(of(1), Duration::from_millis(1));
        assert_eq!(of(u32::MAX), LONGEST_GET);
    }
}
