//! The texts of updates. Each is written once per tick and form, and copied into the frame of each group.

use std::collections::HashSet;
use std::sync::Arc;

use pvwire_pvws::{Dialect, Life, Received, Sample, State, Value};
use pvwire_schema::types::{Alarm, Connection, ConnectionState, FrameKind, PvId, Reply, SkipCause};

use super::spellings::Spellings;
use crate::fanout::dirty::Dirty;
use crate::fanout::encoding::{Described, MessageEncoder, Values};
use crate::fanout::frame::Frame;
use crate::fanout::set::PvSet;
use crate::ingest::{Form, RowValue};
use crate::ops::latency::wall_ns;
use crate::state::table::{ChangedRow, Changes, Entry, Latest, Now, Table, Together};

/// A form and the state that its clients know.
#[derive(Debug)]
struct FormLife {
    form: Arc<Form>,
    life: Life,
    /// What was noted of it under its spelling.
    noted: Received,
    /// The last tick in which `refresh` wrote its messages.
    refreshed: u64,
    /// The alarm of the last update that was sent.
    alarm: Alarm,
    /// The last tick that changed the class of the value.
    class_tick: u64,
}

impl FormLife {
    /// Notes what its clients have received.
    fn note(&mut self, spellings: &mut Spellings) {
        let received = self.life.received();
        if received != self.noted {
            self.noted = received;
            spellings.note(&self.form, received);
        }
    }
}

/// Number of PVs that one sweep visits.
const SWEPT_AT_A_TIME: usize = 12_288;

/// Bytes that the messages of a tick may occupy after it.
const ROOM: usize = 64 << 10;

/// Bytes of one or more messages about one PV.
#[derive(Clone, Copy, Debug)]
struct Span {
    pv: PvId,
    begin: usize,
    end: usize,
    rows: u32,
}

/// Writes the texts. The tick thread's instance knows the forms; those of the shards make only large values.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Indexed by PV id.
    lives: Vec<Option<Box<FormLife>>>,
    spellings: Spellings,
    /// Index in `lives` at which the next sweep begins.
    swept: usize,
    /// The tick's messages.
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// PVs whose connection changes of the tick contain a loss.
    away: HashSet<PvId>,
    /// PVs with a large value in the tick.
    large: HashSet<PvId>,
}

fn dialect(form: &Form) -> Dialect {
    Dialect::of(form.scheme).unwrap_or(Dialect::Ca)
}

pub(super) fn value(value: &RowValue) -> Value<'_> {
    match value {
        RowValue::Number(number) => Value::Number(*number),
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => Value::Blob(blob),
    }
}

/// A value with its time stamp, see [`stamp`].
pub(super) fn sample(latest: &Latest, dialect: Dialect, now_ns: i64) -> Sample<'_> {
    Sample {
        value: value(&latest.value),
        alarm: latest.alarm,
        message: (latest.detail.as_ref()).map_or("", |detail| &detail.message),
        time_ns: stamp(latest.time_ns, dialect, now_ns),
    }
}

/// A value without a time stamp has the time of its message, as in PVWS. By Channel Access it is that of a record which
/// was never processed, for which the door writes the start of the EPICS epoch.
fn stamp(time_ns: i64, dialect: Dialect, now_ns: i64) -> i64 {
    match time_ns {
        0 if dialect != Dialect::Ca => now_ns,
        stamp => stamp,
    }
}

fn alarm(entry: &Entry) -> Alarm {
    let latest = entry.latest.as_ref();
    latest.map_or(Alarm::NONE, |latest| latest.alarm)
}

/// Whether a PV is connected to a server that responds.
fn is_up(connection: &Connection) -> bool {
    connection.state == ConnectionState::Connected && !is_unresponsive(connection)
}

/// Whether a PV's server doesn't respond, although its connection isn't lost yet.
fn is_unresponsive(connection: &Connection) -> bool {
    connection.heard_ns != 0
}

