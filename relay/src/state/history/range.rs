//! A range of the past of one PV, which is decompressed piece by piece.

use super::ring::RingView;
use super::{PastGap, PastSample, Position};

/// The past of a PV between two times. It holds the compressed samples, not the rings.
#[derive(Debug)]
pub struct PastRange {
    view: RingView,
    from_ns: i64,
    to_ns: i64,
    /// The next sealed chunk, or the open one after them.
    next: usize,
    /// The value that held at the begin, until it is taken.
    held: Option<PastSample>,
    /// Number of the last tick whose updates are included.
    pub tick: u64,
    /// The last update that is included; `None` while the PV is closed.
    pub position: Option<Position>,
}

impl PastRange {
    pub(super) fn new(
        view: RingView,
        (from_ns, to_ns): (i64, i64),
        tick: u64,
        position: Option<Position>,
    ) -> Self {
        let mut range = Self {
            view,
            from_ns,
            to_ns,
            next: 0,
            held: None,
            tick,
            position,
        };
        range.held = range.held();
        range
    }

    /// The last of the samples with the largest time up to the begin.
    fn held(&self) -> Option<PastSample> {
        let from_ns = self.from_ns;
        // Of the chunks before the range, only the one with the largest time can have it.
        let before = self.view.sealed.iter().enumerate();
        let before = before.filter(|(_, chunk)| chunk.span_ns().1 <= from_ns);
        let nearest = before.max_by_key(|(index, chunk)| (chunk.span_ns().1, *index));
        let nearest = nearest.map(|(index, _)| index);
        let overlaps = |index: usize, (first, last): (i64, i64)| {
            first <= from_ns && (last > from_ns || nearest == Some(index))
        };
        let chunks = self.view.sealed.iter().enumerate();
        let chunks = chunks.filter(|(index, chunk)| overlaps(*index, chunk.span_ns()));
        let sealed = chunks.flat_map(|(_, chunk)| chunk.samples());
        let samples = sealed.chain(self.view.open.iter().cloned());
        let samples = samples.filter(|sample| sample.time_ns <= from_ns);
        samples.max_by_key(|sample| sample.time_ns)
    }

    /// The next samples in the order in which they arrived, behind the value that held at the begin; `None` at the
    /// end. There may be none although more follow.
    pub fn next_samples(&mut self) -> Option<Vec<PastSample>> {
        let (from_ns, to_ns) = (self.from_ns, self.to_ns);
        let is_inside = |sample: &PastSample| sample.time_ns > from_ns && sample.time_ns <= to_ns;
        let held = self.held.take().into_iter();
        while let Some(chunk) = self.view.sealed.get(self.next) {
            self.next += 1;
            let (first, last) = chunk.span_ns();
            if last > from_ns && first <= to_ns {
                let samples = chunk.samples().into_iter().filter(is_inside);
                return Some(held.chain(samples).collect());
            }
        }
        if self.next > self.view.sealed.len() {
            return None;
        }
        self.next += 1;
        let open = std::mem::take(&mut self.view.open);
        let open = open.into_iter().filter(is_inside);
        Some(held.chain(open).collect())
    }

    /// The value that held at the begin, if it is known.
    pub(super) fn held_sample(&self) -> Option<&PastSample> {
        self.held.as_ref()
    }

    /// Whether a sample is later than the begin and no later than the end.
    pub(super) fn is_inside(&self, sample: &PastSample) -> bool {
        sample.time_ns > self.from_ns && sample.time_ns <= self.to_ns
    }

    /// How many samples a chunk has, and whether any may be inside. The open chunk follows the sealed ones.
    pub(super) fn chunk(&self, index: usize) -> (usize, bool) {
        match self.view.sealed.get(index) {
            Some(chunk) => {
                let (first, last) = chunk.span_ns();
                (chunk.len(), last > self.from_ns && first <= self.to_ns)
            }
            None => (self.view.open.len(), true),
        }
    }

    /// The samples of a chunk.
    pub(super) fn samples_of(&self, index: usize) -> Vec<PastSample> {
        match self.view.sealed.get(index) {
            Some(chunk) => chunk.samples(),
            None => self.view.open.clone(),
        }
    }

    /// Whether the first sample is the value that held at the begin.
    #[must_use]
    pub fn has_held(&self) -> bool {
        self.held.is_some()
    }

    /// Time of the oldest sample that is kept, also outside the range.
    #[must_use]
    pub fn kept_since_ns(&self) -> Option<i64> {
        self.view.first_ns()
    }

    /// Time of the newest sample that is kept, also outside the range.
    #[must_use]
    pub fn newest_ns(&self) -> Option<i64> {
        self.view.last_ns()
    }

    /// Gaps that overlap the range, by their begin.
    #[must_use]
    pub fn gaps(&self) -> Vec<PastGap> {
        self.view.gaps(self.from_ns, self.to_ns)
    }
}
