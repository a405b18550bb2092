//! Prefetch of the channel whose update probably comes next.
//!
//! With thousands of channels, the data that an update uses is no longer in the processor's cache
//! when the next update of that channel arrives, and waiting for it takes longer than processing
//! the update. A server sends its records in the order in which it scans them, which is mostly the
//! same each time. Therefore this module remembers which channel followed each one and prefetches
//! that channel's memory while the current update is processed. A wrong guess only costs an
//! unnecessary prefetch.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of channels that can be distinguished; further ones share entries and cause some wrong
/// guesses.
const PLACES: usize = 1 << 15;

/// The memory that an update of one channel uses: two cache lines.
struct Place([AtomicUsize; 2]);

static FOLLOWERS: [Place; PLACES] = [const { Place([const { AtomicUsize::new(0) }; 2]) }; PLACES];

thread_local! {
    /// The entry of the last channel on this thread, which reads from one server.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Called while an update of channel number `id`, which uses `addresses`, is processed. Prefetches
/// the addresses of the channel that followed last time.
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

/// Prefetches the cache line at an address, which may no longer be valid.
fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is a hint for any address: it reads nothing that the program sees and
    // never faults.
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
