//! Handovers: a line takes a PV over from another one, and clients see neither a gap nor an update twice.
//!
//! Events and rows of the new line wait until it is connected. From the moment at which its rows reach back to the
//! newest update that clients have, no more rows of the present line are taken; when they contain that update, the
//! new line feeds the PV from the update after it. Its rows are numbered as if the present line went on.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    BlobValue, Connection, ConnectionState, Metadata, PvId, Skips, ValueType,
};

use super::{Changes, Entry, Latest, Now, Table};
use crate::ingest::handover::{Handover, Shift};
use crate::ingest::intake::Taken;
use crate::ingest::{Event, Notice, Row, RowValue};

/// Handovers that wait are checked after this time.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// A new line that is connected and doesn't bring the newest update within this time feeds the PV all the same: the
/// two lines may have different time stamps.
const MEET_WITHIN: Duration = Duration::from_secs(1);

/// Maximum number of rows of the new line that wait: of numbers, and of other values.
const MOST_NUMBERS: usize = 1_000;
const MOST_OTHERS: usize = 16;

/// What the entry of a PV has from its first handover on.
#[derive(Clone, Debug, Default)]
pub(super) struct Handing {
    /// How the numbers of the line that feeds the PV differ from those that clients see.
    shift: Option<Shift>,
    /// Rows of that line are not taken any more: the next line brings them.
    is_frozen: bool,
    next: Option<Next>,
}

/// The line that takes the PV over.
#[derive(Clone, Debug)]
struct Next {
    line: u32,
    to: Arc<Handover>,
    events: Vec<Event>,
    rows: VecDeque<Row>,
    /// Numbers of rows before which the bus has lost updates, and how many.
    lost: Vec<(u32, u32)>,
    /// What the events have made known.
    entry: Box<Entry>,
    /// Since when it has all that it takes to feed the PV.
    complete_since: Option<Instant>,
}

/// What happens to a handover.
enum Step {
    /// It was ended.
    Gone,
    Wait,
    /// The new line begins like that of a PV that was disconnected.
    Restart,
    /// The new line goes on with this one of its rows.
    At(usize),
}

impl Entry {
    pub(super) fn shift(&self) -> Option<Shift> {
        self.handing.as_ref()?.shift
    }

    /// Begins an epoch of the line that feeds the PV.
    pub(super) fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
        if let Some(handing) = &mut self.handing {
            (handing.shift, handing.is_frozen) = (None, false);
        }
    }

    /// The epoch of the line that feeds the PV.
    pub(super) fn line_epoch(&self) -> u32 {
        self.shift().map_or(self.epoch, |shift| shift.from)
    }

    /// An epoch of that line as clients see it.
    pub(super) fn shown_epoch(&self, epoch: u32) -> u32 {
        let shift = self.shift().filter(|shift| shift.from == epoch);
        shift.map_or(epoch, |shift| shift.epoch)
    }

    /// Nothing that the present line sends counts any more.
    pub(super) fn end_line(&mut self) {
        if let Some(handing) = &mut self.handing
            && let Some(shift) = &mut handing.shift
        {
            // No row has this epoch.
            shift.from = 0;
        }
    }

    pub(super) fn begin_handover(&mut self, line: u32, to: Arc<Handover>) {
        self.end_handover();
        let entry = Self {
            opening: line,
            line,
            epoch: line,
            ..Self::default()
        };
        self.handing.get_or_insert_default().next = Some(Next {
            line,
            to,
            events: Vec::new(),
            rows: VecDeque::new(),
            lost: Vec::new(),
            entry: Box::new(entry),
            complete_since: None,
        });
    }

    /// The present line goes on.
    pub(super) fn end_handover(&mut self) {
        if let Some(handing) = &mut self.handing {
            (handing.next, handing.is_frozen) = (None, false);
        }
    }

    /// Keeps an event of the line that takes the PV over.
    pub(super) fn note_next(&mut self, pv: PvId, line: u32, event: Event) {
        let next = self.handing.as_mut().and_then(|it| it.next.as_mut());
        if let Some(next) = next.filter(|next| next.line == line) {
            let mut unseen = Changes::default();
            (next.entry).apply(&mut unseen, Instant::now(), pv, event.clone());
            next.events.push(event);
        }
    }

    /// Takes no more rows of the present line.
    fn freeze(&mut self) {
        let epoch = self.epoch;
        if let Some(handing) = &mut self.handing {
            handing.is_frozen = true;
            handing.shift.get_or_insert(Shift {
                from: epoch,
                epoch,
                offset: 0,
            });
            self.epoch = 0;
        }
    }

    fn step(&mut self, now: Instant) -> Step {
        let (latest, metadata) = (&self.latest, &self.metadata);
        let handing = self.handing.as_mut();
        let Some(next) = handing.and_then(|handing| handing.next.as_mut()) else {
            return Step::Gone;
        };
        if self.connection.state != ConnectionState::Connected {
            return Step::Restart;
        }
        if !next.is_complete() {
            next.complete_since = None;
            return Step::Wait;
        }
        let since = *next.complete_since.get_or_insert(now);
        let shape = |metadata: &Arc<Metadata>| (metadata.value_type, metadata.element_count);
        if metadata.as_ref().map(shape) != next.entry.metadata.as_ref().map(shape) {
            return Step::Restart;
        }
        let rows = &next.rows;
        let (Some(latest), Some(first)) = (latest, rows.front()) else {
            return Step::At(0);
        };
        let met = rows.iter().rposition(|row| is_same(row, latest));
        if let Some(at) = met {
            return Step::At(at + 1);
        }
        if now.duration_since(since) >= MEET_WITHIN {
            let newer = rows.iter().position(|row| row.time_ns > latest.time_ns);
            return Step::At(newer.unwrap_or(rows.len() - 1));
        }
        if first.time_ns <= latest.time_ns {
            self.freeze();
        }
        Step::Wait
    }
}