fn state<'a>(entry: &'a Entry, form: &Form, now_ns: i64) -> State<'a> {
    let connection = &entry.connection;
    let is_connected = entry.is_complete() && !is_unresponsive(connection);
    let is_lost = matches!(
        connection.state,
        ConnectionState::NotFound | ConnectionState::Disconnected
    );
    State {
        is_connected,
        is_absent: entry.is_overdue() || is_lost || is_unresponsive(connection),
        is_unreadable: is_up(connection) && !connection.read,
        readonly: !(connection.write && connection.puts && form.may_write),
        metadata: entry.metadata.as_deref(),
        latest: (entry.latest.as_ref()).map(|latest| sample(latest, dialect(form), now_ns)),
        now_ns,
    }
}

/// The form of a PV, if it is known already.
fn known<'a>(
    lives: &'a mut [Option<Box<FormLife>>],
    pv: PvId,
    entry: &Entry,
) -> Option<&'a mut FormLife> {
    let known = lives.get_mut(pv.index())?.as_deref_mut()?;
    // Another PV may have this id now.
    let is_same = entry
        .form()
        .is_some_and(|form| Arc::ptr_eq(form, &known.form));
    is_same.then_some(known)
}

impl Texts {
    /// The form of a PV and the PV's state. The clients of a new form know that state.
    fn form<'a>(
        &mut self,
        pv: PvId,
        entry: &'a Entry,
        now_ns: i64,
    ) -> Option<(&mut FormLife, &mut Spellings, State<'a>)> {
        let form = entry.form()?;
        let state = state(entry, form, now_ns);
        if known(&mut self.lives, pv, entry).is_none() {
            if pv.index() >= self.lives.len() {
                self.lives.resize_with(pv.index() + 1, || None);
            }
            let mut life = Life::new(&form.spelling, dialect(form), &state);
            self.spellings.add(form);
            life.inherit(self.spellings.received(form));
            let before = self.lives[pv.index()].replace(Box::new(FormLife {
                form: Arc::clone(form),
                life,
                noted: Received::default(),
                refreshed: 0,
                alarm: alarm(entry),
                class_tick: 0,
            }));
            if let Some(before) = before {
                self.spellings.remove(before.form);
            }
        }
        let known = self.lives[pv.index()].as_deref_mut()?;
        Some((known, &mut self.spellings, state))
    }

    /// Writes everything that is new of a PV: one message, or two for a first value.
    fn refresh(&mut self, table: &Table, changes: &Changes, pv: PvId, now_ns: i64) {
        let Some(entry) = table.get(pv) else { return };
        let begin = self.bytes.len();
        let (came_back, apart) = (self.away.contains(&pv), self.large.contains(&pv));
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut rows = 0;
        if let Some(known) = known(&mut self.lives, pv, entry)
            && known.refreshed != changes.tick
        {
            known.refreshed = changes.tick;
            known.alarm = alarm(entry);
            let has_new = entry.value_tick == changes.tick;
            let state = state(entry, &known.form, now_ns);
            rows = (known.life).refresh(&mut bytes, &state, came_back, has_new, apart);
            if known.life.take_new_class() {
                known.class_tick = changes.tick;
            }
            known.note(&mut self.spellings);
        }
        self.bytes = bytes;
        self.add(pv, begin, rows);
    }

    fn add(&mut self, pv: PvId, begin: usize, rows: u32) {
        let end = self.bytes.len();
        if end > begin {
            self.spans.push(Span {
                pv,
                begin,
                end,
                rows,
            });
        }
    }

    /// Writes one update.
    fn row(&mut self, table: &Table, changes: &Changes, row: &ChangedRow, now_ns: i64) {
        let pv = row.pv;
        let Some(Some(known)) = self.lives.get_mut(pv.index()) else {
            return;
        };
        if known.refreshed == changes.tick {
            return;
        }
        let entry = table.entry(pv);
        let is_plain = known.life.is_shown()
            && entry
                .form()
                .is_some_and(|form| Arc::ptr_eq(form, &known.form));
        let (Some(metadata), Some(latest), true) = (&entry.metadata, &entry.latest, is_plain)
        else {
            return self.refresh(table, changes, pv, now_ns);
        };
        known.alarm = row.alarm.unwrap_or(known.alarm);
        let dialect = dialect(&known.form);
        let begin = self.bytes.len();
        let whole = match &row.value {
            RowValue::Structure { whole, .. } => Value::Blob(whole),
            other => value(other),
        };
        let sample = Sample {
            value: whole,
            alarm: known.alarm,
            time_ns: stamp(row.time_ns, dialect, now_ns),
            ..sample(latest, dialect, now_ns)
        };
        known.life.row(&mut self.bytes, metadata, &sample);
        if known.life.take_new_class() {
            known.class_tick = changes.tick;
        }
        known.note(&mut self.spellings);
        self.add(pv, begin, 1);
    }

    /// The spans of a set's PVs. A group with few PVs doesn't scan the texts of all others.
    fn spans_of(&self, set: &PvSet) -> Vec<Span> {
        if set.ids().len() >= self.spans.len() {
            let mine = self.spans.iter().filter(|span| set.contains(span.pv));
            return mine.copied().collect();
        }
        let of = |&pv: &PvId| {
            let begin = self.spans.partition_point(|span| span.pv < pv);
            self.spans[begin..]
                .iter()
                .take_while(move |span| span.pv == pv)
        };
        set.ids().iter().flat_map(of).copied().collect()
    }
}

