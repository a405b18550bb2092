//! Monitors that their servers refuse: a server that doesn't answer the next attempt is gone.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A server that has the PV answers an attempt within this time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The refused monitors, by id.
#[derive(Default)]
pub(super) struct Refusals {
    /// When the answer to the present attempt is due; `None` between two attempts.
    due: HashMap<u64, Option<Instant>>,
    /// The same in order, with some that were answered.
    order: VecDeque<(Instant, u64)>,
}

impl Refusals {
    /// The server refused the monitor.
    pub(super) fn answered(&mut self, id: u64) {
        self.due.insert(id, None);
    }

    /// The monitor isn't refused any more, or closed.
    pub(super) fn closed(&mut self, id: u64) {
        self.due.remove(&id);
    }

    /// A monitor is tried again.
    pub(super) fn asked(&mut self, id: u64, now: Instant) {
        if let Some(due) = self.due.get_mut(&id) {
            let at = now + ANSWERS_WITHIN;
            *due = Some(at);
            self.order.push_back((at, id));
        }
    }

    /// Removes and returns the monitors whose servers didn't answer in time.
    pub(super) fn lost(&mut self, now: Instant) -> Vec<u64> {
        let mut lost = Vec::new();
        while let Some((at, id)) = self.order.pop_front_if(|(at, _)| *at <= now) {
            if self.due.get(&id) == Some(&Some(at)) {
                self.due.remove(&id);
                lost.push(id);
            }
        }
        lost
    }

    /// When to look next.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.order.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_leaves_an_attempt_unanswered_is_lost_once() {
        let start = Instant::now();
        let mut refusals = Refusals::default();
        refusals.asked(1, start);
        assert_eq!(refusals.wake(), None, "only what was refused");
        for id in [1, 2, 3] {
            refusals.answered(id);
            refusals.asked(id, start);
        }
        refusals.answered(2);
        refusals.closed(3);
        assert!(refusals.lost(start).is_empty());
        assert_eq!(refusals.lost(start + ANSWERS_WITHIN), [1]);
        assert!(refusals.lost(start + ANSWERS_WITHIN).is_empty());
        assert_eq!(refusals.wake(), None);
    }
}
