//! PVs on their way from a live owner to another: the old one feeds a PV until the new one does, so that clients see
//! no gap. An owner grants a PV to others only when its own monitor feeds it; therefore two relays never feed a PV to
//! each other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pvwire_fleet::MemberId;

use super::{Edge, OwnerOf, Place};
use crate::ingest::feed::Feed;
use crate::ingest::handover::Handover;

/// A PV that takes longer is disconnected until its new owner feeds it.
const MOVES_WITHIN: Duration = Duration::from_secs(10);

/// Where a PV moves to.
pub(super) struct Move {
    pub(super) place: Place,
    /// Set as soon as there is a line for it.
    pub(super) to: Option<Arc<Handover>>,
    since: Instant,
}

impl Edge {
    /// Whether a PV moves to this relay and another still feeds it.
    pub(in crate::fleet) fn is_arriving(&self, key: &str) -> bool {
        self.arriving.contains(key)
    }

    /// Begins to move a PV to another owner. The present one feeds it meanwhile.
    pub(super) fn begin_move(&mut self, number: u64, owner: MemberId, now: Instant) {
        let Some(entry) = self.pvs.get_mut(&number) else {
            return;
        };
        let (place, to) = if owner == self.me {
            self.arriving.insert(entry.pv.key.clone());
            (Place::Here, Some(entry.pv.open_next()))
        } else {
            Self::want(&mut self.peers, owner, number, now);
            (Place::Asking(owner), None)
        };
        let since = now;
        entry.next = Some(Move { place, to, since });
        self.is_uncounted = true;
        self.moving.insert(number);
    }

    /// The new owner feeds a PV under a number: a line for it.
    pub(super) fn feed_next(&mut self, number: u64, place: Place) -> Option<Feed> {
        let entry = self.pvs.get_mut(&number)?;
        let next = entry.next.as_mut()?;
        let (line, to) = entry.pv.base.hand_over();
        (next.place, next.to) = (place, Some(to));
        self.is_uncounted = true;
        Some(Feed::new(line))
    }

    /// Ends a move that isn't finished.
    pub(super) fn end_move(&mut self, number: u64) {
        self.moving.remove(&number);
        let Some(entry) = self.pvs.get_mut(&number) else {
            return;
        };
        let Some(next) = entry.next.take() else {
            return;
        };
        self.is_uncounted = true;
        self.arriving.remove(&entry.pv.key);
        entry.pv.base.keep();
        match next.place {
            Place::Here => entry.pv.close_next(),
            Place::Fed(owner, id) => drop(self.unfollow(owner, id)),
            Place::Nowhere | Place::Asking(_) => {}
        }
    }

    /// Finishes moves, and ends moves that take too long.
    pub(in crate::fleet) fn check_moves(&mut self, owner_of: OwnerOf<'_>, now: Instant) {
        for number in self.moving.iter().copied().collect::<Vec<_>>() {
            let next = self.pvs.get(&number).and_then(|entry| entry.next.as_ref());
            let Some(next) = next else {
                self.moving.remove(&number);
                continue;
            };
            let to = next.to.as_ref();
            let took = now.duration_since(next.since);
            let counters = &self.counters;
            if to.is_some_and(|to| to.shift().is_some()) {
                counters.handovers_done.fetch_add(1, Ordering::Relaxed);
                let millis = took.as_millis() as u64;
                (counters.handover_millis).fetch_add(millis, Ordering::Relaxed);
                self.finish_move(number);
            } else if took >= MOVES_WITHIN {
                counters.handovers_failed.fetch_add(1, Ordering::Relaxed);
                self.detach(number);
                self.assign(number, owner_of, now);
            }
        }
    }

    fn finish_move(&mut self, number: u64) {
        self.moving.remove(&number);
        let Some(entry) = self.pvs.get_mut(&number) else {
            return;
        };
        let Some(next) = entry.next.take() else {
            return;
        };
        self.is_uncounted = true;
        self.arriving.remove(&entry.pv.key);
        let before = std::mem::replace(&mut entry.place, next.place);
        match (before, next.place) {
            (_, Place::Here) => entry.pv.take_next(),
            (Place::Here, _) => entry.pv.close(),
            _ => {}
        }
        if let Place::Fed(owner, id) = before {
            self.unfollow(owner, id);
        }
    }
}
