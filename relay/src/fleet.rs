//! The fleet: PVs that several relays share over a bus, each of them held by one relay.
//!
//! A source of PVs is wrapped, so that a PV is opened here or fed by the relay that holds it. A sink of the ticker
//! publishes the PVs that other relays want. One thread takes what clients and the bus bring; another one reads the past
//! of PVs for other relays. Nothing of it exists in a relay without a bus.

mod announcements;
mod by_number;
mod command;
mod counters;
mod edge;
mod interest;
mod member;
mod message;
mod name_budget;
mod operations;
mod past;
mod peer;
mod publisher;
mod pv;
mod source;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use pvwire_fleet::members::About;
use pvwire_fleet::{Bus, Receiver, Refusals};

pub use self::command::FleetPast;
pub use self::counters::FleetCounters;
pub use self::past::{NoPage, PastDone, PastPage, PastQuestion};
pub use self::publisher::Publisher;

use self::announcements::Announcements;
use self::command::{FleetCommand, Inbox};
use self::edge::Edge;
use self::interest::Interests;
use self::member::Member;
use self::operations::{Sent, Served};
use self::past::PastServer;
use self::publisher::Orders;
use self::source::FleetSource;
use self::view::View;
use crate::access::audit::Audit;
use crate::config::Hosts;
use crate::fanout::control::{ClientId, ControlQueue};
use crate::ingest::{Intake, Source};
use crate::limits::memory::Memory;
use crate::session::operation::Operations;
use crate::session::peers::Peers;
use crate::state::history::History;
use crate::state::registry::Registry;

/// PVs of this source show the machine that the relay runs on.
const OF_THIS_MACHINE: &str = "sys://";

fn is_of_this_machine(scheme: &str) -> bool {
    OF_THIS_MACHINE.strip_suffix("://") == Some(scheme)
}

/// A fleet's part of this relay before it runs.
pub struct Fleet {
    commands: Sender<FleetCommand>,
    received: mpsc::Receiver<FleetCommand>,
    numbers: Arc<AtomicU64>,
    announcements: Arc<Announcements>,
    waiting_bytes: Arc<AtomicUsize>,
    request_bytes: Arc<AtomicUsize>,
    counters: Arc<FleetCounters>,
    refusals: Arc<Refusals>,
}

/// What the fleet uses of the other planes.
pub struct Planes {
    /// Takes updates to the tick thread.
    pub intake: Arc<Intake>,
    /// The open PVs.
    pub registry: Arc<Registry>,
    /// Requests to the fan-out.
    pub control: Arc<ControlQueue>,
    /// The audit file.
    pub audit: Option<Arc<Audit>>,
    /// Memory accounts.
    pub memory: Arc<Memory>,
    /// Stands for the clients of other relays.
    pub client: ClientId,
    /// The relays of the fleet, for clients and operators.
    pub peers: Arc<Peers>,
    /// Counts the clients of this relay.
    pub clients: Box<dyn Fn() -> u64 + Send>,
    /// Names without a server that another relay may want.
    pub max_unresolved: usize,
    /// Hosts to which clients may be sent.
    pub hosts: Hosts,
    /// The past of this relay's PVs; `None` if it keeps none.
    pub history: Option<History>,
}

impl Default for Fleet {
    fn default() -> Self {
        let (commands, received) = mpsc::channel();
        Self {
            commands,
            received,
            numbers: Arc::default(),
            announcements: Arc::default(),
            waiting_bytes: Arc::default(),
            request_bytes: Arc::default(),
            counters: Arc::default(),
            refusals: Arc::default(),
        }
    }
}

impl Fleet {
    /// Sources whose PVs the relays share.
    #[must_use]
    pub fn share(&self, sources: Vec<Box<dyn Source>>) -> Vec<Box<dyn Source>> {
        let share = |source: Box<dyn Source>| {
            let (commands, numbers) = (self.commands.clone(), Arc::clone(&self.numbers));
            Box::new(FleetSource::new(source, commands, numbers)) as Box<dyn Source>
        };
        let (own, shared): (Vec<_>, Vec<_>) =
            (sources.into_iter()).partition(|source| is_of_this_machine(source.scheme()));
        shared.into_iter().map(share).chain(own).collect()
    }

