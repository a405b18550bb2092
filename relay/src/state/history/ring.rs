//! The ring of one PV: sealed chunks, the open one, and gaps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::PvId;
use smallvec::SmallVec;

use super::chunk::{OpenChunk, SealedChunk};
use super::disk::batch::{Content, Piece};
use super::disk::restore::RingContent;
use super::numbering::{LeftOut, Mark};
use super::sequel::Sequel;
use super::{GapCause, PastGap, PastSample, Position};

/// Samples of a chunk.
const CHUNK_SAMPLES: usize = 512;

/// Gaps that are kept of a PV; further ones replace the oldest.
const MAX_GAPS: usize = 1024;

/// What a ring uses beside its name, chunks and gaps.
const RING_BYTES: usize = 720;

/// Sources of PVs that servers have.
const SERVERS: [&str; 2] = ["ca://", "pva://"];

/// What eviction needs of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Age {
    /// Orders the chunks of all rings by their first sample.
    pub(super) order: u64,
    /// When its first sample arrived, in nanoseconds past the POSIX epoch.
    begin_ns: i64,
    /// The same of its last one.
    pub(super) last_ns: i64,
    /// Number of its first sample.
    first: u64,
}

/// Result of adding a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is the one before it, sent again.
    Repeated,
    Appended,
    BegunChunk,
}

/// What an update is among those of its PV, as clients number them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered {
    pub(super) position: Position,
    /// What the ring doesn't have since its newest sample.
    pub(super) left_out: LeftOut,
    /// The sample only says that values are not kept from here on.
    pub(super) is_stand_in: bool,
}

/// The past of one PV.
///
/// Rings are many, and each is touched seldom. What each sample changes comes first, in two lines of the cache: without
/// `repr(C)` the compiler would spread it.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Ring {
    bytes: usize,
    clock: SourceClock,
    /// That of the newest sample, unless another relay has counted it.
    newest: Option<Position>,
    /// Samples at which the open chunk is sealed.
    full: u32,
    open_age: Age,
    open: OpenChunk,
    /// What it doesn't have since then, when its PV was closed.
    pub(super) rest: LeftOut,
    sealed: VecDeque<(Age, Arc<SealedChunk>)>,
    pub(super) name: Arc<str>,
    pub(super) keep: Duration,
    /// It is of a server's PV, or asked for by a pattern. Others are of PVs that the relay makes for all clients:
    /// thousands of them may not displace the past of the former.
    pub(super) is_lasting: bool,
    /// Most have one at most, and thousands of PVs get it at once: a block for each would hold a page of what is freed
    /// beside it.
    gaps: SmallVec<[PastGap; 1]>,
    open_gap: Option<(GapCause, i64)>,
    /// The open PV whose updates it takes.
    pub(super) pv: Option<PvId>,
    numbers: Numbers,
    /// In order: numbers of samples before which none are missing. More than one: of rings that were removed, too.
    starts: Vec<u64>,
}

/// A jump of time stamps into the future by at least this may be an error of an IOC.
const LARGEST_JUMP_NS: i64 = 60_000_000_000;

/// The clock of a PV's IOC beside the relay's. A gap in the past begins after the last update, also where the IOC's clock is
/// ahead: its samples have the IOC's stamps.
#[derive(Debug, Default)]
struct SourceClock {
    /// How far the stamp of the newest sample was ahead of the relay's clock.
    ahead_ns: i64,
    /// The same of the newest sample whose stamp isn't likely to be an error.
    lead_ns: i64,
    /// Time stamp of that sample.
    newest_ns: i64,
}

impl SourceClock {
    fn stamped(&mut self, time_ns: i64, now_ns: i64) {
        let ahead_ns = time_ns.saturating_sub(now_ns).max(0);
        if ahead_ns - self.ahead_ns < LARGEST_JUMP_NS {
            (self.newest_ns, self.lead_ns) = (time_ns, ahead_ns);
        }
        self.ahead_ns = ahead_ns;
    }

