//! How does memory that is free go back to the system?

/// Gives the system back the memory that is free in this process.
///
/// glibc keeps what was freed below memory that is in use, and the more the larger the blocks were
/// that came and went. Takes some milliseconds for a heap of a hundred megabytes, in which other
/// threads wait when they allocate: for quiet moments.
pub fn give_back_free_memory() {
    // SAFETY: the function takes no pointer, and locks what it looks at.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
