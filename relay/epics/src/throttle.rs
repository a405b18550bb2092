//! Limits how often a warning that an IOC can provoke is logged.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Long enough that a flood does not fill a disk, short enough that the log does not look frozen.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets one warning per interval pass and counts the others.
pub(crate) struct Throttle(Mutex<State>);

struct State {
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State {
            last: None,
            held_back: 0,
        }))
    }

    /// Returns whether to log at `now`, and if so, how many warnings were suppressed since the last
    /// one.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().ok()?;
        if state.last.is_some_and(|last| now < last + INTERVAL) {
            state.held_back += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.held_back))
    }

    /// Logs a warning unless one was logged within the interval.
    pub(crate) fn warn(&self, message: std::fmt::Arguments<'_>) {
        match self.admit(Instant::now()) {
            Some(0) => log::warn!("{message}"),
            Some(held_back) => log::warn!("{message} (and {held_back} more held back)"),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_logged_once_an_interval_and_counted() {
        let throttle = Throttle::new();
        let start = Instant::now();

        assert_eq!(throttle.admit(start), Some(0));
        assert_eq!(throttle.admit(start), None);
        assert_eq!(throttle.admit(start + INTERVAL / 2), None);
        assert_eq!(throttle.admit(start + INTERVAL), Some(2));
        assert_eq!(throttle.admit(start + 2 * INTERVAL), Some(0));
    }
}
