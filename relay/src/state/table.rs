//! What is known of each PV now, since which tick, and what did this tick change?
//!
//! `Table` holds the latest parts of every PV with the tick of their last change; from it every
//! client that is new, behind or back again is brought up to date. What a tick brought goes into its
//! `Changes`, for the clients that keep up.

mod changes;
mod large;
mod view;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, Detail, Metadata, PvId, Skips, ValueType,
};

use crate::ingest::intake::{Notice, Taken};
use crate::ingest::{Event, Row, RowValue};
use crate::limits::memory::PvCharge;
use view::View;

pub use changes::{ChangedRow, Changes, Counts};
pub use large::{
    LARGE_BYTES, LargeRow, MAX_VALUE_BYTES, MIB, Together, bytes_of, bytes_of_node,
    is_beyond_a_frame, is_large,
};

/// The latest value of a PV.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The value itself.
    pub value: RowValue,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// Counts the PV's updates within its epoch.
    pub sequence: u32,
    /// Alarm severity and condition.
    pub alarm: Alarm,
    /// What the source says beside it.
    pub detail: Option<Arc<Detail>>,
}

impl Latest {
    /// This value and a newer one, where their difference says how much the PV has moved.
    fn numbers(&self, newest: &Self, metadata: Option<&Metadata>) -> Option<(f64, f64)> {
        let value_type = metadata.map(|metadata| metadata.value_type);
        match (&self.value, &newest.value) {
            (RowValue::Number(before), RowValue::Number(now))
                if !matches!(value_type, Some(ValueType::Enum | ValueType::Boolean)) =>
            {
                Some((*before, *now))
            }
            _ => None,
        }
    }

    /// Whether it says what may never be withheld. A user tag alone is none: there are servers that
    /// number their updates by it.
    fn is_news_after(&self, before: &Self) -> bool {
        fn message(latest: &Latest) -> &str {
            let detail = latest.detail.as_deref();
            detail.map_or("", |detail| &detail.message)
        }
        self.alarm != before.alarm || message(self) != message(before)
    }
}

/// A PV that is back but hasn't yet told what it is now may show its old value as the present one for
/// no longer than this: there are PVs that never say more.
const RETURN_WAIT: Duration = Duration::from_secs(1);

/// Of the small values of a PV that may be of any size one in so many is weighed.
const WEIGHED_EVERY: u32 = 64;

/// What a PV that came back has told since.
#[derive(Clone, Copy, Debug, Default)]
struct Return {
    value: bool,
    metadata: bool,
}

/// All parts of one PV and when each last changed.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Numbers of the filtered PVs of this PV.
    views: Vec<PvId>,
    /// Set where this is such a number.
    view: Option<Box<View>>,
    opening: u32,
    epoch: u32,
    /// When the first search began; `None` before its turn.
    searched_since: Option<Instant>,
    /// Access rights as the source last told them: it does so before it says `Connected`.
    rights: (bool, bool),
    /// Whether it may be written shows only when a put is tried.
    write_unknown: bool,
    /// Found again, but what is kept of it may still be old.
    returning: Option<Return>,
    /// Whether a description that its source tells apart was told in this connection.
    is_described: bool,
    /// When its server was last heard of, nanoseconds past the POSIX epoch.
    heard_ns: i64,
    /// Connection and access rights.
    pub connection: Connection,
    /// How to draw it; `None` until the first connection.
    pub metadata: Option<Arc<Metadata>>,
    /// Value, time and alarm; `None` until the first update.
    pub latest: Option<Latest>,
    /// Tick of the last change of `connection`; 0 is before all ticks.
    pub channel_tick: u64,
    /// Tick of the last change of `metadata`.
    pub metadata_tick: u64,
    /// Tick of the last update.
    pub value_tick: u64,
    /// Tick of the last change of the alarm.
    pub alarm_tick: u64,
    /// Tick of the last change of the detail.
    pub detail_tick: u64,
    /// Tick of the last update that was large.
    large_tick: u64,
    /// Its value is left out, because no frame or no budget can hold it.
    is_left_out: bool,
    /// Where the memory that its value takes is charged.
    charge: Option<Arc<PvCharge>>,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            views: Vec::new(),
            view: None,
            opening: 0,
            epoch: 0,
            searched_since: None,
            rights: (false, false),
            write_unknown: false,
            returning: None,
            is_described: false,
            heard_ns: 0,
            connection: Connection {
                state: ConnectionState::Connecting,
                since_ns: 0,
                read: false,
                write: false,
                puts: false,
                heard_ns: 0,
                write_unknown: false,
            },
            metadata: None,
            latest: None,
            channel_tick: 0,
            metadata_tick: 0,
            value_tick: 0,
            alarm_tick: 0,
            detail_tick: 0,
            large_tick: 0,
            is_left_out: false,
            charge: None,
        }
    }
}

