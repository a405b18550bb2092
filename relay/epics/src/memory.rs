//! Returns free memory to the system.

use std::collections::HashMap;
use std::hash::Hash;

use crate::environment::only_thread;

/// A map that occupies more than this many entries is not small.
const MANY: usize = 1024;

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
