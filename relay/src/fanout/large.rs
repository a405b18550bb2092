//! Large values: each update of more than 16 KiB has a frame that all its receivers share.
//!
//! The first shard that needs the frame makes it, or lets it be made on another thread if a long value becomes text. It names no client, so the same bytes serve clients that
//! keep up, that were behind and that are new. Only the newest value of each PV is kept, and only while
//! it is in use; making its frame again copies no array.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use prometheus_client::metrics::counter::Counter;
use pvwire_schema::types::{
    Connection, ConnectionState, FrameKind, Metadata, PvId, SkipCause, Skips,
};

use crate::fanout::encoding::{Described, Encoders, Encoding, Encodings};
use crate::fanout::frame::Frame;
use crate::fanout::set::PvSet;
use crate::ingest::Form;
use crate::state::table::{Changes, Entry, LargeRow, Latest, Table, Together, bytes_of, is_large};

/// An update of one PV that is sent in a separate frame.
#[derive(Debug)]
pub struct LargeValue {
    pv: PvId,
    epoch: u32,
    /// Tick of the update.
    tick: u64,
    latest: Latest,
    /// Updates that were left out just before it.
    skips: Skips,
    connection: Connection,
    connection_tick: u64,
    /// Its form and metadata, if it is for the clients of a door.
    form: Option<(Arc<Form>, Arc<Metadata>)>,
    /// Its frames, by `Encoding::large_index`.
    frames: Box<[LargeFrames]>,
}

/// The frames of one large value in one encoding.
#[derive(Debug, Default)]
struct LargeFrames {
    /// For clients that got the PV's previous update, or know that they missed it.
    next: OnceLock<Arc<Frame>>,
    /// For clients that get their first value of the PV.
    first: OnceLock<Arc<Frame>>,
}

impl LargeValue {
    fn new(row: LargeRow, tick: u64, entry: &Entry, encodings: usize) -> Self {
        Self {
            pv: row.pv,
            epoch: row.epoch,
            tick,
            latest: row.latest,
            skips: row.skips,
            connection: entry.connection,
            connection_tick: entry.connection_tick,
            form: (entry.form()).and_then(|form| Some((Arc::clone(form), entry.metadata.clone()?))),
            frames: (0..encodings).map(|_| LargeFrames::default()).collect(),
        }
    }

    fn is_of(&self, entry: &Entry, latest: &Latest) -> bool {
        (self.epoch, self.latest.sequence, self.connection_tick)
            == (entry.epoch(), latest.sequence, entry.connection_tick)
            && match (&self.form, &entry.metadata) {
                (Some((_, known)), Some(now)) => Arc::ptr_eq(known, now),
                _ => true,
            }
    }

    /// The PV.
    #[must_use]
    pub fn pv(&self) -> PvId {
        self.pv
    }

    /// Updates that were left out just before it.
    #[must_use]
    pub fn skips(&self) -> Skips {
        self.skips
    }

    /// Why the updates just before it were left out.
    fn cause(&self) -> SkipCause {
        let causes = self.skips.by_cause();
        let most = causes.max_by_key(|(_, count)| *count);
        most.map_or(SkipCause::Behind, |(cause, _)| cause)
    }

    /// Bytes that are converted when its frame is made: those of a value for the clients of a door, which get it as text.
    /// 0 if the frame is made.
    #[must_use]
    pub fn to_convert(&self, is_first: bool, encoding: Encoding) -> usize {
        let frames = &self.frames[encoding.large_index()];
        let frame = if is_first {
            &frames.first
        } else {
            &frames.next
        };
        match self.form.is_some() && frame.get().is_none() {
            true => bytes_of(&self.latest.value),
            false => 0,
        }
    }

