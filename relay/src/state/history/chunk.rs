//! Samples of one PV that follow each other: the open chunk takes them, a sealed one is compressed.

use pvwire_schema::types::{Alarm, Skips};
use smallvec::SmallVec;

use super::column;
use super::numbering::Mark;
use super::{PastSample, PastValue, Position};

/// What a sealed chunk uses beside its columns.
const CHUNK_BYTES: usize = 160;

/// Alarms by the row from which they hold. Most chunks have one: a small block would keep a page of what is freed beside it.
type Alarms = SmallVec<[(u32, Alarm); 2]>;

/// Times and values of an open chunk.
#[derive(Debug)]
enum Rows {
    Numbers(Vec<(i64, f64)>),
    /// Since the first value that is not a number.
    Mixed(Vec<(i64, PastValue)>),
}

/// The samples since the last sealed chunk. What each changes comes first; see [`super::ring::Ring`].
#[derive(Debug)]
#[repr(C)]
pub(super) struct OpenChunk {
    rows: Rows,
    /// Memory that it uses beside its rows.
    other_bytes: usize,
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
            other_bytes: 0,
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
        let time_ns = sample.time_ns;
        if self.len() == 0 || self.alarm != sample.alarm || sample.skips != Skips::NONE {
            self.push_beside(sample.alarm, sample.skips);
        }
        match (&mut self.rows, sample.value) {
            (Rows::Numbers(rows), PastValue::Number(number)) => rows.push((time_ns, number)),
            (Rows::Numbers(rows), value) => {
                let before = rows
                    .iter()
                    .map(|(time_ns, number)| (*time_ns, PastValue::Number(*number)));
                self.rows = Rows::Mixed(before.collect());
                self.push_mixed(time_ns, value);
            }
            (Rows::Mixed(_), value) => self.push_mixed(time_ns, value),
        }
    }

    /// Alarm and skips of the row that is pushed next.
    fn push_beside(&mut self, alarm: Alarm, skips: Skips) {
        let row = self.len() as u32;
        if row == 0 || self.alarm != alarm {
            self.alarm = alarm;
            self.alarms.push((row, alarm));
        }
        if skips != Skips::NONE {
            self.skips.push((row, skips));
        }
        self.count_others();
    }

    fn push_mixed(&mut self, time_ns: i64, value: PastValue) {
        self.text_bytes += value.text_bytes();
        if let Rows::Mixed(rows) = &mut self.rows {
            rows.push((time_ns, value));
        }
        self.count_others();
    }

    fn count_others(&mut self) {
        self.other_bytes = alarm_bytes(&self.alarms)
            + self.skips.capacity() * size_of::<(u32, Skips)>()
            + self.marks.capacity() * size_of::<Mark>()
            + self.text_bytes;
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
        self.count_others();
    }

    pub(super) fn first(&self) -> Option<Position> {
        self.first
    }

    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Reads the last row, behind which the next one is written.
    pub(super) fn prefetch(&self) -> i64 {
        match &self.rows {
            Rows::Numbers(rows) => rows.last().map_or(0, |(time_ns, _)| *time_ns),
            Rows::Mixed(rows) => rows.last().map_or(0, |(time_ns, _)| *time_ns),
        }
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
        self.count_others();
    }

    /// Memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        let rows = match &self.rows {
            Rows::Numbers(rows) => rows.capacity() * size_of::<(i64, f64)>(),
            Rows::Mixed(rows) => rows.capacity() * size_of::<(i64, PastValue)>(),
        };
        rows + self.other_bytes
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
            rows: times.len() as u32,
            span_ns: (span.clone().min().unwrap_or(0), span.max().unwrap_or(0)),
            columns: Columns::new(&column::pack_times(&times), &values),
            is_mixed,
            sides: Sides::new(&self.alarms, &self.skips, &self.marks),
            first: self.first,
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
    times: u32,
}

impl Columns {
    pub(super) fn new(times: &[u8], values: &[u8]) -> Self {
        Self {
            bytes: [times, values].concat().into(),
            times: times.len() as u32,
        }
    }

    pub(super) fn times(&self) -> &[u8] {
        &self.bytes[..self.times as usize]
    }

    pub(super) fn values(&self) -> &[u8] {
        &self.bytes[self.times as usize..]
    }
}

/// What few rows of a sealed chunk have. Most chunks have one alarm and nothing else.
#[derive(Debug)]
pub(super) enum Sides {
    Alarm((u32, Alarm)),
    All(Box<AllSides>),
}

/// See the open chunk.
#[derive(Debug)]
pub(super) struct AllSides {
    alarms: Box<[(u32, Alarm)]>,
    skips: Box<[(u32, Skips)]>,
    marks: Box<[Mark]>,
}

impl Sides {
    pub(super) fn new(alarms: &[(u32, Alarm)], skips: &[(u32, Skips)], marks: &[Mark]) -> Self {
        match (alarms, skips, marks) {
            ([alarm], [], []) => Self::Alarm(*alarm),
            _ => Self::All(Box::new(AllSides {
                alarms: alarms.into(),
                skips: skips.into(),
                marks: marks.into(),
            })),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Alarm(_) => 0,
            Self::All(all) => {
                size_of_val(&**all)
                    + size_of_val(&*all.alarms)
                    + size_of_val(&*all.skips)
                    + size_of_val(&*all.marks)
            }
        }
    }
}

/// A compressed chunk.
#[derive(Debug)]
pub(super) struct SealedChunk {
    pub(super) rows: u32,
    /// Smallest and largest time.
    pub(super) span_ns: (i64, i64),
    pub(super) columns: Columns,
    /// Not all values are numbers.
    pub(super) is_mixed: bool,
    pub(super) sides: Sides,
    /// As of an open chunk. Numbers are not written to the disk: the relay that reads it counts again from the first.
    pub(super) first: Option<Position>,
}

impl SealedChunk {
    pub(super) fn len(&self) -> usize {
        self.rows as usize
    }

    pub(super) fn alarms(&self) -> &[(u32, Alarm)] {
        match &self.sides {
            Sides::Alarm(alarm) => std::slice::from_ref(alarm),
            Sides::All(all) => &all.alarms,
        }
    }

    pub(super) fn skips(&self) -> &[(u32, Skips)] {
        match &self.sides {
            Sides::Alarm(_) => &[],
            Sides::All(all) => &all.skips,
        }
    }

    pub(super) fn marks(&self) -> &[Mark] {
        match &self.sides {
            Sides::Alarm(_) => &[],
            Sides::All(all) => &all.marks,
        }
    }

    pub(super) fn span_ns(&self) -> (i64, i64) {
        self.span_ns
    }

    /// Memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        CHUNK_BYTES + self.columns.bytes.len() + self.sides.bytes()
    }

    pub(super) fn samples(&self) -> Vec<PastSample> {
        let rows = self.len();
        let times = column::unpack_times(self.columns.times(), rows);
        let values = if self.is_mixed {
            column::unpack_values(self.columns.values(), rows)
        } else {
            let numbers = column::unpack_numbers(self.columns.values(), rows);
            numbers.into_iter().map(PastValue::Number).collect()
        };
        joined(0, times, values, self.alarms(), self.skips())
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