    /// When a gap begins that began at this time of the relay's clock.
    fn begin_of_gap(&self, from_ns: i64) -> i64 {
        match from_ns > self.newest_ns {
            true => from_ns,
            false => self.newest_ns.saturating_add(1000),
        }
    }

    fn end_of_gap(&self, from_ns: i64, to_ns: i64) -> i64 {
        to_ns.saturating_add(self.lead_ns).max(from_ns)
    }
}

/// Samples are numbered, so that a disk has each of them once.
#[derive(Debug, Default)]
struct Numbers {
    /// Those before this one have been given to the disk.
    written: u64,
    /// Number of the newest gaps that have not.
    new_gaps: usize,
    is_open_gap_new: bool,
    /// It waits to be given to the disk.
    is_queued: bool,
}

/// What is read of a ring, to be decompressed without its lock.
#[derive(Debug, Default)]
pub(super) struct RingView {
    pub(super) sealed: Vec<Arc<SealedChunk>>,
    pub(super) open: Vec<PastSample>,
    pub(super) gaps: Vec<PastGap>,
    /// The number of the first sample of each sealed chunk, and of the open one.
    pub(super) firsts: Vec<u64>,
    /// How clients number the samples of the open chunk: the first one, and the marks.
    open_numbers: (Option<Position>, Vec<Mark>),
}

impl Ring {
    /// `number` staggers the ring: rings that begin together must not seal their first chunks together. `start` is the
    /// number of its first sample.
    pub(super) fn new(name: Arc<str>, keep: Duration, number: usize, start: u64) -> Self {
        let bytes = RING_BYTES + name.len();
        let is_lasting = SERVERS.iter().any(|source| name.starts_with(source));
        Self {
            bytes,
            clock: SourceClock::default(),
            newest: None,
            full: (CHUNK_SAMPLES / 2 + number * 97 % (CHUNK_SAMPLES / 2)) as u32,
            open_age: Age {
                first: start,
                ..Age::default()
            },
            open: OpenChunk::new(),
            rest: LeftOut::default(),
            sealed: VecDeque::new(),
            name,
            keep,
            is_lasting,
            gaps: SmallVec::new(),
            open_gap: None,
            pv: None,
            numbers: Numbers {
                written: start,
                ..Numbers::default()
            },
            starts: vec![start],
        }
    }

    /// Takes what a disk has of it.
    pub(super) fn restore(&mut self, content: RingContent) {
        self.starts = content.starts;
        self.numbers.written = content.next;
        for (first, (last_ns, chunk)) in content.sealed {
            self.bytes += chunk.bytes();
            // The disk doesn't have it, and only clocks make the difference.
            let begin_ns = chunk.span_ns().0.min(last_ns);
            let order = 0;
            let age = Age {
                order,
                begin_ns,
                last_ns,
                first,
            };
            self.sealed.push_back((age, chunk));
        }
        self.bytes += content.open.bytes();
        self.open = content.open;
        self.open_age.first = content.next - self.open.len() as u64;
        let begin_ns = self.open.begin_ns().unwrap_or(content.open_ns);
        self.open_age.begin_ns = begin_ns.min(content.open_ns);
        self.open_age.last_ns = content.open_ns;
        if let (Some(last), Some(last_ns)) = (self.last(), self.last_ns()) {
            self.clock.stamped(last.time_ns, last_ns);
        }
        for gap in content.gaps {
            match gap.to_ns {
                Some(_) => self.add_gap(gap),
                None => self.begin_gap(gap.cause, gap.from_ns),
            }
        }
        (self.numbers.new_gaps, self.numbers.is_open_gap_new) = (0, false);
    }

    /// The ages of its chunks, oldest first.
    pub(super) fn ages_mut(&mut self) -> impl Iterator<Item = &mut Age> {
        let open = (self.open.len() > 0).then_some(&mut self.open_age);
        self.sealed.iter_mut().map(|(age, _)| age).chain(open)
    }

    /// Number of the sample that follows.
    pub(super) fn next_number(&self) -> u64 {
        self.open_age.first + self.open.len() as u64
    }

