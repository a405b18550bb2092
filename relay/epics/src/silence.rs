//! Channels that are not connected although a server has answered their search.
//!
//! The EPICS libraries wait long or for ever for such a server: one that accepts the connection and
//! says nothing, or whose host is gone before the connection is made. The PV's users are told which
//! server it is, and by Channel Access a server that connects no channel at all is left, so that
//! another one can be found.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use crate::memory::{MANY, shrink};

/// Time from the search of a name, or the loss of its connection, to the first check. A server that
/// works connects a channel much faster, and who reads a PV for half a second must be answered.
const FIRST_CHECK: Duration = Duration::from_millis(300);

/// Interval between checks of a channel whose server is known.
const INTERVAL: Duration = Duration::from_secs(5);

/// A server that has connected another channel within this time may only be busy with many.
const JUST_CONNECTED: Duration = Duration::from_millis(150);

/// Longest interval between checks of a name for which no server has answered.
const LONGEST: Duration = Duration::from_secs(30);

/// Time after which a silent server is left. One that connects other channels is only busy.
const LEFT_AFTER: Duration = Duration::from_secs(15);

/// Interval between two rounds of checks, which wake the thread.
const ROUND: Duration = Duration::from_millis(100);

/// The channels of one context that are not connected.
#[derive(Default)]
pub(crate) struct Unconnected {
    waiting: HashMap<u64, Waiting>,
    /// When they are checked, including some that were connected or closed meanwhile.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    next_round: Option<Instant>,
    /// Servers that have connected a channel lately.
    busy: HashMap<String, Instant>,
}

struct Waiting {
    added: Instant,
    due: Instant,
    interval: Duration,
    /// The server that has answered, and when that was seen first.
    server: Option<(String, Instant)>,
    /// The server was reported early.
    is_early: bool,
}

impl Step {
    /// What to report of the server.
    pub(crate) fn report(&self) -> Option<&'static str> {
        match self {
            Self::Wait | Self::SearchAgain => None,
            Self::ReportEarly => Some("has not connected it yet"),
            Self::Report => Some("then doesn't connect it"),
        }
    }
}

/// What to do with a channel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    /// Report that this server has not connected the channel yet.
    ReportEarly,
    /// Report that this server doesn't connect the channel.
    Report,
    /// Close the channel and search its name again.
    SearchAgain,
}

impl Unconnected {
    /// A channel is searched, or was lost and is searched by libca.
    pub(crate) fn add(&mut self, id: u64, now: Instant) {
        let due = now + FIRST_CHECK;
        let waiting = Waiting {
            added: now,
            due,
            interval: FIRST_CHECK,
            server: None,
            is_early: false,
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
    pub(crate) fn connected(&mut self, id: u64, server: &str, now: Instant) {
        self.closed(id);
        match self.busy.get_mut(server) {
            Some(since) => *since = now,
            None => {
                self.busy.insert(server.to_owned(), now);
            }
        }
    }

    /// A channel was closed: it needs no checks.
    pub(crate) fn closed(&mut self, id: u64) {
        self.waiting.remove(&id);
        shrink(&mut self.waiting);
        if self.due.len() > MANY.max(4 * self.waiting.len()) {
            let waiting = &self.waiting;
            self.due
                .retain(|Reverse((due, id))| waiting.get(id).is_some_and(|it| it.due == *due));
            self.due.shrink_to(2 * self.due.len());
        }
    }

    /// When the next checks are due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let Reverse((due, _)) = self.due.peek()?;
        Some(self.next_round.map_or(*due, |round| round.max(*due)))
    }

    /// The channels to check now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<u64> {
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
    pub(crate) fn checked(&mut self, id: u64, server: Option<String>, now: Instant) -> Step {
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return Step::Wait;
        };
        let is_early = now < waiting.added + INTERVAL;
        let is_busy = |server: &str, within| {
            let since = self.busy.get(server);
            since.is_some_and(|since| now < *since + within)
        };
        let mut step = Step::Wait;
        match (server, waiting.server.take()) {
            (Some(server), None) if is_early && is_busy(&server, JUST_CONNECTED) => {
                waiting.interval = FIRST_CHECK;
            }
            (Some(server), Some((known, since))) if server == known => {
                waiting.interval = INTERVAL;
                if now >= since + LEFT_AFTER && !is_busy(&server, LEFT_AFTER) {
                    step = Step::SearchAgain;
                } else if std::mem::take(&mut waiting.is_early) {
                    step = Step::Report;
                }
                waiting.server = Some((known, since));
            }
            (Some(server), _) => {
                waiting.interval = INTERVAL;
                waiting.server = Some((server, now));
                waiting.is_early = is_early;
                step = if is_early {
                    Step::ReportEarly
                } else {
                    Step::Report
                };
            }
            (None, _) => waiting.interval = (waiting.interval * 2).min(LONGEST),
        }
        waiting.due = now + waiting.interval;
        self.due.push(Reverse((waiting.due, id)));
        step
    }
}

