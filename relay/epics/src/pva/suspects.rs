//! Finds the PV whose first value can't be decoded.
//!
//! pvxs closes the connection to a server at the first message that it can't decode, which
//! disconnects all PVs of that server, and reconnects: without end. It doesn't report which PV
//! caused it. Therefore a monitor whose connection breaks twice before its first value arrives is
//! suspended, and its value is fetched alone on another connection. If that breaks too, this PV is
//! the cause, and it is tried again at growing intervals.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Number of breaks before the first value after which a monitor is checked. An IOC may just have
/// been restarted.
const MOST_BREAKS: u32 = 2;

/// Maximum number of passed checks: a PV whose value can be fetched, but whose updates break the
/// connection each time, is not monitored.
const MOST_PASSES: u32 = 3;

/// pvxs waits 2 s before it reconnects to a server.
const CHECK_WITHIN: Duration = Duration::from_secs(5);

const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LAST_PAUSE: Duration = Duration::from_secs(600);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The value was decoded, or refused.
    Good,
    /// The connection broke.
    Breaks,
    /// The server was not available.
    Unknown,
}

/// Monitors that may have broken a connection. Times are passed in.
#[derive(Default)]
pub(super) struct Suspects {
    known: HashMap<u64, Suspect>,
    waiting: VecDeque<u64>,
    /// When the monitors that were found are checked again.
    held: BinaryHeap<Reverse<(Instant, u64)>>,
    checking: Option<(Instant, u64)>,
}

struct Suspect {
    server: String,
    /// Number of consecutive connections that broke before a value arrived.
    breaks: u32,
    /// Number of checks passed since then.
    passes: u32,
    pause: Duration,
}

impl Suspect {
    fn new() -> Self {
        Self {
            server: String::new(),
            breaks: 0,
            passes: 0,
            pause: Duration::ZERO,
        }
    }
}

impl Suspects {
    /// The connection to its server broke before its first value arrived. Returns whether to
    /// suspend it until it is checked.
    pub(super) fn broke(&mut self, id: u64, server: String) -> bool {
        let suspect = self.known.entry(id).or_insert_with(Suspect::new);
        suspect.server = server;
        suspect.breaks += 1;
        if suspect.breaks < MOST_BREAKS {
            return false;
        }
        suspect.breaks = 0;
        self.waiting.push_back(id);
        true
    }

    /// Its values are refused although pvxs can decode them: it is tried again later.
    pub(super) fn refused(&mut self, id: u64, now: Instant) {
        let suspect = self.known.entry(id).or_insert_with(Suspect::new);
        suspect.pause = (suspect.pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
        let pause = suspect.pause;
        self.hold(id, pause, now);
    }

    /// It is checked after this time, and then monitored again if its value can be fetched.
    pub(super) fn hold(&mut self, id: u64, pause: Duration, now: Instant) {
        self.known.entry(id).or_insert_with(Suspect::new);
        self.held.push(Reverse((now + pause, id)));
    }

    /// Its first value has arrived.
    pub(super) fn settled(&mut self, id: u64) {
        self.known.remove(&id);
    }

    /// It was closed.
    pub(super) fn closed(&mut self, id: u64) {
        self.known.remove(&id);
        if self.checking.is_some_and(|(_, checked)| checked == id) {
            self.checking = None;
        }
    }

    /// The monitor to check now, and its server; one at a time.
    pub(super) fn next(&mut self, now: Instant) -> Option<(u64, String)> {
        while let Some(&Reverse((due, id))) = self.held.peek()
            && due <= now
        {
            self.held.pop();
            self.waiting.push_back(id);
        }
        while self.checking.is_none() {
            let id = self.waiting.pop_front()?;
            if let Some(suspect) = self.known.get(&id) {
                self.checking = Some((now + CHECK_WITHIN, id));
                return Some((id, suspect.server.clone()));
            }
        }
        None
    }

    /// Whether the answer of the current check is late.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.checking.is_some_and(|(until, _)| until <= now)
    }

    /// A check has ended. If the monitor is still open, returns its server if its value can't be
    /// read, or none if it may be monitored.
    pub(super) fn checked(
        &mut self,
        id: u64,
        verdict: Verdict,
        now: Instant,
    ) -> Option<Option<String>> {
        if self.checking.is_none_or(|(_, checked)| checked != id) {
            return None;
        }
        self.checking = None;
        let suspect = self.known.get_mut(&id)?;
        suspect.passes += u32::from(verdict == Verdict::Good);
        let holds = verdict == Verdict::Breaks || suspect.passes >= MOST_PASSES;
        if !holds {
            return Some(None);
        }
        suspect.passes = 0;
        suspect.pause = (suspect.pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
        self.held.push(Reverse((now + suspect.pause, id)));
        Some(Some(suspect.server.clone()))
    }

    /// When to check again if nothing happens before.
    pub(super) fn wake(&self) -> Option<Instant> {
        let check = self.checking.map(|(until, _)| until);
        let held = self.held.peek().map(|&Reverse((due, _))| due);
        check.into_iter().chain(held).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> String {
        "server:5075".to_owned()
    }

    #[test]
    fn monitor_that_breaks_twice_is_checked_and_held_longer() {
        let (mut suspects, mut now) = (Suspects::default(), Instant::now());
        assert!(!suspects.broke(1, server()));
        assert_eq!(suspects.next(now), None);
        assert!(suspects.broke(1, server()));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            assert_eq!(suspects.next(now), Some((1, server())));
            assert_eq!(suspects.next(now), None, "one at a time");
            let held = suspects.checked(1, Verdict::Breaks, now);
            assert_eq!(held, Some(Some(server())));
            assert_eq!(suspects.next(now), None);
            let wake = suspects.wake().unwrap();
            pauses.push((wake - now).as_secs());
            now = wake;
        }
        assert_eq!(pauses, [30, 60, 120, 240, 480, 600]);
    }

    #[test]
    fn monitor_that_passes_checks_is_watched_only_so_long() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        let mut watched = 0;
        loop {
            while !suspects.broke(1, server()) {}
            suspects.next(now).unwrap();
            match suspects.checked(1, Verdict::Good, now) {
                Some(None) => watched += 1,
                other => break assert_eq!(other, Some(Some(server()))),
            }
        }
        assert_eq!(watched, 2);
    }

    #[test]
    fn absent_server_accuses_no_monitor_and_a_value_clears() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        while !suspects.broke(1, server()) {}
        suspects.next(now).unwrap();
        assert!(suspects.is_late(now + CHECK_WITHIN));
        assert_eq!(suspects.checked(1, Verdict::Unknown, now), Some(None));
        assert!(!suspects.broke(1, server()));
        suspects.settled(1);
        assert!(!suspects.broke(1, server()));
        // Closed during its check.
        assert!(suspects.broke(1, server()));
        suspects.next(now).unwrap();
        suspects.closed(1);
        assert_eq!(suspects.checked(1, Verdict::Breaks, now), None);
        assert_eq!(suspects.wake(), None);
    }
}
