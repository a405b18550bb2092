//! Tells the timers of libca when names are searched; at other times their threads sleep.
//!
//! The timers are in `ca-sys/shim/timer_queue.cpp`, which says why. Without the feature `interpose`
//! they are libCom's own and need not be told.

/// The calling thread has created a channel in its context, whose name is now searched.
pub(super) fn search_starts() {
    #[cfg(feature = "interpose")]
    // SAFETY: the function has no arguments and may be called in every thread.
    unsafe {
        ca_sys::ca_sys_search_starts();
    }
}

/// A channel was disconnected; libca will search its name again.
pub(super) fn circuit_lost() {
    #[cfg(feature = "interpose")]
    // SAFETY: as above.
    unsafe {
        ca_sys::ca_sys_circuit_lost();
    }
}
