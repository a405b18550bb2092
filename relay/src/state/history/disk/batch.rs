//! A batch: what was added to the rings since the last one, as bytes.
//!
//! A ring numbers its samples, so that a sample that was written twice is read once, whatever the order of its copies.

use std::collections::HashMap;
use std::sync::Arc;

use pvwire_schema::types::{Alarm, Severity, Skips};

use super::restore::Restore;
use crate::state::history::chunk::{Columns, SealedChunk, Sides};
use crate::state::history::{GapCause, MAX_TEXT_BYTES, PastGap, PastSample, PastValue};

/// Most rows of a chunk that is read.
const MAX_ROWS: u64 = 4096;

/// Longest name of a PV.
const MAX_NAME_BYTES: u64 = 1 << 16;

const RING: u8 = 1;
const SAMPLES: u8 = 2;
const CHUNK: u8 = 3;
const GAP: u8 = 4;

/// Kinds of values, in the lowest bits of what stands before a sample.
const SAME: u8 = 0;
const NUMBER: u8 = 1;
const INT64: u8 = 2;
const UINT64: u8 = 3;
const TEXT: u8 = 4;
const KINDS: u8 = 7;

/// The alarm is another than that of the sample before.
const ALARM: u8 = 8;
/// Updates were left out before the sample.
const SKIPS: u8 = 16;

/// A part of a ring that is written.
#[derive(Debug)]
pub(in crate::state::history) struct Piece {
    /// The ring's PV.
    pub(in crate::state::history) name: Arc<str>,
    /// Number of the ring's first sample.
    pub(in crate::state::history) start: u64,
    pub(in crate::state::history) content: Content,
}

/// What a piece has.
#[derive(Debug)]
pub(in crate::state::history) enum Content {
    /// Samples of the open chunk.
    Samples {
        /// Number of the first one.
        first: u64,
        /// When the last one arrived, in nanoseconds past the POSIX epoch.
        last_ns: i64,
        samples: Vec<PastSample>,
    },
    /// A sealed chunk.
    Chunk {
        /// Number of its first sample.
        first: u64,
        /// See `Samples`.
        last_ns: i64,
        chunk: Arc<SealedChunk>,
        /// Number of its samples that have been written.
        written: usize,
    },
    Gap(PastGap),
}

/// A number or the bits of one, seven in a byte.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A difference of times, which is short if it is small.
fn put_time(out: &mut Vec<u8>, time_ns: i64, before_ns: i64) {
    let delta = time_ns.wrapping_sub(before_ns);
    put_number(out, ((delta << 1) ^ (delta >> 63)) as u64);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend(bytes);
}

fn put_alarm(out: &mut Vec<u8>, alarm: Alarm) {
    out.push(alarm.severity.number());
    put_number(out, alarm.status.into());
}

fn put_skips(out: &mut Vec<u8>, skips: Skips) {
    for count in [skips.relay, skips.source, skips.filter, skips.bus] {
        put_number(out, count.into());
    }
}

/// Reads the bytes of a batch; `None` where they end too early or make no sense.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn word(&mut self) -> Option<[u8; 8]> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*word)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A count or length of at most this.
    fn count(&mut self, most: u64) -> Option<usize> {
        self.number()
            .filter(|count| *count <= most)
            .map(|count| count as usize)
    }

    fn time(&mut self, before_ns: i64) -> Option<i64> {
        let bits = self.number()?;
        let delta = (bits >> 1) as i64 ^ -((bits & 1) as i64);
        Some(before_ns.wrapping_add(delta))
    }

    fn bytes(&mut self, most: u64) -> Option<&'a [u8]> {
        let length = self.count(most)?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn alarm(&mut self) -> Option<Alarm> {
        Some(Alarm {
            severity: Severity::from_number(self.byte()?),
            status: u16::try_from(self.number()?).ok()?,
        })
    }

    fn skips(&mut self) -> Option<Skips> {
        let mut count = || u32::try_from(self.number()?).ok();
        Some(Skips {
            relay: count()?,
            source: count()?,
            filter: count()?,
            bus: count()?,
        })
    }
}

/// Numbers of the rings that a segment has named, with the rings' first samples.
#[derive(Debug, Default)]
pub(in crate::state::history) struct RingNumbers {
    by_name: HashMap<Arc<str>, (u64, u64)>,
    next: u64,
}

/// A batch that is being filled.
#[derive(Debug)]
pub(in crate::state::history) struct Batch {
    /// See [`Batch::new`].
    pub(in crate::state::history) now_ns: i64,
    pub(in crate::state::history) bytes: Vec<u8>,
}

impl Batch {
    /// An empty batch of this time, in nanoseconds past the POSIX epoch. If it stays empty, it says that all until then
    /// was written.
    pub(in crate::state::history) fn new(now_ns: i64) -> Self {
        Self {
            now_ns,
            bytes: now_ns.to_le_bytes().to_vec(),
        }
    }

