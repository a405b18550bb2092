//! Results of subscriptions: each selection of a PV is executed once per update, whatever the number of clients.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pvwire_coniql::{CAUSES, Documents, Snapshot, Watch, Writer, part, push_record};
use pvwire_schema::types::{Alarm, FrameKind, PvId, Reply, SkipCause, Skips};

use super::batch::{sample, writer};
use super::full_name;
use super::session::parts;
use crate::fanout::dirty::Dirty;
use crate::fanout::encoding::{Described, MessageEncoder, Values};
use crate::fanout::frame::Frame;
use crate::fanout::set::PvSet;
use crate::ingest::Form;
use crate::state::table::{ChangedRow, Changes, Entry, Latest, Now, Table, Together, is_large};

/// Every part of a PV.
const ALL: u32 = u32::MAX;

/// A form of a PV: a PV with a selection, which one or more clients subscribe.
#[derive(Debug)]
struct Watched {
    form: Arc<Form>,
    /// The relay's name of the PV.
    name: String,
    watch: Watch,
    /// The alarm of the last update.
    alarm: Alarm,
    /// The last update was too large for this thread, so that `watch` doesn't have what the clients know.
    is_stale: bool,
    /// The tick in which the PV was read again, because more than its value changed.
    refreshed: u64,
    skips: SkipCounts,
}

/// Numbers of values that were skipped since the form exists, by the numbers of their causes. All its clients get the
/// same result, so that what one of them was too slow for is not among them.
type SkipCounts = [f64; CAUSES];

/// Skipped values of forms whose values are large: the threads that write those don't know the forms.
#[derive(Debug, Default)]
pub(super) struct LargeSkips(Mutex<HashMap<PvId, SkipCounts>>);

impl LargeSkips {
    fn counts(&self) -> MutexGuard<'_, HashMap<PvId, SkipCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A result for the clients of a form.
#[derive(Clone, Debug)]
struct Span {
    pv: PvId,
    range: Range<usize>,
}

/// Executes selections. The tick thread's instance knows the forms; those of the shards make only large values.
pub(super) struct Results {
    documents: Arc<Documents>,
    writer: Writer,
    /// Indexed by PV id.
    forms: Vec<Option<Box<Watched>>>,
    /// The tick's results.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// PVs with a large value in the tick.
    large: HashSet<PvId>,
    large_skips: Arc<LargeSkips>,
    /// The last tick whose changes were taken. The changes of ticks without clients are not.
    begun: u64,
}

/// The state of a PV, with its value if the value is small enough to be written on this thread.
fn state<'a>(name: &'a str, entry: &'a Entry) -> Snapshot<'a> {
    let state = Snapshot::new(name, &entry.connection, entry.metadata.as_deref());
    match &entry.latest {
        None => state,
        Some(latest) if is_large(&latest.value) => {
            state.with_time(latest.time_ns, latest.alarm, latest.detail.as_deref())
        }
        Some(latest) => valued(state, latest),
    }
}

fn valued<'a>(state: Snapshot<'a>, latest: &'a Latest) -> Snapshot<'a> {
    state.with_value(
        sample(&latest.value),
        latest.time_ns,
        latest.alarm,
        latest.detail.as_deref(),
    )
}

impl Results {
    pub(super) fn new(documents: Arc<Documents>, large_skips: Arc<LargeSkips>) -> Self {
        Self {
            documents,
            writer: writer(),
            forms: Vec::new(),
            bytes: Vec::new(),
            spans: Vec::new(),
            large: HashSet::new(),
            large_skips,
            begun: 0,
        }
    }

    /// A form that is known already.
    fn known(&mut self, pv: PvId, entry: &Entry) -> Option<&mut Watched> {
        let known = self.forms.get_mut(pv.index())?.as_deref_mut()?;
        known.is_of(entry).then_some(known)
    }

