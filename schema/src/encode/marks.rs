//! What the rows of a frame say beside their values: alarms, details, skips and sequence numbers.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

use crate::generated::frame as fb;
use crate::types::{Alarm, Detail, FrameKind, SkipCause, Skips};

/// Alarm, detail, skips and sequence number of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowMarks<'a> {
    /// The alarm, if it differs from the PV's previous row.
    pub alarm: Option<Alarm>,
    /// User tag and alarm message, if they differ from the PV's previous row.
    pub detail: Option<&'a Detail>,
    /// Values skipped immediately before this row. Update frames only.
    pub skips: Skips,
    /// The row's sequence number. Every kind of frame except Update.
    pub sequence: u32,
}

/// Marks of either the numbers or the blobs. Row numbers of blobs are final only when the frame ends.
#[derive(Debug, Default)]
pub(super) struct MarkColumns {
    alarms: Vec<(u32, Alarm)>,
    details: Vec<(u32, WIPOffset<&'static str>, i32)>,
    pub(super) skips: Vec<(u32, SkipCause, u32)>,
    pub(super) sequences: Vec<u32>,
}

impl MarkColumns {
    /// Most rows of an Update have no marks.
    #[inline]
    pub(super) fn push(
        &mut self,
        builder: &mut FlatBufferBuilder<'static>,
        row: usize,
        kind: FrameKind,
        marks: RowMarks<'_>,
    ) {
        let none = marks.alarm.is_none() && marks.detail.is_none() && marks.skips == Skips::NONE;
        if kind != FrameKind::Update || !none {
            self.push_some(builder, row, kind, marks);
        }
    }

    #[inline(never)]
    fn push_some(
        &mut self,
        builder: &mut FlatBufferBuilder<'static>,
        row: usize,
        kind: FrameKind,
        marks: RowMarks<'_>,
    ) {
        let row = row as u32;
        if let Some(alarm) = marks.alarm {
            self.alarms.push((row, alarm));
        }
        if let Some(detail) = marks.detail {
            let message = builder.create_string(&detail.message);
            self.details.push((row, message, detail.user_tag));
        }
        if kind != FrameKind::Update {
            self.sequences.push(marks.sequence);
        } else if marks.skips != Skips::NONE {
            let skips = marks.skips.by_cause();
            self.skips
                .extend(skips.map(|(cause, count)| (row, cause, count)));
        }
    }

    pub(super) fn clear(&mut self) {
        self.alarms.clear();
        self.details.clear();
        self.skips.clear();
        self.sequences.clear();
    }
}

/// The alarms of all rows: first those of the numbers, whose rows are `numbers`, then of the blobs.
pub(super) fn alarms(
    first: &MarkColumns,
    second: &MarkColumns,
    numbers: usize,
) -> Vec<fb::AlarmRow> {
    let of_blobs = second.alarms.iter();
    (first.alarms.iter().copied())
        .chain(of_blobs.map(|&(row, alarm)| (row + numbers as u32, alarm)))
        .map(|(row, alarm)| fb::AlarmRow::new(row, alarm.status, alarm.severity.number()))
        .collect()
}

/// The skips of all rows, likewise.
pub(super) fn skips(first: &MarkColumns, second: &MarkColumns, numbers: usize) -> Vec<fb::SkipRow> {
    let of_blobs = second.skips.iter();
    (first.skips.iter().copied())
        .chain(of_blobs.map(|&(row, cause, count)| (row + numbers as u32, cause, count)))
        .map(|(row, cause, count)| fb::SkipRow::new(row, count, cause.number()))
        .collect()
}

/// The details of all rows, likewise.
pub(super) fn details(
    builder: &mut FlatBufferBuilder<'static>,
    first: &MarkColumns,
    second: &MarkColumns,
    numbers: usize,
) -> Vec<WIPOffset<fb::Detail<'static>>> {
    let of_blobs = second.details.iter();
    (first.details.iter().copied())
        .chain(of_blobs.map(|&(row, text, tag)| (row + numbers as u32, text, tag)))
        .map(|(row, message, user_tag)| fb::DetailArgs {
            row,
            user_tag,
            message: Some(message),
        })
        .map(|args| fb::Detail::create(builder, &args))
        .collect()
}
