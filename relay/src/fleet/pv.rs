//! A PV that is open at a relay of a fleet: its lines, and its monitor while this relay holds it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ingest::{Line, Monitor, OpDone, OpTicket, Put, Queue, Source};

/// A PV that is open at this relay.
pub(super) struct FleetPv {
    pub(super) number: u64,
    /// Source and key, by which the relays agree on its owner.
    pub(super) key: String,
    /// As the client wrote it, without the source.
    pub(super) name: String,
    pub(super) queue: Queue,
    pub(super) source: Arc<dyn Source>,
    /// The first line, whose successors feed the PV.
    pub(super) base: Line,
    /// Set while this relay holds the PV.
    pub(super) monitor: Mutex<Option<Box<dyn Monitor>>>,
    pub(super) is_closed: AtomicBool,
    pub(super) is_described: AtomicBool,
}

impl FleetPv {
    /// The name with its source, as another relay is asked for it.
    pub(super) fn whole_name(&self) -> String {
        format!("{}://{}", self.source.scheme(), self.name)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether a client has asked for its description.
    pub(super) fn is_described(&self) -> bool {
        self.is_described.load(Ordering::Acquire)
    }

    pub(super) fn monitor(&self) -> MutexGuard<'_, Option<Box<dyn Monitor>>> {
        // The monitor is either there or not.
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the monitor of this relay.
    pub(super) fn open(&self) {
        let line = self.base.succeed();
        let mut monitor = self.monitor();
        if self.is_closed() {
            return;
        }
        match self.source.open(&self.name, line, self.queue) {
            Ok(opened) => {
                if self.is_described() {
                    opened.describe();
                }
                *monitor = Some(opened);
            }
            Err(error) => self.base.succeed().missing(error.to_string()),
        }
    }

    /// Closes the monitor of this relay, if it is open.
    pub(super) fn close(&self) {
        let closed = self.monitor().take();
        drop(closed);
    }

    /// Puts by the monitor of this relay.
    ///
    /// # Errors
    /// The put, if this relay doesn't hold the PV.
    pub(super) fn put(&self, put: Put, done: OpDone) -> Result<OpTicket, (Put, OpDone)> {
        match &*self.monitor() {
            Some(monitor) => Ok(monitor.put(put, done)),
            None => Err((put, done)),
        }
    }
}