    /// Whether it has anything new for the disk and didn't wait for it yet.
    pub(super) fn queue(&mut self) -> bool {
        !std::mem::replace(&mut self.numbers.is_queued, true)
    }

    /// Whether it waits to be given to the disk.
    pub(super) fn is_queued(&self) -> bool {
        self.numbers.is_queued
    }

    /// Adds what has not been given to the disk, or all of it, to `pieces`.
    pub(super) fn give(&mut self, is_whole: bool, pieces: &mut Vec<Piece>) {
        let piece = |first: u64, content| Piece {
            name: Arc::clone(&self.name),
            start: self.start_of(first),
            content,
        };
        let (next, from) = match is_whole {
            true => (self.next_number(), 0),
            false => (self.next_number(), self.numbers.written),
        };
        let first = self.open_age.first;
        let begin = pieces.len();
        if next > from && self.open.len() > 0 {
            let written = from.saturating_sub(first);
            let content = Content::Samples {
                first: first + written,
                last_ns: self.open_age.last_ns,
                samples: self.open.samples_from(written as usize),
            };
            pieces.push(piece(first, content));
        }
        for (age, chunk) in self.sealed.iter().rev() {
            let first = age.first;
            if first + chunk.len() as u64 <= from {
                break;
            }
            let content = Content::Chunk {
                first,
                last_ns: age.last_ns,
                chunk: Arc::clone(chunk),
                written: from.saturating_sub(first) as usize,
            };
            pieces.push(piece(first, content));
        }
        pieces[begin..].reverse();
        let new = if is_whole {
            self.gaps.len()
        } else {
            self.numbers.new_gaps
        };
        let gaps = self
            .gaps
            .iter()
            .skip(self.gaps.len().saturating_sub(new))
            .copied();
        pieces.extend(gaps.map(|gap| piece(next, Content::Gap(gap))));
        let open_gap = self
            .open_gap
            .filter(|_| is_whole || self.numbers.is_open_gap_new);
        pieces.extend(open_gap.map(|(cause, from_ns)| {
            let gap = PastGap {
                cause,
                from_ns,
                to_ns: None,
            };
            piece(next, Content::Gap(gap))
        }));
        self.numbers = Numbers {
            written: next,
            new_gaps: 0,
            is_open_gap_new: false,
            is_queued: self.numbers.is_queued && is_whole,
        };
    }

    /// Number of the first sample of the ring that had this one.
    fn start_of(&self, sample: u64) -> u64 {
        let before = self.starts.partition_point(|start| *start <= sample);
        let start = self.starts.get(before.saturating_sub(1));
        start.copied().unwrap_or_default()
    }

    /// When the newest sample arrived.
    pub(super) fn last_ns(&self) -> Option<i64> {
        let open = (self.open.len() > 0).then_some(self.open_age.last_ns);
        open.or_else(|| self.sealed.back().map(|(age, _)| age.last_ns))
    }

    /// Appends a sample; `order` is used if it begins a chunk. `is_first`: it is the first one of a connection, which
    /// servers send again although it has not changed.
    pub(super) fn push(
        &mut self,
        sample: PastSample,
        numbered: Numbered,
        now_ns: i64,
        order: u64,
        is_first: bool,
    ) -> Pushed {
        let is_repeat = |last: PastSample| {
            last.time_ns == sample.time_ns
                && last.alarm == sample.alarm
                && last.value.is_same(&sample.value)
        };
        if is_first && self.last().is_some_and(is_repeat) {
            return Pushed::Repeated;
        }
        let pushed = match self.open.len() {
            0 => {
                (self.open_age.order, self.open_age.begin_ns) = (order, now_ns);
                Pushed::BegunChunk
            }
            _ => Pushed::Appended,
        };
        let before = self.open.bytes();
        self.clock.stamped(sample.time_ns, now_ns);
        self.number(numbered, sample.skips.total());
        self.open.push(sample);
        self.open_age.last_ns = now_ns;
        self.bytes = self.bytes + self.open.bytes() - before;
        if self.open.len() >= self.full as usize {
            self.seal();
        }
        pushed
    }

