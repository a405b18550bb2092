//! A source whose PVs the relays of a fleet share: each PV is opened by one of them and fed to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use super::command::FleetCommand;
use super::pv::{FleetPv, shared_key};
use crate::ingest::{
    Call, Line, Monitor, OpDone, OpTicket, OpenError, Overload, Put, Queue, Source,
};

/// Wraps a source of PVs.
pub(super) struct FleetSource {
    inner: Arc<dyn Source>,
    commands: Sender<FleetCommand>,
    numbers: Arc<AtomicU64>,
}

impl FleetSource {
    pub(super) fn new(
        inner: Box<dyn Source>,
        commands: Sender<FleetCommand>,
        numbers: Arc<AtomicU64>,
    ) -> Self {
        Self {
            inner: inner.into(),
            commands,
            numbers,
        }
    }
}

impl Source for FleetSource {
    fn scheme(&self) -> &'static str {
        self.inner.scheme()
    }

    fn key<'a>(&self, name: &'a str) -> &'a str {
        self.inner.key(name)
    }

    fn inputs(&self, name: &str) -> Arc<[String]> {
        self.inner.inputs(name)
    }

    fn open(&self, name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let source = Arc::clone(&self.inner);
        let pv = Arc::new(FleetPv::new(number, source, name, line, queue));
        // The thread lives as long as the registry.
        let _ = self.commands.send(FleetCommand::Opened(Arc::clone(&pv)));
        Ok(Box::new(FleetMonitor {
            pv,
            commands: self.commands.clone(),
        }))
    }

    fn has_room(&self, name: &str) -> Result<(), Overload> {
        self.inner.has_room(name)
    }

    fn value_bytes(&self, name: &str) -> usize {
        self.inner.value_bytes(name)
    }

    fn call(&self, name: &str, call: Call, done: OpDone) -> OpTicket {
        let ticket = OpTicket::default();
        let command = FleetCommand::Call {
            key: shared_key(&*self.inner, name),
            name: name.to_owned(),
            source: Arc::clone(&self.inner),
            call,
            done,
            ticket: ticket.clone(),
        };
        let _ = self.commands.send(command);
        ticket
    }

    fn renew(&self) {
        self.inner.renew();
    }
}

struct FleetMonitor {
    pv: Arc<FleetPv>,
    commands: Sender<FleetCommand>,
}

impl Monitor for FleetMonitor {
    fn load(&self) -> u64 {
        self.pv.monitor().as_ref().map_or(0, |inner| inner.load())
    }

    fn lingers(&self) -> bool {
        // A local PV loses its value with the last client of all relays.
        self.pv.source.scheme() != "loc"
    }

    fn describe(&self) -> bool {
        self.pv.is_described.store(true, Ordering::Release);
        if let Some(next) = &*self.pv.next() {
            next.describe();
        }
        // It may move at this moment.
        let _ = self.commands.send(FleetCommand::Describe(self.pv.number));
        if let Some(inner) = &*self.pv.monitor() {
            return inner.describe();
        }
        self.pv.source.scheme() == "ca"
    }

    fn put(&self, put: Put, done: OpDone) -> OpTicket {
        let (put, done) = match self.pv.put_in_order(put, done) {
            Ok(ticket) => return ticket,
            Err(back) => back,
        };
        let ticket = OpTicket::default();
        let command = FleetCommand::Put {
            pv: Arc::clone(&self.pv),
            put,
            done,
            ticket: ticket.clone(),
        };
        let _ = self.commands.send(command);
        ticket
    }
}

impl Drop for FleetMonitor {
    fn drop(&mut self) {
        self.pv.is_closed.store(true, Ordering::Release);
        self.pv.close_next();
        self.pv.close();
        let _ = self.commands.send(FleetCommand::Closed(self.pv.number));
    }
}