impl Entry {
    fn set_metadata(&mut self, changes: &mut Changes, pv: PvId, metadata: Metadata) {
        if self.metadata.as_deref() != Some(&metadata) {
            self.share_metadata(changes, pv, Arc::new(metadata));
        }
    }

    /// Forgets the value and how to draw it, and says so to those who hold them, before the first value
    /// of the new epoch.
    fn begin_epoch(&mut self, changes: &mut Changes, pv: PvId, epoch: u32) {
        self.epoch = epoch;
        self.latest = None;
        if let Some(charge) = &self.charge {
            // To give some back never fails.
            let _ = charge.set(0);
        }
        let nothing = Metadata {
            epoch,
            ..Metadata::default()
        };
        self.set_metadata(changes, pv, nothing);
    }

    fn share_metadata(&mut self, changes: &mut Changes, pv: PvId, metadata: Arc<Metadata>) {
        self.metadata = Some(Arc::clone(&metadata));
        if self.metadata_tick == changes.tick {
            changes.metadata.retain(|(changed, _)| *changed != pv);
        }
        self.metadata_tick = changes.tick;
        changes.metadata.push((pv, metadata));
    }

    /// Notes what a PV that is coming back has told; whether that was the last of it.
    fn has_told(&mut self, note: impl FnOnce(&mut Return)) -> bool {
        let Some(told) = &mut self.returning else {
            return false;
        };
        note(told);
        told.value && told.metadata
    }

    /// The PV is there, and what is kept of it is present.
    fn connect(&mut self) {
        self.returning = None;
        let (read, write) = self.rights;
        self.connection = Connection {
            state: ConnectionState::Connected,
            read,
            write,
            write_unknown: self.write_unknown,
            heard_ns: 0,
            ..self.connection
        };
    }

    /// Takes access rights as the source tells them, `write_unknown` if it can't tell the second.
    fn set_rights(&mut self, read: bool, write: bool, write_unknown: bool) {
        self.rights = (read, write);
        self.write_unknown = write_unknown;
        // A PV that isn't connected has none.
        let connected = self.connection.state == ConnectionState::Connected;
        self.connection = Connection {
            read: connected && read,
            write: connected && write,
            write_unknown: connected && write_unknown,
            ..self.connection
        };
    }

