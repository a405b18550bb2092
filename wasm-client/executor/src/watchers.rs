//! What the page's handles read: each is a watcher of a slot, with the parts whose changes it is told.

use pvwire_core::store::{Slot, Store, part};

/// Parts of each watched PV that a count of all PVs by state and severity depends on.
const COUNTED: u32 = part::ALARM | part::CONNECTION;

/// Not a part: a watcher with this bit in its mask reads each result.
const ALWAYS: u32 = 1 << 30;

/// Not a part: a watcher that takes over the number of a released one.
const NEW: u32 = 1 << 31;

/// Means that there is no watcher.
const NONE: u32 = u32::MAX;

/// Numbers per watcher that JavaScript passes: its number, its program as `keep` returns it, and the
/// parts that it reads.
const WATCHER: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    /// The program's number, and what it needs.
    pub(crate) program: u32,
    pub(crate) mask: u32,
    /// The next one of the same slot.
    pub(crate) next: u32,
}

const NOBODY: Watcher = Watcher {
    program: 0,
    mask: 0,
    next: NONE,
};

/// The watchers of a client's live PVs.
#[derive(Debug, Default)]
pub struct Watchers {
    all: Vec<Watcher>,
    /// The first one of each slot.
    first: Vec<u32>,
    /// By watcher: whether its last result was read, so that the next flush makes the next one.
    is_read: Vec<bool>,
    /// By watcher: 1 if a result was read since the last flush. JavaScript writes here.
    reads: Vec<u8>,
    /// By slot: whether its values don't come from the relay.
    own: Vec<bool>,
}

impl Watchers {
    /// Replaces the watchers of a slot, which are told in this order.
    pub fn set(&mut self, store: &mut Store, slot: Slot, watchers: &[u32]) {
        let mut mask = 0;
        let mut next = NONE;
        for watcher in watchers.rchunks_exact(WATCHER) {
            let &[number, program, own] = watcher else {
                continue;
            };
            let at = number as usize;
            if self.all.len() <= at {
                self.all.resize(at + 1, NOBODY);
                self.is_read.resize(at + 1, false);
                self.reads.resize(at + 1, 0);
            }
            if own & NEW != 0
                && let Some(is_read) = self.is_read.get_mut(at)
            {
                *is_read = false;
            }
            if let Some(place) = self.all.get_mut(at) {
                *place = Watcher {
                    program,
                    mask: own & !NEW,
                    next,
                };
            }
            next = number;
            mask |= own & !NEW | COUNTED;
        }
        let at = slot as usize;
        if self.first.len() <= at {
            self.first.resize(at + 1, NONE);
        }
        if let Some(first) = self.first.get_mut(at) {
            *first = next;
        }
        store.set_interest(slot, mask);
    }

    /// Whether the relay's silence affects a slot.
    pub fn set_needs_relay(&mut self, slot: Slot, needs: bool) {
        let at = slot as usize;
        if self.own.len() <= at {
            self.own.resize(at + 1, false);
        }
        if let Some(own) = self.own.get_mut(at) {
            *own = !needs;
        }
    }

    /// See [`Self::set_needs_relay`].
    #[must_use]
    pub fn needs_relay(&self, slot: Slot) -> bool {
        self.own.get(slot as usize) != Some(&true)
    }

    /// The address of the flags of the watchers whose result was read since the last flush.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.reads.as_ptr() as usize
    }

    /// Number of watchers, including released ones.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The first watcher of a slot.
    pub(crate) fn first(&self, slot: Slot) -> u32 {
        self.first.get(slot as usize).copied().unwrap_or(NONE)
    }

    /// A watcher; `None` after a slot's last one.
    pub(crate) fn get(&self, number: u32) -> Option<Watcher> {
        self.all.get(number as usize).copied()
    }

    /// Starts a flush: takes over what was read since the last one.
    pub(crate) fn begin(&mut self) {
        for (is_read, read) in self.is_read.iter_mut().zip(&self.reads) {
            *is_read |= *read == 1;
        }
    }

    /// Whether a watcher's last result was read; its next result is made now, and not read yet.
    pub(crate) fn take_read(&mut self, number: u32, watcher: Watcher) -> bool {
        let is_read = self.is_read.get_mut(number as usize);
        watcher.mask & ALWAYS != 0 || is_read.is_some_and(std::mem::take)
    }
}
