//! Finds slots by the relay's ids of their PVs.

use pvwire_schema::types::PvId;

use super::{DIRECT_IDS, NO_SLOT, Slot, Store};

/// Index of an id in a sorted list, or the index at which to insert it.
pub(super) fn place(sorted: &[(PvId, Slot)], id: PvId) -> Result<usize, usize> {
    sorted.binary_search_by_key(&id, |entry| entry.0)
}

impl Store {
    /// The relay's number of the slot's PV, or `PvId::NONE`.
    #[must_use]
    pub fn id(&self, slot: Slot) -> PvId {
        self.ids[slot as usize]
    }

    /// Adds `slot` to the slots of `id`.
    pub fn bind(&mut self, slot: Slot, id: PvId) {
        if self.ids[slot as usize] == id {
            return;
        }
        self.unbind(slot);
        if id == PvId::NONE {
            return;
        }
        self.ids[slot as usize] = id;
        self.pvs[slot as usize].next = self.first(id);
        self.set_first(id, slot);
    }

    /// Removes the slot from the slots of its id.
    pub fn unbind(&mut self, slot: Slot) {
        let id = std::mem::replace(&mut self.ids[slot as usize], PvId::NONE);
        if id == PvId::NONE {
            return;
        }
        let after = std::mem::replace(&mut self.pvs[slot as usize].next, NO_SLOT);
        let mut at = self.first(id);
        if at == slot {
            self.set_first(id, after);
            return;
        }
        while at != NO_SLOT {
            let next = self.pvs[at as usize].next;
            if next == slot {
                self.pvs[at as usize].next = after;
                return;
            }
            at = next;
        }
    }

    /// The first slot of a PV, [`NO_SLOT`] if it has none; [`Store::after`] returns the next ones.
    #[inline]
    #[must_use]
    pub fn first(&self, id: PvId) -> Slot {
        if id.0 < DIRECT_IDS {
            self.direct.get(id.index()).copied().unwrap_or(NO_SLOT)
        } else {
            place(&self.others, id).map_or(NO_SLOT, |at| self.others[at].1)
        }
    }

    /// The next slot of the same PV; [`NO_SLOT`] ends the list.
    #[inline]
    #[must_use]
    pub fn after(&self, slot: Slot) -> Slot {
        self.pvs[slot as usize].next
    }

    fn set_first(&mut self, id: PvId, slot: Slot) {
        if id.0 >= DIRECT_IDS {
            match place(&self.others, id) {
                Ok(at) if slot == NO_SLOT => drop(self.others.remove(at)),
                Ok(at) => self.others[at].1 = slot,
                Err(_) if slot == NO_SLOT => {}
                Err(at) => self.others.insert(at, (id, slot)),
            }
            return;
        }
        if id.index() >= self.direct.len() {
            self.direct.resize(id.index() + 1, NO_SLOT);
        }
        self.direct[id.index()] = slot;
    }
}
