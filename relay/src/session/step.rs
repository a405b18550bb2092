//! Keeps a client in step with the ticks, without sockets or clocks.
//!
//! A client that is behind has no queue. It remembers the tick that it was last in step with. When
//! it can take bytes again, it is sent the latest parts of every PV that changed since: it skips
//! values that it was too slow for, but misses no change of alarm, limits, access or connection. A
//! client that requested updates at intervals falls behind and catches up in the same way.

use pvwire_schema::types::SkipCause;

/// A client's state towards the ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Gets every tick's frame.
    InStep,
    /// Gets no frames until its interval is over.
    Waiting,
    /// Gets no frames until it takes bytes again.
    Behind,
    /// Takes bytes again; its catch-up is being made.
    CatchingUp,
}

/// What to do with a tick's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Send it.
    Send,
    /// Leave it out: the client is behind.
    Skip,
    /// Leave it out: the client gets it at the end of its interval.
    Wait,
    /// Leave it out and send a frame without content: the client took everything but hasn't
    /// acknowledged it for too long, like a stalled browser tab.
    Probe,
}

/// One client's place in the stream.
#[derive(Debug)]
pub struct Session {
    step: Progress,
    /// It is updated at intervals.
    paced: bool,
    /// Why it isn't in step.
    cause: SkipCause,
    /// Last tick whose data the client was given.
    synced: u64,
    /// Last tick that needs an acknowledgement.
    last_sent: u64,
    /// First tick that was sent and is not acknowledged; 0 if there is no such tick.
    first_unacked: u64,
    /// It is behind because it doesn't acknowledge, not because its socket is full.
    unacknowledged: bool,
    /// It acknowledges what it has processed.
    acknowledges: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            step: Progress::InStep,
            paced: false,
            cause: SkipCause::Behind,
            synced: 0,
            last_sent: 0,
            first_unacked: 0,
            unacknowledged: false,
            acknowledges: true,
        }
    }
}

impl Session {
    /// Of a client whose protocol has no acknowledgements: it is behind when its socket takes nothing.
    #[must_use]
    pub fn without_acknowledgements() -> Self {
        Self {
            acknowledges: false,
            ..Self::default()
        }
    }

    /// Asks whether a tick's frame may be sent. `blocked`: bytes wait for the socket already.
    /// `overdue`: ticks up to this one should have been acknowledged by now.
    pub fn offer(&mut self, blocked: bool, overdue: u64) -> Offer {
        match self.step {
            Progress::InStep if !self.paced => self.look(blocked, overdue),
            Progress::InStep | Progress::Waiting => {
                self.step = Progress::Waiting;
                Offer::Wait
            }
            Progress::Behind | Progress::CatchingUp => Offer::Skip,
        }
    }

    /// Called when the interval of a waiting client is over. `Send` means that the client may be
    /// caught up, the other results are as for `offer`.
    pub fn due(&mut self, blocked: bool, overdue: u64) -> Offer {
        if self.step != Progress::Waiting {
            return Offer::Wait;
        }
        let offer = self.look(blocked, overdue);
        if offer == Offer::Send {
            self.fall_behind(SkipCause::Paced);
        }
        offer
    }

    fn look(&mut self, blocked: bool, overdue: u64) -> Offer {
        if blocked {
            self.fall_behind(SkipCause::Behind);
            return Offer::Skip;
        }
        if self.first_unacked != 0 && self.first_unacked <= overdue {
            self.fall_behind(SkipCause::Behind);
            self.unacknowledged = true;
            return Offer::Probe;
        }
        Offer::Send
    }

    fn fall_behind(&mut self, cause: SkipCause) {
        self.step = Progress::Behind;
        self.cause = cause;
    }

    /// Updates the client at intervals, or with every tick.
    pub fn pace(&mut self, paced: bool) {
        self.paced = paced;
        if !paced && self.step == Progress::Waiting {
            self.fall_behind(SkipCause::Paced);
        }
    }

    /// Why values are left out while the client isn't in step.
    #[must_use]
    pub fn cause(&self) -> SkipCause {
        self.cause
    }

    /// The socket refused a tick's frame before it took a byte of it.
    pub fn refused(&mut self) {
        self.fall_behind(SkipCause::Behind);
    }

    /// The socket took a frame of this tick, at least its first byte.
    pub fn sent(&mut self, tick: u64) {
        self.synced = tick;
        self.last_sent = tick;
        if self.first_unacked == 0 && self.acknowledges {
            self.first_unacked = tick;
        }
    }

    /// The client has processed everything up to this tick; returns whether that is new.
    pub fn acknowledged(&mut self, tick: u64) -> bool {
        if self.first_unacked == 0 || tick < self.first_unacked {
            return false;
        }
        if tick >= self.last_sent {
            self.first_unacked = 0;
            self.unacknowledged = false;
        } else {
            self.first_unacked = tick + 1;
        }
        true
    }