    /// Takes what the bus brings.
    #[must_use]
    pub fn inbox(&self) -> Arc<dyn Receiver> {
        Arc::new(Inbox {
            commands: self.commands.clone(),
            announcements: Arc::clone(&self.announcements),
            waiting_bytes: Arc::clone(&self.waiting_bytes),
            counters: Arc::clone(&self.counters),
            request_bytes: Arc::clone(&self.request_bytes),
            refusals: Arc::clone(&self.refusals),
        })
    }

    /// Asks the owners of PVs for their past.
    #[must_use]
    pub fn past(&self) -> FleetPast {
        FleetPast::new(self.commands.clone())
    }

    /// What is refused of what other programs send.
    #[must_use]
    pub fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    /// What is counted.
    #[must_use]
    pub fn counters(&self) -> Arc<FleetCounters> {
        Arc::clone(&self.counters)
    }

    /// Starts the threads; returns the sink of the ticker that publishes.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(
        self,
        about: About,
        bus: Arc<dyn Bus>,
        planes: Planes,
    ) -> io::Result<(RunningFleet, Publisher)> {
        let me = about.id;
        let orders = Orders::new(&planes.intake);
        let publisher =
            Publisher::new(Arc::clone(&bus), orders.clone(), Arc::clone(&self.counters));
        let commands = self.commands.clone();
        let woken = std::sync::Mutex::new(commands.clone());
        let wake = Arc::new(move || {
            let woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = woken.send(FleetCommand::Wake);
        });
        let operations = Operations::new(
            planes.client.shard,
            Arc::clone(&planes.registry),
            planes.control,
            planes.audit,
            wake,
        );
        let (past, past_thread) = PastServer::start(planes.history, Arc::clone(&self.refusals))?;
        let member = Member {
            me,
            past,
            view: View::new(about, planes.hosts, Arc::clone(&self.refusals)),
            peers: planes.peers,
            clients: planes.clients,
            counters: Arc::clone(&self.counters),
            edge: Edge::new(
                Arc::clone(&bus),
                me,
                commands.clone(),
                Arc::clone(&self.counters),
                planes.intake,
            ),
            interests: Interests::new(
                me,
                planes.registry,
                orders,
                (planes.max_unresolved, Arc::clone(&self.refusals)),
            ),
            served: Served::new(
                operations,
                planes.memory,
                planes.client,
                Arc::clone(&self.refusals),
            ),
            sent: Sent::new(
                Arc::clone(&bus),
                commands.clone(),
                Arc::clone(&self.counters),
            ),
            bus,
            waiting: Vec::new(),
            waiting_calls: Vec::new(),
            announcements: self.announcements,
            waiting_bytes: self.waiting_bytes,
            request_bytes: self.request_bytes,
            refusals: self.refusals,
            renamed: None,
            keeps: false,
            rests_until: None,
        };
        let received = self.received;
        let thread = thread::Builder::new()
            .name(member::THREAD.into())
            .spawn(move || member.run(&received))?;
        let running = RunningFleet {
            commands,
            counters: self.counters,
            threads: vec![thread, past_thread],
        };
        Ok((running, publisher))
    }
}

/// The running threads. Dropping it ends them.
pub struct RunningFleet {
    commands: Sender<FleetCommand>,
    counters: Arc<FleetCounters>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningFleet {
    /// This relay will stop: other relays take its PVs.
    pub fn drain(&self) {
        let _ = self.commands.send(FleetCommand::Drain);
    }

    /// Whether they have taken them, or no other relay is there.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.counters.is_handed_over.load(Ordering::Relaxed)
    }
}

impl Drop for RunningFleet {
    fn drop(&mut self) {
        let _ = self.commands.send(FleetCommand::End);
        for thread in self.threads.drain(..) {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
