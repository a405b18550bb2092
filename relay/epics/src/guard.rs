//! What functions that C calls need: panics in them are caught, logged and counted; and the name of the calling thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// Number of panics in callbacks since the start of the process.
///
/// Each panic lost one event of one PV. The number is 0 unless the program has a bug.
pub fn panics_caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// Runs the body of a callback. Catches, logs and counts a panic.
pub(crate) fn guard(callback: &str, body: impl FnOnce()) {
    // A panic leaves none of our state partly changed: a callback only stores to atomics and calls
    // the sink, which is responsible for its own state.
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
        log::error!("a panic in the {callback} callback cost one event");
    }
}

/// The name of the calling thread and a NUL; empty if the system doesn't provide it.
pub(crate) fn thread_name() -> [u8; 16] {
    // The maximum length of a thread's name, including its NUL.
    let mut name = [0_u8; 16];
    // SAFETY: the call writes a name of at most 16 bytes, the size of the array.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    if failed { [0; 16] } else { name }
}
