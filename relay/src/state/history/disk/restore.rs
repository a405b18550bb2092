//! What is read from a disk, until rings are made of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::state::history::chunk::{OpenChunk, SealedChunk};
use crate::state::history::{GapCause, PastGap, PastSample};

/// Samples of a chunk that is made of single samples.
const CHUNK_SAMPLES: usize = 512;

/// The past of all PVs on a disk.
#[derive(Debug, Default)]
pub(in crate::state::history) struct Restore {
    rings: Vec<RestoredRing>,
    by_name: HashMap<Arc<str>, usize>,
    /// Until when the relay that wrote it has written all, in nanoseconds past the POSIX epoch.
    pub(in crate::state::history) seen_ns: i64,
    /// The time of the last batch.
    batch_ns: i64,
    /// Batches after the last one are damaged.
    is_damaged: bool,
}

/// A sealed chunk with the time at which its last sample arrived.
pub(in crate::state::history) type Sealed = (i64, Arc<SealedChunk>);

/// The past of one PV on a disk.
#[derive(Debug)]
pub(in crate::state::history) struct RestoredRing {
    pub(in crate::state::history) name: Arc<str>,
    /// Numbers of samples before which none are missing: with them a ring began.
    starts: Vec<u64>,
    /// By the numbers of their first samples; they don't overlap.
    sealed: BTreeMap<u64, Sealed>,
    open: Open,
    /// By begin and cause, with their ends.
    gaps: BTreeMap<(i64, u8), PastGap>,
    /// The last of them that was written without an end.
    open_gap: Option<(i64, u8)>,
}

/// A chunk that takes single samples.
#[derive(Debug)]
struct Open {
    first: u64,
    last_ns: i64,
    chunk: OpenChunk,
}

/// What a ring is made of.
#[derive(Debug)]
pub(in crate::state::history) struct RingContent {
    /// In order: numbers of samples before which none are missing.
    pub(in crate::state::history) starts: Vec<u64>,
    /// Number of the next sample.
    pub(in crate::state::history) next: u64,
    /// In order, with the numbers of their first samples.
    pub(in crate::state::history) sealed: Vec<(u64, Sealed)>,
    pub(in crate::state::history) open: OpenChunk,
    /// When the last sample of the open chunk arrived.
    pub(in crate::state::history) open_ns: i64,
    /// Only the last may not have ended.
    pub(in crate::state::history) gaps: Vec<PastGap>,
}

impl Restore {
    /// The index of a PV's past, for the other functions.
    pub(super) fn ring(&mut self, name: &str, start: u64, now_ns: i64) -> usize {
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => {
                let name: Arc<str> = name.into();
                self.by_name.insert(Arc::clone(&name), self.rings.len());
                self.rings.push(RestoredRing::new(name));
                self.rings.len() - 1
            }
        };
        let ring = &mut self.rings[index];
        if !ring.starts.contains(&start) {
            let is_next = ring.starts.iter().all(|before| *before < start);
            ring.starts.push(start);
            // The ring before this one was removed with its gap.
            if is_next
                && let Some(gap) = (ring.open_gap.take()).and_then(|key| ring.gaps.get_mut(&key))
            {
                gap.to_ns = gap.to_ns.or_else(|| Some(now_ns.max(gap.from_ns)));
            }
        }
        index
    }

    /// A batch of this time follows. What was damaged before it is a gap of all PVs until then.
    pub(super) fn begin_batch(&mut self, now_ns: i64) {
        let from_ns = std::mem::replace(&mut self.batch_ns, now_ns);
        if std::mem::take(&mut self.is_damaged) {
            let gap = PastGap {
                cause: GapCause::Lost,
                from_ns,
                to_ns: Some(now_ns.max(from_ns)),
            };
            (0..self.rings.len()).for_each(|ring| self.add_gap(ring, gap));
        }
    }

    /// What follows the last batch in its segment is damaged.
    pub(super) fn damaged(&mut self) {
        self.is_damaged = true;
    }

    pub(super) fn add_samples(
        &mut self,
        ring: usize,
        first: u64,
        last_ns: i64,
        samples: Vec<PastSample>,
    ) {
        self.rings[ring].add_samples(first, last_ns, samples);
    }

    pub(super) fn add_chunk(&mut self, ring: usize, first: u64, last_ns: i64, chunk: SealedChunk) {
        self.rings[ring].add_chunk(first, last_ns, chunk);
    }

    pub(super) fn add_gap(&mut self, ring: usize, gap: PastGap) {
        let ring = &mut self.rings[ring];
        let key = (gap.from_ns, gap.cause as u8);
        if gap.to_ns.is_none() {
            ring.open_gap = Some(key);
        }
        let known = ring.gaps.entry(key).or_insert(gap);
        known.to_ns = known.to_ns.max(gap.to_ns);
    }

    /// The past of each PV.
    pub(in crate::state::history) fn into_rings(self) -> Vec<RestoredRing> {
        self.rings
    }
}

