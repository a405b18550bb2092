//! Finds the PV whose later values break its server's connection.
//!
//! pvxs closes a server's connection at the first message that it can't decode, and doesn't report
//! which PV caused it. [`Suspects`](super::suspects) finds a PV whose first value does that. If a
//! connection breaks repeatedly after its PVs had values, half of these PVs move to a second
//! connection, in another context. The next break shows which half contains the PV, and that half
//! is divided again, until a single PV remains whose connection breaks while the other connection
//! does not.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Number of breaks within [`SPAN`] after which the PVs are divided. An IOC may have been restarted
/// once or twice.
const BREAKS: u32 = 3;
const SPAN: Duration = Duration::from_secs(60);

/// The monitors of a connection are notified of its loss one after the other, within this time. pvxs reconnects at once.
const BURST: Duration = Duration::from_millis(100);

const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LAST_PAUSE: Duration = Duration::from_secs(600);

/// One of the two connections to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    First,
    Second,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// The action after a break.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These monitors change sides.
    Move(Vec<u64>),
    /// The monitor with this id breaks the connection of this server: it must wait for this time.
    Hold(u64, String, Duration),
}

/// The breaks of each server. Times are passed in.
#[derive(Default)]
pub(super) struct Isolation {
    servers: HashMap<String, Server>,
    /// The last waiting time of each monitor that was found.
    pauses: HashMap<u64, Duration>,
}

#[derive(Default)]
struct Server {
    breaks: u32,
    last: Option<Instant>,
    /// One of these monitors was on every connection that broke; `None` before they are divided.
    candidates: Option<HashSet<u64>>,
    burst: Option<Burst>,
}

/// Monitors that have noticed the current break so far.
struct Burst {
    /// When the first one noticed it.
    begin: Instant,
    /// When the last one did: with many monitors pvxs takes its time.
    last: Instant,
    /// Those of each side.
    lost: [Vec<u64>; 2],
}

impl Burst {
    fn end(&self) -> Instant {
        self.last + BURST
    }
}

impl Isolation {
    /// The monitor was disconnected from its server after it had values.
    pub(super) fn broke(&mut self, id: u64, side: Side, server: String, at: Instant) {
        let server = self.servers.entry(server).or_default();
        let burst = server.burst.get_or_insert_with(|| Burst {
            begin: at,
            last: at,
            lost: Default::default(),
        });
        burst.last = burst.last.max(at);
        burst.lost[side as usize].push(id);
    }

    /// The monitor is closed.
    pub(super) fn closed(&mut self, id: u64) {
        self.pauses.remove(&id);
    }

    /// When [`steps`](Self::steps) must be called.
    pub(super) fn wake(&self) -> Option<Instant> {
        let bursts = self
            .servers
            .values()
            .filter_map(|server| server.burst.as_ref());
        bursts.map(Burst::end).min()
    }

