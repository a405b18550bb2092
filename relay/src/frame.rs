//! How do changes become the bytes that go to sockets, once for all who want the same?

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{Detail, FrameKind, PvId, Reply, SkipCause, Skips};

use crate::dirty::Dirty;
use crate::set::PvSet;
use crate::source::{OpEnd, RowValue};
use crate::table::{ChangedRow, Changes, Entry, Table};

/// A whole WebSocket message, header in front, as it goes to every socket that gets it.
///
/// Shared as `Arc<Frame>`: nobody copies the bytes again.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    /// Where the message begins in `bytes`.
    start: usize,
    rows: u32,
}

impl Frame {
    /// What is written to the socket.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Updates in it.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// A binary message whose payload begins at `start`, behind `ROOM` for the header.
    fn binary(mut bytes: Vec<u8>, start: usize, rows: usize) -> Self {
        let (header, length) = header(0x2, bytes.len() - start);
        let begin = start - length;
        bytes[begin..start].copy_from_slice(&header[..length]);
        Self {
            bytes,
            start: begin,
            rows: rows as u32,
        }
    }

    /// A close message.
    #[must_use]
    pub fn close(code: u16, reason: &str) -> Self {
        let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
        let (header, length) = header(0x8, payload.len());
        Self::raw([&header[..length], &payload].concat())
    }

    /// Bytes that are a message already, such as tungstenite's answer to a ping.
    #[must_use]
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            start: 0,
            rows: 0,
        }
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes() && self.rows == other.rows
    }
}

impl Eq for Frame {}

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
}

impl FrameMaker {
    /// All that `changes` brought for the PVs in `set`; `None` when that is nothing.
    pub fn update(&mut self, changes: &Changes, set: &PvSet, prev_tick: u64) -> Option<Frame> {
        self.begin_update(changes, set, prev_tick);
        for row in changes.rows.iter().filter(|row| set.contains(row.pv)) {
            changed_row(&mut self.encoder, row);
        }
        (!self.encoder.is_empty()).then(|| self.finish())
    }

    /// The same by way of `dirty`, which pays when few of the rows are wanted. Rows are in the order
    /// of their PVs.
    pub fn gather(
        &mut self,
        changes: &Changes,
        dirty: &Dirty,
        set: &PvSet,
        prev_tick: u64,
    ) -> Option<Frame> {
        self.begin_update(changes, set, prev_tick);
        let encoder = &mut self.encoder;
        dirty.pick(set, |place| changed_row(encoder, &changes.rows[place]));
        (!self.encoder.is_empty()).then(|| self.finish())
    }

    fn begin_update(&mut self, changes: &Changes, set: &PvSet, prev_tick: u64) {
        let encoder = &mut self.encoder;
        encoder.begin(FrameKind::Update, changes.tick, prev_tick);
        for (pv, metadata) in changes.metadata.iter().filter(|(pv, _)| set.contains(*pv)) {
            encoder.metadata(*pv, metadata);
        }
        for (pv, channel) in changes.channels.iter().filter(|(pv, _)| set.contains(*pv)) {
            encoder.channel(*pv, *channel);
        }
    }

    /// The latest parts of the PVs in `set` that changed after tick `since`.
    pub fn catch_up(&mut self, table: &Table, set: &PvSet, since: u64, tick: u64) -> Frame {
        self.encoder.begin(FrameKind::CatchUp, tick, since);
        self.encoder.skip_cause(SkipCause::Behind);
        for &pv in set.ids() {
            entry(&mut self.encoder, pv, table.entry(pv), since);
        }
        self.finish()
    }

    /// All that is known of `ids`, as an answer.
    pub fn reply_with(
        &mut self,
        kind: FrameKind,
        tick: u64,
        to: u32,
        reply: &Reply,
        parts: (&Table, &[PvId]),
    ) -> Frame {
        self.encoder.begin(kind, tick, 0);
        self.encoder.reply(to, reply);
        let (table, ids) = parts;
        for &pv in ids {
            entry(&mut self.encoder, pv, table.entry(pv), 0);
        }
        self.finish()
    }

    /// An answer that holds no PV's parts.
    pub fn answer(&mut self, tick: u64, to: u32, reply: &Reply) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder.reply(to, reply);
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
        let rows = self.encoder.rows();
        let (bytes, start) = self.encoder.finish_owned(ROOM);
        Frame::binary(bytes, start, rows)
    }
}

#[inline]
fn changed_row(encoder: &mut FrameEncoder, row: &ChangedRow) {
    let marks = RowMarks {
        alarm: row.alarm,
        detail: row.detail.as_deref(),
        skips: Skips {
            relay: row.skipped,
            ..Skips::NONE
        },
        sequence: 0,
    };
    value(encoder, row.pv, row.time_ns, &row.value, marks);
}

/// The parts of a PV that changed after `since`; all that are known when it is 0.
fn entry(encoder: &mut FrameEncoder, pv: PvId, entry: &Entry, since: u64) {
    if let Some(metadata) = &entry.metadata
        && entry.metadata_tick > since
    {
        encoder.metadata(pv, metadata);
    }
    if entry.channel_tick > since {
        encoder.channel(pv, entry.channel);
    }
    if let Some(latest) = &entry.latest
        && entry.value_tick > since
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
            let frame = Frame::binary(vec![7; ROOM + length], ROOM, 0);
            assert_eq!(frame.bytes()[..header.len()], header);
            assert_eq!(frame.bytes().len(), header.len() + length);
        }
    }

    #[test]
    fn tick_that_touches_nothing_of_a_set_makes_no_frame() {
        let set = PvSet::new(vec![PvId(1)]);
        let changes = Changes {
            tick: 1,
            ..Changes::default()
        };
        assert_eq!(FrameMaker::default().update(&changes, &set, 0), None);
    }
}