    fn seal(&mut self) {
        let next = self.next_number();
        let sealed = self.open.seal();
        self.bytes = self.bytes + sealed.bytes() - self.open.bytes();
        self.sealed.push_back((self.open_age, Arc::new(sealed)));
        self.open = OpenChunk::new();
        self.open_age.first = next;
        self.full = CHUNK_SAMPLES as u32;
    }

    /// Reads what the next sample changes.
    pub(super) fn prefetch(&self) -> i64 {
        self.clock.newest_ns ^ self.open.prefetch()
    }

    /// Numbers the sample that is pushed next, before which `skipped` updates were left out.
    fn number(&mut self, numbered: Numbered, skipped: u32) {
        let Numbered {
            position,
            left_out,
            is_stand_in,
        } = numbered;
        self.open.begin(position);
        let row = self.open.len() as u32;
        let next = self.newest.map(|newest| newest.following(skipped));
        let is_next = row == 0 || next == Some(position);
        if !is_next || left_out != LeftOut::default() || is_stand_in {
            self.open.mark(Mark {
                row,
                position,
                left_out,
                is_stand_in,
            });
        }
        self.newest = Some(position);
    }

    /// What follows an update. `rest`: what the ring doesn't have since its newest sample, up to `end`, the PV's last
    /// update.
    pub(super) fn sequel(&self, after: Position, rest: LeftOut, end: Option<Position>) -> Sequel {
        let mut sequel = Sequel::new(after, rest, end);
        if end == Some(after) {
            return sequel;
        }
        let is_later = |first: Option<Position>, marks: &[Mark]| {
            let is_stand_in = |mark: &Mark| mark.row == 0 && mark.is_stand_in;
            first.is_some_and(|first| {
                first.is_after(after) || marks.first().is_some_and(is_stand_in)
            })
        };
        let (first, marks) = (self.open.first(), self.open.marks());
        sequel.open = (self.open.samples_from(0), first, marks.to_vec());
        if self.open.len() == 0 || is_later(first, marks) {
            // What another relay has counted is not numbered.
            let sealed = self.sealed.iter().rev().map(|(_, chunk)| chunk);
            for chunk in sealed.take_while(|chunk| chunk.first.is_some()) {
                sequel.sealed.push_front(Arc::clone(chunk));
                if !is_later(chunk.first, chunk.marks()) {
                    break;
                }
            }
        }
        sequel
    }

    /// The newest sample that is kept.
    fn last(&self) -> Option<PastSample> {
        let sealed = || self.sealed.back()?.1.samples().pop();
        self.open.last().or_else(sealed)
    }

    /// Begins a gap, unless there is one. Times of gaps are by the relay's clock.
    pub(super) fn begin_gap(&mut self, cause: GapCause, from_ns: i64) {
        if self.open_gap.is_none() {
            let mut begin_ns = self.clock.begin_of_gap(from_ns);
            // Two gaps after the same update are two, which their begins tell apart.
            while begin_ns < i64::MAX && self.gaps.iter().any(|gap| gap.from_ns == begin_ns) {
                begin_ns += 1;
            }
            self.open_gap = Some((cause, begin_ns));
            self.numbers.is_open_gap_new = true;
        }
    }

    pub(super) fn end_gap(&mut self, to_ns: i64) {
        if let Some((cause, from_ns)) = self.open_gap.take() {
            self.add_gap(PastGap {
                cause,
                from_ns,
                to_ns: Some(self.clock.end_of_gap(from_ns, to_ns)),
            });
        }
    }

    /// The relay lost the updates of this time.
    pub(super) fn add_lost(&mut self, from_ns: i64, to_ns: i64) {
        let from_ns = self.clock.begin_of_gap(from_ns);
        self.add_gap(PastGap {
            cause: GapCause::Lost,
            from_ns,
            to_ns: Some(self.clock.end_of_gap(from_ns, to_ns)),
        });
    }

