//! Results of subscriptions: each selection of a PV is executed once per update, whatever the number of clients.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use pvwire_coniql::{Documents, Snapshot, Watch, Writer, part, push_record};
use pvwire_schema::types::{Alarm, FrameKind, PvId, Reply, SkipCause};

use super::errand::{sample, writer};
use super::full_name;
use super::side::parts;
use crate::fanout::dirty::Dirty;
use crate::fanout::encoding::{Described, MessageEncoder, Values};
use crate::fanout::frame::Frame;
use crate::fanout::set::PvSet;
use crate::ingest::{Form, OpEnd};
use crate::state::table::{ChangedRow, Changes, Entry, Latest, Now, Table, Together, is_large};

/// Every part of a PV.
const ALL: u32 = u32::MAX;

/// A PV and the number of a selection.
type Key = (PvId, u32);

/// A form of a PV, which one or more clients subscribe.
#[derive(Debug)]
struct KnownForm {
    form: Arc<Form>,
    key: Key,
    /// The tick to which `rows` belongs.
    tick: u64,
    /// Number of its updates in that tick so far.
    rows: usize,
}

/// A selection of a PV, which all its forms share.
#[derive(Debug)]
struct Watched {
    /// The relay's name of the PV.
    name: String,
    watch: Watch,
    /// The alarm of the last update.
    alarm: Alarm,
    /// A value that is too large for this thread came since the last update.
    is_stale: bool,
    /// Number of its forms.
    forms: usize,
    /// The tick to which `results` belong.
    tick: u64,
    /// The tick in which the PV was read again, because more than its value changed.
    refreshed: u64,
    /// The results of this tick, update by update: where they are in `Results::bytes`.
    results: Vec<Option<Range<usize>>>,
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
    forms: Vec<Option<Box<KnownForm>>>,
    watched: HashMap<Key, Watched>,
    /// The tick's results.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// PVs with a large value in the tick.
    large: HashSet<PvId>,
    /// The last tick whose changes were taken. The changes of ticks without clients are not.
    begun: u64,
}

