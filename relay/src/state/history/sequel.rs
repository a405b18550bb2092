//! The sequel of an update: what is kept of its PV after it, and how many updates are not, by cause.
//!
//! The rows of a ring are numbered as clients number updates, so none is missing unseen.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::chunk::SealedChunk;
use super::numbering::{AbsentCause, LeftOut, Mark};
use super::{PastSample, Position};

/// A part of a sequel.
#[derive(Debug, PartialEq)]
pub enum SequelPart {
    /// Updates that follow each other, but for those that were skipped before each.
    Updates {
        /// That of the first.
        first: Position,
        /// In order.
        samples: Vec<PastSample>,
    },
    /// Updates that are not there.
    Absent {
        /// Why.
        cause: AbsentCause,
        /// `None` if it is not known how many.
        count: Option<u32>,
    },
}

/// What follows an update of a PV. It holds the compressed samples, not the rings, and decompresses them piece by piece.
#[derive(Debug)]
pub struct Sequel {
    /// Those of the ring that may have later updates.
    pub(super) sealed: VecDeque<Arc<SealedChunk>>,
    /// The samples after them, with the number of the first and the marks.
    pub(super) open: (Vec<PastSample>, Option<Position>, Vec<Mark>),
    /// What the ring doesn't have after its newest sample.
    rest: LeftOut,
    /// The PV's last update; `None` while it is closed.
    end: Option<Position>,
    /// The update up to which all was returned.
    returned: Position,
    /// The last row of the ring that was read.
    row: Option<Position>,
    parts: VecDeque<SequelPart>,
    stage: Stage,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sealed,
    Open,
    Rest,
    Nothing,
}

impl Sequel {
    /// Without any samples yet.
    pub(super) fn new(after: Position, rest: LeftOut, end: Option<Position>) -> Self {
        Self {
            sealed: VecDeque::new(),
            open: (Vec::new(), None, Vec::new()),
            rest,
            end,
            returned: after,
            row: None,
            parts: VecDeque::new(),
            stage: Stage::Sealed,
        }
    }

    /// The next part; `None` at the end.
    pub fn next_part(&mut self) -> Option<SequelPart> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Some(part);
            }
            match self.stage {
                Stage::Sealed => match self.sealed.pop_front() {
                    Some(chunk) => self.look_at(chunk.samples(), chunk.first, chunk.marks()),
                    None => self.stage = Stage::Open,
                },
                Stage::Open => {
                    let (samples, first, marks) = mem::take(&mut self.open);
                    self.look_at(samples, first, &marks);
                    self.stage = Stage::Rest;
                }
                Stage::Rest => {
                    self.look_at_rest();
                    self.stage = Stage::Nothing;
                }
                Stage::Nothing => return None,
            }
        }
    }

    /// The update up to which the parts so far tell all.
    #[must_use]
    pub fn end(&self) -> Position {
        self.returned
    }

    fn look_at(&mut self, samples: Vec<PastSample>, mut first: Option<Position>, marks: &[Mark]) {
        let mut marks = marks.iter().peekable();
        for (row, sample) in samples.into_iter().enumerate() {
            let mark = marks.next_if(|mark| mark.row as usize == row);
            let skipped = sample.skips.total();
            let first = first.take();
            let marked = mark.map(|mark| mark.position).or(first);
            let next = self.row.map(|before| before.following(skipped));
            // Without a number, another relay has counted it.
            let Some(position) = marked.or(next) else {
                continue;
            };
            if mark.is_some_and(|mark| mark.is_stand_in) {
                continue;
            }
            if position.is_after(self.returned) {
                let left_out = mark.map_or_else(LeftOut::default, |mark| mark.left_out);
                let sequence = position.sequence.wrapping_sub(1).wrapping_sub(skipped);
                self.tell(
                    left_out,
                    Position {
                        sequence,
                        ..position
                    },
                );
                self.add(position, sample);
                self.returned = position;
            }
            self.row = Some(position);
        }
    }

    fn look_at_rest(&mut self) {
        match self.end {
            None => self.absent(AbsentCause::NotMonitored, None),
            Some(end) => {
                // A PV that was opened again may have no number yet.
                let is_other = self.rest.is_opened_after(self.returned.epoch);
                if is_other || end.is_after(self.returned) {
                    self.tell(self.rest, end);
                    self.returned = end;
                }
            }
        }
    }

    /// Adds which updates are absent after what was returned, up to this one.
    fn tell(&mut self, left_out: LeftOut, until: Position) {
        if until.epoch == self.returned.epoch {
            let mut absent = until.ahead_of(self.returned);
            for (cause, count) in left_out.counts() {
                // Which of them are before it is not known.
                let count = count.min(absent);
                absent -= count;
                self.absent(cause, Some(count));
            }
            self.absent(AbsentCause::Evicted, Some(absent));
            return;
        }
        match self.row {
            Some(row) => {
                let is_counted = row.epoch == self.returned.epoch;
                let mut before = if is_counted {
                    self.returned.ahead_of(row)
                } else {
                    0
                };
                for (cause, count) in left_out.counts() {
                    let known = count.min(before);
                    before -= known;
                    let count = count - known;
                    self.absent(cause, (count == 0 || is_counted).then_some(count));
                }
            }
            None => self.absent(AbsentCause::Evicted, None),
        }
        if left_out.is_opened_after(self.returned.epoch) {
            self.absent(AbsentCause::NotMonitored, None);
        }
    }

    fn absent(&mut self, cause: AbsentCause, count: Option<u32>) {
        if count != Some(0) {
            self.parts.push_back(SequelPart::Absent { cause, count });
        }
    }

    /// Adds an update to the last part, if it follows it.
    fn add(&mut self, position: Position, sample: PastSample) {
        let is_next = self.returned.following(sample.skips.total()) == position;
        match self.parts.back_mut() {
            Some(SequelPart::Updates { samples, .. }) if is_next => samples.push(sample),
            _ => self.parts.push_back(SequelPart::Updates {
                first: position,
                samples: vec![sample],
            }),
        }
    }
}