    /// The actions after the breaks that all monitors have noticed. `is_connected` returns whether
    /// any monitor of this side is connected to this server, since before this time if one is given.
    pub(super) fn steps(
        &mut self,
        now: Instant,
        is_connected: impl Fn(&str, Side, Option<Instant>) -> bool,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for (name, server) in &mut self.servers {
            let Some(burst) = server.burst.take_if(|burst| burst.end() <= now) else {
                continue;
            };
            let [first, second] = burst.lost;
            // Both connections broke at once: the server is gone.
            let (side, mut lost) = match (first.is_empty(), second.is_empty()) {
                (false, true) => (Side::First, first),
                (true, false) => (Side::Second, second),
                _ => continue,
            };
            if is_connected(name, side, Some(burst.begin)) {
                // The connection holds: the server has closed channels, for example to change their types.
                continue;
            }
            // A monitor that was reconnected meanwhile may have lost that connection too.
            lost.sort_unstable();
            lost.dedup();
            let other_holds = is_connected(name, side.other(), None);
            match server.narrow(&lost, &self.pauses, other_holds, now) {
                Some(Found::One(id)) => {
                    *server = Server::default();
                    let pause = self.pauses.entry(id).or_default();
                    *pause = (*pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
                    steps.push(Step::Hold(id, name.clone(), *pause));
                }
                Some(Found::Half(half)) => steps.push(Step::Move(half)),
                None => {}
            }
        }
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < SPAN;
        self.servers.retain(|_, server| {
            server.burst.is_some() || server.last.as_ref().is_some_and(is_recent)
        });
        steps
    }
}

/// The conclusion from a break.
enum Found {
    /// The monitor that caused it.
    One(u64),
    /// Monitors that must change sides.
    Half(Vec<u64>),
}

impl Server {
    /// Counts a break that these monitors noticed.
    fn narrow(
        &mut self,
        lost: &[u64],
        found_before: &HashMap<u64, Duration>,
        other_holds: bool,
        now: Instant,
    ) -> Option<Found> {
        let before = self.last.replace(now);
        if before.is_none_or(|before| now.saturating_duration_since(before) >= SPAN) {
            (self.breaks, self.candidates) = (0, None);
        }
        self.breaks += 1;
        if self.breaks > 1
            && let Some(again) = lost.iter().find(|id| found_before.contains_key(id))
        {
            return Some(Found::One(*again));
        }
        let mut candidates: Vec<u64> = match &self.candidates {
            Some(candidates) => lost
                .iter()
                .copied()
                .filter(|id| candidates.contains(id))
                .collect(),
            None if self.breaks >= BREAKS => lost.to_vec(),
            None => return None,
        };
        if candidates.is_empty() {
            // The break had another cause.
            (self.breaks, self.candidates) = (0, None);
            return None;
        }
        self.candidates = Some(candidates.iter().copied().collect());
        if candidates.len() == 1 && other_holds {
            return Some(Found::One(candidates[0]));
        }
        // A single candidate with no other PV on its connection changes sides, to see whether the
        // break follows it.
        candidates.truncate(candidates.len().div_ceil(2));
        Some(Found::Half(candidates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with monitors, one of which breaks its connection repeatedly.
    struct Bench {
        isolation: Isolation,
        sides: HashMap<u64, Side>,
        now: Instant,
    }

    impl Bench {
        fn new(monitors: u64) -> Self {
            Self {
                isolation: Isolation::default(),
                sides: (0..monitors).map(|id| (id, Side::First)).collect(),
                now: Instant::now(),
            }
        }

        /// The connections of these sides break; returns the actions.
        fn breaks(&mut self, broken: &[Side]) -> Vec<Step> {
            self.now += Duration::from_secs(3);
            for (id, side) in &self.sides {
                if broken.contains(side) {
                    self.isolation
                        .broke(*id, *side, "server:5075".into(), self.now);
                }
            }
            self.now = self.isolation.wake().unwrap();
            let sides = &self.sides;
            let holds = |_: &str, side: Side, _: Option<Instant>| {
                !broken.contains(&side) && sides.values().any(|own| *own == side)
            };
            let steps = self.isolation.steps(self.now, holds);
            assert_eq!(self.isolation.wake(), None);
            for step in &steps {
                if let Step::Move(ids) = step {
                    for id in ids {
                        let side = self.sides.get_mut(id).unwrap();
                        *side = side.other();
                    }
                }
            }
            steps
        }

        /// Breaks the connection of this monitor until it is found; returns the number of breaks
        /// and the time it must wait.
        fn find(&mut self, id: u64) -> (u32, Duration) {
            for number in 1..100 {
                let side = self.sides[&id];
                for step in self.breaks(&[side]) {
                    if let Step::Hold(found, server, pause) = step {
                        assert_eq!((found, server.as_str()), (id, "server:5075"));
                        return (number, pause);
                    }
                }
            }
            panic!("monitor {id} was not found");
        }
    }

    #[test]
    fn monitor_that_breaks_its_connection_is_found() {
        for id in [0, 1, 500, 999] {
            let mut bench = Bench::new(1_000);
            let (breaks, pause) = bench.find(id);
            assert!(breaks <= BREAKS + 11, "{breaks}");
            assert_eq!(pause, FIRST_PAUSE);
            // The next time it is found sooner and waits longer.
            assert_eq!(bench.find(id), (2, 2 * FIRST_PAUSE));
        }
        assert!(Bench::new(2).find(1).0 <= BREAKS + 3);
    }

    #[test]
    fn server_that_is_restarted_is_no_reason() {
        let mut bench = Bench::new(10);
        for _ in 0..BREAKS {
            bench.breaks(&[Side::First]);
        }
        assert!(bench.sides.values().any(|side| *side == Side::Second));
        for _ in 0..50 {
            assert_eq!(bench.breaks(&[Side::First, Side::Second]), []);
        }
        let mut seldom = Bench::new(10);
        for _ in 0..50 {
            assert_eq!(seldom.breaks(&[Side::First]), []);
            seldom.now += SPAN;
        }
    }

    #[test]
    fn pv_whose_channel_the_server_closes_again_and_again_is_no_reason() {
        let mut bench = Bench::new(2);
        for _ in 0..50 {
            let server = "server:5075".to_owned();
            bench.isolation.broke(0, Side::First, server, bench.now);
            bench.now = bench.isolation.wake().unwrap();
            // The other one is on the same connection.
            let steps = bench
                .isolation
                .steps(bench.now, |_, side, _| side == Side::First);
            assert_eq!(steps, []);
        }
    }

    #[test]
    fn only_pv_of_a_server_is_never_held() {
        let mut bench = Bench::new(1);
        for _ in 0..50 {
            let side = bench.sides[&0];
            let steps = bench.breaks(&[side]);
            assert!(
                !steps.iter().any(|step| matches!(step, Step::Hold(..))),
                "{steps:?}"
            );
        }
    }
}
