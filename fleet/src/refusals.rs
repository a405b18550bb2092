//! What a member refuses of what comes over the bus: counted by reason, and logged at most once a minute for each.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a reason is logged.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This member has a key, and the message has no signature.
    #[error("it has no signature")]
    Unsigned,
    /// The signature isn't one of the site's keys.
    #[error("its signature is not one of this site's bus_key")]
    Signature,
    /// It was signed at a time that is too far from this machine's.
    #[error("it was signed too long ago, or the clocks of the two machines differ")]
    Clock,
    /// It has come before, or a later one has.
    #[error("it was sent before")]
    Repeated,
    /// It speaks for this member, which did not send it.
    #[error("this relay did not send it")]
    OwnId,
    /// A member says that it has run for longer than it can have.
    #[error("the relay can't have run for so long")]
    Uptime,
    /// It names an address for clients whose host is not among `member_hosts`.
    #[error("clients must not be sent to this host (member_hosts)")]
    Host,
    /// Its sender has not announced itself.
    #[error("its sender has not announced itself")]
    Stranger,
    /// Its sender has used up a budget.
    #[error("its sender asks for too much")]
    Budget,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Unsigned,
        Self::Signature,
        Self::Clock,
        Self::Repeated,
        Self::OwnId,
        Self::Uptime,
        Self::Host,
        Self::Stranger,
        Self::Budget,
    ];

    /// The reason as metrics write it.
    pub fn token(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Signature => "signature",
            Self::Clock => "clock",
            Self::Repeated => "repeated",
            Self::OwnId => "own_id",
            Self::Uptime => "uptime",
            Self::Host => "host",
            Self::Stranger => "stranger",
            Self::Budget => "budget",
        }
    }
}

/// The refusals of one member.
#[derive(Debug, Default)]
pub struct Refusals([Reason; Refusal::ALL.len()]);

#[derive(Debug, Default)]
struct Reason {
    count: AtomicU64,
    line: RareLine,
}

/// A line of the log that is written at most once a minute, because other programs can cause any number.
#[derive(Debug, Default)]
pub(crate) struct RareLine(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    /// How often it was left out since then.
    suppressed: u64,
}

impl Refusals {
    /// Counts a refusal. `what` begins the line of the log.
    pub fn note(&self, why: Refusal, what: impl Display) {
        let reason = &self.0[why as usize];
        reason.count.fetch_add(1, Ordering::Relaxed);
        reason.line.warn(format_args!("{what} is refused: {why}"));
    }

    /// How often something was refused for this reason.
    pub fn count(&self, why: Refusal) -> u64 {
        self.0[why as usize].count.load(Ordering::Relaxed)
    }
}

impl RareLine {
    /// Logs it, if it is due.
    pub(crate) fn warn(&self, what: impl Display) {
        match self.is_due(Instant::now()) {
            None => {}
            Some(0) => log::warn!("bus: {what}"),
            Some(suppressed) => {
                log::warn!("bus: {what} ({suppressed} more since the last warning)");
            }
        }
    }

    /// How often it was left out, if another line is due.
    fn is_due(&self, now: Instant) -> Option<u64> {
        // Each change is complete before anything can panic.
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.at.is_some_and(|at| now < at + LOGGED_EVERY) {
            logged.suppressed += 1;
            return None;
        }
        logged.at = Some(now);
        Some(std::mem::take(&mut logged.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_refusals_is_counted_and_logged_once_a_minute() {
        let refusals = Refusals::default();
        for _ in 0..1000 {
            refusals.note(Refusal::Unsigned, "an announcement");
        }
        assert_eq!(refusals.count(Refusal::Unsigned), 1000);
        assert_eq!(refusals.count(Refusal::Repeated), 0);
        let reason = &refusals.0[Refusal::Unsigned as usize].line;
        let later = Instant::now() + LOGGED_EVERY;
        assert_eq!(reason.is_due(later - LOGGED_EVERY), None);
        assert_eq!(reason.is_due(later), Some(1000));
        assert_eq!(reason.is_due(later), None);
    }

    #[test]
    fn each_reason_has_its_own_count_and_token() {
        for (number, why) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
        }
        let mut tokens = Refusal::ALL.map(Refusal::token);
        tokens.sort_unstable();
        assert!(tokens.windows(2).all(|two| two[0] != two[1]));
    }
}
