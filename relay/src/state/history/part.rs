//! The past of a PV for another relay, in parts: nothing is held between two of them, so a part says where the next one
//! begins.

use super::ring::RingView;
use super::rows::{GAP_BYTES, PAGE_BYTES, weight};
use super::{PastGap, PastRange, PastSample, Position};

/// Samples that are decompressed for a part: about a millisecond of work.
const PART_SAMPLES: usize = 8_192;

/// Gaps of a part. Earlier ones are left out.
const MAX_GAPS: usize = 400;

/// What a page has besides its samples and gaps.
const HEAD_BYTES: usize = 400;

/// The number of the next sample, and that after the last one. A ring never gives a number to two samples.
pub type PastPlace = (u64, u64);

/// What is wanted of the past of a PV.
#[derive(Clone, Copy, Debug)]
pub struct PastWanted {
    /// In nanoseconds past the POSIX epoch, as of [`super::History::range`].
    pub from_ns: i64,
    /// The same.
    pub to_ns: i64,
    /// No later updates than this one; all if it is `None`. Used for the first part.
    pub until: Option<Position>,
    /// Where this part begins; `None` for the first one.
    pub at: Option<PastPlace>,
}

/// Samples that follow each other, and what was asked of the whole range.
#[derive(Debug, Default, PartialEq)]
pub struct PastPart {
    /// Time of the oldest sample that is kept, also outside the range.
    pub kept_since_ns: Option<i64>,
    /// Time of the newest sample up to `until`, also outside the range.
    pub newest_ns: Option<i64>,
    /// The first sample is the value that held at the begin.
    pub has_held: bool,
    /// Gaps that overlap the range, in the first part.
    pub gaps: Vec<PastGap>,
    /// In the order in which they arrived.
    pub samples: Vec<PastSample>,
    /// Where the next part begins.
    pub rest: Option<PastPlace>,
}

/// The samples of a place are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLost;

impl PastPart {
    pub(super) fn read(mut view: RingView, wanted: PastWanted) -> Result<Self, PlaceLost> {
        let PastWanted {
            from_ns,
            to_ns,
            until,
            at,
        } = wanted;
        let begin = view.firsts.first().copied().unwrap_or_default();
        let (mut next, end) = match (at, until) {
            (Some((next, _)), _) if next < begin => return Err(PlaceLost),
            (Some((next, end)), _) => (next, end.min(view.end())),
            (None, Some(until)) => (begin, view.end_at(until)),
            (None, None) => (begin, view.end()),
        };
        view.truncate(end);
        let firsts = std::mem::take(&mut view.firsts);
        let range = PastRange::new(view, (from_ns, to_ns), 0, None);
        let mut part = Self {
            kept_since_ns: range.kept_since_ns(),
            newest_ns: range.newest_ns(),
            ..Self::default()
        };
        if at.is_none() {
            part.gaps = range.gaps();
            let surplus = part.gaps.len().saturating_sub(MAX_GAPS);
            part.gaps.drain(..surplus);
        }
        let mut room = PAGE_BYTES - HEAD_BYTES - GAP_BYTES * part.gaps.len();
        let mut alarm = None;
        let mut take = |sample: &PastSample| {
            let bytes = weight(sample, &mut alarm);
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            fits
        };
        if at.is_none() {
            let held = range.held_sample();
            part.has_held = held.is_some();
            part.samples.extend(held.filter(|held| take(held)).cloned());
        }
        let mut decompressed = 0;
        for (index, first) in firsts.into_iter().enumerate() {
            let (length, is_wanted) = range.chunk(index);
            let after = first + length as u64;
            if after <= next {
                continue;
            }
            if is_wanted {
                if decompressed >= PART_SAMPLES {
                    break;
                }
                decompressed += length;
                let skipped = next.saturating_sub(first) as usize;
                let samples = range.samples_of(index).into_iter().enumerate();
                for (row, sample) in samples.skip(skipped) {
                    if range.is_inside(&sample) {
                        if !take(&sample) {
                            part.rest = Some((first + row as u64, end));
                            return Ok(part);
                        }
                        part.samples.push(sample);
                    }
                }
            }
            next = after;
        }
        part.rest = (next < end).then_some((next, end));
        Ok(part)
    }
}
