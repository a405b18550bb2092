//! Returns free memory to the system.

/// Returns this process's free memory to the system.
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
