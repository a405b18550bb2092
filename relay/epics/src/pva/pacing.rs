//! Paces the creation of monitors.
//!
//! An IOC that is asked for thousands of monitors at once answers many of them with "Monitor Create
//! implied error", and pvxs then gives those up. Therefore only a limited number of monitors wait
//! for their first value at a time, and refused ones are created again later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::memory::shrink;

/// With up to 4,000 no monitor of 30,000 was refused; with 1,000 they connect equally fast.
const MOST_AWAITED: usize = 1_000;
/// PVs without a server must not delay the others for ever.
const AWAITED_FOR: Duration = Duration::from_secs(2);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The order of creation. Times are passed in.
#[derive(Default)]
pub(super) struct Pacing {
    /// Monitors to create.
    waiting: VecDeque<u64>,
    /// Monitors created without a value yet, and since when.
    awaited: HashMap<u64, Instant>,
    /// All of `awaited` and some that are no longer awaited, oldest first.
    oldest: VecDeque<(Instant, u64)>,
    /// Refused monitors, and when to create them again.
    refused: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The last delay of each refused monitor.
    delays: HashMap<u64, Duration>,
}

impl Pacing {
    /// Adds a monitor to create.
    pub(super) fn add(&mut self, id: u64) {
        self.waiting.push_back(id);
    }

    /// The monitor to create now, if any. It is awaited from now on.
    pub(super) fn next(&mut self, now: Instant) -> Option<u64> {
        while let Some(&Reverse((due, id))) = self.refused.peek()
            && due <= now
        {
            self.refused.pop();
            self.waiting.push_back(id);
        }
        while let Some(&(since, id)) = self.oldest.front()
            && since + AWAITED_FOR <= now
        {
            self.oldest.pop_front();
            if self.awaited.get(&id) == Some(&since) {
                self.awaited.remove(&id);
            }
        }
        if self.awaited.len() >= MOST_AWAITED {
            return None;
        }
        let id = self.waiting.pop_front()?;
        self.awaited.insert(id, now);
        self.oldest.push_back((now, id));
        Some(id)
    }

    /// Its first value has arrived.
    pub(super) fn settled(&mut self, id: u64) {
        self.awaited.remove(&id);
        self.delays.remove(&id);
    }

    /// It was refused, or ended by the server.
    pub(super) fn failed(&mut self, id: u64, now: Instant) {
        self.awaited.remove(&id);
        let delay = self.delays.entry(id).or_default();
        *delay = (*delay * 2).clamp(FIRST_RETRY, LAST_RETRY);
        self.refused.push(Reverse((now + *delay, id)));
    }

    /// It was closed. [`next`](Self::next) may still return it.
    pub(super) fn closed(&mut self, id: u64) {
        self.awaited.remove(&id);
        self.delays.remove(&id);
        shrink(&mut self.awaited);
        shrink(&mut self.delays);
    }

    /// When to call [`next`](Self::next) if nothing happens before.
    pub(super) fn wake(&self) -> Option<Instant> {
        let retry = self.refused.peek().map(|&Reverse((due, _))| due);
        let room = (!self.waiting.is_empty())
            .then(|| self.oldest.front().map(|&(since, _)| since + AWAITED_FOR))
            .flatten();
        retry.into_iter().chain(room).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(pacing: &mut Pacing, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| pacing.next(now)).collect()
    }

    fn second() -> Duration {
        Duration::from_secs(1)
    }

    #[test]
    fn number_of_monitors_without_a_first_value_is_limited() {
        let (mut pacing, start) = (Pacing::default(), Instant::now());
        (0..1_010).for_each(|id| pacing.add(id));

        assert_eq!(create(&mut pacing, start).len(), MOST_AWAITED);
        pacing.settled(3);
        pacing.closed(4);
        assert_eq!(create(&mut pacing, start), [1_000, 1_001]);
    }

    #[test]
    fn absent_pvs_hold_the_others_up_for_two_seconds_only() {
        let (mut pacing, start) = (Pacing::default(), Instant::now());
        (0..1_010).for_each(|id| pacing.add(id));
        create(&mut pacing, start);

        assert_eq!(pacing.wake(), Some(start + AWAITED_FOR));
        assert_eq!(create(&mut pacing, start + second()), []);
        assert_eq!(create(&mut pacing, start + AWAITED_FOR).len(), 10);
        assert_eq!(pacing.wake(), None);
    }

    #[test]
    fn refused_one_is_created_again_ever_later_until_it_has_a_value() {
        let (mut pacing, mut now) = (Pacing::default(), Instant::now());
        pacing.add(7);
        assert_eq!(create(&mut pacing, now), [7]);

        for delay in [1, 2, 4, 8, 16, 30, 30] {
            pacing.failed(7, now);
            let due = now + delay * second();
            assert_eq!(pacing.wake(), Some(due));
            assert_eq!(create(&mut pacing, due - second() / 2), []);
            assert_eq!(create(&mut pacing, due), [7]);
            now = due;
        }
        pacing.settled(7);
        pacing.failed(7, now);
        assert_eq!(pacing.wake(), Some(now + second()));
    }
}
