//! Returns free memory to the system.

/// Gives the system back the memory that is free in this process.
///
/// glibc keeps freed memory that lies below memory in use. With a heap of 100 MB the call takes some
/// milliseconds, during which other threads wait when they allocate, so call it when little happens.
pub fn give_back_free_memory() {
    // SAFETY: the function takes no pointer, and locks what it looks at.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