fn nothing() -> Frame {
    Frame::raw(Vec::new())
}

impl MessageEncoder for Texts {
    fn begin(&mut self, table: &Table, changes: &Changes, now: Now) {
        self.bytes.clear();
        self.bytes.shrink_to(ROOM);
        self.spans.clear();
        self.away.clear();
        let is_away = |(_, connection): &&(PvId, Connection)| {
            connection.state != ConnectionState::Connected || is_unresponsive(connection)
        };
        let away = changes.connections.iter().filter(is_away);
        self.away.extend(away.map(|(pv, _)| *pv));
        self.large.clear();
        self.large.extend(changes.large.iter().map(|row| row.pv));
        let connections = changes.connections.iter().map(|(pv, _)| *pv);
        let metadata = changes.metadata.iter().map(|(pv, _)| *pv);
        for pv in connections.chain(metadata) {
            self.refresh(table, changes, pv, now.wall_ns);
        }
        for row in &changes.rows {
            self.row(table, changes, row, now.wall_ns);
        }
        for row in &changes.large {
            self.refresh(table, changes, row.pv, now.wall_ns);
        }
        // Stable: the texts of one PV stay in their order.
        self.spans.sort_by_key(|span| span.pv);
    }

    fn sweep(&mut self, table: &Table) -> bool {
        let begin = if self.swept < self.lives.len() {
            self.swept
        } else {
            0
        };
        self.swept = self.lives.len().min(begin + SWEPT_AT_A_TIME);
        for (index, life) in (begin..).zip(&mut self.lives[begin..self.swept]) {
            let entry = table.get(PvId(index as u32));
            let form = entry.and_then(Entry::form);
            let gone = life.take_if(|life| form.is_none_or(|form| !Arc::ptr_eq(form, &life.form)));
            if let Some(gone) = gone {
                self.spellings.remove(gone.form);
            }
        }
        while self.lives.pop_if(|life| life.is_none()).is_some() {}
        if self.lives.capacity() / 4 > self.lives.len() {
            self.lives.shrink_to_fit();
        }
        let keeps = self.spellings.sweep();
        keeps || !self.lives.is_empty()
    }

    fn update(
        &mut self,
        changes: &Changes,
        _dirty: Option<&Dirty>,
        set: &PvSet,
        _prev_tick: u64,
    ) -> Option<Frame> {
        let mine = self.spans_of(set);
        let length = mine.iter().map(|span| span.end - span.begin).sum();
        let mut bytes = Vec::with_capacity(length);
        let mut rows = 0;
        for span in mine {
            bytes.extend_from_slice(&self.bytes[span.begin..span.end]);
            rows += span.rows;
        }
        // A large value follows the frame of its tick, even an empty one.
        let follows = || changes.large.iter().any(|row| set.contains(row.pv));
        (!bytes.is_empty() || follows()).then(|| Frame::raw(bytes).with_rows(rows))
    }

