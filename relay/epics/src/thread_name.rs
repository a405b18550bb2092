//! The name of the calling thread, by which the functions that the EPICS libraries call know it.

/// The name of the calling thread and a NUL; empty if the system doesn't provide it.
pub(crate) fn thread_name() -> [u8; 16] {
    // The maximum length of a thread's name, including its NUL.
    let mut name = [0_u8; 16];
    // SAFETY: the call writes a name of at most 16 bytes, the size of the array.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    if failed { [0; 16] } else { name }
}