    /// Its frame in an encoding: for a client that gets its first value of the PV, or for one that counts what
    /// it missed since the last one. `made` counts frames that didn't exist yet.
    pub fn frame(
        &self,
        is_first: bool,
        encoding: Encoding,
        encoders: &mut Encoders,
        made: &Counter,
    ) -> Arc<Frame> {
        let frames = &self.frames[encoding.large_index()];
        let (frame, kind) = if is_first {
            (&frames.first, FrameKind::Snapshot)
        } else {
            (&frames.next, FrameKind::CatchUp)
        };
        let frame = frame.get_or_init(|| {
            made.inc();
            let latest = (&self.latest, self.cause());
            let encoder = encoders.of(encoding);
            let of = Described {
                connection: self.connection,
                form: self.form.as_ref(),
            };
            Arc::new(encoder.large(kind, self.tick, self.pv, latest, of))
        });
        Arc::clone(frame)
    }
}

/// Number of updates that the large values of a set stand for: the values and the updates left out before
/// them.
#[must_use]
pub fn large_steps(values: &[Arc<LargeValue>], set: &PvSet) -> u64 {
    let wanted = values.iter().filter(|value| set.contains(value.pv));
    wanted.map(|value| 1 + u64::from(value.skips.total())).sum()
}

/// The newest large value of each PV that clients were given.
#[derive(Debug)]
pub struct LargeValues {
    newest: HashMap<PvId, Arc<LargeValue>>,
    /// Number of different frames that a value may have.
    encodings: usize,
}

impl LargeValues {
    /// An empty set.
    #[must_use]
    pub fn new(encodings: &Encodings) -> Self {
        Self {
            newest: HashMap::new(),
            encodings: encodings.large_count(),
        }
    }

    /// The large values of a tick, in order. Their frames report which of their PVs are connected
    /// again, so this is removed from `changes`, which is copied only if another sink holds it,
    /// too.
    ///
    /// A large value for the clients of a door comes again when only its metadata or access rights changed, because
    /// they get these with a value.
    pub fn of_tick(&mut self, table: &Table, changes: &mut Arc<Changes>) -> Vec<Arc<LargeValue>> {
        let again = described_again(table, changes);
        if !again.is_empty() {
            Arc::make_mut(changes).large.extend(again);
        }
        let (tick, encodings) = (changes.tick, self.encodings);
        let make = |row: &LargeRow| {
            let entry = table.entry(row.pv);
            let value = LargeValue::new(row.clone(), tick, entry, encodings);
            let value = Arc::new(value);
            self.newest.insert(row.pv, Arc::clone(&value));
            value
        };
        let values: Vec<_> = changes.large.iter().map(make).collect();
        if !values.is_empty() {
            let large = PvSet::new(values.iter().map(|value| value.pv).collect());
            let is_said_by_value = |(pv, connection): &(PvId, Connection)| {
                connection.state == ConnectionState::Connected && large.contains(*pv)
            };
            if changes.connections.iter().any(is_said_by_value) {
                let changes = Arc::make_mut(changes);
                changes.connections.retain(|told| !is_said_by_value(told));
            }
        }
        values
    }

    /// The values of `ids` that came after tick `since` and aren't in a client's catch-up: large values, and small
    /// values that the catch-up has no room for.
    pub fn changed(&mut self, table: &Table, ids: &[PvId], since: u64) -> Arc<[Arc<LargeValue>]> {
        let (mut values, mut together) = (Vec::new(), Together::default());
        for &pv in ids {
            let entry = table.entry(pv);
            // Clients of a door get metadata and access rights with a value.
            let is_described = entry.form().is_some()
                && (entry.metadata_tick > since || entry.connection_tick > since);
            if (entry.value_tick > since || is_described)
                && let Some(latest) = &entry.latest
                && !together.takes(&latest.value)
            {
                values.push(self.newest(pv, entry, latest));
            }
        }
        values.into()
    }

    fn newest(&mut self, pv: PvId, entry: &Entry, latest: &Latest) -> Arc<LargeValue> {
        if let Some(value) = self.newest.get(&pv)
            && value.is_of(entry, latest)
        {
            return Arc::clone(value);
        }
        let row = LargeRow {
            pv,
            epoch: entry.epoch(),
            latest: latest.clone(),
            skips: Skips::NONE,
        };
        let value = LargeValue::new(row, entry.value_tick, entry, self.encodings);
        let value = Arc::new(value);
        self.newest.insert(pv, Arc::clone(&value));
        value
    }

