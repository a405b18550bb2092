//! The messages of pvwire's own protocol: flatbuffers, with their columns of numbers plain or packed by LZ4.

use std::ops::Range;
use std::sync::Arc;

use pvwire_schema::decode::{self, DecodeError};
use pvwire_schema::encode::{FrameEncoder, RowMarks, position_of_reply_to};
use pvwire_schema::types::{
    Connection, ConnectionState, Detail, FrameKind, Page, PvId, Reply, Request, RequestProblem,
    SkipCause, Skips,
};
use pvwire_schema::{LZ4_SUBPROTOCOL, SUBPROTOCOL};

use crate::fanout::dirty::{Dirty, Picked};
use crate::fanout::encoding::{
    BadRequest, Described, Encoding, Encodings, Format, MessageEncoder, MessageKind, Values,
};
use crate::fanout::frame::{Frame, HEADER_ROOM};
use crate::fanout::set::PvSet;
use crate::ingest::{OpEnd, RowValue};
use crate::state::table::{ChangedRow, Changes, Entry, Latest, Table, Together};

/// Makes frames. Each thread has one of these, because it keeps its buffers.
#[derive(Debug, Default)]
pub struct FrameMaker {
    encoder: FrameEncoder,
    picked: Vec<Picked>,
}

impl FrameMaker {
    /// Sets whether later frames have their columns of numbers packed by LZ4.
    fn packing(&mut self, packing: bool) {
        self.encoder.packing(packing);
    }

    /// Everything that `changes` brought for the PVs in `set` except large values, which follow it; `None` when
    /// nothing changed.
    pub fn update(&mut self, changes: &Changes, set: &PvSet, prev_tick: u64) -> Option<Frame> {
        self.begin_update(changes, set, prev_tick);
        for row in changes.rows.iter().filter(|row| set.contains(row.pv)) {
            changed_row(&mut self.encoder, row);
        }
        self.finish_update(changes, set)
    }

    /// Like `update`, for a set that has no rows beside those of `runs`, which are indices of rows.
    pub fn update_of_runs(
        &mut self,
        changes: &Changes,
        runs: &[Range<usize>],
        set: &PvSet,
        prev_tick: u64,
    ) -> Option<Frame> {
        self.begin_update(changes, set, prev_tick);
        for run in runs {
            let rows = &changes.rows[run.clone()];
            for row in rows.iter().filter(|row| set.contains(row.pv)) {
                changed_row(&mut self.encoder, row);
            }
        }
        self.finish_update(changes, set)
    }

    /// Like `update`, with an index of the rows, if there is one; then rows come in the order of their PVs.
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
        // The frame of a large value follows the frame of its tick.
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

    /// The latest parts of the PVs in `set` that changed after tick `since`, except large values, which follow
    /// it. `cause` says why the clients are behind.
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

    /// One update of a large value with everything that is known of it.
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
        Frame::binary(encoder.finish_pieces(HEADER_ROOM), rows)
    }

    /// Everything that is known of `ids`, as an answer. Large values are left out of a snapshot and follow it.
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

    fn finish(&mut self) -> Frame {
        let (rows, skipped) = (self.encoder.rows(), self.encoder.skipped());
        let frame = Frame::binary(self.encoder.finish_pieces(HEADER_ROOM), rows);
        frame.standing_for(rows as u64 + skipped)
    }
}

/// Path of the handshake.
const PATH: &str = "/ws";

/// Path of the stream of large values.
const STREAM_PATH: &str = "/ws/large";

/// pvwire's own protocol.
struct Flat {
    subprotocol: &'static str,
    /// Columns of numbers are packed by LZ4.
    packs: bool,
    large_values_of: Option<Encoding>,
}

/// The encodings of pvwire's own protocol, which every relay offers: plain, and with packed columns.
#[must_use]
pub fn encodings() -> Encodings {
    let mut encodings = Encodings::default();
    let plain = encodings.add(Box::new(Flat {
        subprotocol: SUBPROTOCOL,
        packs: false,
        large_values_of: None,
    }));
    encodings.add(Box::new(Flat {
        subprotocol: LZ4_SUBPROTOCOL,
        packs: true,
        // A single value isn't packed.
        large_values_of: Some(plain),
    }));
    encodings
}

