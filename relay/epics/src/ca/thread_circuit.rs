//! The circuit that a receive thread of libca reads from; each thread has one.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::liveness::Circuit;

thread_local! {
    static CIRCUIT: OnceCell<Arc<Circuit>> = const { OnceCell::new() };
}

/// The circuit that the calling thread, one of libca's receive threads, reads from.
pub(super) fn of_this_thread() -> Arc<Circuit> {
    CIRCUIT.with(|circuit| Arc::clone(circuit.get_or_init(|| Arc::new(Circuit::new()))))
}

/// Data arrived on the calling thread's circuit.
pub(super) fn heard() {
    // The circuit is not set if no channel is connected by it yet. The access fails if the thread
    // ends.
    let _ = CIRCUIT.try_with(|circuit| circuit.get().map(|circuit| circuit.heard()));
}