    /// Forgets values that are no longer in use.
    pub fn sweep(&mut self) {
        self.newest.retain(|_, value| Arc::strong_count(value) > 1);
    }
}

/// The large values of doors' PVs that are not new in a tick, but whose metadata or access rights are.
fn described_again(table: &Table, changes: &Changes) -> Vec<LargeRow> {
    let connections = changes.connections.iter().map(|(pv, _)| *pv);
    let described = connections.chain(changes.metadata.iter().map(|(pv, _)| *pv));
    let mut again: Vec<LargeRow> = Vec::new();
    for pv in described {
        let Some(entry) = table.get(pv).filter(|entry| entry.form().is_some()) else {
            continue;
        };
        let known = |row: &LargeRow| row.pv == pv;
        if entry.is_complete()
            && let Some(latest) = entry.latest.as_ref()
            && is_large(&latest.value)
            && !changes.large.iter().chain(&again).any(known)
        {
            again.push(LargeRow {
                pv,
                epoch: entry.epoch(),
                latest: latest.clone(),
                skips: Skips::NONE,
            });
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::flat::{self, FrameMaker};
    use crate::ingest::{Event, Intake, Line, RowValue};
    use crate::state::table::{LARGE_BYTES, Now};
    use pvwire_schema::decode;
    use pvwire_schema::types::{Alarm, BlobValue, Reply, Severity, ValueType};
    use std::time::{Duration, Instant};

    const PV: PvId = PvId(0);

    struct Bench {
        intake: Arc<Intake>,
        table: Table,
        line: Line,
        values: LargeValues,
        tick: u64,
    }

    impl Bench {
        /// A PV with a large value since tick 1.
        fn new() -> Self {
            let intake = Intake::new();
            let line = Line::open(&intake, PV, false);
            let mut bench = Self {
                intake,
                table: Table::new(Duration::from_secs(5)),
                line,
                values: LargeValues::new(&flat::encodings()),
                tick: 0,
            };
            bench.come();
            bench.update();
            bench.tick();
            bench
        }

        fn come(&self) {
            let (read, write) = (true, true);
            self.line.event(Event::Access { read, write });
            self.line.connected(false);
            let metadata = Box::new(Metadata {
                epoch: self.line.epoch(),
                ..Metadata::default()
            });
            self.line.event(Event::Metadata(metadata));
        }

        fn update(&self) {
            let array = BlobValue::array(ValueType::UInt8, 20_000, vec![7; 20_000]);
            let calm = Alarm {
                severity: Severity::NoAlarm,
                status: 0,
            };
            self.line.update(5, RowValue::Blob(Arc::new(array)), calm);
        }

        fn tick(&mut self) -> (Arc<Changes>, Vec<Arc<LargeValue>>) {
            self.tick += 1;
            let mut changes = Changes {
                tick: self.tick,
                ..Changes::default()
            };
            let now = Now {
                instant: Instant::now(),
                wall_ns: 0,
            };
            self.intake
                .drain(|taken| self.table.apply(&mut changes, now, taken));
            let mut changes = Arc::new(changes);
            let (others, told) = (Arc::clone(&changes), changes.connections.len());
            let values = self.values.of_tick(&self.table, &mut changes);
            assert_eq!(others.connections.len(), told, "other sinks get them whole");
            (changes, values)
        }

        fn changed(&mut self, since: u64) -> Arc<[Arc<LargeValue>]> {
            self.values.changed(&self.table, &[PV], since)
        }
    }

    /// States of the connections and number of rows in a frame.
    fn content(frame: &Frame) -> (Vec<ConnectionState>, usize) {
        let slices = frame.slices(0, usize::MAX);
        let message = slices.map(|slice| slice.to_vec()).concat();
        let header = if message.len() > 65_535 { 10 } else { 4 };
        let header = if message[1] < 126 { 2 } else { header };
        let view = decode::frame(&message[header..]).unwrap();
        let states = view.connections().map(|(_, connection)| connection.state);
        (states.collect(), view.numbers_len() + view.blobs_len())
    }

    #[test]
    fn value_is_shared_while_it_is_used_until_its_pv_has_another() {
        const { assert!(LARGE_BYTES < 20_000) };
        let mut bench = Bench::new();
        let (first, again) = (bench.changed(0), bench.changed(0));
        assert!(Arc::ptr_eq(&first[0], &again[0]));
        assert!(bench.changed(1).is_empty());
        let (known, made) = (flat::encodings(), Counter::default());
        let mut encoders = known.encoders();
        for encoding in known.all() {
            for is_first in [false, true, false, true] {
                let frame = first[0].frame(is_first, *encoding, &mut encoders, &made);
                assert_eq!(content(&frame), (vec![ConnectionState::Connected], 1));
            }
        }
        assert_eq!(made.get(), 2, "both encodings share them");
        bench.values.sweep();
        assert!(Arc::ptr_eq(&first[0], &bench.changed(0)[0]));

        bench.update();
        let (_, values) = bench.tick();
        assert!(Arc::ptr_eq(&values[0], &bench.changed(1)[0]));
        drop((first, again, values));
        bench.values.sweep();
        assert!(bench.values.newest.is_empty());
    }

    #[test]
    fn client_gets_values_that_exceed_one_frame_together_once_each() {
        const PVS: u32 = 2048;
        let mut bench = Bench::new();
        let value = BlobValue::array(ValueType::UInt8, 16_384, vec![7; 16_384]);
        let value = Arc::new(value);
        let calm = Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        };
        let ids: Vec<_> = (1..=PVS).map(PvId).collect();
        let lines: Vec<_> = (ids.iter())
            .map(|id| Line::open(&bench.intake, *id, false))
            .collect();
        for line in &lines {
            line.connected(false);
            line.update(5, RowValue::Blob(Arc::clone(&value)), calm);
        }
        let (changes, large) = bench.tick();
        let (set, mut maker) = (PvSet::new(ids.clone()), FrameMaker::default());
        let reply = Reply::Subscribed {
            ids: ids.clone(),
            errors: Vec::new(),
        };
        let frames = [
            maker.update(&changes, &set, 1).unwrap(),
            maker.catch_up(&bench.table, &set, (1, SkipCause::Behind), 2),
            maker.reply_with(FrameKind::Snapshot, 2, 1, &reply, (&bench.table, &ids)),
        ];
        let follow = bench.values.changed(&bench.table, &ids, 1);
        for frame in frames {
            assert!(frame.length() < 32 << 20, "{} bytes", frame.length());
            let stands_in_frame = content(&frame).1;
            assert_eq!(stands_in_frame + follow.len(), PVS as usize);
            assert_eq!((large.len(), follow.len()), (1024, 1024));
        }
    }

    #[test]
    fn only_the_frame_of_its_value_says_that_a_pv_is_back() {
        let mut bench = Bench::new();
        let (mut maker, made) = (FrameMaker::default(), Counter::default());
        let mut encoders = flat::encodings().encoders();
        let set = PvSet::new(vec![PV]);
        bench.line.event(Event::Disconnected);
        bench.tick();
        bench.come();
        bench.tick();
        bench.update();
        let (changes, values) = bench.tick();
        let back = (vec![ConnectionState::Connected], 1);

        let update = maker.update(&changes, &set, 3).unwrap();
        assert_eq!(content(&update), (vec![], 0));
        assert_eq!(
            content(&values[0].frame(false, Encoding::default(), &mut encoders, &made)),
            back
        );

        let catch_up = maker.catch_up(&bench.table, &set, (1, SkipCause::Behind), 4);
        assert_eq!(content(&catch_up), (vec![], 0));
        let values = bench.changed(1);
        assert_eq!(
            content(&values[0].frame(false, Encoding::default(), &mut encoders, &made)),
            back
        );

        // Disconnected again: the earlier frame would report it as connected.
        bench.line.event(Event::Disconnected);
        bench.tick();
        let gone = vec![ConnectionState::Disconnected];
        let catch_up = maker.catch_up(&bench.table, &set, (1, SkipCause::Behind), 5);
        assert_eq!(content(&catch_up), (gone.clone(), 0));
        let values = bench.changed(1);
        let frame = values[0].frame(false, Encoding::default(), &mut encoders, &made);
        assert_eq!(content(&frame), (gone, 1));
    }
}
