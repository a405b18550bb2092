//! Whose turn it is: clients whose sockets may have requests, in the order in which they are read, and clients that have
//! more to write.
//!
//! To look up the names of a large request takes a shard milliseconds. Large requests, and the further ones of clients
//! that have named many PVs, share a quarter of the shard's time, so that other clients get their updates meanwhile.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// After a turn that takes long the next one begins when this many times its length has passed.
const REST: u32 = 3;

/// A turn takes longer than a third of this only where other programs have the processor.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Clients by their slots among the shard's clients.
#[derive(Debug)]
pub(super) struct Reading {
    waiting: VecDeque<usize>,
    /// Those whose turns take long.
    resting: VecDeque<usize>,
    rest_until: Instant,
}

impl Reading {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            resting: VecDeque::new(),
            rest_until: now,
        }
    }

    pub(super) fn push(&mut self, slot: usize) {
        self.waiting.push_back(slot);
    }

    /// Lets a client wait whose turn takes long.
    pub(super) fn rest(&mut self, slot: usize) {
        self.resting.push_back(slot);
    }

    /// Number of turns of one round.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.resting.len().min(1)
    }

    /// The next client; one that rested is first when its time has come.
    pub(super) fn next(&mut self, now: Instant) -> Option<usize> {
        if now >= self.rest_until
            && let Some(slot) = self.resting.pop_front()
        {
            return Some(slot);
        }
        self.waiting.pop_front()
    }

    /// Whether no turn that takes long may begin yet.
    pub(super) fn rests(&self, now: Instant) -> bool {
        now < self.rest_until
    }

    /// A turn that takes long has ended.
    pub(super) fn had_turn(&mut self, begun: Instant, ended: Instant) {
        let rest = ended.saturating_duration_since(begun) * REST;
        self.rest_until = ended + rest.min(LONGEST_REST);
    }

    /// When the next client may be read: at once, or later; `None` while no client waits.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if !self.waiting.is_empty() {
            return Some(now);
        }
        (!self.resting.is_empty()).then(|| self.rest_until.max(now))
    }
}

/// The turns of the shard's clients.
pub(super) struct Turns {
    pub(super) reading: Reading,
    /// Clients that have more to write than one turn allows.
    writing: VecDeque<usize>,
    /// Only acknowledgements have come since the last poll.
    only_acks: bool,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            reading: Reading::new(now),
            writing: VecDeque::new(),
            only_acks: false,
        }
    }

    /// The poll has ended, by events of sockets or without any.
    pub(super) fn woke(&mut self, by_events: bool) {
        self.only_acks = by_events;
    }

    /// Something has come: an acknowledgement, or what may be one, or something else.
    pub(super) fn saw(&mut self, is_ack: bool) {
        self.only_acks &= is_ack;
    }

    /// Whether nothing is urgent, so that further acknowledgements may gather.
    pub(super) fn may_wait(&self, now: Instant) -> bool {
        self.only_acks && self.reading.due(now).is_none() && self.writing.is_empty()
    }

    pub(super) fn ask_to_write(&mut self, slot: usize) {
        self.writing.push_back(slot);
    }

    /// Number of clients that wait to write.
    pub(super) fn writers(&self) -> usize {
        self.writing.len()
    }

    pub(super) fn next_writer(&mut self) -> Option<usize> {
        self.writing.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_take_long_have_a_quarter_of_the_time() {
        let begun = Instant::now();
        let after = |millis| begun + Duration::from_millis(millis);
        let mut reading = Reading::new(begun);
        reading.had_turn(begun, after(5));
        reading.rest(1);
        reading.rest(2);
        assert_eq!(reading.next(after(19)), None);
        assert_eq!(reading.due(after(19)), Some(after(20)));
        reading.push(3);
        assert_eq!(reading.due(after(19)), Some(after(19)));
        assert_eq!(reading.next(after(19)), Some(3), "others need not wait");
        assert_eq!(reading.next(after(20)), Some(1));
        reading.had_turn(after(20), after(5_020));
        assert!(reading.rests(after(6_019)) && !reading.rests(after(6_020)));
    }
}
