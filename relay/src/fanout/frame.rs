//! How do changes become the bytes that go to sockets, once for all who want the same?

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;
use pvwire_schema::encode::{Cut, FrameEncoder, Pieces, RowMarks};
use pvwire_schema::types::{
    Connection, ConnectionState, Detail, FrameKind, PvId, Reply, SkipCause, Skips,
};

use crate::fanout::dirty::{Dirty, Picked};
use crate::fanout::set::PvSet;
use crate::ingest::{OpEnd, RowValue};
use crate::limits::memory::Charge;
use crate::state::table::{ChangedRow, Changes, Entry, Latest, Table, Together};

/// Zeros for the end of an array's last word.
const PADDING: [u8; 8] = [0; 8];

/// A whole WebSocket message, header in front, as it goes to every socket that gets it.
///
/// Shared as `Arc<Frame>`: nobody copies the bytes again. The elements of a large array aren't even
/// copied into it: they stay where the source put them.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    /// Where the message begins in `bytes`.
    start: usize,
    /// Where its payload does.
    payload: usize,
    /// What follows on `bytes`.
    tail: Bytes,
    /// Zeros after that.
    padding: usize,
    rows: u32,
    /// How far it takes its PVs' sequences, in all.
    steps: u64,
    /// What few frames have.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// Where there are several arrays: all of them with their places in `bytes`, in order.
    cuts: Vec<Cut>,
    /// What it takes in memory, where it was made for one client.
    _charge: Option<Charge>,
}

impl Frame {
    /// Bytes of the message.
    #[must_use]
    pub fn length(&self) -> usize {
        let length = self.bytes.len() - self.start + self.tail.len() + self.padding;
        match &self.rare {
            None => length,
            Some(rare) => length + rare.cuts.iter().map(Cut::length).sum::<usize>(),
        }
    }

    /// Bytes that were copied into it: all but the elements of large arrays.
    #[must_use]
    pub fn copied(&self) -> usize {
        self.bytes.len()
    }

    /// The same frame, charged to its owner while it exists.
    #[must_use]
    pub fn charged(mut self, charge: Charge) -> Self {
        self.rare.get_or_insert_default()._charge = Some(charge);
        self
    }

    /// What is written to the socket, from byte `at` on, at most the given number of bytes. Of a frame with several
    /// arrays it may be less than that.
    #[must_use]
    pub fn slices(&self, mut at: usize, mut most: usize) -> [IoSlice<'_>; 3] {
        if let Some(rare) = &self.rare
            && !rare.cuts.is_empty()
        {
            return self.slices_between_cuts(&rare.cuts, at, most);
        }
        let pieces = [
            &self.bytes[self.start..],
            &self.tail,
            &PADDING[..self.padding],
        ];
        pieces.map(|piece| {
            let begin = at.min(piece.len());
            at -= begin;
            let end = piece.len().min(begin.saturating_add(most));
            most -= end - begin;
            IoSlice::new(&piece[begin..end])
        })
    }

