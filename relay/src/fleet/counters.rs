//! What the fleet counts, for metrics.

use std::sync::atomic::{AtomicBool, AtomicU64};

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
    /// Set when this relay will stop and has handed over what it held.
    pub is_handed_over: AtomicBool,
    /// PVs whose owner has changed.
    pub moves: AtomicU64,
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
