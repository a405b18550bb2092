//! A sink that remembers events in their order.

use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::DEADLINE;

/// A sink that remembers all events.
pub(crate) struct Recorder<E> {
    events: Mutex<Vec<E>>,
    more: Condvar,
}

impl<E: Clone + Debug> Recorder<E> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            events: Mutex::default(),
            more: Condvar::default(),
        })
    }

    pub(super) fn push(&self, event: E) {
        self.events.lock().unwrap().push(event);
        self.more.notify_all();
    }

    /// How many events there are so far.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<E> {
        self.events.lock().unwrap().clone()
    }

    /// Waits for the first event from the one numbered `from` on that `found` accepts; returns its
    /// number and what `found` made of it.
    pub(crate) fn wait<T>(
        &self,
        from: usize,
        what: &str,
        mut found: impl FnMut(&E) -> Option<T>,
    ) -> (usize, T) {
        let deadline = Instant::now() + DEADLINE;
        let mut events = self.events.lock().unwrap();
        let mut next = from;
        loop {
            while next < events.len() {
                if let Some(result) = found(&events[next]) {
                    return (next, result);
                }
                next += 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} in {events:#?}");
            events = self.more.wait_timeout(events, left).unwrap().0;
        }
    }
}