    #[inline(never)]
    fn slices_between_cuts<'a>(
        &'a self,
        cuts: &'a [Cut],
        mut at: usize,
        mut most: usize,
    ) -> [IoSlice<'a>; 3] {
        let mut slices = [&[][..]; 3];
        let mut places = slices.iter_mut();
        let ends = cuts.iter().map(|cut| cut.at).chain([self.bytes.len()]);
        let begins = [self.start]
            .into_iter()
            .chain(cuts.iter().map(|cut| cut.at));
        let between = begins.zip(ends).map(|(begin, end)| &self.bytes[begin..end]);
        let arrays = cuts
            .iter()
            .map(|cut| (&cut.data[..], &PADDING[..cut.padding]));
        let arrays = arrays.chain([(&[][..], &[][..])]);
        let pieces = between.zip(arrays);
        for piece in pieces.flat_map(|(bytes, (data, padding))| [bytes, data, padding]) {
            if at >= piece.len() {
                at -= piece.len();
                continue;
            }
            let Some(place) = places.next().filter(|_| most > 0) else {
                break;
            };
            let end = piece.len().min(at.saturating_add(most));
            *place = &piece[at..end];
            most -= end - at;
            at = 0;
        }
        slices.map(IoSlice::new)
    }

    /// The payload, for ways that need no WebSocket header: what is in front of an array's elements,
    /// these, and the zeros behind them.
    #[must_use]
    pub fn pieces(self: &Arc<Self>) -> [Bytes; 3] {
        let head = Bytes::from_owner(Head(Arc::clone(self)));
        let padding = Bytes::from_static(&PADDING).slice(..self.padding);
        [head, self.tail.clone(), padding]
    }

    /// Updates in it.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Updates that it stands for: those in it and those that were left out before them. Of an Update.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A binary message whose payload begins at `start`, behind `ROOM` for the header.
    fn binary(pieces: Pieces, rows: usize) -> Self {
        let Pieces {
            mut bytes,
            start,
            mut cuts,
        } = pieces;
        let apart: usize = cuts.iter().map(Cut::length).sum();
        let (header, length) = header(0x2, bytes.len() - start + apart);
        let (mut tail, mut padding, mut rare) = (Bytes::new(), 0, None);
        if !cuts.is_empty() {
            let is_at_end = cuts.len() == 1 && cuts[0].at == bytes.len();
            match cuts.pop_if(|_| is_at_end) {
                Some(cut) => (tail, padding) = (cut.data, cut.padding),
                None => {
                    rare = Some(Box::new(Rare {
                        cuts,
                        _charge: None,
                    }))
                }
            }
        }
        let begin = start - length;
        bytes[begin..start].copy_from_slice(&header[..length]);
        Self {
            bytes,
            start: begin,
            payload: start,
            tail,
            padding,
            rows: rows as u32,
            steps: 0,
            rare,
        }
    }

    /// A text message.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let (header, length) = header(0x1, text.len());
        Self::raw([&header[..length], text.as_bytes()].concat())
    }

    /// A binary message without content.
    #[must_use]
    pub fn empty() -> Self {
        let (header, length) = header(0x2, 0);
        Self::raw(header[..length].to_vec())
    }

    /// A close message.
    #[must_use]
    pub fn close(code: u16, reason: &str) -> Self {
        Self::message(0x8, &[&code.to_be_bytes(), reason.as_bytes()].concat())
    }

    /// A message of any kind, by the opcode of RFC 6455.
    #[must_use]
    pub fn message(opcode: u8, payload: &[u8]) -> Self {
        let (header, length) = header(opcode, payload.len());
        Self::raw([&header[..length], payload].concat())
    }

    /// Bytes that are a message already, such as tungstenite's answer to a ping.
    #[must_use]
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            start: 0,
            payload: 0,
            tail: Bytes::new(),
            padding: 0,
            rows: 0,
            steps: 0,
            rare: None,
        }
    }
}

/// Keeps a frame for as long as somebody reads the first piece of its payload.
struct Head(Arc<Frame>);

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes[self.0.payload..]
    }
}

/// The longest header.
const ROOM: usize = 10;

/// Header of an unmasked, unfragmented WebSocket message (RFC 6455, section 5.2), and its length.
fn header(opcode: u8, payload: usize) -> ([u8; ROOM], usize) {
    let mut header = [0; ROOM];
    header[0] = 0x80 | opcode;
    let length = match payload {
        length @ 0..=125 => {
            header[1] = length as u8;
            2
        }
        length @ 126..=0xffff => {
            header[1] = 126;
            header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            4
        }
        length => {
            header[1] = 127;
            header[2..10].copy_from_slice(&(length as u64).to_be_bytes());
            10
        }
    };
    (header, length)
}

/// Makes frames; one per thread, because it keeps its buffers.
#[derive(Debug, Default)]
pub struct FrameMaker {
    encoder: FrameEncoder,
    picked: Vec<Picked>,
}

impl FrameMaker {
    /// Whether the frames from now on are for clients that want columns packed.
    pub fn packing(&mut self, packing: bool) -> &mut Self {
        self.encoder.packing(packing);
        self
    }

