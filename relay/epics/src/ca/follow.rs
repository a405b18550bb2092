//! Prefetch of the channel whose update probably comes next.
//!
//! With thousands of channels, what an update looks at is no longer in the processor's cache when
//! the next one of that channel comes, and the wait for it costs more than all that is done with the
//! update. A server sends its records in the order in which it scans them, which is mostly that of
//! last time. So this remembers which channel came after each one and fetches that one's memory
//! while the present one is dealt with. A wrong guess costs a fetch in vain and nothing else.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Channels that are told apart; more share places and so guess wrong at times.
const PLACES: usize = 1 << 15;

/// What an update of one channel looks at: two lines of the cache.
struct Place([AtomicUsize; 2]);

static FOLLOWERS: [Place; PLACES] = [const { Place([const { AtomicUsize::new(0) }; 2]) }; PLACES];

thread_local! {
    /// The place of the channel that this thread, which reads from one server, had last.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// An update of channel number `id` is dealt with, which looks at `addresses`; those of the channel
/// that came next last time are fetched.
pub(super) fn follow(id: u64, addresses: [usize; 2]) {
    let place = id as usize % PLACES;
    let next = &FOLLOWERS[place].0;
    next.iter()
        .for_each(|next| fetch(next.load(Ordering::Relaxed)));
    let last = &FOLLOWERS[LAST.replace(place)].0;
    for (last, address) in last.iter().zip(addresses) {
        if last.load(Ordering::Relaxed) != address {
            last.store(address, Ordering::Relaxed);
        }
    }
}

/// Asks for the line of the cache at an address, where nothing need be any more.
fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint for every address: it reads nothing that the program sees
    // and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_who_came_after_whom() {
        let places = PLACES as u64;
        let round = |shift: usize| {
            for id in [3, 5, places + 9] {
                follow(id, [id as usize + shift, id as usize + shift + 64]);
            }
        };
        round(0x1000);
        round(0x2000);
        let followers = |id: usize| {
            FOLLOWERS[id]
                .0
                .each_ref()
                .map(|it| it.load(Ordering::Relaxed))
        };
        assert_eq!(followers(3), [0x2005, 0x2045]);
        assert_eq!(followers(5), [0x2009 + PLACES, 0x2049 + PLACES]);
        assert_eq!(followers(9), [0x2003, 0x2043]);
    }
}