    /// Why the PV isn't found although its server is there.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        let missing = &self.metadata.as_deref()?.missing_field;
        let is_missing = self.connection.state == ConnectionState::NotFound && !missing.is_empty();
        is_missing.then_some(missing)
    }

    /// Which type and element count it has; see [`Row::epoch`].
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The latest value, if it is so large that it travels in a frame of its own.
    #[must_use]
    pub fn large(&self) -> Option<&Latest> {
        self.latest
            .as_ref()
            .filter(|latest| is_large(&latest.value))
    }

    /// An update with what is shown of it, and the bytes of that unless it is large: the value is left out
    /// when no frame can hold it, or when it exceeds the memory budget of each client that has the PV.
    #[inline(never)]
    fn weigh(
        &mut self,
        mut latest: Latest,
        mut value: RowValue,
    ) -> (Latest, RowValue, Option<usize>) {
        let mut small_bytes = large::small_bytes(&value);
        let was_left_out = self.is_left_out;
        // What is small is looked at now and then: each look goes through all of a structure.
        let is_due = self.latest.is_none() || latest.sequence.is_multiple_of(WEIGHED_EVERY);
        if small_bytes.is_none() || was_left_out || is_due {
            let surplus = large::surplus(&latest.value, self.charge.as_deref());
            self.is_left_out = surplus.is_some();
            if let Some(why) = surplus {
                latest = large::left_out(&latest, why);
            }
            if self.is_left_out || was_left_out {
                // A part says nothing to those who don't have the rest.
                value = latest.value.clone();
                small_bytes = large::small_bytes(&value);
            }
        }
        (latest, value, small_bytes)
    }

    /// Takes a PV's update in and tells of it.
    fn record(
        &mut self,
        changes: &mut Changes,
        pv: PvId,
        mut latest: Latest,
        mut value: RowValue,
        skips: Skips,
    ) {
        let mut is_large = false;
        if self.is_left_out || !matches!(value, RowValue::Number(_)) {
            let small_bytes;
            (latest, value, small_bytes) = self.weigh(latest, value);
            // Of the values that are no numbers not all may fit in one frame, however small they are.
            is_large = small_bytes.is_none_or(|bytes| !changes.together.takes_bytes(bytes));
        }
        let before = self.latest.as_ref();
        let alarm = before
            .is_none_or(|before| before.alarm != latest.alarm)
            .then_some(latest.alarm);
        let detail = (before.and_then(|before| before.detail.as_ref()) != latest.detail.as_ref())
            .then(|| latest.detail.clone().unwrap_or_default());
        if alarm.is_some() {
            self.alarm_tick = changes.tick;
            // Here, because a PV's first value always brings its alarm.
            if before.is_none() {
                changes.first_values.push(pv);
            }
        }
        if detail.is_some() {
            self.detail_tick = changes.tick;
        }
        self.value_tick = changes.tick;
        if self.large_tick == changes.tick || is_large {
            self.large_tick = changes.tick;
            changes.large.push(LargeRow {
                pv,
                epoch: self.epoch,
                latest: latest.clone(),
                skips,
            });
        } else {
            changes.rows.push(ChangedRow {
                pv,
                time_ns: latest.time_ns,
                value,
                alarm,
                detail,
                skips,
            });
        }
        self.latest = Some(latest);
    }

    /// Whether there is something to show: connected, with a value.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.connection.state == ConnectionState::Connected
            && self.latest.is_some()
            && (self.metadata.as_ref())
                .is_some_and(|metadata| metadata.value_type != ValueType::Unknown)
    }

    /// Whether its source, which tells the description apart, has told it, or that there is none.
    #[must_use]
    pub fn is_described(&self) -> bool {
        self.is_described
    }
}

/// The latest of every PV.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    /// PVs that are being searched for the first time, by the time that it began, and some that
    /// aren't.
    searching: VecDeque<(Instant, PvId, u32)>,
    /// PVs that are back but may not have told all yet, by the time they came.
    returning: VecDeque<(Instant, PvId, u32)>,
    /// Views that hold an update, by the time that it passes.
    held: BinaryHeap<Reverse<(Instant, PvId, u32)>>,
    not_found_after: Duration,
    stale_rows: u64,
}

impl Table {
    /// An empty table. A PV that isn't found after `not_found_after` is said to be so.
    #[must_use]
    pub fn new(not_found_after: Duration) -> Self {
        let (entries, searching) = (Vec::new(), VecDeque::new());
        Self {
            entries,
            searching,
            returning: VecDeque::new(),
            held: BinaryHeap::new(),
            not_found_after,
            stale_rows: 0,
        }
    }

    /// What is known of a PV.
    ///
    /// # Panics
    /// When the PV was never opened.
    #[must_use]
    pub fn entry(&self, pv: PvId) -> &Entry {
        &self.entries[pv.index()]
    }

