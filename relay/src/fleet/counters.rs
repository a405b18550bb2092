//! What the fleet counts, for metrics, and warnings of messages that can't be read: one a minute, with the number of those
//! between.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pvwire_schema::types::Outcome;

/// Number of the outcomes of operations.
const OUTCOMES: usize = Outcome::ALL.len();

/// Counters of one relay of a fleet.
#[derive(Debug, Default)]
pub struct FleetCounters {
    /// Live members by role, in the order of `Role::ALL`, this relay included.
    pub members: [AtomicU64; 3],
    /// PVs that this relay holds.
    pub pvs_owned: AtomicU64,
    /// PVs that other relays feed.
    pub pvs_fed: AtomicU64,
    /// PVs that no relay holds now.
    pub pvs_without_owner: AtomicU64,
    /// Set when this relay will stop and has handed over its PVs.
    pub is_handed_over: AtomicBool,
    /// PVs whose owner has changed.
    pub moves: AtomicU64,
    /// PVs that this relay and another monitor now, because they move between the two.
    pub pvs_with_two_owners: AtomicU64,
    /// Hand-overs to another owner that ended as they should.
    pub handovers_done: AtomicU64,
    /// Those that took too long.
    pub handovers_failed: AtomicU64,
    /// Time that the former took, in milliseconds.
    pub handover_millis: AtomicU64,
    /// Puts that were sent to other relays, by the number of their outcome.
    pub puts: [AtomicU64; OUTCOMES],
    /// The same of calls.
    pub calls: [AtomicU64; OUTCOMES],
    /// Messages published.
    pub frames_out: AtomicU64,
    /// Bytes published.
    pub bytes_out: AtomicU64,
    /// Messages received.
    pub frames_in: AtomicU64,
    /// Bytes received.
    pub bytes_in: AtomicU64,
    /// Gaps in the messages of a shard.
    pub gaps: AtomicU64,
    /// Messages that couldn't be read.
    pub damaged: AtomicU64,
    /// Messages discarded because too many waited.
    pub discarded: AtomicU64,
    /// Snapshots published.
    pub snapshots_out: AtomicU64,
}

impl FleetCounters {
    /// Counts the outcome of an operation that was sent to another relay.
    pub(super) fn operation_ended(&self, is_put: bool, outcome: Outcome) {
        let counters = if is_put { &self.puts } else { &self.calls };
        counters[usize::from(outcome.number())].fetch_add(1, Ordering::Relaxed);
    }
}

const EVERY: Duration = Duration::from_secs(60);

/// Messages of one kind, which a relay that shares no version with this one may send twice a second.
#[derive(Debug, Default)]
pub(super) struct Unread {
    last: Option<Instant>,
    suppressed: u64,
}

impl Unread {
    /// One more message couldn't be read.
    pub(super) fn warn(&mut self, what: impl Display, now: Instant) {
        if (self.last).is_some_and(|last| now.duration_since(last) < EVERY) {
            self.suppressed += 1;
            return;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.suppressed) {
            0 => log::warn!("{what}"),
            suppressed => log::warn!("{what} ({suppressed} more since the last warning)"),
        }
    }
}
