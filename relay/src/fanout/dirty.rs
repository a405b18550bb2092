//! Index of one tick's rows by PV, so that private groups gather their rows without scanning every row.

use pvwire_schema::types::{PvId, Skips};

use crate::fanout::set::PvSet;
use crate::ingest::RowValue;
use crate::state::table::{ChangedRow, Changes};

/// The fields of a row that most frames need, stored close together: gathering a few rows of a tick would
/// otherwise wait for the memory of each.
#[derive(Clone, Copy, Debug)]
pub struct Picked {
    /// The PV.
    pub pv: PvId,
    more: u32,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// The value, when the row has nothing more.
    pub number: f64,
}

impl Picked {
    const NO_MORE: u32 = u32::MAX;

    fn new(place: usize, row: &ChangedRow) -> Self {
        let is_plain = row.alarm.is_none() && row.detail.is_none() && row.skips == Skips::NONE;
        let (more, number) = match row.value {
            RowValue::Number(number) if is_plain => (Self::NO_MORE, number),
            _ => (place as u32, 0.0),
        };
        Self {
            pv: row.pv,
            more,
            time_ns: row.time_ns,
            number,
        }
    }

    /// The index of the row, if it has more than a number and its time.
    #[must_use]
    pub fn more(&self) -> Option<usize> {
        (self.more != Self::NO_MORE).then_some(self.more as usize)
    }
}

/// A tick's rows by PV.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    /// A bit for each PV that has rows.
    bits: Vec<u64>,
    /// Number of PVs with rows before each word of `bits`.
    before: Vec<u32>,
    /// Indices of the words of `bits` that aren't 0.
    words: Vec<u32>,
    /// Index of each PV's first row in `rows`, and the end.
    starts: Vec<u32>,
    /// The rows by PV, those of one PV in the order in which they came.
    rows: Vec<Picked>,
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
        // The numbers of rows of the PVs give the index of each PV's first row.
        dirty.starts.resize(pvs as usize + 1, 0);
        for row in changed {
            let rank = dirty.rank(row.pv.index());
            dirty.starts[rank + 1] += 1;
        }
        for rank in 0..pvs as usize {
            dirty.starts[rank + 1] += dirty.starts[rank];
        }
        dirty.rows = changed
            .iter()
            .enumerate()
            .map(|(place, row)| Picked::new(place, row))
            .collect();
        // Rows of one PV stay as they came.
        dirty.rows.sort_by_key(|row| row.pv);
        dirty
    }

    /// How many PVs with rows come before a PV that has some.
    fn rank(&self, pv: usize) -> usize {
        let lower = self.bits[pv / 64] & ((1 << (pv % 64)) - 1);
        (self.before[pv / 64] + lower.count_ones()) as usize
    }

    /// Adds the rows of the set's PVs to `picked`: by PV, and of one PV in order.
    pub fn pick(&self, set: &PvSet, picked: &mut Vec<Picked>) {
        let mut all_of = |rank: usize| {
            let (start, end) = (self.starts[rank], self.starts[rank + 1]);
            for row in &self.rows[start as usize..end as usize] {
                picked.push(*row);
            }
        };
        // Whichever is cheaper: a lookup for each PV of the set, or one for each word of the tick.
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

/// The number of updates that a tick's frame for a set would stand for, without making it; `None` when the tick
/// has nothing for the set.
pub fn missed(changes: &Changes, dirty: Option<&Dirty>, set: &PvSet) -> Option<u64> {
    let mut rows = 0;
    let mut count = |skips: Skips| {
        rows += 1;
        1 + u64::from(skips.total())
    };
    let steps: u64 = match dirty {
        Some(dirty) => {
            let mut picked = Vec::new();
            dirty.pick(set, &mut picked);
            let skips = |row: &Picked| {
                row.more()
                    .map_or(Skips::NONE, |place| changes.rows[place].skips)
            };
            picked.iter().map(|row| count(skips(row))).sum()
        }
        None => (changes.rows.iter())
            .filter(|row| set.contains(row.pv))
            .map(|row| count(row.skips))
            .sum(),
    };
    let touched = rows > 0
        || changes.metadata.iter().any(|(pv, _)| set.contains(*pv))
        || changes.connections.iter().any(|(pv, _)| set.contains(*pv));
    touched.then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvwire_schema::types::{Alarm, Severity};

    /// A row; one in three has an alarm.
    fn row((place, pv): (usize, u32)) -> ChangedRow {
        let alarm = Alarm {
            severity: Severity::Minor,
            status: 3,
        };
        ChangedRow {
            pv: PvId(pv),
            time_ns: place as i64,
            value: RowValue::Number(0.0),
            alarm: (place % 3 == 1).then_some(alarm),
            detail: None,
            skips: Skips::NONE,
        }
    }

    proptest! {
        /// Small and large sets take different branches.
        #[test]
        fn picks_every_wanted_row_once_and_a_pvs_rows_in_order(
            rows in prop::collection::vec(0_u32..700, 0..200),
            wanted in prop::collection::vec(0_u32..900, 0..300),
        ) {
            let changed: Vec<ChangedRow> = rows.iter().copied().enumerate().map(row).collect();
            let set = PvSet::new(wanted.into_iter().map(PvId).collect());
            let mut picked = Vec::new();
            Dirty::new(&changed).pick(&set, &mut picked);
            let mut expected: Vec<usize> = (0..rows.len())
                .filter(|place| set.contains(PvId(rows[*place])))
                .collect();
            expected.sort_by_key(|place| rows[*place]);
            let of = |place: usize| match &changed[place] {
                row if row.alarm.is_some() => (row.pv, row.time_ns, Some(place)),
                row => (row.pv, row.time_ns, None),
            };
            let picked: Vec<_> = picked.iter().map(|row| (row.pv, row.time_ns, row.more())).collect();
            let expected: Vec<_> = expected.into_iter().map(of).collect();
            prop_assert_eq!(picked, expected);
        }
    }
}
