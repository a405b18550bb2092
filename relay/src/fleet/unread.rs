//! Warnings of messages that can't be read: one a minute, with the number of those between.

use std::fmt::Display;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);

/// Messages of one kind, which a relay that shares no version with this one may send twice a second.
#[derive(Debug, Default)]
pub(super) struct Unread {
    last: Option<Instant>,
    suppressed: u64,
}

impl Unread {
    /// One more message couldn't be read.
    pub(super) fn warn(&mut self, what: impl Display, now: Instant) {
        if (self.last).is_some_and(|last| now.duration_since(last) < EVERY) {
            self.suppressed += 1;
            return;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.suppressed) {
            0 => log::warn!("{what}"),
            suppressed => log::warn!("{what} ({suppressed} more since the last warning)"),
        }
    }
}