    /// What is known of a PV, if it was opened.
    #[must_use]
    pub fn get(&self, pv: PvId) -> Option<&Entry> {
        self.entries.get(pv.index())
    }

    /// Rows that belonged to a PV, type or count that was no more when they came.
    #[must_use]
    pub fn stale_rows_total(&self) -> u64 {
        self.stale_rows
    }

    /// Takes in what came from a source. `now` are the clocks of this tick.
    pub fn apply(&mut self, changes: &mut Changes, now: Now, taken: Taken) {
        match taken {
            Taken::Notice(notice) => {
                let pv = notice.pv;
                self.apply_notice(changes, now, notice);
                self.show_views(changes, now, pv, Skips::NONE);
            }
            Taken::Row(row) => {
                let pv = row.pv;
                if let Some(lost) = self.apply_row(changes, now, row) {
                    self.show_views(changes, now, pv, lost);
                }
            }
        }
    }

    fn apply_notice(&mut self, changes: &mut Changes, now: Now, notice: Notice) {
        let Notice { pv, opening, event } = notice;
        if pv.index() >= self.entries.len() {
            self.entries.resize_with(pv.index() + 1, Entry::default);
        }
        if let Event::ViewOpened {
            base,
            filter,
            charge,
        } = event
        {
            self.open_view(changes.tick, now, (pv, opening), base, filter, charge);
            return;
        }
        let entry = &mut self.entries[pv.index()];
        if let Event::Opened { puts, charge } = event {
            *entry = Entry {
                opening,
                epoch: opening,
                searched_since: Some(now.instant),
                charge,
                ..Entry::default()
            };
            entry.connection.since_ns = now.wall_ns;
            entry.connection.puts = puts;
            entry.channel_tick = changes.tick;
            self.searching.push_back((now.instant, pv, opening));
            // Nobody can have been told of the PV yet: the snapshot will.
            return;
        }
        if entry.opening != opening {
            return;
        }
        let before = entry.connection;
        if matches!(
            event,
            Event::Connected { .. }
                | Event::Missing { .. }
                | Event::Metadata(_)
                | Event::Responsive
        ) {
            entry.heard_ns = now.wall_ns;
        }
        match event {
            Event::Opened { .. } | Event::ViewOpened { .. } => {}
            Event::ViewClosed => return self.close_view(pv),
            Event::Closed => {
                *entry = Entry::default();
                return;
            }
            Event::Puts(puts) => entry.connection.puts = puts,
            Event::Queued => entry.searched_since = None,
            Event::Searched => {
                if entry.searched_since.is_none() {
                    entry.searched_since = Some(now.instant);
                    self.searching.push_back((now.instant, pv, opening));
                }
            }
            Event::Connected { epoch } => {
                if entry.epoch != epoch {
                    // Another type or count: a value of the old kind would be a lie.
                    entry.begin_epoch(changes, pv, epoch);
                }
                // Not present before its value and metadata have come again: nothing of what is
                // kept may pass for new. One that can't be read never tells.
                if entry.latest.is_some() && entry.rights.0 {
                    entry.returning = Some(Return::default());
                    self.returning.push_back((now.instant, pv, opening));
                    return;
                }
                entry.connect();
            }
            Event::Heard(at_ns) => entry.heard_ns = entry.heard_ns.max(at_ns),
            Event::Unresponsive { heard_ns } => {
                entry.heard_ns = entry.heard_ns.max(heard_ns);
                if before.state == ConnectionState::Connected {
                    entry.connection.heard_ns = entry.heard_ns;
                }
            }
            Event::Responsive => {
                if before.state == ConnectionState::Connected {
                    entry.connection.heard_ns = 0;
                }
            }
            Event::Withdrawn { epoch } => {
                entry.begin_epoch(changes, pv, epoch);
                entry.is_described = false;
                if entry.returning.take().is_some() {
                    entry.connect();
                }
            }
            Event::Disconnected => {
                let gone = ConnectionState::Disconnected;
                (entry.returning, entry.is_described) = (None, false);
                entry.rights = (false, false);
                entry.connection = Connection {
                    state: gone,
                    read: false,
                    write: false,
                    write_unknown: false,
                    heard_ns: entry.heard_ns,
                    ..before
                };
            }
            Event::Access { read, write } => entry.set_rights(read, write, false),
            Event::AccessUntried => entry.set_rights(true, true, true),
            Event::Missing { epoch, reason } => {
                entry.epoch = epoch;
                entry.latest = None;
                entry.returning = None;
                entry.set_rights(false, false, false);
                entry.connection.state = ConnectionState::NotFound;
                let metadata = Metadata {
                    epoch,
                    missing_field: reason,
                    ..Metadata::default()
                };
                entry.set_metadata(changes, pv, metadata);
            }
            Event::Description(description) => {
                entry.is_described = true;
                // Metadata that comes later has it.
                if let Some(metadata) = entry.metadata.as_deref()
                    && metadata.description != description
                {
                    let metadata = Metadata {
                        description,
                        ..metadata.clone()
                    };
                    entry.set_metadata(changes, pv, metadata);
                }
                return;
            }
            Event::Metadata(metadata) => {
                entry.set_metadata(changes, pv, *metadata);
                if !entry.has_told(|told| told.metadata = true) {
                    return;
                }
                entry.connect();
            }
        }
        Self::channel_changed(entry, pv, before, changes, now);
    }

