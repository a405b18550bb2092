//! Keeps file descriptors free for EPICS and for operators.
//!
//! libca and pvxs open sockets when IOCs start, and libca ends the process when it gets none. Clients are
//! therefore refused before the last descriptors are used.

use std::fs;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    seen: Mutex<Seen>,
}

/// What the descriptor of an accepted connection may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Everything.
    Clients,
    /// Probes, metrics and status; a client only once others have left.
    Probes,
}

/// The last count.
#[derive(Debug, Default)]
struct Seen {
    /// `None` before the first.
    at: Option<Instant>,
    /// Descriptors free then, less those that were taken since.
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
        self.look(now, 0).free
    }

    /// Counts an accepted connection, if it leaves enough for EPICS and, unless it came by the operators'
    /// listener, for operators.
    pub fn accepted(&self, is_operators: bool, now: Instant) -> Option<Room> {
        let kept = if is_operators { 0 } else { KEPT_FOR_OPERATORS };
        let mut seen = self.look(now, 1);
        if seen.free < KEPT_FOR_EPICS + kept {
            // It is closed at once, so refused connections use none of the kept descriptors.
            seen.free += 1;
            return None;
        }
        Some(if seen.free >= KEPT_FOR_EPICS + KEPT_FOR_PROBES {
            Room::Clients
        } else {
            Room::Probes
        })
    }

    /// Whether one more client leaves enough.
    pub fn has_room(&self, now: Instant) -> bool {
        self.free(now) >= KEPT_FOR_EPICS + KEPT_FOR_PROBES
    }

    /// The descriptors that are free after `accepted` further ones were opened.
    fn look(&self, now: Instant, accepted: usize) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_short = seen.free < KEPT_FOR_EPICS + KEPT_FOR_PROBES + accepted;
        let every = if is_short {
            COUNT_SHORT_EVERY
        } else {
            COUNT_EVERY
        };
        let is_current = |at: Instant| now.saturating_duration_since(at) < every;
        if seen.at.is_some_and(is_current) {
            seen.free = seen.free.saturating_sub(accepted);
            return seen;
        }
        seen.at = Some(now);
        seen.free = match (self.count)() {
            Ok(open) => self.limit.saturating_sub(open),
            // Only Linux has /proc/self/fd; elsewhere only the system's limit holds.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.limit,
            // No descriptor was free to count with.
            Err(_) => 0,
        };
        seen
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
        for left in (95..100).rev() {
            let room = if left >= 96 {
                Room::Clients
            } else {
                Room::Probes
            };
            assert_eq!(descriptors.accepted(false, start), Some(room), "{left}");
        }
        assert_eq!(descriptors.free(start), 95);
        assert!(!descriptors.has_room(start));
        for left in (80..95).rev() {
            let room = descriptors.accepted(false, start);
            assert_eq!(room, Some(Room::Probes), "{left}");
        }
        for _ in 0..100 {
            let room = descriptors.accepted(false, start);
            assert_eq!(room, None, "the rest is operators'");
        }
        for left in (64..80).rev() {
            assert!(descriptors.accepted(true, start).is_some(), "{left}");
        }
        assert_eq!(descriptors.accepted(true, start), None, "it is EPICS's");
        assert!(descriptors.has_room(start + COUNT_SHORT_EVERY));
    }

    #[test]
    fn there_is_no_room_when_no_descriptor_is_left_to_count() {
        let descriptors =
            Descriptors::counted_by(1000, || Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(descriptors.accepted(true, Instant::now()), None);
        let room = Descriptors::new(100_000).accepted(false, Instant::now());
        assert_eq!(room, Some(Room::Clients));
    }
}
