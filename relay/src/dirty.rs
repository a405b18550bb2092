//! Which of a tick's rows does a set of PVs want, found without looking at all of them?

use crate::set::PvSet;
use crate::table::ChangedRow;

/// A tick's rows by PV.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    /// A bit for each PV that has rows.
    bits: Vec<u64>,
    /// How many PVs with rows come before each word of `bits`.
    before: Vec<u32>,
    /// Words of `bits` that aren't 0.
    words: Vec<u32>,
    /// Where each PV's rows begin in `rows`; one more for the end.
    starts: Vec<u32>,
    /// Places of the rows, by PV and then as they came.
    rows: Vec<u32>,
}

impl Dirty {
    /// Sorts the rows.
    #[must_use]
    pub fn new(changed: &[ChangedRow]) -> Self {
        let words = changed.iter().map(|row| row.pv.index() / 64 + 1).max();
        let mut dirty = Self {
            bits: vec![0; words.unwrap_or(0)],
            ..Self::default()
        };
        for row in changed {
            dirty.bits[row.pv.index() / 64] |= 1 << (row.pv.index() % 64);
        }
        let mut pvs = 0;
        for (word, bits) in dirty.bits.iter().enumerate() {
            dirty.before.push(pvs);
            pvs += bits.count_ones();
            if *bits != 0 {
                dirty.words.push(word as u32);
            }
        }
        // Counted first, so that each PV's rows find their place in one more pass.
        dirty.starts.resize(pvs as usize + 1, 0);
        for row in changed {
            let rank = dirty.rank(row.pv.index());
            dirty.starts[rank + 1] += 1;
        }
        for rank in 0..pvs as usize {
            dirty.starts[rank + 1] += dirty.starts[rank];
        }
        dirty.rows.resize(changed.len(), 0);
        let mut next = dirty.starts.clone();
        for (place, row) in changed.iter().enumerate() {
            let at = &mut next[dirty.rank(row.pv.index())];
            dirty.rows[*at as usize] = place as u32;
            *at += 1;
        }
        dirty
    }

    /// How many PVs with rows come before a PV that has some.
    fn rank(&self, pv: usize) -> usize {
        let lower = self.bits[pv / 64] & ((1 << (pv % 64)) - 1);
        (self.before[pv / 64] + lower.count_ones()) as usize
    }

    /// Calls `take` with the place of each row of the set's PVs: by PV, and of one PV in order.
    pub fn pick(&self, set: &PvSet, mut take: impl FnMut(usize)) {
        let mut all_of = |rank: usize| {
            let (start, end) = (self.starts[rank], self.starts[rank + 1]);
            for place in &self.rows[start as usize..end as usize] {
                take(*place as usize);
            }
        };
        // The cheaper of the two: asking for each PV of the set, or for each word of the tick.
        if set.len() < self.words.len() {
            for pv in set.ids() {
                let word = self.bits.get(pv.index() / 64).copied().unwrap_or(0);
                if word >> (pv.index() % 64) & 1 == 1 {
                    all_of(self.rank(pv.index()));
                }
            }
            return;
        }
        for &word in &self.words {
            let place = word as usize;
            let dirty = self.bits[place];
            let mut wanted = dirty & set.word(place);
            while wanted != 0 {
                let lowest = wanted & wanted.wrapping_neg();
                let lower = dirty & (lowest - 1);
                all_of((self.before[place] + lower.count_ones()) as usize);
                wanted ^= lowest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::RowValue;
    use proptest::prelude::*;
    use pvwire_schema::types::{PvId, Skips};

    fn row(pv: u32) -> ChangedRow {
        ChangedRow {
            pv: PvId(pv),
            time_ns: 0,
            value: RowValue::Number(0.0),
            alarm: None,
            detail: None,
            skips: Skips::NONE,
        }
    }

    proptest! {
        /// Small sets and large ones take different ways.
        #[test]
        fn picks_every_wanted_row_once_and_a_pvs_rows_in_order(
            rows in prop::collection::vec(0_u32..700, 0..200),
            wanted in prop::collection::vec(0_u32..900, 0..300),
        ) {
            let changed: Vec<ChangedRow> = rows.iter().copied().map(row).collect();
            let set = PvSet::new(wanted.into_iter().map(PvId).collect());
            let mut picked = Vec::new();
            Dirty::new(&changed).pick(&set, |place| picked.push(place));
            let mut expected: Vec<usize> = (0..rows.len())
                .filter(|place| set.contains(PvId(rows[*place])))
                .collect();
            expected.sort_by_key(|place| rows[*place]);
            prop_assert_eq!(picked, expected);
        }
    }
}