impl Next {
    fn is_complete(&mut self) -> bool {
        let entry = &self.entry;
        self.rows.retain(|row| row.epoch == entry.epoch);
        let metadata = entry.metadata.as_deref();
        entry.connection.state == ConnectionState::Connected
            && metadata.is_some_and(|metadata| metadata.value_type != ValueType::Unknown)
            && (!self.rows.is_empty() || !entry.connection.read)
    }

    fn keep(&mut self, row: Row) {
        let most = match row.value {
            RowValue::Number(_) => MOST_NUMBERS,
            RowValue::Blob(_) | RowValue::Structure { .. } => MOST_OTHERS,
        };
        if self.rows.len() >= most {
            self.rows.pop_front();
        }
        let before = self.rows.back().map_or(0, |before| before.sequence);
        let gap = row
            .sequence
            .wrapping_sub(before.wrapping_add(1 + row.squashed));
        if gap > 0 && self.entry.lost_on_bus > 0 {
            let lost = mem::take(&mut self.entry.lost_on_bus);
            let first = self.rows.front().map_or(row.sequence, |row| row.sequence);
            (self.lost).retain(|(number, _)| number.wrapping_sub(first) < u32::MAX / 2);
            self.lost.push((row.sequence, lost));
        }
        self.rows.push_back(row);
    }
}

/// Whether a row is the update that clients have.
fn is_same(row: &Row, latest: &Latest) -> bool {
    fn blob(value: &RowValue) -> Option<&BlobValue> {
        match value {
            RowValue::Number(_) => None,
            RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => Some(blob),
        }
    }
    (row.time_ns, row.alarm) == (latest.time_ns, latest.alarm)
        && match (&row.value, &latest.value) {
            (RowValue::Number(a), RowValue::Number(b)) => a == b || (a.is_nan() && b.is_nan()),
            (a, b) => blob(a) == blob(b),
        }
}

impl Table {
    /// Stores a row that isn't numbered as clients see it, or keeps it for a handover.
    #[cold]
    pub(super) fn apply_row_of_line(
        &mut self,
        changes: &mut Changes,
        now: Now,
        mut row: Row,
    ) -> Option<Skips> {
        let entry = self.entries.get_mut(row.pv.index());
        if let Some(entry) = entry
            && let Some(handing) = &mut entry.handing
        {
            if let Some(shift) = handing.shift.filter(|shift| shift.from == row.epoch) {
                if handing.is_frozen {
                    return None;
                }
                row.sequence = row.sequence.wrapping_add(shift.offset);
                return Self::take_row(entry, changes, now, row);
            }
            let next = handing.next.as_mut();
            if let Some(next) = next.filter(|next| next.entry.epoch == row.epoch) {
                next.keep(row);
                return None;
            }
        }
        self.stale_rows += 1;
        None
    }

