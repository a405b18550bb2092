//! Frames without the times and values of their numbers, which a chunk has in columns, and the frames as they were.

use std::ops::Range;

use pvwire_schema::decode::{self, NumberRow};
use pvwire_schema::limits::MAX_FRAME_BYTES;
use pvwire_schema::types::{FrameKind, PvId};
use pvwire_schema::varint::{DeltaColumn, Deltas, holds};

use super::rows::Content;

/// Bytes before the rest of a frame: six 32-bit numbers, and the time to which that of the first row is relative.
const HEAD_BYTES: usize = 32;

/// Longest difference of two times.
const MAX_TIME_BYTES: usize = 10;

/// Bytes of a value.
const VALUE_BYTES: usize = size_of::<f64>();

/// Where the columns of a frame are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Columns {
    ids: Range<usize>,
    times: Range<usize>,
    values: Range<usize>,
    base_ns: i64,
}

impl Columns {
    /// `None` if they overlap.
    fn apart(self) -> Option<Self> {
        let Self {
            ids, times, values, ..
        } = &self;
        let is_apart = |one: &Range<usize>, other: &Range<usize>| {
            one.end <= other.start || other.end <= one.start
        };
        let are_apart = is_apart(ids, times) && is_apart(ids, values) && is_apart(times, values);
        are_apart.then_some(self)
    }

    fn rows(&self) -> usize {
        self.values.len() / VALUE_BYTES
    }

    /// Times and values, in their order in the frame.
    fn holes(&self) -> [Range<usize>; 2] {
        let holes = [self.times.clone(), self.values.clone()];
        let [times, values] = &holes;
        if times.start < values.start {
            return holes;
        }
        [values.clone(), times.clone()]
    }

    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.rows(),
            self.ids.start,
            self.ids.len(),
            self.times.start,
            self.times.len(),
        ];
        let mut out: Vec<u8> = numbers
            .into_iter()
            .flat_map(|number| (number as u32).to_le_bytes())
            .collect();
        out.extend((self.values.start as u32).to_le_bytes());
        out.extend(self.base_ns.to_le_bytes());
        out
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let (words, _) = head.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]) as usize;
        let range = |from: usize, length: usize| from..from.saturating_add(length);
        let columns = Self {
            ids: range(word(1), word(2)),
            times: range(word(3), word(4)),
            values: range(word(5), word(0).saturating_mul(VALUE_BYTES)),
            base_ns: i64::from_le_bytes(head[24..].try_into().ok()?),
        };
        Some((columns.apart()?, rest))
    }
}

/// Appends a frame without the times and values of its numbers to `out`, and these to `rows`. Returns false if that
/// can't be done without a change of its bytes; then nothing is appended.
pub(super) fn cut(frame: &[u8], out: &mut Vec<u8>, rows: &mut Vec<NumberRow>) -> bool {
    let Ok(view) = decode::frame(frame) else {
        return false;
    };
    let Some([ids, times, values]) = view.plain_columns() else {
        return false;
    };
    let Some(first) = view.numbers().next() else {
        return false;
    };
    let difference_ns = Deltas::new(&frame[times.clone()], 0).advance();
    let columns = Columns {
        ids,
        times,
        values,
        base_ns: first.time_ns.wrapping_sub(difference_ns),
    };
    let Some(columns) = columns.apart() else {
        return false;
    };
    let mut again = DeltaColumn::default();
    again.begin(columns.base_ns);
    view.numbers().for_each(|row| again.push(row.time_ns));
    if again.bytes() != &frame[columns.times.clone()] || view.numbers_len() != columns.rows() {
        return false;
    }
    out.extend(columns.to_bytes());
    let [one, other] = columns.holes();
    out.extend(&frame[..one.start]);
    out.extend(&frame[one.end..other.start]);
    out.extend(&frame[other.end..]);
    rows.extend(view.numbers());
    true
}

/// A frame whose times and values are missing.
#[derive(Debug)]
pub(super) struct Cut {
    columns: Columns,
    /// As long as the frame.
    bytes: Vec<u8>,
    /// The PVs of its rows.
    pub(super) ids: Vec<PvId>,
}