    /// All that `changes` brought for the PVs in `set`, without large values, which follow it;
    /// `None` when there is nothing of either.
    pub fn update(&mut self, changes: &Changes, set: &PvSet, prev_tick: u64) -> Option<Frame> {
        self.begin_update(changes, set, prev_tick);
        for row in changes.rows.iter().filter(|row| set.contains(row.pv)) {
            changed_row(&mut self.encoder, row);
        }
        self.finish_update(changes, set)
    }

    /// The same by way of `dirty`, if there is one: then the rows are in the order of their PVs.
    pub fn gather(
        &mut self,
        changes: &Changes,
        dirty: Option<&Dirty>,
        set: &PvSet,
        prev_tick: u64,
    ) -> Option<Frame> {
        let Some(dirty) = dirty else {
            return self.update(changes, set, prev_tick);
        };
        self.begin_update(changes, set, prev_tick);
        self.picked.clear();
        dirty.pick(set, &mut self.picked);
        for row in &self.picked {
            match row.more() {
                None => (self.encoder).number(row.pv, row.time_ns, row.number, RowMarks::default()),
                Some(place) => changed_row(&mut self.encoder, &changes.rows[place]),
            }
        }
        self.finish_update(changes, set)
    }

    fn finish_update(&mut self, changes: &Changes, set: &PvSet) -> Option<Frame> {
        // A large value's frame follows on that of its tick.
        let follows = changes.large.iter().any(|row| set.contains(row.pv));
        (follows || !self.encoder.is_empty()).then(|| self.finish())
    }

    fn begin_update(&mut self, changes: &Changes, set: &PvSet, prev_tick: u64) {
        let encoder = &mut self.encoder;
        encoder.begin(FrameKind::Update, changes.tick, prev_tick);
        for (pv, metadata) in changes.metadata.iter().filter(|(pv, _)| set.contains(*pv)) {
            encoder.metadata(*pv, metadata);
        }
        for (pv, connection) in changes
            .connections
            .iter()
            .filter(|(pv, _)| set.contains(*pv))
        {
            encoder.connection(*pv, *connection);
        }
    }

    /// The latest parts of the PVs in `set` that changed after tick `since`, without large values,
    /// which follow it, for clients that are so far back for a cause.
    pub fn catch_up(
        &mut self,
        table: &Table,
        set: &PvSet,
        (since, cause): (u64, SkipCause),
        tick: u64,
    ) -> Frame {
        self.encoder.begin(FrameKind::CatchUp, tick, since);
        self.encoder.skip_cause(cause);
        let mut together = Together::default();
        for &pv in set.ids() {
            entry(
                &mut self.encoder,
                pv,
                table.entry(pv),
                (since, FrameKind::CatchUp),
                &mut together,
            );
        }
        self.finish()
    }

