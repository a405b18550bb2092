//! Are there enough file descriptors for one more client?
//!
//! libca and pvxs open sockets when IOCs start, and libca ends the process when it gets none. So clients
//! are refused while some are left.

use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Kept for EPICS: no connection is taken that would leave less.
pub const KEPT_FOR_EPICS: usize = 64;

/// Kept for probes, metrics and status beside that: no client is taken that would leave less.
pub const KEPT_FOR_PROBES: usize = 32;

/// Kept of these for the operators' listener: no connection elsewhere is taken that would leave less.
pub const KEPT_FOR_OPERATORS: usize = 16;

/// How often open descriptors are counted while connections come.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The same while they are short, so that clients are taken again soon.
const COUNT_SHORT_EVERY: Duration = Duration::from_millis(50);

/// The file descriptors of this process.
#[derive(Debug)]
pub struct Descriptors {
    limit: usize,
    count: fn() -> io::Result<usize>,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    at: Instant,
    /// Free ones then, less the connections that came since.
    free: usize,
}

impl Descriptors {
    /// A process that may have this many.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self::counted_by(limit, open_now)
    }

    fn counted_by(limit: usize, count: fn() -> io::Result<usize>) -> Self {
        Self {
            limit,
            count,
            seen: Mutex::default(),
        }
    }

    /// How many are free, as far as known at this time.
    pub fn free(&self, now: Instant) -> usize {
        self.look(now, 0)
    }

    /// A connection was accepted: whether there is room for it beside what EPICS and, unless it came by
    /// their listener, operators may need.
    pub fn accepted(&self, is_operators: bool, now: Instant) -> bool {
        let kept = if is_operators { 0 } else { KEPT_FOR_OPERATORS };
        let has_room = self.look(now, 1) >= KEPT_FOR_EPICS + kept;
        if !has_room {
            // It is closed at once: however many are refused, they take nothing from those kept.
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(seen) = seen.as_mut() {
                seen.free += 1;
            }
        }
        has_room
    }

    /// Whether there is room for one more client.
    pub fn has_room(&self, now: Instant) -> bool {
        self.free(now) >= KEPT_FOR_EPICS + KEPT_FOR_PROBES
    }

    fn look(&self, now: Instant, accepted: usize) -> usize {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |seen: &&mut Seen| {
            let is_short = seen.free < KEPT_FOR_EPICS + KEPT_FOR_PROBES + accepted;
            let every = if is_short {
                COUNT_SHORT_EVERY
            } else {
                COUNT_EVERY
            };
            now.saturating_duration_since(seen.at) < every
        };
        if let Some(seen) = seen.as_mut().filter(is_current) {
            seen.free = seen.free.saturating_sub(accepted);
            return seen.free;
        }
        let free = match (self.count)() {
            Ok(open) => self.limit.saturating_sub(open),
            // Only Linux has the folder to count in; elsewhere the limit holds by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.limit,
            // None was left to count by.
            Err(_) => 0,
        };
        *seen = Some(Seen { at: now, free });
        free
    }
}

/// Descriptors that this process has open, but for the one that they are counted by.
fn open_now() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_count_until_the_next_look() {
        let descriptors = Descriptors::counted_by(1000, || Ok(900));
        let start = Instant::now();
        assert_eq!(descriptors.free(start), 100);
        assert!(descriptors.has_room(start));
        for _ in 0..5 {
            assert!(descriptors.accepted(false, start));
        }
        assert_eq!(descriptors.free(start), 95);
        assert!(!descriptors.has_room(start));
        for left in (80..95).rev() {
            assert!(descriptors.accepted(false, start), "{left}");
        }
        for _ in 0..100 {
            let is_taken = descriptors.accepted(false, start);
            assert!(!is_taken, "the rest is operators'");
        }
        for left in (64..80).rev() {
            assert!(descriptors.accepted(true, start), "{left}");
        }
        assert!(!descriptors.accepted(true, start), "the rest is EPICS's");
        assert!(descriptors.has_room(start + COUNT_SHORT_EVERY));
    }

    #[test]
    fn there_is_no_room_when_none_is_left_to_count_by() {
        let descriptors =
            Descriptors::counted_by(1000, || Err(io::ErrorKind::PermissionDenied.into()));
        assert!(!descriptors.accepted(true, Instant::now()));
        assert!(Descriptors::new(100_000).accepted(false, Instant::now()));
    }
}