    fn add_gap(&mut self, gap: PastGap) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.remove(0);
            self.bytes -= size_of::<PastGap>();
        }
        self.gaps.push(gap);
        self.numbers.new_gaps += 1;
        self.bytes += size_of::<PastGap>();
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        let sealed = self.sealed.iter().map(|(_, chunk)| chunk.len());
        sealed.sum::<usize>() + self.open.len()
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.open.len() == 0
    }

    /// Whether it ends when its PV is closed. When the PV never changed, a client that opens it again learns all that is kept
    /// here from its first value.
    pub(super) fn ends_with_its_pv(&self) -> bool {
        let never_changed = self.len() == 1 && self.gaps.is_empty() && self.open_gap.is_none();
        never_changed || !self.is_lasting
    }

    /// Its place among all rings: whether it is lasting, and the order of its oldest chunk, if it has any.
    pub(super) fn oldest(&self) -> Option<(bool, u64)> {
        let open = (self.open.len() > 0).then_some(&self.open_age);
        let oldest = self.sealed.front().map(|(age, _)| age).or(open);
        oldest.map(|age| (self.is_lasting, age.order))
    }

    /// Removes the oldest chunk; returns its number of samples.
    pub(super) fn evict(&mut self) -> Option<usize> {
        if let Some((_, chunk)) = self.sealed.pop_front() {
            self.bytes -= chunk.bytes();
            return Some(chunk.len());
        }
        self.open_age.first = self.next_number();
        let open = std::mem::replace(&mut self.open, OpenChunk::new());
        self.bytes -= open.bytes();
        (open.len() > 0).then_some(open.len())
    }

    /// Whether the last value of the oldest chunk ceased to hold more than `keep` ago. That of the newest chunk holds until
    /// a gap begins that lasts.
    pub(super) fn has_expired(&self, now_ns: i64) -> bool {
        let open = (self.open.len() > 0).then_some(&self.open_age);
        let mut ages = self.sealed.iter().map(|(age, _)| age).chain(open);
        let Some(oldest) = ages.next() else {
            return false;
        };
        let until_ns = match (ages.next(), self.open_gap) {
            (Some(next), _) => next.begin_ns,
            (None, Some((_, from_ns))) => from_ns,
            (None, None) => return false,
        };
        until_ns.max(oldest.last_ns) < self.oldest_ns(now_ns)
    }

    /// Removes all samples of the open chunk but the newest, if that arrived more than `keep` ago and nothing else is kept;
    /// returns how many. So a value that still holds is known, however old it is.
    pub(super) fn keep_newest(&mut self, now_ns: i64) -> usize {
        let is_old = self.open_age.last_ns < self.oldest_ns(now_ns);
        if !is_old || self.open.len() < 2 || !self.sealed.is_empty() {
            return 0;
        }
        let (samples, before) = (self.open.len(), self.open.bytes());
        self.open.keep_last(self.newest);
        self.open_age.begin_ns = self.open_age.last_ns;
        self.bytes = self.bytes + self.open.bytes() - before;
        let removed = samples - self.open.len();
        self.open_age.first += removed as u64;
        removed
    }

    /// Removes gaps that ended more than `keep` ago.
    pub(super) fn expire_gaps(&mut self, now_ns: i64) {
        let oldest = self.oldest_ns(now_ns);
        let has_expired = |gap: &&PastGap| gap.to_ns.is_some_and(|to| to < oldest);
        let expired = self.gaps.iter().take_while(has_expired).count();
        self.gaps.drain(..expired);
        self.bytes -= expired * size_of::<PastGap>();
    }

    fn oldest_ns(&self, now_ns: i64) -> i64 {
        now_ns.saturating_sub(i64::try_from(self.keep.as_nanos()).unwrap_or(i64::MAX))
    }

    /// The number of the first sample of each chunk.
    fn firsts(&self) -> impl Iterator<Item = u64> {
        let sealed = self.sealed.iter().map(|(age, _)| age.first);
        sealed.chain([self.open_age.first])
    }

    pub(super) fn view(&self) -> RingView {
        let sealed = self.sealed.iter().map(|(_, chunk)| Arc::clone(chunk));
        let mut view = RingView {
            sealed: sealed.collect(),
            open: self.open.samples_from(0),
            gaps: self.gaps.iter().copied().collect(),
            firsts: self.firsts().collect(),
            open_numbers: (self.open.first(), self.open.marks().to_vec()),
        };
        view.gaps
            .extend(self.open_gap.map(|(cause, from_ns)| PastGap {
                cause,
                from_ns,
                to_ns: None,
            }));
        view
    }
}

