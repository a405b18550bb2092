//! Samples of one PV that follow each other: the open chunk takes them, a sealed one is compressed.

use pvwire_schema::types::{Alarm, Skips};
use smallvec::SmallVec;

use super::column;
use super::numbering::Mark;
use super::{PastSample, PastValue, Position};

/// What a sealed chunk uses beside its columns.
const CHUNK_BYTES: usize = 208;

/// Alarms by the row from which they hold. Most chunks have one: a small block would keep a page of what is freed beside it.
pub(super) type Alarms = SmallVec<[(u32, Alarm); 2]>;

/// Times and values of an open chunk.
#[derive(Debug)]
enum Rows {
    Numbers(Vec<(i64, f64)>),
    /// Since the first value that is not a number.
    Mixed(Vec<(i64, PastValue)>),
}

/// The samples since the last sealed chunk.
#[derive(Debug)]
pub(super) struct OpenChunk {
    rows: Rows,
    /// The alarm of the last row.
    alarm: Alarm,
    alarms: Alarms,
    /// Updates that were left out before a row.
    skips: Vec<(u32, Skips)>,
    /// The number of the first row; `None` if another relay has counted it.
    first: Option<Position>,
    marks: Vec<Mark>,
    text_bytes: usize,
}

impl OpenChunk {
    pub(super) fn new() -> Self {
        Self {
            rows: Rows::Numbers(Vec::new()),
            alarm: Alarm::NONE,
            alarms: Alarms::new(),
            skips: Vec::new(),
            first: None,
            marks: Vec::new(),
            text_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.rows {
            Rows::Numbers(rows) => rows.len(),
            Rows::Mixed(rows) => rows.len(),
        }
    }

    pub(super) fn push(&mut self, sample: PastSample) {
        let row = self.len() as u32;
        if row == 0 || self.alarm != sample.alarm {
            self.alarm = sample.alarm;
            self.alarms.push((row, sample.alarm));
        }
        if sample.skips != Skips::NONE {
            self.skips.push((row, sample.skips));
        }
        self.text_bytes += sample.value.text_bytes();
        let time_ns = sample.time_ns;
        match (&mut self.rows, sample.value) {
            (Rows::Numbers(rows), PastValue::Number(number)) => rows.push((time_ns, number)),
            (Rows::Numbers(rows), value) => {
                let before = rows
                    .iter()
                    .map(|(time_ns, number)| (*time_ns, PastValue::Number(*number)));
                self.rows = Rows::Mixed(before.chain([(time_ns, value)]).collect());
            }
            (Rows::Mixed(rows), value) => rows.push((time_ns, value)),
        }
    }

    /// Numbers the row that is pushed next, if it is the first one.
    pub(super) fn begin(&mut self, first: Position) {
        if self.len() == 0 {
            self.first = Some(first);
        }
    }

    /// Marks the row that is pushed next.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.marks.push(mark);
    }

    pub(super) fn first(&self) -> Option<Position> {
        self.first
    }

    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Time of the first row.
    pub(super) fn begin_ns(&self) -> Option<i64> {
        match &self.rows {
            Rows::Numbers(rows) => rows.first().map(|(time_ns, _)| *time_ns),
            Rows::Mixed(rows) => rows.first().map(|(time_ns, _)| *time_ns),
        }
    }

    /// Removes all rows but the last, which has this number.
    pub(super) fn keep_last(&mut self, number: Option<Position>) {
        let Some(last) = self.len().checked_sub(1) else {
            return;
        };
        self.text_bytes = match &mut self.rows {
            Rows::Numbers(rows) => {
                *rows = rows.split_off(last);
                0
            }
            Rows::Mixed(rows) => {
                *rows = rows.split_off(last);
                rows.iter().map(|(_, value)| value.text_bytes()).sum()
            }
        };
        self.alarms = [(0, self.alarm)].into_iter().collect();
        let is_last = |row: u32| row as usize == last;
        let skips = self.skips.iter().filter(|(row, _)| is_last(*row));
        self.skips = skips.map(|(_, skips)| (0, *skips)).collect();
        let marks = self.marks.iter().filter(|mark| is_last(mark.row));
        self.marks = marks.map(|mark| Mark { row: 0, ..*mark }).collect();
        self.first = number;
    }

