//! Numbers that other modules count, read when `/metrics` is requested.

use std::sync::Arc;
use std::time::Duration;

use crate::ops::latency::Ages;

/// Numbers that other modules count.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Open monitors.
    pub monitors: usize,
    /// PVs in each connection state; `None` while the tick thread does not answer.
    pub pvs: Option<PvCounts>,
    /// Bytes received of the PVs with the most.
    pub largest_pvs: Vec<(Arc<str>, u64)>,
    /// Bytes received from servers, in descending order.
    pub servers: Vec<(Arc<str>, u64)>,
    /// Connected clients.
    pub sessions: usize,
    /// Open connections, those of clients included.
    pub connections: usize,
    /// Time since the last loop iteration of each writer thread.
    pub shards_turned_ago: Vec<Duration>,
    /// Time since the last loop iteration of the tick thread.
    pub ticks_turned_ago: Duration,
    /// Late ticks.
    pub ticks_late: u64,
    /// Ticks handed to a late shard.
    pub deliveries_late: u64,
    /// Bytes of memory charged to clients for PVs, values and answers.
    pub memory_charged: usize,
    /// Whether the process uses more memory than allowed.
    pub memory_short: bool,
    /// Charges that exceeded a memory budget.
    pub memory_refused: u64,
    /// Current length of a tick.
    pub tick_length: Duration,
    /// Ages of updates on receipt.
    pub ages_received: Ages,
    /// Updates received.
    pub updates_received: u64,
    /// Updates that the relay could not take in.
    pub skipped_by_relay: u64,
    /// Updates that a source merged into others.
    pub skipped_by_source: u64,
    /// Updates that filters left out.
    pub skipped_by_filter: u64,
    /// Updates lost between relays.
    pub lost_on_bus: u64,
    /// Updates discarded because their PV was closed or had changed type.
    pub updates_stale: u64,
    /// Bytes of arrays copied out of a library's buffer.
    pub array_bytes_copied: u64,
    /// Bytes of arrays shared with the library that received them.
    pub array_bytes_shared: u64,
    /// Reads from Channel Access circuits.
    pub ca_reads: u64,
    /// Reads from Channel Access circuits that waited for more data.
    pub ca_paced_reads: u64,
    /// Channel Access circuits closed because of an invalid message.
    pub ca_circuits_cut: u64,
    /// Invalid messages of Channel Access servers that were ignored.
    pub ca_messages_ignored: u64,
    /// Panics caught in callbacks.
    pub callback_panics: u64,
    /// State of the audit file.
    pub audit: AuditReadings,
    /// Log lines dropped.
    pub log_lines_lost: u64,
}

/// State of the audit file; all zero without one.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditReadings {
    /// Records written.
    pub written: u64,
    /// Records not written.
    pub lost: u64,
    /// Records waiting to be written.
    pub queued: usize,
    /// Whether the file can't be written.
    pub failing: bool,
    /// When the last record was written, in seconds past the POSIX epoch.
    pub last_written: f64,
}

/// PVs in each connection state.
#[derive(Clone, Copy, Debug, Default)]
pub struct PvCounts {
    /// Being searched for, not found yet.
    pub connecting: usize,
    /// Not found within `not_found_after_ms`.
    pub not_found: usize,
    /// Connected.
    pub connected: usize,
    /// Disconnected after having been connected.
    pub disconnected: usize,
}