    /// Adds a form that isn't known yet. `None` if its selection is no longer in use.
    fn learn(&mut self, pv: PvId, entry: &Entry) -> Option<()> {
        if self.known(pv, entry).is_some() {
            return Some(());
        }
        let (form, latest) = (entry.form()?, &entry.latest);
        let wanted = parts(form)?;
        let known = self.documents.selections().find(wanted.selection)?;
        if pv.index() >= self.forms.len() {
            self.forms.resize_with(pv.index() + 1, || None);
        }
        self.forms[pv.index()] = Some(Box::new(Watched {
            form: Arc::clone(form),
            name: full_name(&wanted.name),
            watch: Watch::new(Arc::clone(&known.selection)),
            alarm: (latest.as_ref()).map_or(Alarm::NONE, |latest| latest.alarm),
            is_stale: false,
            refreshed: 0,
            skips: [0.0; CAUSES],
        }));
        Some(())
    }

    /// Counts what was skipped before the tick's values of PVs of which more than the value changed: only the newest
    /// value of such a PV is read.
    fn count_unread(&mut self, table: &Table, changes: &Changes) {
        let connections = changes.connections.iter().map(|(pv, _)| *pv);
        let metadata = changes.metadata.iter().map(|(pv, _)| *pv);
        let read_again: HashSet<_> = connections.chain(metadata).collect();
        if read_again.is_empty() {
            return;
        }
        let rows = changes.rows.iter();
        for row in rows.filter(|row| row.skips != Skips::NONE && read_again.contains(&row.pv)) {
            if let Some(known) = self.known(row.pv, table.entry(row.pv)) {
                known.count(row.skips);
            }
        }
    }

    /// Reads a PV again of which more than the value changed, once per tick.
    fn refresh(&mut self, table: &Table, tick: u64, pv: PvId) {
        let Some(entry) = table.get(pv) else { return };
        // A large value comes with all the rest.
        let comes_apart = self.large.contains(&pv) && entry.is_complete();
        self.write(pv, entry, |watched, writer| {
            let is_first = watched.refreshed != tick;
            watched.refreshed = tick;
            is_first && !comes_apart && watched.read(entry, writer)
        });
    }

    fn row(&mut self, table: &Table, tick: u64, row: &ChangedRow) {
        let entry = table.entry(row.pv);
        if !entry.is_complete() {
            return self.refresh(table, tick, row.pv);
        }
        self.write(row.pv, entry, |watched, writer| {
            watched.refreshed != tick && watched.take(row, entry, writer)
        });
    }

    /// Changes a form that is known, and keeps the result if there is one. The clients of a form that isn't known
    /// get their first messages after this tick.
    fn write(
        &mut self,
        pv: PvId,
        entry: &Entry,
        change: impl FnOnce(&mut Watched, &mut Writer) -> bool,
    ) {
        let known = self
            .forms
            .get_mut(pv.index())
            .and_then(Option::as_deref_mut);
        let Some(known) = known.filter(|known| known.is_of(entry)) else {
            return;
        };
        if change(known, &mut self.writer) {
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(known.watch.changes());
            let range = begin..self.bytes.len();
            self.spans.push(Span { pv, range });
        }
    }

    /// The spans of a set's PVs. A group with few PVs doesn't scan the results of all others.
    fn spans_of<'a>(&'a self, set: &'a PvSet) -> Vec<&'a Span> {
        if set.ids().len() >= self.spans.len() {
            return (self.spans.iter())
                .filter(|span| set.contains(span.pv))
                .collect();
        }
        let of = |&pv: &PvId| {
            let begin = self.spans.partition_point(|span| span.pv < pv);
            self.spans[begin..]
                .iter()
                .take_while(move |span| span.pv == pv)
        };
        set.ids().iter().flat_map(of).collect()
    }
}

impl Watched {
    /// Whether this entry has the form. Another PV may have its id now.
    fn is_of(&self, entry: &Entry) -> bool {
        (entry.form()).is_some_and(|form| Arc::ptr_eq(form, &self.form))
    }

    /// Reads what the table has; returns whether there is a result.
    fn read(&mut self, entry: &Entry, writer: &mut Writer) -> bool {
        if std::mem::take(&mut self.is_stale) {
            self.watch.begin_again();
        }
        if let Some(latest) = &entry.latest {
            self.alarm = latest.alarm;
            self.is_stale = is_large(&latest.value);
        }
        let unwritten = if self.is_stale { part::VALUE } else { 0 };
        let state = state(&self.name, entry).with_skips(self.skips);
        self.watch.update_without(&state, ALL, unwritten, writer)
    }

