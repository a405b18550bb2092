//! Ends a panic in a function that C calls, logs and counts it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// Counts panics in callbacks since the start of the process.
///
/// Each cost one event of one PV. It is 0 unless the program has a bug.
pub fn panics_caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// Runs the body of a callback. A panic in it ends here: it is logged and counted.
pub(crate) fn guard(callback: &str, body: impl FnOnce()) {
    // Nothing of ours is left half changed by a panic: a callback only stores to atomics and
    // calls the sink, whose own state is the sink's affair.
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
        log::error!("a panic in the {callback} callback cost one event");
    }
}
