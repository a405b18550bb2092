//! Sets of PVs, made for picking rows of a tick quickly.

use pvwire_schema::types::PvId;

/// A set of PVs: a sorted list for iteration and a bit set for lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PvSet {
    sorted: Vec<PvId>,
    bits: Vec<u64>,
}

impl PvSet {
    /// The set of these PVs; duplicates count once.
    #[must_use]
    pub fn new(mut ids: Vec<PvId>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let mut bits = vec![0_u64; ids.last().map_or(0, |last| last.index() / 64 + 1)];
        for id in &ids {
            bits[id.index() / 64] |= 1 << (id.index() % 64);
        }
        Self { sorted: ids, bits }
    }

    /// Whether the PV is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: PvId) -> bool {
        self.bits
            .get(id.index() / 64)
            .is_some_and(|word| word >> (id.index() % 64) & 1 == 1)
    }

    /// Whether the sets have a PV in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let words = self.bits.iter().zip(&other.bits);
        words.into_iter().any(|(one, other)| one & other != 0)
    }

    /// The bits of the 64 PVs from 64 × `index` on.
    #[inline]
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.bits.get(index).copied().unwrap_or(0)
    }

    /// The PVs, ascending.
    #[must_use]
    pub fn ids(&self) -> &[PvId] {
        &self.sorted
    }

    /// Number of PVs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_it_was_made_of_and_nothing_else() {
        let set = PvSet::new([700, 3, 64, 63, 3].map(PvId).to_vec());
        assert_eq!(set.ids(), [3, 63, 64, 700].map(PvId));
        let held: Vec<u32> = (0..1000).filter(|id| set.contains(PvId(*id))).collect();
        assert_eq!(held, [3, 63, 64, 700]);
    }
}
