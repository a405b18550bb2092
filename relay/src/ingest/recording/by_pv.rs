//! What is known of each PV, by the numbers that a relay has given the PVs, one after the other.

use std::collections::HashMap;

use pvwire_schema::types::PvId;

/// Numbers from this one on, which few relays give, cost more: a file may have any of them.
const FAR: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct ByPv<T> {
    near: Vec<T>,
    far: HashMap<PvId, T>,
}

impl<T> Default for ByPv<T> {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            far: HashMap::new(),
        }
    }
}

impl<T: Default> ByPv<T> {
    /// What is known of a PV; the default if it is the first time.
    #[inline]
    pub(crate) fn of(&mut self, pv: PvId) -> &mut T {
        let at = pv.0 as usize;
        if at >= self.near.len() {
            if at >= FAR {
                return self.far.entry(pv).or_default();
            }
            self.near.resize_with(at + 1, T::default);
        }
        &mut self.near[at]
    }

    /// All PVs of which anything is known, and others.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (PvId, &mut T)> {
        let near = self.near.iter_mut().enumerate();
        let near = near.map(|(at, known)| (PvId(at as u32), known));
        near.chain(self.far.iter_mut().map(|(pv, known)| (*pv, known)))
    }

    /// Forgets all PVs.
    pub(crate) fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pv_has_its_own_however_large_its_number_is() {
        let mut known = ByPv::<u32>::default();
        let pvs = [0, 3, FAR as u32 - 1, FAR as u32, u32::MAX].map(PvId);
        for (pv, number) in pvs.into_iter().zip(1..) {
            *known.of(pv) = number;
        }
        assert_eq!(pvs.map(|pv| *known.of(pv)), [1, 2, 3, 4, 5]);
        assert_eq!(*known.of(PvId(1)), 0);
        assert_eq!(known.all().map(|(_, number)| *number).sum::<u32>(), 15);
        known.clear();
        assert_eq!(pvs.map(|pv| *known.of(pv)), [0; 5]);
    }
}