    /// The one update of a large value, with all that there is to say of it, for whoever wants it.
    ///
    /// With `connection`, so that a PV that came back is present only when its value is.
    pub fn large(
        &mut self,
        kind: FrameKind,
        tick: u64,
        pv: PvId,
        (latest, cause): (&Latest, SkipCause),
        connection: Connection,
    ) -> Frame {
        let prev_tick = if kind == FrameKind::Snapshot { 0 } else { tick };
        let encoder = &mut self.encoder;
        encoder.begin(kind, tick, prev_tick);
        if kind == FrameKind::CatchUp {
            encoder.skip_cause(cause);
        }
        let none = Detail::default();
        let marks = RowMarks {
            alarm: Some(latest.alarm),
            detail: Some(latest.detail.as_deref().unwrap_or(&none)),
            sequence: latest.sequence,
            skips: Skips::NONE,
        };
        match &latest.value {
            RowValue::Number(number) => encoder.number(pv, latest.time_ns, *number, marks),
            RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
                encoder.blob_apart(pv, latest.time_ns, blob, marks);
            }
        }
        encoder.connection(pv, connection);
        let rows = encoder.rows();
        Frame::binary(encoder.finish_pieces(ROOM), rows)
    }

    /// All that is known of `ids`, as an answer. Of a snapshot large values are left out: they
    /// follow it.
    pub fn reply_with(
        &mut self,
        kind: FrameKind,
        tick: u64,
        to: u32,
        reply: &Reply,
        parts: (&Table, &[PvId]),
    ) -> Frame {
        self.encoder.begin(kind, tick, 0);
        let (table, ids) = parts;
        if kind == FrameKind::Answer {
            // Clients that ask for the same large values share their elements.
            let values = ids.iter().filter_map(|pv| table.entry(*pv).large());
            let blob = |latest: &'_ Latest| match &latest.value {
                RowValue::Number(_) => None,
                RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
                    Some(Arc::clone(blob))
                }
            };
            let blobs: Vec<_> = values.filter_map(blob).collect();
            self.encoder.apart(blobs.iter().map(|blob| &**blob));
        }
        self.encoder.reply(to, reply);
        let mut together = Together::default();
        for &pv in ids {
            let of = table.entry(pv);
            entry(&mut self.encoder, pv, of, (0, kind), &mut together);
        }
        self.finish()
    }

    /// An answer that holds no PV's parts.
    pub fn answer(&mut self, tick: u64, to: u32, reply: &Reply) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder.reply(to, reply);
        self.finish()
    }

    /// An answer to a put.
    pub fn put_answer(&mut self, tick: u64, to: u32, end: &OpEnd) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder
            .put_done(to, end.outcome, &end.message, end.result.as_ref());
        self.finish()
    }

    /// An answer to a call.
    pub fn call_answer(&mut self, tick: u64, to: u32, end: &OpEnd) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder
            .rpc_done(to, end.outcome, &end.message, end.result.as_ref());
        self.finish()
    }

    /// A frame without content, which asks a client that says nothing for an acknowledgement.
    pub fn probe(&mut self, tick: u64) -> Frame {
        self.encoder.begin(FrameKind::Update, tick, tick);
        self.finish()
    }

    fn finish(&mut self) -> Frame {
        let (rows, skipped) = (self.encoder.rows(), self.encoder.skipped());
        Frame {
            steps: rows as u64 + skipped,
            ..Frame::binary(self.encoder.finish_pieces(ROOM), rows)
        }
    }
}

/// What a tick's frame would have for a set, when nobody has made it: `None` when there is nothing,
/// otherwise the updates that it would stand for.
pub fn missed(changes: &Changes, dirty: Option<&Dirty>, set: &PvSet) -> Option<u64> {
    let mut rows = 0;
    let mut count = |skips: Skips| {
        rows += 1;
        1 + u64::from(skips.total())
    };
    let steps: u64 = match dirty {
        Some(dirty) => {
            let mut picked = Vec::new();
            dirty.pick(set, &mut picked);
            let skips = |row: &Picked| {
                row.more()
                    .map_or(Skips::NONE, |place| changes.rows[place].skips)
            };
            picked.iter().map(|row| count(skips(row))).sum()
        }
        None => (changes.rows.iter())
            .filter(|row| set.contains(row.pv))
            .map(|row| count(row.skips))
            .sum(),
    };
    let touched = rows > 0
        || changes.metadata.iter().any(|(pv, _)| set.contains(*pv))
        || changes.connections.iter().any(|(pv, _)| set.contains(*pv));
    touched.then_some(steps)
}

#[inline]
fn changed_row(encoder: &mut FrameEncoder, row: &ChangedRow) {
    let marks = RowMarks {
        alarm: row.alarm,
        detail: row.detail.as_deref(),
        skips: row.skips,
        sequence: 0,
    };
    value(encoder, row.pv, row.time_ns, &row.value, marks);
}