    /// Takes an update; returns whether there is a result.
    fn take(&mut self, row: &ChangedRow, entry: &Entry, writer: &mut Writer) -> bool {
        let mut parts = part::VALUE | part::TIME;
        if row.alarm.is_some() || row.detail.is_some() {
            parts |= part::ALARM;
        }
        self.alarm = row.alarm.unwrap_or(self.alarm);
        if std::mem::take(&mut self.is_stale) {
            self.watch.begin_again();
            parts = ALL;
        }
        let detail = entry.latest.as_ref().and_then(|it| it.detail.as_deref());
        if row.skips != Skips::NONE {
            self.count(row.skips);
            parts |= part::SKIPPED;
        }
        let state = Snapshot::new(&self.name, &entry.connection, entry.metadata.as_deref())
            .with_skips(self.skips)
            .with_value(sample(&row.value), row.time_ns, self.alarm, detail);
        self.watch.update(&state, parts, writer)
    }

    fn count(&mut self, skips: Skips) {
        for (cause, count) in skips.by_cause() {
            self.skips[usize::from(cause.number())] += f64::from(count);
        }
    }
}

fn nothing() -> Frame {
    Frame::raw(Vec::new())
}

impl MessageEncoder for Results {
    fn begin(&mut self, table: &Table, changes: &Changes, _now: Now) {
        self.begun = changes.tick;
        self.bytes.clear();
        self.spans.clear();
        self.large.clear();
        self.large.extend(changes.large.iter().map(|row| row.pv));
        self.count_unread(table, changes);
        let connections = changes.connections.iter().map(|(pv, _)| *pv);
        let metadata = changes.metadata.iter().map(|(pv, _)| *pv);
        for pv in connections.chain(metadata) {
            self.refresh(table, changes.tick, pv);
        }
        for row in &changes.rows {
            self.row(table, changes.tick, row);
        }
        for row in &changes.large {
            if let Some(entry) = table.get(row.pv)
                && let Some(watched) = self.known(row.pv, entry)
            {
                watched.is_stale = true;
                watched.alarm = row.latest.alarm;
                watched.count(row.skips);
                let skips = watched.skips;
                self.large_skips.counts().insert(row.pv, skips);
            }
        }
        // Stable: the results of one PV stay in their order.
        self.spans.sort_by_key(|span| span.pv);
    }

    fn sweep(&mut self, table: &Table) -> bool {
        for index in 0..self.forms.len() {
            let entry = table.get(PvId(index as u32));
            self.forms[index].take_if(|known| entry.is_none_or(|entry| !known.is_of(entry)));
        }
        while self.forms.pop_if(|form| form.is_none()).is_some() {}
        let forms = &self.forms;
        let is_known = |pv: &PvId| forms.get(pv.index()).is_some_and(Option::is_some);
        self.large_skips.counts().retain(|pv, _| is_known(pv));
        !self.forms.is_empty()
    }

    fn update(
        &mut self,
        changes: &Changes,
        _dirty: Option<&Dirty>,
        set: &PvSet,
        _prev_tick: u64,
    ) -> Option<Frame> {
        let mut bytes = Vec::new();
        let mut rows = 0;
        for Span { pv, range } in self.spans_of(set) {
            push_record(&mut bytes, *pv, &self.bytes[range.clone()]);
            rows += 1;
        }
        // A large value follows the frame of its tick, even an empty one.
        let follows = || changes.large.iter().any(|row| set.contains(row.pv));
        (rows > 0 || follows()).then(|| Frame::raw(bytes).with_rows(rows))
    }

    fn catch_up(
        &mut self,
        table: &Table,
        set: &PvSet,
        (since, _): (u64, SkipCause),
        tick: u64,
    ) -> Frame {
        let changed = |pv: &PvId| {
            let entry = table.entry(*pv);
            entry.value_tick > since || entry.connection_tick > since || entry.metadata_tick > since
        };
        let ids: Vec<_> = set.ids().iter().copied().filter(changed).collect();
        self.complete(table, &ids, tick, |watch, out| watch.catch_up(out))
    }

