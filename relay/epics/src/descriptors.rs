//! The limit of file descriptors of this process.

use std::ffi::c_int;

/// More than any relay uses. Some programs, such as libca before its repeater, close every possible
/// descriptor one by one before they start another program, which would take minutes without a
/// limit.
const ENOUGH: libc::rlim_t = 1 << 20;

/// Descriptors below the limit that are left to libca, which ends the process without one.
const KEPT: usize = 64;

/// Whether few descriptors are free, as the number of a new one shows: the system takes the lowest.
pub(crate) fn are_scarce(new: c_int) -> bool {
    let limit = limits().map_or(usize::MAX, |limit| as_count(limit.rlim_cur));
    usize::try_from(new).is_ok_and(|new| new.saturating_add(KEPT) >= limit)
}

fn limits() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a complete rlimit that outlives the call.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0;
    (!failed).then_some(limit)
}

fn as_count(limit: libc::rlim_t) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Raises the soft limit of file descriptors to the hard one, or to 1,048,576 if that is less.
/// Returns the resulting limit, which is the old one if the system refuses.
pub fn raise_descriptor_limit() -> usize {
    let Some(mut limit) = limits() else {
        return 0;
    };
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max.min(ENOUGH),
        ..limit
    };
    if limit.rlim_cur < raised.rlim_cur {
        // SAFETY: the pointer is to a complete rlimit, which the function only reads.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        if done == 0 {
            limit = raised;
        }
    }
    as_count(limit.rlim_cur)
}
