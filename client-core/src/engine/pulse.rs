//! Decides when to send acknowledgements and pings, and detects a relay that does not answer.

use std::time::{Duration, SystemTime};

use crate::ingest::Session;

/// After this time without a message the relay is pinged.
const QUIET: Duration = Duration::from_secs(2);

/// The relay is pinged at least this often.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// After this time without a message, and without an answer, the relay is reported as silent.
const NO_NEWS: Duration = Duration::from_secs(3);

/// A relay is not reported as silent before this time after a ping.
const ANSWER: Duration = Duration::from_millis(500);

/// After this time without an answer the connection counts as lost.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The relay has not answered for ten seconds: close the connection and connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the relay has not answered for {} s", PING_TIMEOUT.as_secs())]
pub struct NoAnswer;

/// The times of one connection.
#[derive(Debug)]
pub(super) struct Pulse {
    ack_interval: Duration,
    /// Whether a frame has advanced the tick since the last acknowledgement.
    owes_ack: bool,
    acked: SystemTime,
    /// When the connection began or the last message arrived.
    heard: SystemTime,
    /// Whether a message has ever arrived.
    has_heard: bool,
    /// When the connection began or the last ping was sent.
    asked: SystemTime,
    is_asking: bool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            ack_interval: Duration::ZERO,
            owes_ack: false,
            acked: SystemTime::UNIX_EPOCH,
            heard: SystemTime::UNIX_EPOCH,
            has_heard: false,
            asked: SystemTime::UNIX_EPOCH,
            is_asking: false,
        }
    }
}

impl Pulse {
    /// A connection was made; the relay's Hello is expected like the answer to a ping.
    pub(super) fn start(&mut self, now: SystemTime) {
        *self = Self {
            heard: if self.has_heard { self.heard } else { now },
            has_heard: self.has_heard,
            asked: now,
            is_asking: true,
            ..Self::default()
        };
    }

    /// The interval that the relay asked for.
    pub(super) fn acknowledge_every(&mut self, interval: Duration) {
        self.ack_interval = interval;
    }

    /// When the last message arrived.
    pub(super) fn heard(&self) -> Option<SystemTime> {
        self.has_heard.then_some(self.heard)
    }

    /// A message arrived.
    pub(super) fn heard_at(&mut self, now: SystemTime, moves_tick: bool) {
        self.heard = now;
        self.has_heard = true;
        self.owes_ack |= moves_tick;
        // Other messages may be queued before the answer: the relay is alive.
        self.is_asking = false;
    }

    /// The last ping was answered.
    pub(super) fn answered(&mut self) {
        self.is_asking = false;
    }

    /// Fails when nothing arrived for too long after a ping.
    pub(super) fn check(&mut self, now: SystemTime) -> Result<(), NoAnswer> {
        // The clock may have been set back.
        for time in [&mut self.acked, &mut self.heard, &mut self.asked] {
            *time = now.min(*time);
        }
        if self.is_asking && now >= self.asked + PING_TIMEOUT {
            return Err(NoAnswer);
        }
        Ok(())
    }

    /// Adds the acknowledgement and the ping that are due.
    pub(super) fn requests(
        &mut self,
        now: SystemTime,
        session: &mut Session,
        requests: &mut Vec<Vec<u8>>,
    ) {
        if self.owes_ack && now >= self.acked + self.ack_interval {
            self.owes_ack = false;
            self.acked = now;
            requests.push(session.ack());
        }
        if !self.is_asking && now >= self.next_ping() {
            self.is_asking = true;
            self.asked = now;
            let since = now.duration_since(SystemTime::UNIX_EPOCH);
            let time_ns = since.map_or(0, |since| since.as_nanos() as i64);
            requests.push(session.ping(time_ns));
        }
    }

    fn next_ping(&self) -> SystemTime {
        (self.asked + PING_INTERVAL).min(self.heard + QUIET)
    }

    /// The time of the next acknowledgement, ping, report of a silent relay or time-out.
    pub(super) fn due(&self, is_open: bool, is_silent: bool) -> SystemTime {
        let mut due = match (self.is_asking, is_open && !is_silent) {
            (true, true) => self.no_news(),
            (true, false) => self.asked + PING_TIMEOUT,
            (false, _) => self.next_ping(),
        };
        if self.owes_ack && is_open {
            due = due.min(self.acked + self.ack_interval);
        }
        due
    }

    /// When a relay that doesn't answer is reported as silent.
    fn no_news(&self) -> SystemTime {
        (self.heard + NO_NEWS).max(self.asked + ANSWER)
    }

    /// See `Engine::silent_since`.
    pub(super) fn silent_since(&self, now: SystemTime) -> Option<SystemTime> {
        (self.is_asking && now >= self.no_news()).then_some(self.heard)
    }
}