impl Cut {
    /// Reads what [`cut`] has appended; `None` if it is something else.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (columns, left) = Columns::read(bytes)?;
        let [one, other] = columns.holes();
        let rows = columns.rows();
        // Before memory is allocated: each row has at least a byte of an id.
        if rows > left.len() || columns.times.len() > rows * MAX_TIME_BYTES {
            return None;
        }
        let length = left.len() + one.len() + other.len();
        if length > MAX_FRAME_BYTES || other.end > length {
            return None;
        }
        let mut bytes = vec![0; length];
        let (before, left) = left.split_at_checked(one.start)?;
        let (between, after) = left.split_at_checked(other.start - one.end)?;
        bytes[..one.start].copy_from_slice(before);
        bytes[one.end..other.start].copy_from_slice(between);
        bytes[other.end..].copy_from_slice(after);
        let column = bytes.get(columns.ids.clone())?;
        if !holds(column, rows) {
            return None;
        }
        let mut deltas = Deltas::new(column, 0);
        let ids = (0..rows).map(|_| PvId(deltas.advance() as u32));
        Some(Self {
            ids: ids.collect(),
            columns,
            bytes,
        })
    }

    /// Whether the frame has nothing but numbers, each of which is the next update of its PV.
    pub(super) fn is_plain(&mut self) -> bool {
        let rows = self.columns.rows();
        let times = &mut self.bytes[self.columns.times.clone()];
        let Some(longer) = times.len().checked_sub(rows) else {
            return false;
        };
        // As many differences as there are rows, whatever they are.
        times[..longer].fill(0x80);
        times[longer..].fill(0);
        decode::frame(&self.bytes).is_ok_and(|frame| {
            frame.kind() == FrameKind::Update
                && frame.numbers_len() == rows
                && frame.blobs_len() == 0
                && frame.reply().is_none()
                && frame.metadata().next().is_none()
                && frame.connections().next().is_none()
                && frame.sequences().is_none()
                && frame.alarms().next().is_none()
                && frame.details().next().is_none()
                && frame.skips().next().is_none()
        })
    }

    /// The frame; `None` if these are not its rows.
    pub(super) fn join(mut self, rows: &[Content]) -> Option<Vec<u8>> {
        let mut times = DeltaColumn::default();
        times.begin(self.columns.base_ns);
        rows.iter().for_each(|(time_ns, _)| times.push(*time_ns));
        let is_whole =
            times.bytes().len() == self.columns.times.len() && rows.len() == self.columns.rows();
        if !is_whole {
            return None;
        }
        self.bytes[self.columns.times].copy_from_slice(times.bytes());
        let values = &mut self.bytes[self.columns.values];
        for (value, (_, number)) in values.chunks_exact_mut(VALUE_BYTES).zip(rows) {
            value.copy_from_slice(&number.to_le_bytes());
        }
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvwire_schema::encode::{FrameEncoder, RowMarks};
    use pvwire_schema::types::{Alarm, BlobValue, Severity};

    fn frame(rows: &[(u32, i64, f64)], is_packed: bool) -> Vec<u8> {
        let mut encoder = FrameEncoder::new();
        encoder.packing(is_packed);
        encoder.begin(FrameKind::Update, 7, 6);
        for (at, (id, time_ns, value)) in rows.iter().enumerate() {
            let alarm = Alarm {
                severity: Severity::Major,
                status: 3,
            };
            let marks = RowMarks {
                alarm: (at % 5 == 4).then_some(alarm),
                ..RowMarks::default()
            };
            encoder.number(PvId(*id), *time_ns, *value, marks);
        }
        let text = BlobValue::Text("text".into());
        encoder.blob(PvId(99), 5, &text, RowMarks::default());
        encoder.finish().to_vec()
    }

    proptest! {
        #[test]
        fn frame_comes_back_byte_by_byte(
            rows in prop::collection::vec((any::<u32>(), any::<i64>(), any::<f64>()), 1..50)
        ) {
            let frame = frame(&rows, false);
            let (mut out, mut taken) = (vec![1, 2, 3], Vec::new());
            prop_assert!(cut(&frame, &mut out, &mut taken));
            prop_assert_eq!(taken.len(), rows.len());
            let cut = Cut::read(&out[3..]).unwrap();
            let ids: Vec<_> = rows.iter().map(|(id, ..)| PvId(*id)).collect();
            prop_assert_eq!(&cut.ids, &ids);
            let rows: Vec<Content> = rows.iter().map(|(_, time_ns, value)| (*time_ns, *value)).collect();
            prop_assert_eq!(cut.join(&rows), Some(frame));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, words: [u16; 16]) {
            let _ = Cut::read(&bytes);
            let head = words.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
            let _ = Cut::read(&[&head, &*bytes].concat());
        }
    }

    #[test]
    fn frame_is_plain_if_it_has_numbers_alone() {
        let is_plain = |frame: &[u8]| {
            let (mut out, mut rows) = (Vec::new(), Vec::new());
            assert!(cut(frame, &mut out, &mut rows));
            let mut cut = Cut::read(&out).unwrap();
            let is_plain = cut.is_plain();
            let rows: Vec<Content> = rows.iter().map(|row| (row.time_ns, row.value)).collect();
            assert_eq!(cut.join(&rows).as_deref(), Some(frame));
            is_plain
        };
        let mut encoder = FrameEncoder::new();
        let mut numbers = |kind, marks: RowMarks<'_>| {
            encoder.begin(kind, 7, 6);
            for id in 0..3 {
                encoder.number(PvId(id), i64::from(id) << 30, 0.5, RowMarks::default());
            }
            encoder.number(PvId(3), 0, 0.5, marks);
            encoder.finish().to_vec()
        };
        let alarm = RowMarks {
            alarm: Some(Alarm::NONE),
            ..RowMarks::default()
        };
        assert!(is_plain(&numbers(FrameKind::Update, RowMarks::default())));
        assert!(!is_plain(&numbers(FrameKind::Update, alarm)));
        assert!(!is_plain(&numbers(
            FrameKind::Snapshot,
            RowMarks::default()
        )));
        assert!(!is_plain(&frame(&[(1, 2, 3.0)], false)), "it has a text");
    }

    #[test]
    fn frame_without_plain_numbers_is_left_as_it_is() {
        let same: Vec<_> = (0..50).map(|id| (id, 7, 1.5)).collect();
        for frame in [frame(&same, true), frame(&[], false), vec![0; 40]] {
            let (mut out, mut rows) = (Vec::new(), Vec::new());
            assert!(!cut(&frame, &mut out, &mut rows));
            assert!(out.is_empty() && rows.is_empty());
        }
    }
}
