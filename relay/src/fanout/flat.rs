//! The messages of pvwire's own protocol: flatbuffers, with their columns of numbers plain or packed by LZ4.

use std::sync::Arc;

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{
    Connection, ConnectionState, Detail, FrameKind, PvId, Reply, SkipCause, Skips,
};

use crate::fanout::dirty::{Dirty, Picked};
use crate::fanout::frame::{Frame, HEADER_ROOM};
use crate::fanout::set::PvSet;
use crate::ingest::{OpEnd, RowValue};
use crate::state::table::{ChangedRow, Changes, Entry, Latest, Table, Together};

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
        Frame::binary(encoder.finish_pieces(HEADER_ROOM), rows)
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
        let frame = Frame::binary(self.encoder.finish_pieces(HEADER_ROOM), rows);
        frame.standing_for(rows as u64 + skipped)
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
    fn tick_that_touches_nothing_of_a_set_makes_no_frame() {
        let set = PvSet::new(vec![PvId(1)]);
        let changes = Changes {
            tick: 1,
            ..Changes::default()
        };
        assert!(FrameMaker::default().update(&changes, &set, 0).is_none());
    }
}