/// The state of a PV, with its value if the value is small enough to be written on this thread.
fn state<'a>(name: &'a str, entry: &'a Entry) -> Snapshot<'a> {
    let state = Snapshot::new(name, &entry.connection, entry.metadata.as_deref());
    match entry.latest.as_ref().filter(|it| !is_large(&it.value)) {
        None => state,
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

fn has_large(entry: &Entry) -> bool {
    (entry.latest.as_ref()).is_some_and(|latest| is_large(&latest.value))
}

impl Results {
    pub(super) fn new(documents: Arc<Documents>) -> Self {
        Self {
            documents,
            writer: writer(),
            forms: Vec::new(),
            watched: HashMap::new(),
            bytes: Vec::new(),
            spans: Vec::new(),
            large: HashSet::new(),
            begun: 0,
        }
    }

    /// The key of a form that is known already.
    fn key_of(&self, pv: PvId, entry: &Entry) -> Option<Key> {
        let known = self.forms.get(pv.index())?.as_deref()?;
        // Another PV may have this id now.
        let is_same = (entry.form()).is_some_and(|form| Arc::ptr_eq(form, &known.form));
        is_same.then_some(known.key)
    }

    /// The key of a form. A new one is read for its first client.
    fn learn(&mut self, pv: PvId, entry: &Entry) -> Option<Key> {
        if let Some(key) = self.key_of(pv, entry) {
            return Some(key);
        }
        let (form, base) = (entry.form()?, entry.base()?);
        let wanted = parts(form)?;
        let key = (base, wanted.selection);
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.forms += 1;
        } else {
            let known = self.documents.selections().find(wanted.selection)?;
            let mut watched = Watched {
                name: full_name(&wanted.name),
                watch: Watch::new(Arc::clone(&known.selection)),
                alarm: Alarm::NONE,
                is_stale: has_large(entry),
                forms: 1,
                tick: 0,
                refreshed: 0,
                results: Vec::new(),
            };
            watched.read(entry, ALL, &mut self.writer);
            self.watched.insert(key, watched);
        }
        if pv.index() >= self.forms.len() {
            self.forms.resize_with(pv.index() + 1, || None);
        }
        let known = KnownForm {
            form: Arc::clone(form),
            key,
            tick: 0,
            rows: 0,
        };
        let before = self.forms[pv.index()].replace(Box::new(known));
        if let Some(before) = before {
            self.let_go(before.key);
        }
        Some(key)
    }

    /// A form of this key is gone.
    fn let_go(&mut self, key: Key) {
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.forms -= 1;
            if watched.forms == 0 {
                self.watched.remove(&key);
            }
        }
    }

    /// Reads a PV again of which more than the value changed, once per tick and selection.
    fn refresh(&mut self, table: &Table, tick: u64, pv: PvId) {
        let Some(entry) = table.get(pv) else { return };
        let Some(watched) = self
            .key_of(pv, entry)
            .and_then(|key| self.watched.get_mut(&key))
        else {
            return;
        };
        if watched.refreshed != tick {
            watched.refreshed = tick;
            watched.begin(tick);
            // A large value comes with all the rest.
            if !self.large.contains(&pv) || !entry.is_complete() {
                let range = watched.read(entry, ALL, &mut self.writer);
                let range = range.then(|| keep(&watched.watch, &mut self.bytes));
                watched.results.push(range);
            }
        }
        let is_told = self.forms[pv.index()].as_mut().is_some_and(|known| {
            let is_first = known.tick != tick;
            known.tick = tick;
            !is_first
        });
        if !is_told && let Some(Some(range)) = watched.results.last() {
            let range = range.clone();
            self.spans.push(Span { pv, range });
        }
    }

    fn row(&mut self, table: &Table, tick: u64, row: &ChangedRow) {
        let pv = row.pv;
        // The clients of a form that isn't known get their first messages after this tick.
        let Some(known) = self
            .forms
            .get_mut(pv.index())
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        let entry = table.entry(pv);
        if !(entry.form()).is_some_and(|form| Arc::ptr_eq(form, &known.form)) {
            return;
        }
        let Some(watched) = self.watched.get_mut(&known.key) else {
            return;
        };
        // What was read for one form is sent to the clients of the others, too.
        if watched.refreshed == tick || !entry.is_complete() {
            return self.refresh(table, tick, pv);
        }
        if known.tick != tick {
            (known.tick, known.rows) = (tick, 0);
        }
        watched.begin(tick);
        if known.rows >= watched.results.len() {
            let is_new = watched.take(row, entry, &mut self.writer);
            let range = is_new.then(|| keep(&watched.watch, &mut self.bytes));
            watched.results.push(range);
        }
        if let Some(Some(range)) = watched.results.get(known.rows) {
            let range = range.clone();
            self.spans.push(Span { pv, range });
        }
        known.rows += 1;
    }

    /// The spans of a set's PVs. A group with few PVs doesn't look at the results of all others.
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

/// Keeps the result of an update until the end of the tick.
fn keep(watch: &Watch, bytes: &mut Vec<u8>) -> Range<usize> {
    let begin = bytes.len();
    bytes.extend_from_slice(watch.changes());
    begin..bytes.len()
}

impl Watched {
    fn begin(&mut self, tick: u64) {
        if self.tick != tick {
            self.tick = tick;
            self.results.clear();
        }
    }

    /// Reads what the table has; returns whether there is a result.
    fn read(&mut self, entry: &Entry, parts: u32, writer: &mut Writer) -> bool {
        if let Some(latest) = &entry.latest {
            self.alarm = latest.alarm;
        }
        self.watch.update(&state(&self.name, entry), parts, writer)
    }

    /// Takes an update; returns whether there is a result.
    fn take(&mut self, row: &ChangedRow, entry: &Entry, writer: &mut Writer) -> bool {
        let mut parts = part::VALUE | part::TIME;
        if row.alarm.is_some() || row.detail.is_some() {
            parts |= part::ALARM;
        }
        self.alarm = row.alarm.unwrap_or(self.alarm);
        if std::mem::take(&mut self.is_stale) {
            parts = ALL;
        }
        let detail = entry.latest.as_ref().and_then(|it| it.detail.as_deref());
        let state = Snapshot::new(&self.name, &entry.connection, entry.metadata.as_deref())
            .with_value(sample(&row.value), row.time_ns, self.alarm, detail);
        self.watch.update(&state, parts, writer)
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
        for row in &changes.large {
            if let Some(entry) = table.get(row.pv)
                && let Some(key) = self.key_of(row.pv, entry)
                && let Some(watched) = self.watched.get_mut(&key)
            {
                watched.is_stale = true;
                watched.alarm = row.latest.alarm;
            }
        }
        let connections = changes.connections.iter().map(|(pv, _)| *pv);
        let metadata = changes.metadata.iter().map(|(pv, _)| *pv);
        for pv in connections.chain(metadata) {
            self.refresh(table, changes.tick, pv);
        }
        for row in &changes.rows {
            self.row(table, changes.tick, row);
        }
        // Stable: the results of one PV stay in their order.
        self.spans.sort_by_key(|span| span.pv);
    }

    fn sweep(&mut self, table: &Table) -> bool {
        for index in 0..self.forms.len() {
            let entry = table.get(PvId(index as u32));
            let form = entry.and_then(Entry::form);
            let is_gone = |known: &mut Box<KnownForm>| {
                form.is_none_or(|form| !Arc::ptr_eq(form, &known.form))
            };
            if let Some(gone) = self.forms[index].take_if(is_gone) {
                self.let_go(gone.key);
            }
        }
        while self.forms.pop_if(|form| form.is_none()).is_some() {}
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
        self.complete(table, &ids, tick)
    }

    fn large(
        &mut self,
        _kind: FrameKind,
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
        let state = Snapshot::new(&name, &of.connection, Some(&**metadata));
        let mut channel = Vec::new();
        (self.writer).write(&known.selection, &valued(state, latest), &mut channel);
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
        self.complete(table, ids, tick)
    }

    fn answer(&mut self, _tick: u64, _to: u32, _reply: &Reply) -> Frame {
        nothing()
    }

    fn put_answer(&mut self, _tick: u64, _to: u32, _end: &OpEnd) -> Frame {
        nothing()
    }

    fn call_answer(&mut self, _tick: u64, _to: u32, _end: &OpEnd) -> Frame {
        nothing()
    }

    fn probe(&mut self, _tick: u64) -> Frame {
        nothing()
    }
}

impl Results {
    /// The complete results of PVs, except those whose values follow in separate frames.
    fn complete(&mut self, table: &Table, ids: &[PvId], tick: u64) -> Frame {
        if self.begun != tick {
            // There was no client: what is known here may be old.
            self.forms.clear();
            self.watched.clear();
            self.begun = tick;
        }
        let (mut out, mut rows, mut together) = (Vec::new(), 0, Together::default());
        for &pv in ids {
            let entry = table.entry(pv);
            let latest = entry.latest.as_ref();
            let apart = latest.is_some_and(|latest| !together.takes(&latest.value));
            let Some(key) = self.learn(pv, entry) else {
                continue;
            };
            let Some(watched) = self.watched.get_mut(&key) else {
                continue;
            };
            if apart && entry.is_complete() {
                continue;
            }
            if std::mem::take(&mut watched.is_stale) || watched.watch.full().is_empty() {
                watched.read(entry, ALL, &mut self.writer);
                watched.is_stale = has_large(entry);
            }
            if !watched.watch.full().is_empty() {
                push_record(&mut out, pv, watched.watch.full());
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

    fn answer(&mut self, _: u64, _: u32, _: &Reply) -> Frame {
        nothing()
    }

    fn put_answer(&mut self, _: u64, _: u32, _: &OpEnd) -> Frame {
        nothing()
    }

    fn call_answer(&mut self, _: u64, _: u32, _: &OpEnd) -> Frame {
        nothing()
    }

    fn probe(&mut self, _: u64) -> Frame {
        nothing()
    }
}