    fn large(
        &mut self,
        kind: FrameKind,
        _tick: u64,
        pv: PvId,
        (latest, _): (&Latest, SkipCause),
        of: Described<'_>,
    ) -> Frame {
        let Some((form, metadata)) = of.form else {
            return nothing();
        };
        let Some(wanted) = parts(form) else {
            return nothing();
        };
        let Some(known) = self.documents.selections().find(wanted.selection) else {
            return nothing();
        };
        let name = full_name(&wanted.name);
        let skips = self.large_skips.counts().get(&pv).copied();
        let state = Snapshot::new(&name, &of.connection, Some(&**metadata))
            .with_skips(skips.unwrap_or_default());
        let state = valued(state, latest);
        let mut channel = Vec::new();
        if kind == FrameKind::Snapshot {
            (self.writer).write(&known.selection, &state, &mut channel);
        } else {
            let mut watch = Watch::new(Arc::clone(&known.selection));
            watch.begin_again();
            watch.update(&state, ALL, &mut self.writer);
            channel.extend_from_slice(watch.changes());
        }
        let mut bytes = Vec::with_capacity(channel.len() + 8);
        push_record(&mut bytes, pv, &channel);
        Frame::raw(bytes).with_rows(1)
    }

    fn reply_with(
        &mut self,
        _kind: FrameKind,
        tick: u64,
        _to: u32,
        _reply: &Reply,
        (table, ids): Values<'_>,
    ) -> Frame {
        self.complete(table, ids, tick, |watch, out| {
            out.extend_from_slice(watch.full());
        })
    }
}

impl Results {
    /// The complete results of PVs, except those whose values follow in separate frames. `push` appends one.
    fn complete(
        &mut self,
        table: &Table,
        ids: &[PvId],
        tick: u64,
        push: impl Fn(&mut Watch, &mut Vec<u8>),
    ) -> Frame {
        if self.begun != tick {
            // There was no client: what is known here may be old.
            self.forms.clear();
            self.begun = tick;
        }
        let (mut out, mut rows, mut together) = (Vec::new(), 0, Together::default());
        let mut channel = Vec::new();
        for &pv in ids {
            let entry = table.entry(pv);
            let latest = entry.latest.as_ref();
            let apart = latest.is_some_and(|latest| !together.takes(&latest.value));
            if self.learn(pv, entry).is_none() {
                continue;
            }
            let known = self.forms[pv.index()].as_deref_mut();
            let watched = known.expect("it was learned");
            if apart && entry.is_complete() {
                // Clients get what `watch` doesn't have.
                watched.is_stale |= watched.watch.full().is_empty();
                continue;
            }
            if watched.is_stale || watched.watch.full().is_empty() {
                watched.read(entry, &mut self.writer);
            }
            if !watched.watch.full().is_empty() {
                channel.clear();
                push(&mut watched.watch, &mut channel);
                push_record(&mut out, pv, &channel);
                rows += 1;
            }
        }
        Frame::raw(out).with_rows(rows)
    }
}

/// The encoder of clients that get no messages.
pub(super) struct Nothing;

impl MessageEncoder for Nothing {
    fn update(&mut self, _: &Changes, _: Option<&Dirty>, _: &PvSet, _: u64) -> Option<Frame> {
        None
    }

    fn catch_up(&mut self, _: &Table, _: &PvSet, _: (u64, SkipCause), _: u64) -> Frame {
        nothing()
    }

    fn large(
        &mut self,
        _: FrameKind,
        _: u64,
        _: PvId,
        _: (&Latest, SkipCause),
        _: Described<'_>,
    ) -> Frame {
        nothing()
    }

    fn reply_with(&mut self, _: FrameKind, _: u64, _: u32, _: &Reply, _: Values<'_>) -> Frame {
        nothing()
    }
}

#[cfg(test)]
mod tests;