/// Why a PV isn't connected whose server has answered a search, and what the server does.
pub(crate) fn silent_server(server: &str, what: &str) -> String {
    format!(
        "the server {server} answers searches for this PV and {what}: check that server, and firewalls on the way to it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps for channel 7, and their tenths of a second, when this server has it at the checks.
    fn steps(
        unconnected: &mut Unconnected,
        start: Instant,
        tenths: std::ops::Range<u64>,
        server: impl Fn(u64) -> Option<&'static str>,
    ) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        for tenth in tenths {
            let now = start + Duration::from_millis(100 * tenth);
            for id in unconnected.due(now) {
                let step = unconnected.checked(id, server(tenth).map(str::to_owned), now);
                if step != Step::Wait {
                    steps.push((tenth, step));
                }
            }
        }
        steps
    }

    #[test]
    fn silent_server_is_reported_at_once_and_then_left() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        let steps = steps(&mut unconnected, start, 0..170, |_| Some("ioc:5064"));
        assert_eq!(
            steps,
            [
                (3, Step::ReportEarly),
                (53, Step::Report),
                (153, Step::SearchAgain)
            ]
        );
    }

    #[test]
    fn server_that_answers_a_later_search_is_reported() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        let steps = steps(&mut unconnected, start, 0..100, |tenth| {
            (tenth >= 4).then_some("ioc:5064")
        });
        assert_eq!(steps, [(9, Step::ReportEarly), (59, Step::Report)]);
    }

    #[test]
    fn server_that_is_busy_with_other_channels_is_reported_late_and_not_left() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        let mut all = Vec::new();
        for tenth in 0..600 {
            let now = start + Duration::from_millis(100 * tenth);
            unconnected.connected(100 + tenth, "ioc:5064", now);
            all.extend(steps(&mut unconnected, start, tenth..tenth + 1, |_| {
                Some("ioc:5064")
            }));
        }
        assert_eq!(all, [(51, Step::Report)]);
    }

    #[test]
    fn name_without_a_server_is_checked_ever_less_often() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        unconnected.add(7, start);
        let mut checks = Vec::new();
        for tenth in 0..1_200 {
            let now = start + Duration::from_millis(100 * tenth);
            for id in unconnected.due(now) {
                checks.push(tenth);
                unconnected.checked(id, None, now);
            }
        }
        assert_eq!(checks, [3, 9, 21, 45, 93, 189, 381, 681, 981]);
    }

    #[test]
    fn checks_of_closed_channels_are_forgotten_before_they_are_due() {
        let (mut unconnected, start) = (Unconnected::default(), Instant::now());
        for id in 0..10_000 {
            unconnected.add(id, start);
        }
        for id in 1..10_000 {
            unconnected.closed(id);
        }
        assert!(unconnected.due.len() <= MANY && unconnected.due.capacity() <= 4 * MANY);
        assert_eq!(unconnected.due(start + FIRST_CHECK), [0]);
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
