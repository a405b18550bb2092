//! Readiness: whether the relay is starting, ready for clients, short of memory or stopping.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ops::log_queue;

/// Whether new clients should be sent to this relay. Ready means that the sources run, the port is bound,
/// and the relay is not draining. It never means that all PVs are connected, because then one dead IOC
/// would take all relays out of a Kubernetes Service.
#[derive(Debug, Default)]
pub struct Readiness {
    listening: AtomicBool,
    draining: AtomicBool,
    short_of_memory: AtomicBool,
}

/// Why no new clients should be sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The relay is starting.
    Starting,
    /// It is about to stop.
    Draining,
    /// It uses more memory than `max_memory_mib`, and refuses new clients until it uses less.
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

    /// Whether the relay is about to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether the relay uses more memory than `max_memory_mib`.
    pub fn set_short_of_memory(&self, is_short: bool) {
        self.short_of_memory.store(is_short, Ordering::Release);
    }

    /// Why new clients are refused; `None` when the relay is ready.
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

    /// Whether new clients are accepted.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.unready().is_none()
    }
}

/// Held by a thread that the relay can't run without.
///
/// When such a thread panics, the process aborts. Without ticks, every browser would show old values as
/// current ones; after an abort, browsers show that the relay is lost, and the service manager restarts it.
#[derive(Debug)]
pub struct Indispensable(pub &'static str);

impl Drop for Indispensable {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!(
                "the {} thread panicked: the relay aborts, because it can't run without this thread",
                self.0
            );
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