    /// Adds a piece.
    pub(in crate::state::history) fn add(&mut self, numbers: &mut RingNumbers, piece: &Piece) {
        let ring = self.ring(numbers, piece);
        // A ring that was read from a disk may have samples of one before it, with smaller numbers.
        let above = |first: &u64| first.wrapping_sub(piece.start);
        match &piece.content {
            Content::Samples {
                first,
                last_ns,
                samples,
            } => self.samples(ring, above(first), *last_ns, samples),
            Content::Chunk {
                first,
                last_ns,
                chunk,
                written: 0,
            } => self.chunk(ring, above(first), *last_ns, chunk),
            Content::Chunk {
                first,
                last_ns,
                chunk,
                written,
            } => {
                let samples = chunk.samples();
                let rest = samples.get(*written..).unwrap_or_default();
                let first = first + *written as u64;
                self.samples(ring, above(&first), *last_ns, rest);
            }
            Content::Gap(gap) => {
                let out = &mut self.bytes;
                out.push(GAP);
                put_number(out, ring);
                out.push(gap.cause as u8);
                put_time(out, gap.from_ns, self.now_ns);
                out.push(u8::from(gap.to_ns.is_some()));
                put_time(out, gap.to_ns.unwrap_or(self.now_ns), self.now_ns);
            }
        }
    }

    /// The number of a piece's ring, which is named first if the segment doesn't know it.
    fn ring(&mut self, numbers: &mut RingNumbers, piece: &Piece) -> u64 {
        if let Some((number, start)) = numbers.by_name.get(&piece.name)
            && *start == piece.start
        {
            return *number;
        }
        let number = numbers.next;
        numbers.next += 1;
        numbers
            .by_name
            .insert(Arc::clone(&piece.name), (number, piece.start));
        self.bytes.push(RING);
        put_number(&mut self.bytes, piece.start);
        put_bytes(&mut self.bytes, piece.name.as_bytes());
        number
    }

    fn samples(&mut self, ring: u64, first: u64, last_ns: i64, samples: &[PastSample]) {
        let out = &mut self.bytes;
        out.push(SAMPLES);
        for number in [ring, first, samples.len() as u64] {
            put_number(out, number);
        }
        put_time(out, last_ns, self.now_ns);
        let (mut time_ns, mut alarm) = (self.now_ns, Alarm::NONE);
        let mut before: Option<&PastValue> = None;
        for sample in samples {
            let is_same = before.is_some_and(|before| before.is_same(&sample.value));
            let kind = match &sample.value {
                _ if is_same => SAME,
                PastValue::Number(_) => NUMBER,
                PastValue::Int64(_) => INT64,
                PastValue::UInt64(_) => UINT64,
                PastValue::Text(_) => TEXT,
            };
            let (is_other, is_behind) = (sample.alarm != alarm, sample.skips != Skips::NONE);
            out.push(kind | (u8::from(is_other) * ALARM) | (u8::from(is_behind) * SKIPS));
            put_time(out, sample.time_ns, time_ns);
            match &sample.value {
                _ if is_same => {}
                PastValue::Number(number) => out.extend(number.to_le_bytes()),
                PastValue::Int64(number) => out.extend(number.to_le_bytes()),
                PastValue::UInt64(number) => out.extend(number.to_le_bytes()),
                PastValue::Text(text) => put_bytes(out, text.as_bytes()),
            }
            if is_other {
                put_alarm(out, sample.alarm);
            }
            if is_behind {
                put_skips(out, sample.skips);
            }
            (time_ns, alarm, before) = (sample.time_ns, sample.alarm, Some(&sample.value));
        }
    }

    fn chunk(&mut self, ring: u64, first: u64, last_ns: i64, chunk: &SealedChunk) {
        let out = &mut self.bytes;
        out.push(CHUNK);
        for number in [ring, first, chunk.rows.into()] {
            put_number(out, number);
        }
        let (begin_ns, end_ns) = chunk.span_ns;
        for time_ns in [last_ns, begin_ns, end_ns] {
            put_time(out, time_ns, self.now_ns);
        }
        out.push(u8::from(chunk.is_mixed));
        put_bytes(out, chunk.columns.times());
        put_bytes(out, chunk.columns.values());
        put_number(out, chunk.alarms().len() as u64);
        for (row, alarm) in chunk.alarms() {
            put_number(out, (*row).into());
            put_alarm(out, *alarm);
        }
        put_number(out, chunk.skips().len() as u64);
        for (row, skips) in chunk.skips() {
            put_number(out, (*row).into());
            put_skips(out, *skips);
        }
    }
}

/// Reads the batches of one segment into what is restored.
#[derive(Debug)]
pub(super) struct BatchReader<'a> {
    restore: &'a mut Restore,
    /// The rings that the segment has named, with their first samples.
    rings: Vec<(usize, u64)>,
}