    /// Memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        let rows = match &self.rows {
            Rows::Numbers(rows) => rows.capacity() * size_of::<(i64, f64)>(),
            Rows::Mixed(rows) => rows.capacity() * size_of::<(i64, PastValue)>(),
        };
        rows + alarm_bytes(&self.alarms)
            + self.skips.capacity() * size_of::<(u32, Skips)>()
            + self.marks.capacity() * size_of::<Mark>()
            + self.text_bytes
    }

    pub(super) fn seal(&self) -> SealedChunk {
        let (times, values, is_mixed): (Vec<i64>, _, _) = match &self.rows {
            Rows::Numbers(rows) => {
                let (times, numbers): (_, Vec<f64>) = rows.iter().copied().unzip();
                (times, column::pack_numbers(&numbers), false)
            }
            Rows::Mixed(rows) => {
                let (times, values): (_, Vec<PastValue>) = rows.iter().cloned().unzip();
                (times, column::pack_values(&values), true)
            }
        };
        let span = times.iter().copied();
        SealedChunk {
            rows: times.len(),
            span_ns: (span.clone().min().unwrap_or(0), span.max().unwrap_or(0)),
            columns: Columns::new(&column::pack_times(&times), &values),
            is_mixed,
            alarms: self.alarms.clone(),
            skips: self.skips.as_slice().into(),
            first: self.first,
            marks: self.marks.as_slice().into(),
        }
    }

    /// The samples from this row on.
    pub(super) fn samples_from(&self, row: usize) -> Vec<PastSample> {
        let (times, values) = match &self.rows {
            Rows::Numbers(rows) => {
                let rows = rows.iter().skip(row);
                rows.map(|(time_ns, number)| (*time_ns, PastValue::Number(*number)))
                    .unzip()
            }
            Rows::Mixed(rows) => rows.iter().skip(row).cloned().unzip(),
        };
        joined(row, times, values, &self.alarms, &self.skips)
    }

    pub(super) fn last(&self) -> Option<PastSample> {
        let (time_ns, value) = match &self.rows {
            Rows::Numbers(rows) => {
                let (time_ns, number) = rows.last()?;
                (*time_ns, PastValue::Number(*number))
            }
            Rows::Mixed(rows) => rows.last()?.clone(),
        };
        Some(PastSample {
            time_ns,
            value,
            alarm: self.alarm,
            skips: Skips::NONE,
        })
    }
}

fn alarm_bytes(alarms: &Alarms) -> usize {
    match alarms.spilled() {
        true => alarms.capacity() * size_of::<(u32, Alarm)>(),
        false => 0,
    }
}

/// The compressed times and values of a chunk, in one block.
#[derive(Debug)]
pub(super) struct Columns {
    bytes: Box<[u8]>,
    times: usize,
}

impl Columns {
    pub(super) fn new(times: &[u8], values: &[u8]) -> Self {
        Self {
            bytes: [times, values].concat().into(),
            times: times.len(),
        }
    }

    pub(super) fn times(&self) -> &[u8] {
        &self.bytes[..self.times]
    }

    pub(super) fn values(&self) -> &[u8] {
        &self.bytes[self.times..]
    }
}

/// A compressed chunk.
#[derive(Debug)]
pub(super) struct SealedChunk {
    pub(super) rows: usize,
    /// Smallest and largest time.
    pub(super) span_ns: (i64, i64),
    pub(super) columns: Columns,
    /// Not all values are numbers.
    pub(super) is_mixed: bool,
    pub(super) alarms: Alarms,
    pub(super) skips: Box<[(u32, Skips)]>,
    /// As of an open chunk. Numbers are not written to the disk: the relay that reads it counts again from the first.
    pub(super) first: Option<Position>,
    pub(super) marks: Box<[Mark]>,
}

impl SealedChunk {
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn span_ns(&self) -> (i64, i64) {
        self.span_ns
    }

    /// Memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        CHUNK_BYTES
            + self.columns.bytes.len()
            + alarm_bytes(&self.alarms)
            + self.skips.len() * size_of::<(u32, Skips)>()
            + self.marks.len() * size_of::<Mark>()
    }

    pub(super) fn samples(&self) -> Vec<PastSample> {
        let times = column::unpack_times(self.columns.times(), self.rows);
        let values = if self.is_mixed {
            column::unpack_values(self.columns.values(), self.rows)
        } else {
            let numbers = column::unpack_numbers(self.columns.values(), self.rows);
            numbers.into_iter().map(PastValue::Number).collect()
        };
        joined(0, times, values, &self.alarms, &self.skips)
    }
}

/// Rows of columns, of which the first has this number, as samples.
fn joined(
    first: usize,
    times: Vec<i64>,
    values: Vec<PastValue>,
    alarms: &[(u32, Alarm)],
    skips: &[(u32, Skips)],
) -> Vec<PastSample> {
    let (before, alarms) =
        alarms.split_at(alarms.partition_point(|(at, _)| (*at as usize) < first));
    let mut alarm = before.last().map_or(Alarm::NONE, |(_, alarm)| *alarm);
    let skips = &skips[skips.partition_point(|(at, _)| (*at as usize) < first)..];
    let (mut alarms, mut skips) = (alarms.iter().peekable(), skips.iter().peekable());
    let rows = (first..).zip(times.into_iter().zip(values));
    rows.map(|(row, (time_ns, value))| {
        if let Some((_, changed)) = alarms.next_if(|(at, _)| *at as usize == row) {
            alarm = *changed;
        }
        let skipped = skips.next_if(|(at, _)| *at as usize == row);
        PastSample {
            time_ns,
            value,
            alarm,
            skips: skipped.map_or(Skips::NONE, |(_, skips)| *skips),
        }
    })
    .collect()
}
