//! What is kept of the PVs that one owner feeds, by the owner's numbers.
//!
//! A message has rows of one shard, mostly in the order of their numbers. So the PVs are in one piece of memory, in the
//! order in which the owner granted them, and an index for each shard says where.

use pvwire_schema::types::PvId;

use super::publisher::{SHARD_PVS, shard_of};

/// A number that the owner doesn't feed.
const NONE: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct ByNumber<T> {
    all: Vec<(PvId, T)>,
    /// Places in `all`, by shard and by number within the shard.
    places: Vec<Option<Box<[u32]>>>,
}

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        let (all, places) = (Vec::new(), Vec::new());
        Self { all, places }
    }
}

fn within(pv: PvId) -> usize {
    (pv.0 % SHARD_PVS) as usize
}

impl<T> ByNumber<T> {
    /// Number of PVs.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn place(&self, pv: PvId) -> Option<usize> {
        // A damaged message may name numbers that no relay publishes.
        let shard = (pv.0 / SHARD_PVS) as usize;
        let of_shard = self.places.get(shard)?.as_deref()?;
        let place = of_shard[within(pv)];
        (place != NONE).then_some(place as usize)
    }

    fn set(&mut self, pv: PvId, place: u32) {
        let shard = usize::from(shard_of(pv));
        if shard >= self.places.len() {
            self.places.resize_with(shard + 1, || None);
        }
        let empty = || vec![NONE; SHARD_PVS as usize].into_boxed_slice();
        self.places[shard].get_or_insert_with(empty)[within(pv)] = place;
    }

    pub(super) fn get(&self, pv: PvId) -> Option<&T> {
        self.place(pv).map(|place| &self.all[place].1)
    }

    pub(super) fn get_mut(&mut self, pv: PvId) -> Option<&mut T> {
        self.place(pv).map(|place| &mut self.all[place].1)
    }

    /// Adds a PV, in place of an earlier one of the same number.
    pub(super) fn insert(&mut self, pv: PvId, kept: T) {
        if let Some(place) = self.place(pv) {
            self.all[place].1 = kept;
            return;
        }
        self.set(pv, self.all.len() as u32);
        self.all.push((pv, kept));
    }

    pub(super) fn remove(&mut self, pv: PvId) -> Option<T> {
        let place = self.place(pv)?;
        let (_, removed) = self.all.swap_remove(place);
        self.set(pv, NONE);
        if let Some((moved, _)) = self.all.get(place) {
            let moved = *moved;
            self.set(moved, place as u32);
        }
        Some(removed)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PvId, &T)> {
        self.all.iter().map(|(pv, kept)| (*pv, kept))
    }

    /// The PVs of a shard, by their numbers.
    pub(super) fn of_shard(&self, shard: u16) -> impl Iterator<Item = (PvId, &T)> {
        let of_shard = self.places.get(usize::from(shard));
        let places = of_shard.and_then(Option::as_deref).unwrap_or_default();
        let present = places.iter().filter(|place| **place != NONE);
        present
            .map(|place| &self.all[*place as usize])
            .map(|(pv, kept)| (*pv, kept))
    }

    /// Changes what is kept of each PV of a shard.
    pub(super) fn each_of_shard(&mut self, shard: u16, change: impl Fn(&mut T)) {
        let of_shard = self.places.get(usize::from(shard));
        let places = of_shard.and_then(Option::as_deref).unwrap_or_default();
        for place in places.iter().filter(|place| **place != NONE) {
            change(&mut self.all[*place as usize].1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pvs_are_found_by_number_whatever_was_removed() {
        let mut all = ByNumber::default();
        for pv in [7, 1024, 8, 70_000, 9] {
            all.insert(PvId(pv), pv);
        }
        all.insert(PvId(8), 88);
        assert_eq!(all.len(), 5);
        assert_eq!(
            [7, 7, 70_000].map(|pv| all.remove(PvId(pv))),
            [Some(7), None, Some(70_000)]
        );
        let mut left: Vec<u32> = all.iter().map(|(pv, _)| pv.0).collect();
        left.sort_unstable();
        assert_eq!(left, [8, 9, 1024]);
        let kept = [8, 9, 1024, 6, 2000, 70_000].map(|pv| all.get(PvId(pv)).copied());
        assert_eq!(kept, [Some(88), Some(9), Some(1024), None, None, None]);
        let of_shard = |all: &ByNumber<u32>, shard| {
            let of = all.of_shard(shard).map(|(pv, kept)| (pv.0, *kept));
            of.collect::<Vec<_>>()
        };
        assert_eq!(of_shard(&all, 0), [(8, 88), (9, 9)]);
        assert_eq!((of_shard(&all, 3), of_shard(&all, 500)), (vec![], vec![]));
        all.each_of_shard(0, |kept| *kept += 1);
        all.each_of_shard(500, |kept| *kept += 1);
        assert_eq!(of_shard(&all, 0), [(8, 89), (9, 10)]);
        assert_eq!(of_shard(&all, 1), [(1024, 1024)]);
        assert_eq!(all.get_mut(PvId(9)), Some(&mut 10));
        for pv in [8, 9, 1024] {
            all.remove(PvId(pv));
        }
        assert!(all.is_empty());
    }
}