impl<'a> BatchReader<'a> {
    pub(super) fn new(restore: &'a mut Restore) -> Self {
        Self {
            restore,
            rings: Vec::new(),
        }
    }

    /// Takes a batch; returns its time. `None`: its bytes make no sense from some point on.
    pub(super) fn take(&mut self, batch: &[u8]) -> Option<i64> {
        let mut reader = Reader(batch);
        let now_ns = i64::from_le_bytes(reader.word()?);
        self.restore.begin_batch(now_ns);
        if reader.0.is_empty() {
            self.restore.seen_ns = now_ns;
        }
        while !reader.0.is_empty() {
            let kind = reader.byte()?;
            if kind == RING {
                let start = reader.number()?;
                let name = std::str::from_utf8(reader.bytes(MAX_NAME_BYTES)?).ok()?;
                self.rings
                    .push((self.restore.ring(name, start, now_ns), start));
                continue;
            }
            let number = usize::try_from(reader.number()?).ok()?;
            let (ring, start) = *self.rings.get(number)?;
            match kind {
                SAMPLES => {
                    let first = start.wrapping_add(reader.number()?);
                    let (last_ns, samples) = samples(&mut reader, now_ns)?;
                    first.checked_add(samples.len() as u64)?;
                    self.restore.add_samples(ring, first, last_ns, samples);
                }
                CHUNK => {
                    let first = start.wrapping_add(reader.number()?);
                    let (last_ns, chunk) = chunk(&mut reader, now_ns)?;
                    first.checked_add(chunk.rows.into())?;
                    self.restore.add_chunk(ring, first, last_ns, chunk);
                }
                GAP => self.restore.add_gap(ring, gap(&mut reader, now_ns)?),
                _ => return None,
            }
        }
        Some(now_ns)
    }
}

fn samples(reader: &mut Reader<'_>, now_ns: i64) -> Option<(i64, Vec<PastSample>)> {
    let count = reader.count(MAX_ROWS)?;
    let last_ns = reader.time(now_ns)?;
    let mut samples: Vec<PastSample> = Vec::with_capacity(count);
    let (mut time_ns, mut alarm) = (now_ns, Alarm::NONE);
    for _ in 0..count {
        let flags = reader.byte()?;
        time_ns = reader.time(time_ns)?;
        let value = match flags & KINDS {
            SAME => samples.last()?.value.clone(),
            NUMBER => PastValue::Number(f64::from_le_bytes(reader.word()?)),
            INT64 => PastValue::Int64(i64::from_le_bytes(reader.word()?)),
            UINT64 => PastValue::UInt64(u64::from_le_bytes(reader.word()?)),
            TEXT => {
                let text = reader.bytes(MAX_TEXT_BYTES as u64)?;
                PastValue::Text(std::str::from_utf8(text).ok()?.into())
            }
            _ => return None,
        };
        if flags & ALARM != 0 {
            alarm = reader.alarm()?;
        }
        let skips = match flags & SKIPS {
            0 => Skips::NONE,
            _ => reader.skips()?,
        };
        samples.push(PastSample {
            time_ns,
            value,
            alarm,
            skips,
        });
    }
    Some((last_ns, samples))
}

fn chunk(reader: &mut Reader<'_>, now_ns: i64) -> Option<(i64, SealedChunk)> {
    let rows = reader.count(MAX_ROWS).filter(|rows| *rows > 0)?;
    let last_ns = reader.time(now_ns)?;
    let span_ns = (reader.time(now_ns)?, reader.time(now_ns)?);
    let is_mixed = reader.byte()? != 0;
    let columns = Columns::new(reader.bytes(u64::MAX)?, reader.bytes(u64::MAX)?);
    let mut alarms = Vec::new();
    for _ in 0..reader.count(MAX_ROWS)? {
        alarms.push((u32::try_from(reader.number()?).ok()?, reader.alarm()?));
    }
    let mut skips = Vec::new();
    for _ in 0..reader.count(MAX_ROWS)? {
        skips.push((u32::try_from(reader.number()?).ok()?, reader.skips()?));
    }
    let chunk = SealedChunk {
        rows: rows as u32,
        span_ns,
        columns,
        is_mixed,
        sides: Sides::new(&alarms, &skips, &[]),
        first: None,
    };
    Some((last_ns, chunk))
}

fn gap(reader: &mut Reader<'_>, now_ns: i64) -> Option<PastGap> {
    let cause = reader.byte()?;
    let known = [
        GapCause::Disconnected,
        GapCause::NotMonitored,
        GapCause::Lost,
    ];
    let cause = known.into_iter().find(|known| *known as u8 == cause)?;
    let from_ns = reader.time(now_ns)?;
    let is_ended = reader.byte()? != 0;
    let to_ns = reader.time(now_ns)?;
    Some(PastGap {
        cause,
        from_ns,
        to_ns: is_ended.then_some(to_ns),
    })
}