/// The parts of a PV that changed after `since`; all that are known when it is 0.
/// Values that don't go `together` with the others follow in frames of their own, but for those of an
/// answer, which has all.
fn entry(
    encoder: &mut FrameEncoder,
    pv: PvId,
    entry: &Entry,
    (since, kind): (u64, FrameKind),
    together: &mut Together,
) {
    let latest = entry.latest.as_ref();
    let follows = kind != FrameKind::Answer
        && entry.value_tick > since
        && latest.is_some_and(|latest| !together.takes(&latest.value));
    if let Some(metadata) = &entry.metadata
        && entry.metadata_tick > since
    {
        encoder.metadata(pv, metadata);
    }
    // Who has the value from before must not take it for present: the large value's frame says
    // that the PV is back.
    let is_back =
        kind == FrameKind::CatchUp && entry.connection.state == ConnectionState::Connected;
    if entry.channel_tick > since && !(follows && is_back) {
        encoder.connection(pv, entry.connection);
    }
    if let Some(latest) = &entry.latest
        && entry.value_tick > since
        && !follows
    {
        let alarm = (entry.alarm_tick > since).then_some(latest.alarm);
        let none = Detail::default();
        let detail = (entry.detail_tick > since).then(|| latest.detail.as_deref().unwrap_or(&none));
        let marks = RowMarks {
            alarm,
            detail,
            sequence: latest.sequence,
            skips: Skips::NONE,
        };
        value(encoder, pv, latest.time_ns, &latest.value, marks);
    }
}

#[inline]
fn value(
    encoder: &mut FrameEncoder,
    pv: PvId,
    time_ns: i64,
    value: &RowValue,
    marks: RowMarks<'_>,
) {
    match value {
        RowValue::Number(number) => encoder.number(pv, time_ns, *number, marks),
        RowValue::Blob(blob) | RowValue::Structure { part: blob, .. } => {
            encoder.blob(pv, time_ns, blob, marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_the_form_that_the_length_asks_for() {
        for (length, header) in [
            (0, vec![0x82, 0]),
            (125, vec![0x82, 125]),
            (126, vec![0x82, 126, 0, 126]),
            (65_535, vec![0x82, 126, 0xff, 0xff]),
            (65_536, vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let pieces = Pieces {
                bytes: vec![7; ROOM + length],
                start: ROOM,
                cuts: Vec::new(),
            };
            let frame = Frame::binary(pieces, 0);
            assert_eq!(frame.slices(0, usize::MAX)[0][..header.len()], header);
            assert_eq!(frame.length(), header.len() + length);
        }
    }

    #[test]
    fn slices_are_the_bytes_from_anywhere_to_anywhere() {
        let elements = |count| Bytes::from((0..count).collect::<Vec<u8>>());
        let cut = |at, count, padding| Cut {
            at: ROOM + at,
            data: elements(count),
            padding,
        };
        let pieces = |cuts| Pieces {
            bytes: vec![7; ROOM + 20],
            start: ROOM,
            cuts,
        };
        let several = Frame::binary(pieces(vec![cut(9, 16, 0), cut(12, 3, 5), cut(20, 7, 1)]), 1);
        let all = [
            &several.bytes[several.start..ROOM + 9],
            &elements(16),
            &[7; 3],
            &elements(3),
            &[0; 5],
            &[7; 8],
            &elements(7),
            &[0],
        ];
        let all = all.concat();
        assert_eq!((several.length(), all[1]), (all.len(), 52));
        for start in 0..all.len() {
            for most in 0..all.len() {
                let (mut at, end) = (start, all.len().min(start + most));
                while at < end {
                    let slices = several.slices(at, end - at);
                    let some = slices.map(|slice| slice.to_vec()).concat();
                    assert!(!some.is_empty());
                    assert_eq!(some, all[at..at + some.len()]);
                    at += some.len();
                }
                assert_eq!(at, end.max(start));
            }
        }

        let frame = Frame::binary(pieces(vec![cut(20, 50, 6)]), 1);
        let joined = |at, most| {
            let slices = frame.slices(at, most);
            slices.map(|slice| slice.to_vec()).concat()
        };
        let all = joined(0, usize::MAX);
        assert_eq!((all.len(), &all[..2]), (frame.length(), &[0x82, 76][..]));
        assert_eq!(all[22..72], elements(50));
        for at in 0..all.len() {
            for most in 0..all.len() {
                let end = all.len().min(at + most);
                assert_eq!(joined(at, most), all[at..end]);
            }
        }
    }

    #[test]
    fn tick_that_touches_nothing_of_a_set_makes_no_frame() {
        let set = PvSet::new(vec![PvId(1)]);
        let changes = Changes {
            tick: 1,
            ..Changes::default()
        };
        assert!(FrameMaker::default().update(&changes, &set, 0).is_none());
    }
}
