//! Columns of a frame, packed or plain.

use std::ops::Range;

use super::layout::{alarm_row, skip_row};
use super::rows::{AlarmRow, BlobView, DetailRow, NumberRows, SkipRow, offset_in};
use super::table::Table;
use super::{DecodeError, FrameView};
use crate::generated::frame as fb;
use crate::limits::MAX_ROWS;
use crate::lz4;
use crate::types::{Alarm, Severity, SkipCause};
use crate::varint::Deltas;

/// Maximum number of bytes of a row's id and time, as differences in LEB128.
const MAX_OTHER_BYTES: usize = 20;

impl<'a> FrameView<'a> {
    /// Number of numeric rows.
    #[must_use]
    pub fn numbers_len(&self) -> usize {
        let numbers = self.frame.table(fb::Frame::VT_NUMBERS);
        numbers.map_or(0, |numbers| numbers.u32(fb::Numbers::VT_COUNT) as usize)
    }

    /// Number of blob rows.
    #[must_use]
    pub fn blobs_len(&self) -> usize {
        self.frame.count(fb::Frame::VT_BLOBS)
    }

    /// Numeric updates, in order.
    #[must_use]
    pub fn numbers(&self) -> NumberRows<'_> {
        let Some(numbers) = self.frame.table(fb::Frame::VT_NUMBERS) else {
            return NumberRows::default();
        };
        let (ids, times, values) = if self.columns.is_empty() {
            (
                numbers.vector(fb::Numbers::VT_IDS, 1),
                numbers.vector(fb::Numbers::VT_TIMES, 1),
                numbers.vector(fb::Numbers::VT_VALUES, 8),
            )
        } else {
            let (ids_bytes, times_bytes) = packed_bytes(numbers);
            let (ids, rest) = (self.columns.split_at_checked(ids_bytes)).unwrap_or_default();
            let (times, values) = rest.split_at_checked(times_bytes).unwrap_or_default();
            (ids, times, values)
        };
        let base = numbers.u64(fb::Numbers::VT_BASE_TIME_NS) as i64;
        NumberRows {
            ids: Deltas::new(ids, 0),
            times: Deltas::new(times, base),
            values: values.as_chunks().0,
        }
    }

    /// Where the columns `ids`, `times` and `values` are in the message; `None` if the frame has no numbers, or packed ones.
    #[must_use]
    pub fn plain_columns(&self) -> Option<[Range<usize>; 3]> {
        let numbers = self.frame.table(fb::Frame::VT_NUMBERS)?;
        let columns = [
            numbers.vector(fb::Numbers::VT_IDS, 1),
            numbers.vector(fb::Numbers::VT_TIMES, 1),
            numbers.vector(fb::Numbers::VT_VALUES, 8),
        ];
        let is_plain = self.columns.is_empty() && !columns.iter().any(|column| column.is_empty());
        is_plain.then(|| {
            columns.map(|column| {
                let begin = offset_in(self.bytes, column);
                begin..begin + column.len()
            })
        })
    }

    /// Unpacks the columns of numbers if they are packed.
    pub(super) fn unpack(&mut self) -> Result<(), DecodeError> {
        let Some(numbers) = self.frame.table(fb::Frame::VT_NUMBERS) else {
            return Ok(());
        };
        let packed = numbers.vector(fb::Numbers::VT_PACKED, 1);
        if packed.is_empty() {
            return Ok(());
        }
        let rows = self.numbers_len();
        let (ids_bytes, times_bytes) = packed_bytes(numbers);
        let columns = (ids_bytes.checked_add(times_bytes))
            .filter(|others| rows <= MAX_ROWS && *others <= rows * MAX_OTHER_BYTES)
            .and_then(|others| lz4::unpacked(packed, others, rows));
        self.columns = columns.ok_or(DecodeError::ColumnMismatch {
            column: "packed",
            rows,
        })?;
        Ok(())
    }

    /// Updates of strings, arrays, structures and large integers, in order.
    pub fn blobs(&self) -> impl Iterator<Item = BlobView<'a>> + use<'a> {
        let bytes = self.bytes;
        (self.frame.tables(fb::Frame::VT_BLOBS)).map(move |blob| BlobView::new(bytes, blob))
    }

    /// Rows whose alarm changed, by ascending row.
    pub fn alarms(&self) -> impl Iterator<Item = AlarmRow> + use<'a> {
        let rows = self.frame.vector(fb::Frame::VT_ALARMS, alarm_row::BYTES);
        let rows = rows.as_chunks::<{ alarm_row::BYTES }>().0;
        rows.iter().map(|row| AlarmRow {
            row: u32_at(row, alarm_row::ROW),
            alarm: Alarm {
                severity: Severity::from_number(row[alarm_row::SEVERITY]),
                status: u16::from_le_bytes([row[alarm_row::STATUS], row[alarm_row::STATUS + 1]]),
            },
        })
    }

    /// Rows whose user tag or alarm message changed, by ascending row.
    pub fn details(&self) -> impl Iterator<Item = DetailRow<'a>> + use<'a> {
        let rows = self.frame.tables(fb::Frame::VT_DETAILS);
        rows.map(|row| DetailRow {
            row: row.u32(fb::Detail::VT_ROW),
            user_tag: row.u32(fb::Detail::VT_USER_TAG) as i32,
            message: row.text(fb::Detail::VT_MESSAGE),
        })
    }

    /// Rows before which values were skipped, by ascending row. A row occurs once per cause.
    pub fn skips(&self) -> impl Iterator<Item = SkipRow> + use<'a> {
        let rows = self.frame.vector(fb::Frame::VT_SKIPS, skip_row::BYTES);
        let rows = rows.as_chunks::<{ skip_row::BYTES }>().0;
        rows.iter().map(|row| SkipRow {
            row: u32_at(row, skip_row::ROW),
            count: u32_at(row, skip_row::COUNT),
            cause: SkipCause::from_number(row[skip_row::CAUSE]),
        })
    }

    /// Why values before the rows of a `CatchUp` were skipped.
    #[must_use]
    pub fn skip_cause(&self) -> SkipCause {
        SkipCause::from_number(self.frame.u8(fb::Frame::VT_SKIP_CAUSE))
    }

    /// Sequence numbers of the rows, in every kind of frame except Update.
    #[must_use]
    pub fn sequences(&self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let sequences = self.frame.vector(fb::Frame::VT_SEQUENCES, 4).as_chunks().0;
        (!sequences.is_empty()).then(|| sequences.iter().map(|number| u32::from_le_bytes(*number)))
    }
}

/// Lengths of ids and times in packed columns, in bytes.
fn packed_bytes(numbers: Table<'_>) -> (usize, usize) {
    (
        numbers.u32(fb::Numbers::VT_IDS_BYTES) as usize,
        numbers.u32(fb::Numbers::VT_TIMES_BYTES) as usize,
    )
}

/// The number at an offset of a struct.
#[inline(always)]
fn u32_at<const BYTES: usize>(row: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]])
}