    fn channel_changed(
        entry: &mut Entry,
        pv: PvId,
        before: Connection,
        changes: &mut Changes,
        now: Now,
    ) {
        if entry.connection.state != before.state {
            entry.connection.since_ns = now.wall_ns;
        }
        if entry.connection != before {
            entry.channel_tick = changes.tick;
            changes.connections.push((pv, entry.connection));
        }
    }

    /// Says what was lost just before the row, if that is news.
    fn apply_row(&mut self, changes: &mut Changes, now: Now, row: Row) -> Option<Skips> {
        let Row {
            pv,
            sequence,
            squashed,
            epoch,
            time_ns,
            value,
            alarm,
            detail,
        } = row;
        let Some(entry) = self
            .entries
            .get_mut(pv.index())
            .filter(|entry| entry.epoch == epoch)
        else {
            self.stale_rows += 1;
            return None;
        };
        let before = entry.latest.as_ref().map_or(0, |latest| latest.sequence);
        let ahead = sequence.wrapping_sub(before);
        if ahead == 0 || ahead > u32::MAX / 2 {
            // Waited in the overflow table while newer ones went through the ring; the gap that
            // it left was counted with them.
            return None;
        }
        // A part says nothing without the row that it follows on.
        let value = if ahead == 1 && entry.latest.is_some() {
            value
        } else {
            value.into_whole()
        };
        let source = squashed.min(ahead - 1);
        let skips = Skips {
            relay: ahead - 1 - source,
            source,
            filter: 0,
        };
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
        let told_value = |told: &mut Return| {
            told.value = true;
            changes.first_values.push(pv);
        };
        if entry.has_told(told_value) {
            let before = entry.connection;
            entry.connect();
            Self::channel_changed(entry, pv, before, changes, now);
        }
        Some(skips)
    }

    /// Does what comes due: PVs that were searched for long enough are not found, those that came back
    /// and told nothing for long enough are present, updates that were held for long enough pass.
    pub fn pass_time(&mut self, changes: &mut Changes, now: Now) {
        self.give_up_searching(changes, now);
        self.give_up_waiting(changes, now);
        self.let_pass(changes, now);
    }

