//! Keeps file descriptors free for EPICS and for operators.
//!
//! libca and pvxs open sockets when IOCs start, and libca ends the process when it gets none. Clients are
//! therefore refused before the last descriptors are used.

use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Kept for EPICS: a connection that would leave fewer is refused.
pub const KEPT_FOR_EPICS: usize = 64;

/// Also kept for probes, metrics and status: a client that would leave fewer is refused.
pub const KEPT_FOR_PROBES: usize = 32;

/// The part of these that is kept for the operators' listener.
pub const KEPT_FOR_OPERATORS: usize = 16;

/// How often open descriptors are counted while connections come.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// How often while they are short, so that clients are accepted again soon.
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
    /// Descriptors free then, less the connections accepted since.
    free: usize,
}

impl Descriptors {
    /// A process that may open this many.
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

    /// Free descriptors, estimated from the last count.
    pub fn free(&self, now: Instant) -> usize {
        self.look(now, 0)
    }

    /// Counts an accepted connection. Returns whether it leaves enough for EPICS and, unless it came by the
    /// operators' listener, for operators.
    pub fn accepted(&self, is_operators: bool, now: Instant) -> bool {
        let kept = if is_operators { 0 } else { KEPT_FOR_OPERATORS };
        let has_room = self.look(now, 1) >= KEPT_FOR_EPICS + kept;
        if !has_room {
            // It is closed at once, so refused connections use none of the kept descriptors.
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(seen) = seen.as_mut() {
                seen.free += 1;
            }
        }
        has_room
    }

    /// Whether one more client leaves enough.
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
            // Only Linux has /proc/self/fd; elsewhere only the system's limit holds.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.limit,
            // No descriptor was free to count with.
            Err(_) => 0,
        };
        *seen = Some(Seen { at: now, free });
        free
    }
}

/// Open descriptors of this process, without the one that counts them.
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
    fn there_is_no_room_when_no_descriptor_is_left_to_count() {
        let descriptors =
            Descriptors::counted_by(1000, || Err(io::ErrorKind::PermissionDenied.into()));
        assert!(!descriptors.accepted(true, Instant::now()));
        assert!(Descriptors::new(100_000).accepted(false, Instant::now()));
    }
}