    /// Takes the handovers further that are under way.
    pub(super) fn hand_over(&mut self, changes: &mut Changes, now: Now) {
        if self.handing.is_empty() {
            return;
        }
        let mut handing = mem::take(&mut self.handing);
        handing.retain(|&(pv, opening)| !self.hand_one_over(changes, now, pv, opening));
        self.handing.append(&mut handing);
        self.looks_at = (!self.handing.is_empty()).then(|| now.instant + LOOK_AFTER);
    }

    /// Returns whether the handover is finished.
    fn hand_one_over(&mut self, changes: &mut Changes, now: Now, pv: PvId, opening: u32) -> bool {
        let entry = &mut self.entries[pv.index()];
        if entry.opening != opening {
            return true;
        }
        let step = entry.step(now.instant);
        let at = match step {
            Step::Gone => return true,
            Step::Wait => return false,
            Step::Restart => None,
            Step::At(at) => Some(at),
        };
        let handing = entry.handing.as_mut();
        let Some(next) = handing.and_then(|handing| handing.next.take()) else {
            return true;
        };
        let shift = match at {
            None => self.restart(changes, now, (pv, opening), &next),
            Some(at) => self.resume(changes, now, pv, (&next, at)),
        };
        next.to.finish(shift);
        let rows = next.rows.into_iter().skip(at.unwrap_or(0)).enumerate();
        for (number, mut row) in rows {
            if number == 0 {
                row.value = row.value.into_whole();
            }
            let lost = next.lost.iter().find(|(number, _)| *number == row.sequence);
            if let Some((_, lost)) = lost.filter(|_| at.is_some()) {
                self.entries[pv.index()].lost_on_bus = *lost;
            }
            self.apply(changes, now, Taken::Row(row));
        }
        true
    }

    /// Gives the PV a line as if it had been disconnected.
    fn restart(
        &mut self,
        changes: &mut Changes,
        now: Now,
        (pv, opening): (PvId, u32),
        next: &Next,
    ) -> Shift {
        let line = next.line;
        let succeeded = Event::Succeeded { line };
        let events = next.events.iter().map(|event| (line, event.clone()));
        for (opening, event) in [(opening, succeeded)].into_iter().chain(events) {
            self.apply(changes, now, Taken::Notice(Notice { pv, opening, event }));
        }
        let epoch = next.entry.epoch;
        Shift {
            from: epoch,
            epoch,
            offset: 0,
        }
    }