    fn give_up_waiting(&mut self, changes: &mut Changes, now: Now) {
        while let Some(&(since, pv, opening)) = self.returning.front() {
            if now.instant.duration_since(since) < RETURN_WAIT {
                break;
            }
            self.returning.pop_front();
            let entry = &mut self.entries[pv.index()];
            if entry.opening == opening && entry.returning.is_some() {
                let before = entry.connection;
                entry.connect();
                Self::channel_changed(entry, pv, before, changes, now);
                self.show_views(changes, now, pv, Skips::NONE);
            }
        }
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
                Self::channel_changed(entry, pv, before, changes, now);
                self.show_views(changes, now, pv, Skips::NONE);
            }
        }
    }

    /// When `pass_time` will next have something to do, if no PV connects before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let searching = (self.searching.front()).map(|(since, ..)| *since + self.not_found_after);
        let returning = (self.returning.front()).map(|(since, ..)| *since + RETURN_WAIT);
        let held = self.held.peek().map(|Reverse((due, ..))| *due);
        [searching, returning, held].into_iter().flatten().min()
    }
}

/// The clocks, read once per tick.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For deadlines.
    pub instant: Instant,
    /// For people: nanoseconds past the POSIX epoch.
    pub wall_ns: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Intake, Line};
    use pvwire_schema::types::Severity;

    pub(super) const PV: PvId = PvId(0);
    pub(super) const CALM: Alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };
    pub(super) const HIHI: Alarm = Alarm {
        severity: Severity::Major,
        status: 3,
    };
    const WAIT: Duration = Duration::from_secs(5);

    pub(super) struct Bench {
        pub(super) intake: Arc<Intake>,
        pub(super) table: Table,
        pub(super) start: Instant,
        tick: u64,
    }

    impl Bench {
        pub(super) fn new() -> Self {
            let (intake, table) = (Intake::new(), Table::new(WAIT));
            Self {
                intake,
                table,
                start: Instant::now(),
                tick: 0,
            }
        }

        pub(super) fn tick_at(&mut self, after: Duration) -> Changes {
            self.tick += 1;
            let mut changes = Changes {
                tick: self.tick,
                ..Changes::default()
            };
            let now = Now {
                instant: self.start + after,
                wall_ns: after.as_nanos() as i64,
            };
            self.intake
                .drain(|taken| self.table.apply(&mut changes, now, taken));
            self.table.pass_time(&mut changes, now);
            changes
        }

        pub(super) fn tick(&mut self) -> Changes {
            self.tick_at(Duration::ZERO)
        }
    }

    pub(super) fn update(line: &Line, value: f64, alarm: Alarm) {
        line.update(0, RowValue::Number(value), alarm);
    }

    #[test]
    fn alarm_is_told_only_with_the_row_that_changes_it() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        for (value, alarm) in [(1.0, CALM), (2.0, CALM), (3.0, HIHI), (4.0, HIHI)] {
            update(&line, value, alarm);
        }
        let alarms: Vec<_> = bench.tick().rows.iter().map(|row| row.alarm).collect();
        assert_eq!(alarms, [Some(CALM), None, Some(HIHI), None]);
        assert_eq!(bench.table.entry(PV).alarm_tick, 1);
    }

    #[test]
    fn first_value_of_a_connection_is_marked_because_it_may_be_old() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        let marks = |changes: Changes| -> Vec<bool> {
            let rows = changes.rows.iter();
            rows.map(|row| changes.first_values.contains(&row.pv))
                .collect()
        };
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        line.event(Event::Metadata(Box::default()));
        update(&line, 1.0, CALM);
        assert_eq!(marks(bench.tick()), [true]);
        update(&line, 2.0, CALM);
        assert_eq!(marks(bench.tick()), [false]);
        line.event(Event::Disconnected);
        line.event(Event::Access {
            read: true,
            write: false,
        });
        line.connected(false);
        line.event(Event::Metadata(Box::default()));
        update(&line, 2.0, CALM);
        assert_eq!(marks(bench.tick()), [true]);
        update(&line, 3.0, CALM);
        assert_eq!(marks(bench.tick()), [false]);
    }

    #[test]
    fn pv_that_nobody_answers_for_is_not_found_and_connects_all_the_same_later() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        bench.tick();
        assert!(bench.tick_at(WAIT / 2).is_empty());
        let changes = bench.tick_at(WAIT);
        assert_eq!(changes.connections[0].1.state, ConnectionState::NotFound);
        line.connected(false);
        let changes = bench.tick_at(WAIT * 2);
        assert_eq!(changes.connections[0].1.state, ConnectionState::Connected);
        assert_eq!(
            changes.connections[0].1.since_ns,
            (WAIT * 2).as_nanos() as i64
        );
    }

    #[test]
    fn pv_that_waits_for_its_turn_is_not_said_to_be_missing_before_it_was_searched() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.event(Event::Queued);
        bench.tick();
        assert!(bench.tick_at(WAIT * 2).is_empty());
        line.event(Event::Searched);
        bench.tick_at(WAIT * 2);
        line.event(Event::Searched);
        assert!(bench.tick_at(WAIT * 5 / 2).is_empty());
        let changes = bench.tick_at(WAIT * 3);
        assert_eq!(changes.connections[0].1.state, ConnectionState::NotFound);
        assert_eq!(bench.table.next_deadline(), None);
    }

    #[test]
    fn lost_pv_keeps_its_value_and_has_no_rights() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        line.event(Event::Access {
            read: true,
            write: true,
        });
        update(&line, 7.0, HIHI);
        bench.tick();
        line.event(Event::Disconnected);
        bench.tick();
        let entry = bench.table.entry(PV);
        assert_eq!(entry.connection.state, ConnectionState::Disconnected);
        assert!(!entry.connection.write);
        assert_eq!(entry.latest.as_ref().unwrap().value, RowValue::Number(7.0));
    }

    #[test]
    fn pv_of_a_server_that_does_not_answer_says_since_when_until_it_does_or_is_lost() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        update(&line, 7.0, CALM);
        bench.tick_at(Duration::from_nanos(5));
        line.event(Event::Unresponsive { heard_ns: 9 });
        let changes = bench.tick_at(Duration::from_nanos(20));
        let told = |changes: &Changes| {
            (
                changes.connections[0].1.state,
                changes.connections[0].1.heard_ns,
            )
        };
        assert_eq!(told(&changes), (ConnectionState::Connected, 9));
        assert_eq!(
            changes.connections[0].1.since_ns, 5,
            "the state is as old as before"
        );
        line.event(Event::Responsive);
        let changes = bench.tick_at(Duration::from_nanos(30));
        assert_eq!(told(&changes), (ConnectionState::Connected, 0));

        line.event(Event::Heard(35));
        line.event(Event::Disconnected);
        let changes = bench.tick_at(Duration::from_nanos(40));
        assert_eq!(told(&changes), (ConnectionState::Disconnected, 35));
        line.event(Event::Unresponsive { heard_ns: 36 });
        line.event(Event::Responsive);
        assert!(bench.tick().is_empty(), "it is lost already");
    }

    #[test]
    fn part_of_a_structure_is_told_only_to_those_who_know_the_rest() {
        use pvwire_schema::types::{BlobValue, Node};
        let whole = Arc::new(BlobValue::Structure(Node::default()));
        let part = Arc::new(BlobValue::StructurePart(Node::default()));
        let row = || RowValue::Structure {
            whole: Arc::clone(&whole),
            part: Arc::clone(&part),
        };
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        line.update(0, row(), CALM);
        line.update(1, row(), CALM);
        let values: Vec<_> = bench.tick().rows.into_iter().map(|row| row.value).collect();
        assert_eq!(values, [RowValue::Blob(Arc::clone(&whole)), row()]);
        let latest = bench.table.entry(PV).latest.clone().unwrap();
        assert_eq!(latest.value, RowValue::Blob(whole));
    }

    #[test]
    fn updates_behind_a_large_one_of_their_tick_travel_as_it_does() {
        use pvwire_schema::types::BlobValue;
        let array = |bytes: usize| {
            let array = BlobValue::array(ValueType::UInt8, bytes as u32, vec![1; bytes]);
            RowValue::Blob(Arc::new(array))
        };
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        for (n, bytes) in [3, LARGE_BYTES + 1, 4].into_iter().enumerate() {
            line.update(n as i64, array(bytes), if n == 1 { HIHI } else { CALM });
        }
        let changes = bench.tick();
        assert_eq!((changes.updates(), changes.rows.len()), (3, 1));
        assert_eq!(changes.rows[0].value, array(3));
        let told: Vec<_> = (changes.large.iter())
            .map(|row| (row.latest.sequence, row.latest.alarm))
            .collect();
        assert_eq!(told, [(2, HIHI), (3, CALM)], "all that is to be known");
        assert!(bench.table.entry(PV).large().is_none(), "it is small again");

        line.update(3, array(5), CALM);
        let changes = bench.tick();
        assert_eq!((changes.rows.len(), changes.large.len()), (1, 0));
        assert_eq!(changes.rows[0].alarm, None);
        assert_eq!(changes.rows[0].skips, Skips::NONE);
    }

    #[test]
    fn pv_that_comes_back_is_present_only_when_value_and_metadata_have_come_again() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        let told = || line.event(Event::Metadata(Box::default()));
        let rights = || {
            line.event(Event::Access {
                read: true,
                write: true,
            });
        };
        let state = |bench: &Bench| bench.table.entry(PV).connection.state;
        rights();
        line.connected(false);
        told();
        update(&line, 7.0, CALM);
        bench.tick();
        assert_eq!(state(&bench), ConnectionState::Connected);

        line.event(Event::Disconnected);
        rights();
        line.connected(false);
        bench.tick();
        assert_eq!(state(&bench), ConnectionState::Disconnected, "7 is old");
        update(&line, 8.0, CALM);
        bench.tick();
        assert_eq!(
            state(&bench),
            ConnectionState::Disconnected,
            "its unit may be"
        );
        told();
        let changes = bench.tick();
        assert_eq!(state(&bench), ConnectionState::Connected);
        assert!(changes.connections[0].1.write);

        line.event(Event::Disconnected);
        rights();
        line.connected(false);
        bench.tick();
        assert!(bench.table.next_deadline().is_some());
        bench.tick_at(RETURN_WAIT);
        assert_eq!(state(&bench), ConnectionState::Connected, "it says no more");
    }

    #[test]
    fn pv_that_may_not_be_read_is_present_at_once_when_it_comes_back() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        update(&line, 7.0, CALM);
        line.event(Event::Disconnected);
        line.connected(false);
        bench.tick();
        assert_eq!(
            bench.table.entry(PV).connection.state,
            ConnectionState::Connected
        );
    }

    #[test]
    fn value_of_the_old_type_is_forgotten_when_the_pv_comes_back_with_another() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        line.connected(false);
        update(&line, 7.0, CALM);
        bench.tick();
        update(&line, 8.0, CALM);
        line.event(Event::Disconnected);
        line.connected(true);
        let changes = bench.tick();
        assert!(changes.rows.is_empty(), "8.0 is of the old type");
        assert!(bench.table.entry(PV).latest.is_none());
        assert_eq!(bench.table.stale_rows_total(), 1);
    }

    #[test]
    fn events_of_a_pv_that_had_the_number_before_are_passed_over() {
        let mut bench = Bench::new();
        let old = Line::open(&bench.intake, PV, false);
        let new = Line::open(&bench.intake, PV, false);
        old.connected(false);
        update(&old, 1.0, CALM);
        new.connected(false);
        update(&new, 2.0, CALM);
        let changes = bench.tick();
        assert_eq!(changes.rows.len(), 1);
        assert_eq!(changes.rows[0].value, RowValue::Number(2.0));
    }

    #[test]
    fn same_metadata_again_is_no_change() {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        let metadata = Box::new(Metadata {
            units: "mA".into(),
            ..Metadata::default()
        });
        line.event(Event::Metadata(metadata.clone()));
        assert_eq!(bench.tick().metadata.len(), 1);
        line.event(Event::Metadata(metadata));
        assert!(bench.tick().is_empty());
    }
}
