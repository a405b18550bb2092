//! How far has the relay come in starting or stopping?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ops::log_queue;

/// Whether traffic should be sent here. Ready means that the sources are up, the port is bound and
/// the relay isn't draining; never that all PVs are connected, or one dead IOC would empty a
/// Service.
#[derive(Debug, Default)]
pub struct Readiness {
    listening: AtomicBool,
    draining: AtomicBool,
    short_of_memory: AtomicBool,
}

/// Why no traffic should be sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The relay is starting.
    Starting,
    /// It is about to stop.
    Draining,
    /// It uses more memory than it may, and takes no new clients until it uses less.
    ShortOfMemory,
}

impl Readiness {
    /// The port is bound and the sources run.
    pub fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// The relay is about to stop.
    pub fn draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether it is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The relay uses more memory than it may, or doesn't any more.
    pub fn set_short_of_memory(&self, is_short: bool) {
        self.short_of_memory.store(is_short, Ordering::Release);
    }

    /// Why new clients are not welcome, if they aren't.
    #[must_use]
    pub fn unready(&self) -> Option<Unready> {
        if !self.listening.load(Ordering::Acquire) {
            Some(Unready::Starting)
        } else if self.is_draining() {
            Some(Unready::Draining)
        } else if self.short_of_memory.load(Ordering::Acquire) {
            Some(Unready::ShortOfMemory)
        } else {
            None
        }
    }

    /// Whether new clients are welcome.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.unready().is_none()
    }
}

/// Held by a thread that the relay can't do without.
///
/// When such a thread panics the process ends: a relay that goes on without its ticks would let
/// every browser take old values for new ones. Clients see a lost relay instead, which is true, and
/// whoever runs the relay starts it again.
#[derive(Debug)]
pub struct Indispensable(pub &'static str);

impl Drop for Indispensable {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!("the {} thread panicked; the relay can't go on", self.0);
            log_queue::flush(Duration::from_secs(1));
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_between_listening_and_draining() {
        let readiness = Readiness::default();
        assert!(!readiness.is_ready());
        assert_eq!(readiness.unready(), Some(Unready::Starting));
        readiness.listening();
        assert!(readiness.is_ready());
        readiness.set_short_of_memory(true);
        assert_eq!(readiness.unready(), Some(Unready::ShortOfMemory));
        readiness.set_short_of_memory(false);
        assert!(readiness.is_ready());
        readiness.draining();
        assert!(!readiness.is_ready());
    }
}