    /// Gives a connected PV a line that goes on with the row `at`.
    fn resume(
        &mut self,
        changes: &mut Changes,
        now: Now,
        pv: PvId,
        (next, at): (&Next, usize),
    ) -> Shift {
        let entry = &mut self.entries[pv.index()];
        let newest = entry.latest.as_ref().map_or(0, |latest| latest.sequence);
        let before = match (at.checked_sub(1), next.rows.front()) {
            (Some(before), _) => next.rows[before].sequence,
            (None, Some(first)) => first.sequence.wrapping_sub(1 + first.squashed),
            (None, None) => 0,
        };
        let shift = Shift {
            from: next.entry.epoch,
            epoch: entry.epoch(),
            offset: newest.wrapping_sub(before),
        };
        let handing = entry.handing.get_or_insert_default();
        (handing.shift, handing.is_frozen) = (Some(shift), false);
        (entry.epoch, entry.line, entry.lost_on_bus) = (0, next.line, 0);
        let known = &next.entry;
        (entry.rights, entry.write_unknown) = (known.rights, known.write_unknown);
        entry.heard_ns = entry.heard_ns.max(known.heard_ns);
        (entry.is_unresponsive, entry.is_mirrored) = (known.is_unresponsive, known.is_mirrored);
        // Rows of the new line came after what its server refused before.
        entry.is_refused = known.is_refused && next.rows.is_empty();
        entry.is_described |= known.is_described;
        if let Some(metadata) = known.metadata.as_deref() {
            let mut metadata = Metadata {
                epoch: shift.epoch,
                ..metadata.clone()
            };
            if known.is_refused && !entry.is_refused {
                metadata.missing_field.clear();
            }
            if !known.is_described
                && let Some(before) = entry.metadata.as_deref()
            {
                metadata.description.clone_from(&before.description);
            }
            entry.set_metadata(changes, pv, metadata);
        }
        let before = entry.connection;
        entry.connection = Connection {
            since_ns: before.since_ns,
            puts: before.puts,
            ..known.connection
        };
        Self::connection_changed(entry, pv, before, changes, now);
        self.pass_to_filtered(changes, now, pv, Skips::NONE);
        shift
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pvwire_schema::types::{ConnectionState, Expected, Metadata, ValueType};

    use super::super::tests::{Bench, CALM, HIHI, PV};
    use super::*;
    use crate::ingest::Line;

    fn at(line: &Line, time_ns: i64) {
        line.update(time_ns, RowValue::Number(time_ns as f64), CALM);
    }

    fn connect(line: &Line, units: &str) {
        let (read, write) = (true, true);
        line.event(Event::Access { read, write });
        line.connected(false);
        line.event(Event::Metadata(Box::new(Metadata {
            value_type: ValueType::Float64,
            units: units.into(),
            epoch: line.epoch(),
            ..Metadata::default()
        })));
    }

    fn times(changes: &Changes) -> Vec<i64> {
        changes.rows.iter().map(|row| row.time_ns).collect()
    }

    /// A connected PV, the line that feeds it, and one that shall.
    fn handing_over() -> (Bench, Line, Line, Arc<Handover>) {
        let mut bench = Bench::new();
        let base = Line::open(&bench.intake, PV, false);
        let line = base.succeed();
        connect(&line, "mA");
        at(&line, 1);
        at(&line, 2);
        bench.tick();
        let (next, to) = base.hand_over();
        assert!(times(&bench.tick()).is_empty());
        (bench, line, next, to)
    }

    #[test]
    fn line_that_is_behind_takes_over_when_it_has_reached_the_newest_update() {
        let (mut bench, line, next, to) = handing_over();
        connect(&next, "mA");
        at(&next, 1);
        at(&line, 3);
        assert_eq!(times(&bench.tick()), [3]);
        // The next line brings this one.
        at(&line, 4);
        at(&next, 2);
        assert!(times(&bench.tick()).is_empty());
        at(&next, 3);
        at(&next, 4);
        let changes = bench.tick();
        assert_eq!(times(&changes), [4]);
        assert!(changes.connections.is_empty() && changes.metadata.is_empty());
        assert_eq!(changes.rows[0].skips, Skips::NONE);
        assert!(to.shift().is_some());
        // Nothing that the line before sends counts.
        at(&line, 5);
        line.event(Event::Disconnected);
        at(&next, 5);
        let changes = bench.tick();
        assert_eq!(times(&changes), [5]);
        assert!(changes.connections.is_empty());
    }

    #[test]
    fn line_that_is_ahead_takes_over_when_the_present_one_has_reached_it() {
        let (mut bench, line, next, to) = handing_over();
        connect(&next, "mA");
        at(&next, 4);
        assert!(times(&bench.tick()).is_empty());
        at(&next, 5);
        at(&line, 3);
        assert_eq!(times(&bench.tick()), [3]);
        assert!(to.shift().is_none());
        at(&line, 4);
        assert_eq!(times(&bench.tick()), [4, 5]);
        assert!(to.shift().is_some());
    }

    #[test]
    fn numbers_of_updates_go_on_in_both_directions() {
        let (mut bench, line, next, _) = handing_over();
        let before = line.newest();
        connect(&next, "V");
        at(&next, 2);
        at(&next, 3);
        let changes = bench.tick();
        assert_eq!(changes.metadata[0].1.units, "V");
        let entry = bench.table.entry(PV);
        let shown = Expected {
            sequence: entry.latest.as_ref().unwrap().sequence,
            epoch: entry.epoch(),
        };
        let expected = Expected {
            sequence: before.sequence + 1,
            ..before
        };
        assert_eq!((shown, next.newest()), (expected, expected));
        assert_eq!(next.of_line(shown).epoch, next.epoch());
        // Later metadata of the line has the epoch that clients know, unless the type changes.
        connect(&next, "A");
        assert_eq!(bench.tick().metadata[0].1.epoch, before.epoch);
        next.connected(true);
        bench.tick();
        assert_eq!(bench.table.entry(PV).epoch(), next.epoch());
    }

    #[test]
    fn lines_whose_time_stamps_never_meet_change_over_after_a_second() {
        let (mut bench, line, next, to) = handing_over();
        connect(&next, "mA");
        next.update(1, RowValue::Number(7.0), HIHI);
        assert!(times(&bench.tick()).is_empty());
        at(&line, 3);
        bench.tick();
        let changes = bench.tick_at(MEET_WITHIN);
        assert_eq!(times(&changes), [1]);
        assert_eq!(changes.rows[0].alarm, Some(HIHI));
        assert!(to.shift().is_some());
    }

    #[test]
    fn updates_that_the_bus_loses_during_a_handover_count_as_lost_there() {
        let (mut bench, line, next, _) = handing_over();
        let send = |number: u32| {
            let (time_ns, value) = (i64::from(number), RowValue::Number(f64::from(number)));
            next.update_at((number, 0), time_ns, value, CALM, None);
        };
        connect(&next, "mA");
        send(3);
        for (number, lost) in [(5, 1), (8, 2), (10, 1)] {
            next.event(Event::LostOnBus(lost));
            send(number);
            assert!(times(&bench.tick()).is_empty());
        }
        // The present line has the update before this one.
        at(&line, 3);
        at(&line, 5);
        let changes = bench.tick();
        assert_eq!(times(&changes), [3, 5, 8, 10]);
        let skips: Vec<_> = changes.rows.iter().map(|row| row.skips).collect();
        let lost = |bus| Skips { bus, ..Skips::NONE };
        assert_eq!(skips, [lost(0), lost(0), lost(2), lost(1)]);
    }

    #[test]
    fn handover_that_is_ended_leaves_the_present_line() {
        let (mut bench, line, next, to) = handing_over();
        connect(&next, "mA");
        at(&next, 1);
        bench.tick();
        at(&line, 3);
        assert!(times(&bench.tick()).is_empty());
        line.keep();
        at(&line, 4);
        let changes = bench.tick();
        assert_eq!(times(&changes), [4]);
        // The one before it was left to the next line.
        assert_eq!(changes.rows[0].skips.total(), 1);
        at(&next, 5);
        assert!(times(&bench.tick_at(Duration::from_secs(9))).is_empty());
        assert!(to.shift().is_none());
    }

    #[test]
    fn value_of_the_same_tick_is_discarded_when_the_next_line_begins_an_epoch() {
        let (mut bench, line, next, _) = handing_over();
        connect(&next, "mA");
        at(&next, 9);
        // A value of a line that isn't connected any more may still come.
        line.event(Event::Disconnected);
        at(&line, 3);
        let changes = bench.tick();
        assert_eq!(times(&changes), [9]);
        assert_eq!(changes.rows[0].alarm, Some(CALM));
        assert_eq!(changes.metadata[0].1.epoch, next.epoch());
    }

    #[test]
    fn value_that_the_next_line_sends_at_last_has_no_reason_why_it_is_missing() {
        let (mut bench, _line, next, to) = handing_over();
        connect(&next, "mA");
        next.refused("too large".to_owned());
        bench.tick();
        at(&next, 2);
        at(&next, 3);
        assert_eq!(times(&bench.tick()), [3]);
        assert!(to.shift().is_some());
        let entry = bench.table.entry(PV);
        assert_eq!((entry.reason(), entry.refusal()), ("", None));
        assert!(entry.is_complete());
        // The line that feeds the PV now is refused.
        next.refused("too large".to_owned());
        bench.tick();
        assert_eq!(bench.table.entry(PV).refusal(), Some("too large"));
    }

    #[test]
    fn pv_that_disconnects_meanwhile_begins_anew_with_the_next_line() {
        let (mut bench, line, next, to) = handing_over();
        line.event(Event::Disconnected);
        connect(&next, "mA");
        at(&next, 9);
        let changes = bench.tick();
        assert_eq!(times(&changes), [9]);
        let entry = bench.table.entry(PV);
        assert_eq!(entry.connection.state, ConnectionState::Connected);
        assert!(to.shift().is_some());
    }
}
