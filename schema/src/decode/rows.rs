//! Rows of a frame: updates of numbers and blobs, and what is said beside them.

use super::NodeView;
use super::table::Table;
use crate::generated::frame as fb;
use crate::types::{Alarm, PvId, SkipCause, ValueType};
use crate::varint::Deltas;

/// One numeric update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRow {
    /// The PV.
    pub id: PvId,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// The value.
    pub value: f64,
}

/// Iterator over numeric updates.
#[derive(Clone, Debug, Default)]
pub struct NumberRows<'a> {
    pub(super) ids: Deltas<'a>,
    pub(super) times: Deltas<'a>,
    pub(super) values: &'a [[u8; 8]],
}

impl Iterator for NumberRows<'_> {
    type Item = NumberRow;

    #[inline(always)]
    fn next(&mut self) -> Option<NumberRow> {
        let (value, rest) = self.values.split_first()?;
        self.values = rest;
        Some(NumberRow {
            id: PvId(self.ids.advance() as u32),
            time_ns: self.times.advance(),
            value: f64::from_le_bytes(*value),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.values.len(), Some(self.values.len()))
    }
}

impl ExactSizeIterator for NumberRows<'_> {
    fn len(&self) -> usize {
        self.values.len()
    }
}

/// Alarm of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmRow {
    /// Row number: numbers first, then blobs.
    pub row: u32,
    /// The alarm.
    pub alarm: Alarm,
}

/// User tag and alarm message of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailRow<'a> {
    /// Row number: numbers first, then blobs.
    pub row: u32,
    /// User tag of the time stamp.
    pub user_tag: i32,
    /// The alarm's message.
    pub message: &'a str,
}

/// Values skipped immediately before a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipRow {
    /// Row number: numbers first, then blobs.
    pub row: u32,
    /// Number of skipped values.
    pub count: u32,
    /// Why.
    pub cause: SkipCause,
}

/// One update whose value is not a double.
#[derive(Clone, Copy, Debug)]
pub struct BlobView<'a> {
    /// The PV.
    pub id: PvId,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// Element type.
    pub value_type: ValueType,
    /// Whether it is an array, even with one element or none.
    pub array: bool,
    /// Number of elements.
    pub count: u32,
    /// Little-endian elements; empty for strings.
    pub data: &'a [u8],
    /// Where `data` starts in the message: a multiple of eight.
    pub data_offset: usize,
    /// The fields of a structure.
    pub structure: Option<NodeView<'a>>,
    /// `structure` contains changed fields only.
    pub partial: bool,
    blob: Table<'a>,
}

impl<'a> BlobView<'a> {
    pub(super) fn new(bytes: &'a [u8], blob: Table<'a>) -> Self {
        let value_type = ValueType::from_number(blob.u8(fb::Blob::VT_TYPE_));
        let count = blob.u32(fb::Blob::VT_COUNT);
        let data = elements(value_type, count, blob.vector(fb::Blob::VT_DATA, 8));
        Self {
            id: PvId(blob.u32(fb::Blob::VT_ID)),
            time_ns: blob.u64(fb::Blob::VT_TIME_NS) as i64,
            value_type,
            array: blob.bool(fb::Blob::VT_ARRAY),
            count,
            data,
            data_offset: offset_in(bytes, data),
            structure: (blob.table(fb::Blob::VT_STRUCTURE)).map(|node| NodeView { node, bytes }),
            partial: blob.bool(fb::Blob::VT_PARTIAL),
            blob,
        }
    }

    /// Whether type and count fit the elements.
    pub(super) fn fits(&self) -> bool {
        let words = self.blob.vector(fb::Blob::VT_DATA, 8).len() / 8;
        let number = self.blob.u8(fb::Blob::VT_TYPE_);
        match self.value_type {
            ValueType::Structure => self.structure.is_some_and(|node| node.fits()),
            // The layout of an unknown type can't be checked. The elements are never read.
            ValueType::Unknown if number != 0 => true,
            value_type => match value_type.element_bytes() {
                Some(bytes) => words_hold(words, self.count, bytes),
                None => self.blob.count(fb::Blob::VT_TEXT) == self.count as usize,
            },
        }
    }

    /// The word of a scalar Int64 or UInt64.
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        let word: [u8; 8] = self.data.try_into().ok()?;
        Some(u64::from_le_bytes(word)).filter(|_| !self.array)
    }

    /// The strings of a string PV.
    pub fn text(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.blob.texts(fb::Blob::VT_TEXT)
    }
}

/// The elements in a vector of words, without the padding of the last word.
pub(super) fn elements(value_type: ValueType, count: u32, words: &[u8]) -> &[u8] {
    let bytes = value_type.element_bytes().unwrap_or(0);
    &words[..bytes.saturating_mul(count as usize).min(words.len())]
}

/// Whether this number of words is what `count` elements take.
pub(super) fn words_hold(words: usize, count: u32, element_bytes: usize) -> bool {
    let bytes = (count as usize).checked_mul(element_bytes);
    bytes.is_some_and(|bytes| bytes.div_ceil(8) == words)
}

/// Offset of a part of the message; 0 if it is empty.
pub(super) fn offset_in(bytes: &[u8], part: &[u8]) -> usize {
    if part.is_empty() {
        return 0;
    }
    part.as_ptr() as usize - bytes.as_ptr() as usize
}
