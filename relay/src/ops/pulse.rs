//! Liveness of threads: when each thread last ran through its loop.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Pulses are measured from here.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time of a thread's last loop iteration.
#[derive(Debug)]
pub struct Pulse(AtomicU64);

impl Default for Pulse {
    /// The thread runs now.
    fn default() -> Self {
        let pulse = Self(AtomicU64::new(0));
        pulse.turned(Instant::now());
        pulse
    }
}

impl Pulse {
    /// The thread ran through its loop at this time.
    pub fn turned(&self, now: Instant) {
        let since = now.saturating_duration_since(*START);
        self.0.store(since.as_millis() as u64, Ordering::Relaxed);
    }

    /// Time since the last loop iteration.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(*START);
        since.saturating_sub(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulse_is_as_old_as_the_last_iteration() {
        let (pulse, now) = (Pulse::default(), Instant::now());
        assert!(pulse.age(now) < Duration::from_secs(1));
        let later = now + Duration::from_secs(30);
        assert!(pulse.age(later) > Duration::from_secs(29));
        pulse.turned(later);
        assert!(pulse.age(later) <= Duration::from_millis(1));
        assert_eq!(pulse.age(now), Duration::ZERO, "a clock read before it");
    }
}