    fn catch_up(
        &mut self,
        table: &Table,
        set: &PvSet,
        (since, _): (u64, SkipCause),
        _tick: u64,
    ) -> Frame {
        let (mut out, mut rows, mut together) = (Vec::new(), 0, Together::default());
        let now_ns = wall_ns();
        for &pv in set.ids() {
            let entry = table.entry(pv);
            let latest = entry.latest.as_ref();
            let has_new = entry.value_tick > since;
            let known = known(&mut self.lives, pv, entry);
            let class_tick = known.map_or(0, |known| known.class_tick);
            let is_described = entry.connection_tick > since || entry.metadata_tick > since;
            let apart = (has_new || is_described)
                && latest.is_some_and(|latest| !together.takes(&latest.value));
            let needs_all = is_described || class_tick > since;
            if (has_new || needs_all)
                && let Some((known, spellings, state)) = self.form(pv, entry, now_ns)
            {
                rows += (known.life).catch_up(&mut out, &state, needs_all, apart);
                known.note(spellings);
            }
        }
        Frame::raw(out).with_rows(rows)
    }

    fn large(
        &mut self,
        _kind: FrameKind,
        _tick: u64,
        _pv: PvId,
        (latest, _): (&Latest, SkipCause),
        of: Described<'_>,
    ) -> Frame {
        let Some((form, metadata)) = of.form else {
            return nothing();
        };
        let (connection, now_ns) = (of.connection, wall_ns());
        let state = State {
            is_connected: is_up(&connection),
            is_absent: false,
            is_unreadable: false,
            readonly: !(connection.write && connection.puts && form.may_write),
            metadata: Some(metadata),
            latest: Some(sample(latest, dialect(form), now_ns)),
            now_ns,
        };
        let text = Life::large(&form.spelling, dialect(form), &state);
        text.map_or_else(nothing, |text| Frame::raw(text).with_rows(1))
    }

