//! How many PVs one client may subscribe, and how many new names it may ask for.
//!
//! A *new* name is one that no client has open. libca searches all names of a context in turn, so a
//! client's first new names are *fresh*: they are searched in one context, and names beyond that in
//! another, where they do not delay fresh names of other clients.

use std::time::{Duration, Instant};

use crate::limits::rate::Bucket;

/// Fresh names of one client.
pub const FRESH_NAMES: usize = 500;

/// A client that asked for no new name for this time gets all its fresh names back.
pub const FRESH_AGAIN: Duration = Duration::from_secs(10);

/// Different filters on one PV: each costs some time with every update.
pub const MAX_FILTERS: usize = 32;

/// Filters that one connection may add to one PV, so that one client cannot use them up.
pub const MAX_FILTERS_PER_CONNECTION: usize = MAX_FILTERS / 4;

/// Filters that all connections of one address or user may add to one PV.
pub const MAX_FILTERS_PER_ACCOUNT: usize = MAX_FILTERS / 2;

/// Different forms of one PV for clients of doors: its spellings, each with and without the right to write. Each
/// costs some time with every update.
pub const MAX_FORMS: usize = 256;

/// Forms that one connection may add to one PV.
pub const MAX_FORMS_PER_CONNECTION: usize = MAX_FORMS / 4;

/// Forms that all connections of one address or user may add to one PV.
pub const MAX_FORMS_PER_ACCOUNT: usize = MAX_FORMS / 2;

/// Elements per second that the relay computes for the simulated PVs of one client.
pub const MAX_LOAD_PER_CLIENT: u64 = 60_000_000;

/// Elements per second that the relay computes for all simulated PVs together.
pub const MAX_LOAD: u64 = 120_000_000;

/// What one client may subscribe.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionLimits {
    /// PVs (`max_subscriptions`).
    pub subscriptions: usize,
    /// Names that were not found; beyond this, further unknown names are refused (`max_unresolved`).
    pub unresolved: usize,
    /// Elements per second that the relay computes for the client's simulated PVs.
    pub load: u64,
}

/// A rate of new names.
#[derive(Clone, Copy, Debug)]
pub struct NewNameLimits {
    /// Names per second in the long run.
    pub per_s: usize,
    /// Names at once.
    pub at_once: usize,
}

/// New names that a client may ask for now.
#[derive(Clone, Copy, Debug)]
pub struct NewNames {
    /// Names that are searched apart from those of clients with many new names.
    pub fresh: usize,
    /// Names in all.
    pub new: usize,
}

impl NewNames {
    /// For one PV that a client needs for an operation.
    pub const ONE: Self = Self { fresh: 1, new: 1 };
}

/// One client's budget of new names.
#[derive(Debug)]
pub struct NameBudget {
    fresh: usize,
    /// When it last asked for a fresh name.
    used: Instant,
    names: Bucket,
}

impl NameBudget {
    /// A full budget.
    #[must_use]
    pub fn new(limits: NewNameLimits, now: Instant) -> Self {
        Self {
            fresh: FRESH_NAMES,
            used: now,
            names: Bucket::new(limits.per_s, limits.at_once, now),
        }
    }

    /// What the client may ask for now.
    pub fn left(&mut self, now: Instant) -> NewNames {
        if now.duration_since(self.used) >= FRESH_AGAIN {
            self.fresh = FRESH_NAMES;
        }
        NewNames {
            fresh: self.fresh,
            new: self.names.left(now),
        }
    }

    /// The client asked for `count` new names and has `fresh` fresh ones left.
    pub fn spend(&mut self, count: usize, fresh: usize, now: Instant) {
        self.names.take(count);
        if fresh < self.fresh || self.fresh == 0 {
            self.used = now;
        }
        self.fresh = fresh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_names_come_back_after_a_pause() {
        let start = Instant::now();
        let limits = NewNameLimits {
            per_s: 10,
            at_once: 1000,
        };
        let mut budget = NameBudget::new(limits, start);
        assert_eq!(budget.left(start).fresh, FRESH_NAMES);
        budget.spend(600, 0, start);
        let later = start + Duration::from_secs(9);
        let left = budget.left(later);
        assert_eq!((left.fresh, left.new), (0, 490));
        // A client without fresh names that asks again waits again.
        budget.spend(1, 0, later);
        assert_eq!(budget.left(start + FRESH_AGAIN).fresh, 0);
        assert_eq!(budget.left(later + FRESH_AGAIN).fresh, FRESH_NAMES);
    }
}
