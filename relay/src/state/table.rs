//! The table: the latest parts of every PV, each with the tick of its last change.
//!
//! Every client that is new, behind or reconnected is brought up to date from it. What one tick brought
//! goes into its `Changes`, for the clients that keep up.

mod changes;
mod entry;
mod filtered;
mod handover;
mod large;
mod notice;
mod returning;
#[cfg(test)]
mod tests;
mod thinning;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, PvId, Skips};

use crate::ingest::Row;
use crate::ingest::intake::Taken;
use filtered::OVERDUE_AFTER;
use returning::{METADATA_WAIT, RETURN_WAIT, WITHOUT_METADATA, WITHOUT_VALUE};
use thinning::Thinning;

pub use changes::{Before, ChangedRow, Changes, Counts, Lifecycle};
pub use entry::{Entry, Latest};
pub use large::{
    LARGE_BYTES, LargeRow, MAX_VALUE_BYTES, MIB, Together, bytes_of, bytes_of_node,
    is_beyond_a_frame, is_large,
};

/// The latest of every PV.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    /// What is known of a PV that isn't open.
    closed: Entry,
    /// PVs whose first search is under way, by its begin. Some may have been found since.
    searching: VecDeque<(Instant, PvId, u32)>,
    /// PVs that were connected, by the time of the connection. Some may have sent value and metadata since.
    returning: VecDeque<(Instant, PvId, u32)>,
    /// Those of them whose metadata is overdue. Some may have sent it since.
    overdue: VecDeque<(Instant, PvId, u32)>,
    /// Forms of PVs that were not connected when the forms were opened, by that time. Some may be connected since.
    awaited: VecDeque<(Instant, PvId, u32)>,
    /// PVs that another line takes over, and when they are checked again.
    handing: Vec<(PvId, u32)>,
    looks_at: Option<Instant>,
    /// Filtered PVs that hold an update, by the time at which it passes.
    held: BinaryHeap<Reverse<(Instant, PvId, u32)>>,
    thinning: Thinning,
    not_found_after: Duration,
    stale_rows: u64,
}

/// Entries of which the memory is worth to be freed.
const MANY: usize = 1_024;

impl Table {
    /// An empty table. A PV that isn't found within `not_found_after` becomes `NotFound`.
    #[must_use]
    pub fn new(not_found_after: Duration) -> Self {
        let (entries, searching) = (Vec::new(), VecDeque::new());
        Self {
            entries,
            closed: Entry::default(),
            searching,
            returning: VecDeque::new(),
            overdue: VecDeque::new(),
            awaited: VecDeque::new(),
            handing: Vec::new(),
            looks_at: None,
            held: BinaryHeap::new(),
            thinning: Thinning::default(),
            not_found_after,
            stale_rows: 0,
        }
    }

    /// What is known of a PV.
    #[must_use]
    pub fn entry(&self, pv: PvId) -> &Entry {
        self.get(pv).unwrap_or(&self.closed)
    }

    /// What is known of a PV, if it was opened.
    #[must_use]
    pub fn get(&self, pv: PvId) -> Option<&Entry> {
        self.entries.get(pv.index())
    }

    /// Frees the memory of entries at the end, if most PVs were closed, and of waits for closed PVs.
    pub(super) fn shrink(&mut self) {
        let entries = &self.entries;
        let are_last_closed =
            entries.capacity() >= MANY && !entries.last().is_some_and(Entry::is_open);
        let queues = [
            &mut self.searching,
            &mut self.returning,
            &mut self.overdue,
            &mut self.awaited,
        ];
        for queue in queues {
            if are_last_closed {
                queue.retain(|(_, pv, opening)| entries[pv.index()].opening == *opening);
            }
            if queue.capacity() > MANY.max(4 * queue.len()) {
                queue.shrink_to(2 * queue.len());
            }
        }
        if !are_last_closed {
            return;
        }
        let open = entries.iter().rposition(Entry::is_open);
        let held = self.held.iter().map(|Reverse((_, pv, _))| pv);
        let handing = self.handing.iter().map(|(pv, _)| pv);
        let named = held.chain(handing).map(|pv| pv.index());
        let used = open
            .into_iter()
            .chain(named)
            .max()
            .map_or(0, |last| last + 1);
        self.entries.truncate(used);
        if used < self.entries.capacity() / 4 {
            self.entries.shrink_to(2 * used);
        }
    }

    /// Rows discarded because their PV was closed or had changed type or element count.
    #[must_use]
    pub fn stale_rows_total(&self) -> u64 {
        self.stale_rows
    }

