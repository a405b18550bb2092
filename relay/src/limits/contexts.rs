//! How many EPICS client contexts the relay keeps for users who write, and for how long.

use std::time::Duration;

/// Limits of the contexts of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct ContextLimits {
    /// Users with a context; for one more, the least recently used context is closed.
    pub users: usize,
    /// A context that was not used for this time is closed.
    pub idle: Duration,
    /// How often idle contexts are looked for.
    pub check: Duration,
    /// Operations that may wait for the thread of the contexts; more are refused.
    pub waiting: usize,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            users: 64,
            idle: Duration::from_secs(300),
            check: Duration::from_secs(10),
            waiting: 10_000,
        }
    }
}