    fn reply_with(
        &mut self,
        _kind: FrameKind,
        _tick: u64,
        _to: u32,
        _reply: &Reply,
        (table, ids): Values<'_>,
    ) -> Frame {
        let (mut out, mut rows, mut together) = (Vec::new(), 0, Together::default());
        let now_ns = wall_ns();
        for &pv in ids {
            let entry = table.entry(pv);
            let latest = entry.latest.as_ref();
            let apart = latest.is_some_and(|latest| !together.takes(&latest.value));
            if let Some((known, spellings, state)) = self.form(pv, entry, now_ns) {
                // It may come from another form of the PV.
                known.life.inherit(spellings.received(&known.form));
                rows += known.life.newcomer(&mut out, &state, apart);
                known.note(spellings);
                known.alarm = alarm(entry);
            }
        }
        Frame::raw(out).with_rows(rows)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pvwire_schema::types::{Filter, Metadata, Severity, ValueType};

    use super::*;
    use crate::ingest::{Event, FilteredLine, Intake, Line};

    const PV: PvId = PvId(1);

    /// An enum with one label, and its form.
    struct Pv {
        intake: Arc<Intake>,
        line: Line,
        form: Option<FilteredLine>,
        table: Table,
        tick: u64,
    }

    fn open_form(intake: &Arc<Intake>, may_write: bool) -> FilteredLine {
        let form = Arc::new(Form {
            spelling: "X".to_owned(),
            scheme: "ca",
            may_write,
            array_interval_ms: 0,
        });
        FilteredLine::open(intake, PV, PvId(0), (Filter::ALL, Some(form)), None)
    }

    impl Pv {
        fn new() -> Self {
            let intake = Intake::new();
            let line = Line::open(&intake, PvId(0), false);
            let form = open_form(&intake, true);
            let table = Table::new(Duration::from_secs(5));
            let mut pv = Self {
                intake,
                line,
                form: Some(form),
                table,
                tick: 0,
            };
            pv.line.connected(false);
            pv.choices(&["off"]);
            pv.value(0.0);
            pv
        }

        /// Labels, with the next value.
        fn choices(&self, labels: &[&str]) {
            self.line.event(Event::Metadata(Box::new(Metadata {
                value_type: ValueType::Enum,
                choices: labels.iter().map(|label| (*label).to_owned()).collect(),
                ..Metadata::default()
            })));
        }

        fn value(&mut self, index: f64) -> Changes {
            let calm = Alarm {
                severity: Severity::NoAlarm,
                status: 0,
            };
            let time_ns = self.tick as i64;
            self.line.update(time_ns, RowValue::Number(index), calm);
            self.tick()
        }

        fn tick(&mut self) -> Changes {
            self.tick += 1;
            let mut changes = Changes {
                tick: self.tick,
                ..Changes::default()
            };
            let table = &mut self.table;
            (self.intake).drain(|taken| table.apply(&mut changes, now(), taken));
            changes
        }
    }

    fn now() -> Now {
        Now {
            instant: Instant::now(),
            wall_ns: 0,
        }
    }

    fn text(frame: &Frame) -> String {
        let bytes = frame.slices(0, usize::MAX).map(|slice| slice.to_vec());
        String::from_utf8_lossy(&bytes.concat()).into_owned()
    }

    fn newcomer(texts: &mut Texts, pv: &Pv) -> String {
        let reply = Reply::Subscribed {
            ids: vec![PV],
            errors: Vec::new(),
        };
        let values = (&pv.table, &[PV][..]);
        text(&texts.reply_with(FrameKind::Snapshot, pv.tick, 0, &reply, values))
    }

    #[test]
    fn client_that_was_behind_gets_the_metadata_of_a_new_class() {
        let (mut pv, mut texts) = (Pv::new(), Texts::default());
        assert!(newcomer(&mut texts, &pv).contains(r#""vtype":"VEnum""#));
        let since = pv.tick;
        // Without labels the value is a number from now on.
        pv.choices(&[]);
        for index in [1.0, 2.0] {
            let changes = pv.value(index);
            texts.begin(&pv.table, &changes, now());
        }
        let set = PvSet::new(vec![PV]);
        let mut told = |since| {
            let since = (since, SkipCause::Behind);
            text(&texts.catch_up(&pv.table, &set, since, pv.tick))
        };
        assert!(told(since).contains(r#""vtype":"VShort""#));
        let known = told(since + 1);
        assert!(
            known.contains(r#""value":2"#) && !known.contains("vtype"),
            "{known}"
        );
    }

    #[test]
    fn pv_that_leaves_is_forgotten() {
        let (mut pv, mut texts) = (Pv::new(), Texts::default());
        newcomer(&mut texts, &pv);
        texts.sweep(&pv.table);
        assert!(texts.lives[PV.index()].is_some());
        pv.form = None;
        pv.tick();
        texts.sweep(&pv.table);
        assert!(texts.lives.is_empty());
    }

    #[test]
    fn text_of_one_form_is_known_in_the_next_and_forgotten_after_a_while() {
        let (mut pv, mut texts) = (Pv::new(), Texts::default());
        assert!(newcomer(&mut texts, &pv).contains(r#""text":"off""#));
        pv.form = None;
        pv.tick();
        assert!(texts.sweep(&pv.table));
        // Clients come with another right to write, to a PV without labels meanwhile.
        pv.choices(&[]);
        pv.value(1.0);
        pv.form = Some(open_form(&pv.intake, false));
        pv.tick();
        let told = newcomer(&mut texts, &pv);
        assert!(told.contains(r#""value":1,"text":"1""#), "{told}");
        pv.form = None;
        pv.tick();
        let sweeps = (0..100).find(|_| !texts.sweep(&pv.table));
        assert!(sweeps.is_some(), "it is kept for ever");
        // Clients that come then have nothing of it.
        pv.form = Some(open_form(&pv.intake, true));
        pv.tick();
        let told = newcomer(&mut texts, &pv);
        assert!(
            told.contains(r#""value":1,"#) && !told.contains("text"),
            "{told}"
        );
    }
}
