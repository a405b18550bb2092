//! A PV that is open at a relay of a fleet: its lines, and its monitor while this relay holds it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ingest::handover::Handover;
use crate::ingest::{Line, Monitor, OpDone, OpTicket, OpenError, Put, Queue, Source};

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
    /// Set while the PV moves to this relay and another still feeds it.
    pub(super) next: Mutex<Option<Box<dyn Monitor>>>,
    /// Why this relay couldn't open it when it last tried.
    pub(super) failure: Mutex<Option<String>>,
    pub(super) is_closed: AtomicBool,
    pub(super) is_described: AtomicBool,
    /// Puts that went by the thread of the fleet and have no outcome.
    pub(super) puts: Arc<AtomicUsize>,
}

/// The name under which all relays know a PV.
pub(super) fn shared_key(source: &dyn Source, name: &str) -> String {
    format!("{}://{}", source.scheme(), source.key(name))
}

/// Counts a put for as long as it has no outcome.
struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl FleetPv {
    /// A PV of `source` that no relay holds yet; `name` is without the source.
    pub(super) fn new(
        number: u64,
        source: Arc<dyn Source>,
        name: &str,
        base: Line,
        queue: Queue,
    ) -> Self {
        Self {
            number,
            key: shared_key(&*source, name),
            name: name.to_owned(),
            queue,
            source,
            base,
            monitor: Mutex::new(None),
            next: Mutex::new(None),
            failure: Mutex::new(None),
            is_closed: AtomicBool::new(false),
            is_described: AtomicBool::new(false),
            puts: Arc::default(),
        }
    }

    /// The name with its source, as requests to other relays have it.
    pub(super) fn whole_name(&self) -> String {
        format!("{}://{}", self.source.scheme(), self.name)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether a client has requested its description.
    pub(super) fn is_described(&self) -> bool {
        self.is_described.load(Ordering::Acquire)
    }

    pub(super) fn monitor(&self) -> MutexGuard<'_, Option<Box<dyn Monitor>>> {
        // The monitor is either there or not.
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next(&self) -> MutexGuard<'_, Option<Box<dyn Monitor>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why this relay has no monitor of it, in words for a client that wants to put.
    pub(super) fn why_closed(&self) -> String {
        match &*self.failure() {
            Some(error) => format!("the PV can't be opened: {error}; nothing was written"),
            None => "the PV was closed; nothing was written".to_owned(),
        }
    }

    /// Opens the monitor of this relay.
    pub(super) fn open(&self) {
        let line = self.base.succeed();
        if let Err(error) = self.open_into(&mut self.monitor(), line) {
            self.base.succeed().missing(error.to_string());
        }
    }

    /// Opens the monitor of this relay while another relay feeds the PV.
    pub(super) fn open_next(&self) -> Arc<Handover> {
        let (line, to) = self.base.hand_over();
        if let Err(error) = self.open_into(&mut self.next(), line) {
            log::warn!("{}: can't be taken over: {error}", self.key);
        }
        to
    }

    fn open_into(
        &self,
        monitor: &mut Option<Box<dyn Monitor>>,
        line: Line,
    ) -> Result<(), OpenError> {
        if self.is_closed() {
            return Ok(());
        }
        let opened = self.source.open(&self.name, line, self.queue);
        *self.failure() = opened.as_ref().err().map(OpenError::to_string);
        let opened = opened?;
        if self.is_described() {
            opened.describe();
        }
        *monitor = Some(opened);
        Ok(())
    }

    /// The PV has moved to this relay.
    pub(super) fn take_next(&self) {
        let next = self.next().take();
        let before = std::mem::replace(&mut *self.monitor(), next);
        drop(before);
        if self.is_closed() {
            self.close();
        }
    }

    /// The PV doesn't move to this relay.
    pub(super) fn close_next(&self) {
        let closed = self.next().take();
        drop(closed);
    }

    /// Closes the monitor of this relay, if it is open.
    pub(super) fn close(&self) {
        let closed = self.monitor().take();
        drop(closed);
    }

    /// Puts by the monitor of this relay, unless the thread of the fleet has puts of this PV: one that overtook them
    /// would be overwritten by an older one.
    ///
    /// # Errors
    /// The put, which must go by the thread of the fleet.
    pub(super) fn put_in_order(&self, put: Put, done: OpDone) -> Result<OpTicket, (Put, OpDone)> {
        let is_next = self.puts.load(Ordering::Acquire) == 0;
        let (put, done) = match is_next.then(|| self.monitor()).as_deref() {
            Some(Some(monitor)) => return Ok(monitor.put(put, done)),
            _ => (put, done),
        };
        self.puts.fetch_add(1, Ordering::AcqRel);
        let under_way = UnderWay(Arc::clone(&self.puts));
        let counted = move |end| {
            // A put that follows the outcome need not go by the thread.
            drop(under_way);
            done(end);
        };
        Err((put, Box::new(counted)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Intake;
    use pvwire_schema::types::PvId;

    /// A source that opens nothing.
    struct Off;

    impl Source for Off {
        fn scheme(&self) -> &'static str {
            "sim"
        }

        fn open(&self, _: &str, _: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
            let why = "it did not start".into();
            Err(OpenError::NoClient {
                protocol: "sim",
                why,
            })
        }
    }

    #[test]
    fn put_to_a_pv_that_cannot_be_opened_says_why() {
        let line = Line::open(&Intake::new(), PvId(0), true);
        let pv = FleetPv::new(0, Arc::new(Off), "X", line, Queue::Front);
        assert_eq!(pv.why_closed(), "the PV was closed; nothing was written");
        pv.open();
        let says = "the PV can't be opened: the relay has no client of sim: it did not start; nothing was written";
        assert_eq!(pv.why_closed(), says);
    }
}