impl Format for Flat {
    fn path(&self) -> &'static str {
        PATH
    }

    fn subprotocol(&self) -> Option<&'static str> {
        Some(self.subprotocol)
    }

    fn requests(&self) -> MessageKind {
        MessageKind::Binary
    }

    fn request(&self, message: &[u8]) -> Result<Request, BadRequest> {
        let error = match decode::request(message) {
            Ok(request) => return Ok(request),
            Err(error) => error,
        };
        let problem = match error {
            // A kind of request that this relay doesn't know.
            DecodeError::Missing(_) => RequestProblem::NotSupported,
            DecodeError::TooMany { .. } => RequestProblem::Refused,
            _ => return Err(BadRequest::Malformed),
        };
        let request = decode::request_id(message).map_err(|_| BadRequest::Malformed)?;
        let message = error.to_string();
        Err(BadRequest::Refused {
            request,
            problem,
            message,
        })
    }

    fn request_number_at(&self, message: &[u8]) -> Option<usize> {
        decode::position_of_request_id(message)
    }

    fn stream_path(&self) -> Option<&'static str> {
        Some(STREAM_PATH)
    }

    fn large_values_of(&self) -> Option<Encoding> {
        self.large_values_of
    }

    fn encoder(&self) -> Box<dyn MessageEncoder> {
        let mut maker = FrameMaker::default();
        maker.packing(self.packs);
        Box::new(maker)
    }
}

impl MessageEncoder for FrameMaker {
    fn update(
        &mut self,
        changes: &Changes,
        dirty: Option<&Dirty>,
        set: &PvSet,
        prev_tick: u64,
    ) -> Option<Frame> {
        self.gather(changes, dirty, set, prev_tick)
    }

    fn catch_up(
        &mut self,
        table: &Table,
        set: &PvSet,
        since: (u64, SkipCause),
        tick: u64,
    ) -> Frame {
        Self::catch_up(self, table, set, since, tick)
    }

    fn large(
        &mut self,
        kind: FrameKind,
        tick: u64,
        pv: PvId,
        latest: (&Latest, SkipCause),
        of: Described<'_>,
    ) -> Frame {
        Self::large(self, kind, tick, pv, latest, of.connection)
    }

    fn reply_with(
        &mut self,
        kind: FrameKind,
        tick: u64,
        to: u32,
        reply: &Reply,
        values: Values<'_>,
    ) -> Frame {
        Self::reply_with(self, kind, tick, to, reply, values)
    }

    fn readdressed(&self, answer: &Arc<Frame>, to: u32) -> Option<Frame> {
        // A request without a number has an answer without one.
        (to != 0).then(|| answer.renumbered(position_of_reply_to, to))?
    }

    fn answer(&mut self, tick: u64, to: u32, reply: &Reply) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder.reply(to, reply);
        self.finish()
    }

    fn put_answer(&mut self, tick: u64, to: u32, end: &OpEnd) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder
            .put_done(to, end.outcome, &end.message, end.result.as_ref());
        self.finish()
    }

    fn call_answer(&mut self, tick: u64, to: u32, end: &OpEnd) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder
            .rpc_done(to, end.outcome, &end.message, end.result.as_ref());
        self.finish()
    }

    fn page(&mut self, tick: u64, to: u32, page: &Page, content: &[u8]) -> Frame {
        self.encoder.begin(FrameKind::Answer, tick, 0);
        self.encoder.page(to, page, content);
        self.finish()
    }

    fn probe(&mut self, tick: u64) -> Frame {
        self.encoder.begin(FrameKind::Update, tick, tick);
        self.finish()
    }
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

/// Adds the parts of a PV that changed after `since`; all known parts when it is 0. Values that don't fit
/// `together` with the others follow in separate frames, except in an answer, which has all values.
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
    // A client that has the old value must not take it for the present one: the large value's frame
    // reports the PV as connected again.
    let is_back =
        kind == FrameKind::CatchUp && entry.connection.state == ConnectionState::Connected;
    if entry.connection_tick > since && !(follows && is_back) {
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
    fn tick_that_touches_nothing_of_a_set_makes_no_frame() {
        let set = PvSet::new(vec![PvId(1)]);
        let changes = Changes {
            tick: 1,
            ..Changes::default()
        };
        assert!(FrameMaker::default().update(&changes, &set, 0).is_none());
    }
}