    /// Takes what came from a source. `now`: the clocks of this tick.
    pub fn apply(&mut self, changes: &mut Changes, now: Now, taken: Taken) {
        match taken {
            Taken::Notice(notice) => {
                let pv = notice.pv;
                self.apply_notice(changes, now, notice);
                self.pass_to_filtered(changes, now, pv, Skips::NONE);
                self.release_rows(changes, now, pv);
            }
            Taken::Row(row) => {
                let pv = row.pv;
                if let Some(lost) = self.apply_row(changes, now, row) {
                    self.pass_to_filtered(changes, now, pv, lost);
                }
            }
        }
    }

    /// Stores a row. Returns the updates lost just before it, or `None` if the row was discarded.
    fn apply_row(&mut self, changes: &mut Changes, now: Now, row: Row) -> Option<Skips> {
        match self.entries.get_mut(row.pv.index()) {
            Some(entry) if entry.epoch == row.epoch => Self::take_row(entry, changes, now, row),
            _ => self.apply_row_of_line(changes, now, row),
        }
    }

    /// Stores a row of the line that feeds an entry, unless it waits for the metadata.
    #[inline]
    fn take_row(entry: &mut Entry, changes: &mut Changes, now: Now, row: Row) -> Option<Skips> {
        if entry.returning.is_some() {
            return Self::take_first_row(entry, changes, now, row);
        }
        Self::store_row(entry, changes, now, row)
    }

    /// Stores a row of a PV that was just connected if its metadata has come, and keeps it otherwise.
    #[cold]
    fn take_first_row(
        entry: &mut Entry,
        changes: &mut Changes,
        now: Now,
        row: Row,
    ) -> Option<Skips> {
        let pv = row.pv;
        if let Some(returning) = &mut entry.returning
            && !returning.takes_rows()
        {
            (entry.heard_ns, entry.is_unresponsive) = (now.wall_ns, false);
            returning.keep(row);
            return None;
        }
        // A row that is older than the value belongs to the connection before.
        let skips = Self::store_row(entry, changes, now, row)?;
        changes.first_values.push(pv);
        let before = entry.connection;
        entry.is_unresponsive = false;
        if entry.reason() == WITHOUT_VALUE {
            entry.set_reason(changes, pv, String::new());
        }
        entry.connect();
        Self::connection_changed(entry, pv, before, changes, now);
        Some(skips)
    }

    #[inline(always)]
    fn store_row(entry: &mut Entry, changes: &mut Changes, now: Now, row: Row) -> Option<Skips> {
        let Row {
            pv,
            sequence,
            squashed,
            time_ns,
            value,
            alarm,
            detail,
            ..
        } = row;
        let before = entry.latest.as_ref().map_or(0, |latest| latest.sequence);
        let ahead = sequence.wrapping_sub(before);
        if ahead == 0 || ahead > u32::MAX / 2 {
            // It waited in the overflow table while newer rows went through the ring. The gap in their
            // sequence has counted it.
            return None;
        }
        // The changed fields of a structure are useless without the row before.
        let value = if ahead == 1 && entry.latest.is_some() {
            value
        } else {
            value.into_whole()
        };
        let source = squashed.min(ahead - 1);
        let mut skips = Skips {
            relay: ahead - 1 - source,
            source,
            ..Skips::NONE
        };
        if skips.relay != 0 && entry.lost_on_bus != 0 {
            skips.bus = skips.relay.min(mem::take(&mut entry.lost_on_bus));
            skips.relay -= skips.bus;
            changes.counts.bus += u64::from(skips.bus);
        }
        entry.heard_ns = now.wall_ns;
        changes.counts.taken += 1;
        changes.counts.relay += u64::from(skips.relay);
        changes.counts.source += u64::from(skips.source);
        let latest = Latest {
            value: value.clone().into_whole(),
            time_ns,
            sequence,
            alarm,
            detail,
        };
        entry.record(changes, pv, latest, value, skips);
        Some(skips)
    }

    /// Stores the rows that waited for the metadata of a PV, if it has come.
    fn release_rows(&mut self, changes: &mut Changes, now: Now, pv: PvId) {
        let rows = match self.entries.get_mut(pv.index()) {
            Some(Entry {
                returning: Some(returning),
                ..
            }) if returning.has_metadata => returning.take_rows(),
            _ => return,
        };
        self.take_rows(changes, now, pv, rows);
    }

    fn take_rows(&mut self, changes: &mut Changes, now: Now, pv: PvId, rows: Vec<Row>) {
        for row in rows {
            let skips = Self::take_row(&mut self.entries[pv.index()], changes, now, row);
            if let Some(lost) = skips {
                self.pass_to_filtered(changes, now, pv, lost);
            }
        }
    }