    /// The tick to catch up from, once, when the client can take bytes again.
    pub fn catch_up_from(&mut self, blocked: bool) -> Option<u64> {
        let ready = self.step == Progress::Behind && !blocked && !self.unacknowledged;
        ready.then(|| {
            self.step = Progress::CatchingUp;
            self.synced
        })
    }

    /// The catch-up to `tick` is sent.
    pub fn caught_up(&mut self, tick: u64) {
        self.step = Progress::InStep;
        self.sent(tick);
    }

    /// Last tick whose data the client was given.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Whether the client is behind because it acknowledges nothing.
    #[must_use]
    pub fn is_unacknowledged(&self) -> bool {
        self.unacknowledged
    }

    /// Whether it misses ticks until a catch-up brings it up to date.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        matches!(self.step, Progress::Behind | Progress::CatchingUp)
    }

    /// Whether the client gets every tick's frame at present.
    #[must_use]
    pub fn is_in_step(&self) -> bool {
        self.step == Progress::InStep && !self.paced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_that_keeps_up_gets_every_tick() {
        let mut session = Session::default();
        for tick in 1..100_u64 {
            assert_eq!(session.offer(false, tick.saturating_sub(10)), Offer::Send);
            session.sent(tick);
            session.acknowledged(tick);
        }
        assert_eq!(session.catch_up_from(false), None);
    }

    #[test]
    fn client_with_a_full_socket_is_caught_up_once() {
        let mut session = Session::default();
        session.sent(7);
        assert_eq!(session.offer(true, 0), Offer::Skip);
        assert_eq!(session.offer(false, 0), Offer::Skip, "still behind");
        assert_eq!(session.catch_up_from(true), None);
        assert_eq!(session.catch_up_from(false), Some(7));
        assert_eq!(session.catch_up_from(false), None, "asked for already");
        session.caught_up(12);
        assert_eq!(session.offer(false, 0), Offer::Send);
    }

    #[test]
    fn client_that_acknowledges_nothing_is_probed_once() {
        let mut session = Session::default();
        session.sent(7);
        assert_eq!(session.offer(false, 6), Offer::Send);
        session.sent(8);
        assert_eq!(session.offer(false, 7), Offer::Probe);
        assert_eq!(session.offer(false, 9), Offer::Skip);
        assert_eq!(session.catch_up_from(false), None);
        assert!(session.acknowledged(7));
        assert_eq!(session.catch_up_from(false), None, "8 isn't processed yet");
        assert!(session.acknowledged(8));
        assert_eq!(session.catch_up_from(false), Some(8));
    }

    #[test]
    fn paced_client_is_caught_up_at_the_end_of_its_interval() {
        let mut session = Session::default();
        session.sent(7);
        session.acknowledged(7);
        session.pace(true);
        assert_eq!(session.due(false, 0), Offer::Wait, "nothing was new");
        assert_eq!(session.offer(false, 0), Offer::Wait);
        assert_eq!(session.offer(false, 0), Offer::Wait);
        assert_eq!(session.catch_up_from(false), None);
        assert_eq!(session.due(false, 0), Offer::Send);
        assert_eq!(session.catch_up_from(false), Some(7));
        assert_eq!(session.cause(), SkipCause::Paced);
        session.caught_up(12);
        assert_eq!(session.offer(false, 0), Offer::Wait, "and so on");
        session.pace(false);
        assert_eq!(session.catch_up_from(false), Some(12), "at once");
        session.caught_up(13);
        assert_eq!(session.offer(false, 0), Offer::Send);
    }

    #[test]
    fn silent_paced_client_is_probed_at_the_end_of_its_interval() {
        let mut session = Session::default();
        session.pace(true);
        session.offer(false, 0);
        session.due(false, 0);
        session.catch_up_from(false);
        session.caught_up(8);
        assert_eq!(session.offer(false, 1_000), Offer::Wait);
        assert_eq!(session.due(false, 8), Offer::Probe);
        assert_eq!(session.catch_up_from(false), None);
        assert!(session.acknowledged(8));
        assert_eq!(session.catch_up_from(false), Some(8));
        assert_eq!(session.cause(), SkipCause::Behind);
    }

    #[test]
    fn paced_client_with_a_full_socket_is_behind_like_any_other() {
        let mut session = Session::default();
        session.pace(true);
        session.offer(true, 0);
        assert_eq!(session.due(true, 0), Offer::Skip);
        assert_eq!(session.catch_up_from(true), None);
        assert_eq!(session.catch_up_from(false), Some(0));
        assert_eq!(session.cause(), SkipCause::Behind);
    }

    #[test]
    fn client_that_has_nothing_to_acknowledge_is_not_overdue() {
        let mut session = Session::default();
        session.sent(7);
        session.acknowledged(7);
        assert_eq!(session.offer(false, 1_000), Offer::Send);
        assert!(!session.acknowledged(7), "no news");
    }
}
