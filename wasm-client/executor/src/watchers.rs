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
    without_relay: Vec<bool>,
}

impl Watchers {
    /// Replaces the watchers of a slot, which are told in this order.
    pub fn set(&mut self, store: &mut Store, slot: Slot, watchers: &[u32]) {
        let mut mask = 0;
        let mut next = NONE;
        for watcher in watchers.rchunks_exact(WATCHER) {
            let &[number, program, parts] = watcher else {
                continue;
            };
            let at = number as usize;
            if self.all.len() <= at {
                self.all.resize(at + 1, NOBODY);
                self.is_read.resize(at + 1, false);
                self.reads.resize(at + 1, 0);
            }
            if parts & NEW != 0
                && let Some(is_read) = self.is_read.get_mut(at)
            {
                *is_read = false;
            }
            if let Some(place) = self.all.get_mut(at) {
                *place = Watcher {
                    program,
                    mask: parts & !NEW,
                    next,
                };
            }
            next = number;
            mask |= parts & !NEW | COUNTED;
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
        if self.without_relay.len() <= at {
            self.without_relay.resize(at + 1, false);
        }
        if let Some(without_relay) = self.without_relay.get_mut(at) {
            *without_relay = !needs;
        }
    }

    /// See [`Self::set_needs_relay`].
    #[must_use]
    pub fn needs_relay(&self, slot: Slot) -> bool {
        self.without_relay.get(slot as usize) != Some(&true)
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

#[cfg(test)]
mod tests {
    use super::*;

    const READS: u32 = part::VALUE | part::TIME;

    fn told(watchers: &Watchers, slot: Slot, parts: u32) -> Vec<u32> {
        let mut told = Vec::new();
        let mut next = watchers.first(slot);
        while let Some(watcher) = watchers.get(next) {
            if watcher.mask & parts != 0 {
                told.push(next);
            }
            next = watcher.next;
        }
        told
    }

    /// As JavaScript does.
    fn read(watchers: &mut Watchers, number: usize) {
        watchers.reads = vec![0; watchers.all.len()];
        watchers.reads[number] = 1;
        watchers.begin();
        watchers.reads[number] = 0;
    }

    fn takes(watchers: &mut Watchers, number: u32) -> bool {
        let watcher = watchers.get(number).unwrap();
        watchers.take_read(number, watcher)
    }

    #[test]
    fn watchers_of_a_slot_are_told_in_order_of_what_they_read() {
        let mut store = Store::new();
        let (slot, other) = (store.add("X"), store.add("Y"));
        let mut watchers = Watchers::default();
        watchers.set(&mut store, slot, &[2, 16, READS, 0, 32, part::METADATA]);
        watchers.set(&mut store, other, &[1, 16, READS]);
        assert_eq!(told(&watchers, slot, part::VALUE | part::METADATA), [2, 0]);
        assert_eq!(told(&watchers, slot, part::METADATA), [0]);
        assert_eq!(told(&watchers, slot, part::SKIPPED), [0_u32; 0]);
        watchers.set(&mut store, slot, &[]);
        assert_eq!(told(&watchers, slot, READS), [0_u32; 0]);
        assert_eq!(told(&watchers, other, READS), [1]);
    }

    #[test]
    fn changes_that_no_watcher_reads_leave_no_mark() {
        let mut store = Store::new();
        let slot = store.add("X");
        let mut watchers = Watchers::default();
        watchers.set(&mut store, slot, &[0, 16, part::METADATA]);
        store.clear_dirty();
        store.touch(slot, READS);
        assert_eq!(store.dirty(), [0_u32; 0]);
        store.touch(slot, part::ALARM);
        assert_eq!(store.dirty(), [slot], "alarms are counted");
        watchers.set(&mut store, slot, &[]);
        store.clear_dirty();
        store.touch(slot, u32::MAX);
        assert_eq!(store.dirty(), [0_u32; 0]);
    }

    #[test]
    fn a_result_is_made_once_for_each_that_was_read() {
        let mut store = Store::new();
        let slot = store.add("X");
        let mut watchers = Watchers::default();
        watchers.set(&mut store, slot, &[0, 16, READS, 1, 16, READS | ALWAYS]);
        assert!(!takes(&mut watchers, 0), "nothing was read yet");
        assert!(takes(&mut watchers, 1) && takes(&mut watchers, 1));
        read(&mut watchers, 0);
        watchers.begin();
        assert!(takes(&mut watchers, 0), "still unchanged since");
        assert!(!takes(&mut watchers, 0));
    }

    #[test]
    fn a_number_that_is_used_again_has_not_been_read() {
        let mut store = Store::new();
        let slot = store.add("X");
        let mut watchers = Watchers::default();
        watchers.set(&mut store, slot, &[0, 16, READS]);
        read(&mut watchers, 0);
        watchers.set(&mut store, slot, &[0, 16, READS]);
        assert!(
            takes(&mut watchers, 0),
            "the same watcher with another mask"
        );
        read(&mut watchers, 0);
        watchers.set(&mut store, slot, &[0, 32, READS | NEW]);
        assert!(!takes(&mut watchers, 0));
    }

    #[test]
    fn the_relay_s_silence_affects_every_slot_that_is_not_excepted() {
        let mut watchers = Watchers::default();
        watchers.set_needs_relay(3, false);
        assert_eq!(
            [2, 3, 4].map(|slot| watchers.needs_relay(slot)),
            [true, false, true]
        );
        watchers.set_needs_relay(3, true);
        assert!(watchers.needs_relay(3));
    }
}
