//! Raises the limit of file descriptors of this process.

/// More than any relay uses. Some programs, such as libca before its repeater, close every possible
/// descriptor one by one before they start another program, which would take minutes without a
/// limit.
const ENOUGH: libc::rlim_t = 1 << 20;

/// Raises the soft limit of file descriptors to the hard one, or to 1,048,576 if that is less.
/// Returns the resulting limit, which is the old one if the system refuses.
pub fn raise_descriptor_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a complete rlimit that outlives the call.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max.min(ENOUGH),
        ..limit
    };
    if told == 0 && limit.rlim_cur < raised.rlim_cur {
        // SAFETY: as above; the function only reads it.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        if done == 0 {
            limit = raised;
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}
