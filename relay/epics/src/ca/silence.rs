//! Channels that are not connected although a server has answered their search.
//!
//! libca waits for such a server for ever: one that accepts the connection and says nothing, or
//! whose host is gone before the connection is made. The PV's users are told which server it is, and
//! a server that connects no channel at all is left, so that another one can be found.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

/// Time from the search of a name, or the loss of its connection, to the first check.
const FIRST_CHECK: Duration = Duration::from_secs(5);

/// Longest interval between checks of a name for which no server has answered.
const LONGEST: Duration = Duration::from_secs(30);

/// Time after which a silent server is left. One that connects other channels is only busy.
const LEFT_AFTER: Duration = Duration::from_secs(15);

/// Interval between two rounds of checks, which wake the thread.
const ROUND: Duration = Duration::from_secs(1);

/// The channels of one context that are not connected.
#[derive(Default)]
pub(super) struct Unconnected {
    waiting: HashMap<u64, Waiting>,
    /// When they are checked, including some that were connected or closed meanwhile.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    next_round: Option<Instant>,
    /// Servers that have connected a channel lately.
    busy: HashMap<String, Instant>,
}

struct Waiting {
    due: Instant,
    interval: Duration,
    /// The server that has answered, and when that was seen first.
    server: Option<(String, Instant)>,
}

/// What to do with a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    /// Report this server.
    Report,
    /// Close the channel and search its name again.
    SearchAgain,
}

impl Unconnected {
    /// A channel is searched, or was lost and is searched by libca.
    pub(super) fn add(&mut self, id: u64, now: Instant) {
        let due = now + FIRST_CHECK;
        let waiting = Waiting {
            due,
            interval: FIRST_CHECK,
            server: None,
        };
        if self
            .waiting
            .insert(id, waiting)
            .is_none_or(|old| old.due != due)
        {
            self.due.push(Reverse((due, id)));
        }
    }

    /// A channel was connected by this server.
    pub(super) fn connected(&mut self, id: u64, server: &str, now: Instant) {
        self.waiting.remove(&id);
        match self.busy.get_mut(server) {
            Some(since) => *since = now,
            None => {
                self.busy.insert(server.to_owned(), now);
            }
        }
    }

    /// A channel was closed.
    pub(super) fn closed(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// When the next checks are due.
    pub(super) fn next(&self) -> Option<Instant> {
        let Reverse((due, _)) = self.due.peek()?;
        Some(self.next_round.map_or(*due, |round| round.max(*due)))
    }

    /// The channels to check now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<u64> {
        let mut ids = Vec::new();
        if self.next().is_none_or(|next| now < next) {
            return ids;
        }
        self.next_round = Some(now + ROUND);
        self.busy.retain(|_, since| now < *since + LEFT_AFTER);
        while let Some(&Reverse((due, id))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            if self
                .waiting
                .get(&id)
                .is_some_and(|waiting| waiting.due == due)
            {
                ids.push(id);
            }
        }
        if self.due.is_empty() {
            // Frees the memory of a burst.
            self.due = BinaryHeap::new();
        }
        ids
    }

    /// A channel was checked: `server` has answered its search.
    pub(super) fn checked(&mut self, id: u64, server: Option<String>, now: Instant) -> Step {
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return Step::Wait;
        };
        let before = waiting.server.take();
        let mut step = Step::Wait;
        match (server, before) {
            (Some(server), Some((known, since))) if server == known => {
                if now >= since + LEFT_AFTER && !self.busy.contains_key(&server) {
                    step = Step::SearchAgain;
                }
                waiting.server = Some((known, since));
            }
            (Some(server), _) => {
                waiting.interval = FIRST_CHECK;
                waiting.server = Some((server, now));
                step = Step::Report;
            }
            (None, _) => waiting.interval = (waiting.interval * 2).min(LONGEST),
        }
        waiting.due = now + waiting.interval;
        self.due.push(Reverse((waiting.due, id)));
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps for channel 7 when the given servers hold it at the check of each second.
    fn steps(
        unconnected: &mut Unconnected,
        start: Instant,
        seconds: std::ops::Range<u64>,
        server: impl Fn(u64) -> Option<&'static str>,
    ) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        for second in seconds {
            let now = start + Duration::from_secs(second);
            for id in unconnected.due(now) {
                let step = unconnected.checked(id, server(second).map(str::to_owned), now);
                if step != Step::Wait {
                    steps.push((second, step));
                }
            }
        }
        steps
    }

    #[test]
    fn silent_server_is_reported_and_then_left() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        let steps = steps(&mut unconnected, start, 0..21, |_| Some("ioc:5064"));
        assert_eq!(steps, [(5, Step::Report), (20, Step::SearchAgain)]);
    }

    #[test]
    fn server_that_connects_other_channels_is_not_left() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            unconnected.connected(100 + second, "ioc:5064", now);
            let found = steps(&mut unconnected, start, second..second + 1, |_| {
                Some("ioc:5064")
            });
            assert!(found.iter().all(|(_, step)| *step == Step::Report));
        }
    }

    #[test]
    fn name_without_a_server_is_checked_ever_less_often() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        let mut checks = Vec::new();
        for second in 0..120 {
            let now = start + Duration::from_secs(second);
            for id in unconnected.due(now) {
                checks.push(second);
                unconnected.checked(id, None, now);
            }
        }
        assert_eq!(checks, [5, 15, 35, 65, 95]);
    }

    #[test]
    fn connected_or_closed_channel_needs_no_check() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        unconnected.add(8, start);
        unconnected.connected(7, "ioc:5064", start);
        unconnected.closed(8);
        assert_eq!(unconnected.due(start + FIRST_CHECK), []);
        assert_eq!(unconnected.next(), None);
        // Lost and found again before the first check is due.
        unconnected.add(7, start + FIRST_CHECK);
        assert_eq!(unconnected.due(start + FIRST_CHECK * 2), [7]);
    }
}