impl RestoredRing {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            starts: Vec::new(),
            sealed: BTreeMap::new(),
            open: Open {
                first: 0,
                last_ns: 0,
                chunk: OpenChunk::new(),
            },
            gaps: BTreeMap::new(),
            open_gap: None,
        }
    }

    /// If the sample with this number is known, the number behind the chunk that has it.
    fn known_until(&self, number: u64) -> Option<u64> {
        let end = self.open.first + self.open.chunk.len() as u64;
        if (self.open.first..end).contains(&number) {
            return Some(end);
        }
        let (first, (_, chunk)) = self.sealed.range(..=number).next_back()?;
        let end = first + chunk.len() as u64;
        (number < end).then_some(end)
    }

    /// The next number from this one on that is known.
    fn known_from(&self, number: u64) -> u64 {
        let sealed = self.sealed.range(number..).next();
        let sealed = sealed.map_or(u64::MAX, |(first, _)| *first);
        match self.open.chunk.len() > 0 && self.open.first >= number {
            true => sealed.min(self.open.first),
            false => sealed,
        }
    }

    fn add_samples(&mut self, first: u64, last_ns: i64, samples: Vec<PastSample>) {
        let end = first + samples.len() as u64;
        let mut samples = samples.into_iter();
        let mut number = first;
        while number < end {
            if let Some(known) = self.known_until(number) {
                let known = known.min(end);
                samples
                    .by_ref()
                    .take((known - number) as usize)
                    .for_each(drop);
                number = known;
                continue;
            }
            let until = self.known_from(number).min(end);
            for sample in samples.by_ref().take((until - number) as usize) {
                let has_end = self.open.first + self.open.chunk.len() as u64 == number;
                if !has_end || self.open.chunk.len() >= CHUNK_SAMPLES {
                    self.seal(number);
                }
                self.open.chunk.push(sample);
                self.open.last_ns = last_ns;
                number += 1;
            }
        }
    }

    fn add_chunk(&mut self, first: u64, last_ns: i64, chunk: SealedChunk) {
        let end = first + chunk.len() as u64;
        match self.known_until(first) {
            None if self.known_from(first) >= end => {
                self.sealed.insert(first, (last_ns, Arc::new(chunk)));
            }
            Some(known) if known >= end => {}
            _ => self.add_samples(first, last_ns, chunk.samples()),
        }
    }

    /// Seals the open chunk; the next one begins with this number.
    fn seal(&mut self, next: u64) {
        let chunk = std::mem::replace(&mut self.open.chunk, OpenChunk::new());
        if chunk.len() > 0 {
            let sealed = (self.open.last_ns, Arc::new(chunk.seal()));
            self.sealed.insert(self.open.first, sealed);
        }
        self.open.first = next;
    }

    /// What the ring is made of; `None` if it has no samples. Where samples are missing, it has a gap.
    pub(in crate::state::history) fn into_content(mut self) -> Option<RingContent> {
        let is_last = self.sealed.range(self.open.first..).next().is_none();
        if self.open.chunk.len() == 0 || !is_last {
            self.seal(0);
        }
        let (mut known, mut sealed) = (None, Vec::new());
        let mut missing = Vec::new();
        let mut follow = |first: u64, rows: usize, begin_ns: i64, last_ns: i64| {
            if let Some((end, before_ns)) = known.replace((first + rows as u64, last_ns))
                && end != first
                && !self.starts.contains(&first)
            {
                missing.push(PastGap {
                    cause: GapCause::Lost,
                    from_ns: before_ns,
                    to_ns: Some(begin_ns.max(before_ns)),
                });
            }
        };
        for (first, (last_ns, chunk)) in self.sealed {
            follow(first, chunk.len(), chunk.span_ns().0, last_ns);
            sealed.push((first, (last_ns, chunk)));
        }
        if let Some(begin) = self.open.chunk.samples_from(0).first() {
            let Open { first, last_ns, .. } = self.open;
            follow(first, self.open.chunk.len(), begin.time_ns, last_ns);
        }
        let (next, _) = known?;
        for gap in missing {
            self.gaps
                .entry((gap.from_ns, gap.cause as u8))
                .or_insert(gap);
        }
        // The end of another gap is missing only if it was on a damaged part of the disk.
        let open_gap = self.open_gap.and_then(|key| self.gaps.remove(&key));
        let ended = self.gaps.into_values().map(|gap| PastGap {
            to_ns: gap.to_ns.or(Some(gap.from_ns)),
            ..gap
        });
        let gaps = ended.chain(open_gap).collect();
        self.starts.retain(|start| *start < next);
        self.starts.sort_unstable();
        // Those of samples that are too old say nothing about the others.
        let oldest = sealed.first().map_or(self.open.first, |(first, _)| *first);
        let kept = self.starts.partition_point(|start| *start <= oldest);
        self.starts.drain(..kept.saturating_sub(1));
        Some(RingContent {
            starts: self.starts,
            next,
            sealed,
            open: self.open.chunk,
            open_ns: self.open.last_ns,
            gaps,
        })
    }
}