impl RingView {
    /// The number of the sample after the newest one.
    pub(super) fn end(&self) -> u64 {
        self.firsts.last().copied().unwrap_or_default() + self.open.len() as u64
    }

    /// The number of the sample after the last one that is no later than an update.
    pub(super) fn end_at(&self, update: Position) -> u64 {
        let later = |position: &Option<Position>| {
            // What another relay has counted comes before all that has a number.
            position.is_some_and(|position| position.is_after(update))
        };
        for (index, first) in self.firsts.iter().enumerate().rev() {
            let positions = match self.sealed.get(index) {
                Some(chunk) if later(&chunk.first) => continue,
                Some(chunk) => positions(&chunk.samples(), chunk.first, chunk.marks()),
                None => positions(&self.open, self.open_numbers.0, &self.open_numbers.1),
            };
            let earlier = positions.iter().take_while(|position| !later(position));
            match earlier.count() {
                0 => {}
                count => return first + count as u64,
            }
        }
        self.firsts.first().copied().unwrap_or_default()
    }

    /// Leaves out the samples from this number on.
    pub(super) fn truncate(&mut self, end: u64) {
        let sealed = self.firsts.len().saturating_sub(1);
        let whole = (self.sealed.iter().zip(&self.firsts))
            .take_while(|(chunk, first)| **first + chunk.len() as u64 <= end)
            .count();
        let first = self.firsts.get(whole).copied().unwrap_or_default();
        if whole < sealed {
            self.open = self.sealed[whole].samples();
            self.open_numbers = (None, Vec::new());
            self.sealed.truncate(whole);
            self.firsts.truncate(whole + 1);
        }
        self.open.truncate(end.saturating_sub(first) as usize);
    }

    /// Time of the oldest sample.
    pub(super) fn first_ns(&self) -> Option<i64> {
        let sealed = self.sealed.iter().map(|chunk| chunk.span_ns().0);
        let open = self.open.iter().map(|sample| sample.time_ns);
        sealed.chain(open).min()
    }

    /// Time of the newest sample.
    pub(super) fn last_ns(&self) -> Option<i64> {
        let sealed = self.sealed.iter().map(|chunk| chunk.span_ns().1);
        let open = self.open.iter().map(|sample| sample.time_ns);
        sealed.chain(open).max()
    }

    /// The gaps that overlap a range.
    pub(super) fn gaps(&self, from_ns: i64, to_ns: i64) -> Vec<PastGap> {
        let overlaps =
            |gap: &&PastGap| gap.from_ns <= to_ns && gap.to_ns.is_none_or(|end| end >= from_ns);
        self.gaps.iter().filter(overlaps).copied().collect()
    }
}

/// How clients number samples that follow each other; `None` for those that another relay has counted.
fn positions(
    samples: &[PastSample],
    mut first: Option<Position>,
    marks: &[Mark],
) -> Vec<Option<Position>> {
    let mut marks = marks.iter().peekable();
    let mut before: Option<Position> = None;
    let rows = samples.iter().enumerate();
    rows.map(|(row, sample)| {
        let mark = marks.next_if(|mark| mark.row as usize == row);
        let marked = mark.map(|mark| mark.position);
        let next = before.map(|before| before.following(sample.skips.total()));
        let first = first.take();
        before = marked.or(first).or(next);
        before
    })
    .collect()
}
