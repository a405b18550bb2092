//! Returns free memory to the system.

use std::collections::HashMap;
use std::hash::Hash;

use crate::environment::only_thread;

/// A map or a queue that occupies more than this many entries is not small.
pub(crate) const MANY: usize = 256;

/// Frees the memory of a map from which most was removed.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > MANY.max(8 * map.len()) {
        map.shrink_to(2 * map.len());
    }
}

/// Makes all threads of this process allocate from glibc's main arena, so that
/// [`give_back_free_memory`] returns all free pages.
///
/// By default each thread has an arena. `malloc_trim` returns the free pages at the end of the main
/// arena only. In every other arena they stay resident until a thread frees a block beside them, and
/// then too below glibc's trim threshold, which grows to twice the size of the largest freed block.
/// This way a few large arrays can leave tens of megabytes.
///
/// Call it in `main` before starting any thread.
///
/// # Panics
///
/// When another thread is running, because that thread could be allocating memory.
pub fn allocate_from_one_arena() {
    assert!(
        only_thread(),
        "allocate_from_one_arena is to be called before any thread is started"
    );
    // SAFETY: this is the only thread of the process, so no other thread allocates memory meanwhile.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Blocks of each size that glibc keeps free for each thread.
const CACHED: usize = 7;

/// Sizes of these blocks: the smallest, the largest and the distance between two.
const CACHED_SIZES: (usize, usize, usize) = (24, 1032, 16);

/// Gives back the free blocks that glibc keeps for the calling thread.
///
/// For glibc they are in use, so [`give_back_free_memory`] can't return their pages: about two megabytes,
/// after work whose memory was spread out. glibc has no function for it. A thread that ends gives
/// back its cache; therefore the blocks move into that of such a thread.
///
/// It takes about a tenth of a millisecond: call it when the thread has nothing to do.
pub fn give_back_thread_cache() {
    let (smallest, largest, distance) = CACHED_SIZES;
    let sizes = (smallest..=largest).step_by(distance);
    let of_size = |size| (0..CACHED).map(move |_| Vec::<u8>::with_capacity(size));
    let blocks: Vec<_> = sizes.flat_map(of_size).collect();
    // Without another thread they stay where they were.
    let _ = std::thread::Builder::new()
        .name("give-back".into())
        .spawn(move || drop(blocks))
        .map(std::thread::JoinHandle::join);
}

/// Returns this process's free memory to the system, all of it if the process allocates from one
/// arena ([`allocate_from_one_arena`]).
///
/// glibc keeps freed memory that lies below memory in use. With a heap of 100 MB the call takes
/// some milliseconds and blocks other threads that allocate, so call it when the process is idle.
pub fn give_back_free_memory() {
    // SAFETY: the function takes no pointer, and locks the data that it accesses.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes in use of all arenas, as glibc counts them.
    fn in_use() -> usize {
        // SAFETY: the function takes no pointer, and locks the data that it reads.
        unsafe { libc::mallinfo2() }.uordblks
    }

    #[test]
    fn free_blocks_of_a_thread_are_given_back() {
        // Tests beside this one allocate and free, too.
        let gave_back = (0..100).any(|_| {
            let blocks: Vec<_> = (0..64)
                .flat_map(|nth| (0..CACHED).map(move |_| vec![1_u8; 24 + 16 * nth]))
                .collect();
            drop(blocks);
            let before = in_use();
            give_back_thread_cache();
            before.saturating_sub(in_use()) > 200_000
        });
        assert!(gave_back);
    }
}
