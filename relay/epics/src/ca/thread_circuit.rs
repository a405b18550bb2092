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

/// Something came by the calling thread's circuit.
pub(super) fn heard() {
    // No circuit yet: no channel is connected by it. None any more: the thread ends.
    let _ = CIRCUIT.try_with(|circuit| circuit.get().map(|circuit| circuit.heard()));
}