    /// Applies expired times: a search ends with `NotFound`, a PV that was connected and sends no
    /// metadata is shown without, clients of a form wait no longer, a held update passes.
    pub fn pass_time(&mut self, changes: &mut Changes, now: Now) {
        self.give_up_searching(changes, now);
        self.give_up_waiting(changes, now);
        self.give_up_awaiting(changes, now);
        self.hand_over(changes, now);
        self.pass_held(changes, now);
    }

    fn give_up_waiting(&mut self, changes: &mut Changes, now: Now) {
        while let Some(&(since, pv, opening)) = self.returning.front() {
            if now.instant.duration_since(since) < RETURN_WAIT {
                break;
            }
            self.returning.pop_front();
            let entry = &mut self.entries[pv.index()];
            let Some(returning) = entry.returning.as_mut() else {
                continue;
            };
            if entry.opening != opening {
                continue;
            }
            if returning.has_metadata {
                self.connect_without_more(changes, now, pv);
            } else {
                returning.is_overdue = true;
                entry.set_reason(changes, pv, WITHOUT_METADATA.to_owned());
                self.pass_to_filtered(changes, now, pv, Skips::NONE);
                self.overdue.push_back((since, pv, opening));
            }
        }
        while let Some((_, pv, opening)) = (self.overdue)
            .pop_front_if(|(since, ..)| now.instant.duration_since(*since) >= METADATA_WAIT)
        {
            let entry = &mut self.entries[pv.index()];
            if entry.opening != opening {
                continue;
            }
            let Some(returning) = entry.returning.as_mut().filter(|it| it.is_overdue) else {
                continue;
            };
            if returning.has_metadata {
                self.connect_without_more(changes, now, pv);
                continue;
            }
            if let Some(shape) = &mut returning.shape {
                WITHOUT_METADATA.clone_into(&mut shape.missing_field);
            }
            self.connect_without_more(changes, now, pv);
            let entry = &mut self.entries[pv.index()];
            entry.set_reason(changes, pv, WITHOUT_METADATA.to_owned());
            self.pass_to_filtered(changes, now, pv, Skips::NONE);
        }
    }

    /// Shows a PV as connected with what has come, unless the value that clients have is that of the connection
    /// before.
    fn connect_without_more(&mut self, changes: &mut Changes, now: Now, pv: PvId) {
        let entry = &mut self.entries[pv.index()];
        if entry.has_old_value() {
            entry.await_value(changes, pv);
            return self.pass_to_filtered(changes, now, pv, Skips::NONE);
        }
        let (before, heard_ns) = (entry.connection, entry.heard_ns);
        let rows = entry.stop_waiting(changes, pv);
        entry.connect();
        Self::connection_changed(entry, pv, before, changes, now);
        self.pass_to_filtered(changes, now, pv, Skips::NONE);
        self.take_rows(changes, now, pv, rows);
        // The rows came earlier.
        self.entries[pv.index()].heard_ns = heard_ns;
    }

    fn give_up_searching(&mut self, changes: &mut Changes, now: Now) {
        while let Some(&(since, pv, opening)) = self.searching.front() {
            if now.instant.duration_since(since) < self.not_found_after {
                break;
            }
            self.searching.pop_front();
            let entry = &mut self.entries[pv.index()];
            if entry.opening == opening
                && entry.searched_since == Some(since)
                && entry.connection.state == ConnectionState::Connecting
            {
                let before = entry.connection;
                entry.connection.state = ConnectionState::NotFound;
                entry.is_search_overdue = true;
                entry.note_unconnected();
                Self::connection_changed(entry, pv, before, changes, now);
                self.pass_to_filtered(changes, now, pv, Skips::NONE);
            }
        }
    }

    /// When `pass_time` next has something to do, unless a PV connects before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let searching = (self.searching.front()).map(|(since, ..)| *since + self.not_found_after);
        let returning = (self.returning.front()).map(|(since, ..)| *since + RETURN_WAIT);
        let overdue = (self.overdue.front()).map(|(since, ..)| *since + METADATA_WAIT);
        let awaited = (self.awaited.front()).map(|(since, ..)| *since + OVERDUE_AFTER);
        let held = self.held.peek().map(|Reverse((due, ..))| *due);
        let all = [searching, returning, overdue, awaited, self.looks_at, held];
        all.into_iter().flatten().min()
    }
}

/// The clocks, read once per tick.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For deadlines.
    pub instant: Instant,
    /// To be shown: nanoseconds past the POSIX epoch.
    pub wall_ns: i64,
}
