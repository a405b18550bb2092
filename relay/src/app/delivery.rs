//! Starts the threads that bring updates to clients: the shards, which write to sockets, and the tick
//! thread, which feeds them.

use std::sync::Arc;

use pvwire_schema::types::Hello;

use super::StartError;
use super::access::Access;
use super::fleet::Joining;
use super::ingest::Ingest;
use crate::compute::PoolHandle;
use crate::config::{Config, Hosts};
use crate::doors::coniql::{Coniql, UnknownSubprotocol};
use crate::doors::pvws::Pvws;
use crate::doors::pvws::formulas::FormulaInputs;
use crate::fanout::control::{ClientId, ControlQueue};
use crate::fanout::distributor::Distributor;
use crate::fanout::encoding::Encodings;
use crate::fanout::flat;
use crate::fanout::output::FrameSink;
use crate::fleet::{Planes, RunningFleet};
use crate::limits::Limits;
use crate::limits::connections::{Callers, Users};
use crate::limits::memory::Memory;
use crate::ops::metrics::Metrics;
use crate::queries::internal::Queries;
use crate::queries::plain_clients::PlainClients;
use crate::queries::watch::{WatchQueue, Watches};
use crate::session::batch::Batches;
use crate::session::peers::Peers;
use crate::session::question::Services;
use crate::session::shard::{Shard, ShardContext, ShardHandle, ShardLimits};
use crate::state::found_names::FoundNames;
use crate::state::history::{History, HistorySink, RunningHistory};
use crate::state::table::Table;
use crate::state::tick::{TickCounters, TickLimits, TickSink, Ticker};

/// What clients share: their limits, what they are told first, and the counters.
pub(super) struct DeliveryShared {
    pub(super) limits: Limits,
    pub(super) callers: Arc<Callers>,
    pub(super) memory: Arc<Memory>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) hello: Hello,
    /// The relays of the fleet.
    pub(super) peers: Arc<Peers>,
    /// The forms in which clients get their messages.
    pub(super) encodings: Arc<Encodings>,
    /// Where the batches of clients go.
    pub(super) batches: Batches,
    /// Requests between two ticks.
    pub(super) control: Arc<ControlQueue>,
    /// Computes for clients.
    pub(super) pool: PoolHandle,
    /// Answers questions.
    pub(super) services: Arc<dyn Services>,
    /// Notes the names of PVs that are found.
    pub(super) found: Arc<FoundNames>,
    /// The past of PVs, unless the operator keeps none.
    pub(super) history: Option<History>,
}

/// The running threads. Dropping it ends the ticks first and then the shards that they feed.
pub(super) struct Delivery {
    /// Set if the relay is in a fleet.
    pub(super) fleet: Option<RunningFleet>,
    _ticker: Ticker,
    _history: Option<RunningHistory>,
    _shards: Vec<Shard>,
    pub(super) control: Arc<ControlQueue>,
    pub(super) handles: Vec<ShardHandle>,
    pub(super) ticks: Arc<TickCounters>,
    pub(super) queries: Arc<Queries>,
    pub(super) plain_clients: Arc<PlainClients>,
}

/// The forms in which clients get their messages: pvwire's own, and those of the doors that are on.
pub(super) fn encodings(config: &Config, coniql: Option<&Coniql>) -> Encodings {
    let mut encodings = flat::encodings();
    if config.pvws {
        encodings.add(Box::new(Pvws::new(config)));
    }
    if let Some(coniql) = coniql {
        // The last one that a client offers is chosen.
        encodings.add(Box::new(UnknownSubprotocol));
        for format in coniql.formats() {
            encodings.add(Box::new(format));
        }
    }
    encodings
}

impl Delivery {
    pub(super) fn start(
        config: &Config,
        shared: &DeliveryShared,
        ingest: &Ingest,
        access: &Access,
        joining: Option<Joining>,
    ) -> Result<Self, StartError> {
        let control = &shared.control;
        let users = Users::new(shared.limits.clients_per_user);
        let shards = shards(config, shared, ingest, access, (control, &users))?;
        let handles: Vec<_> = shards.iter().map(Shard::handle).collect();
        let sinks = handles
            .iter()
            .map(|handle| Box::new(handle.clone()) as Box<dyn FrameSink>);
        let distributor = Distributor::new(
            Arc::clone(control),
            Arc::clone(&ingest.registry),
            sinks.collect(),
            shared.limits.subscriptions,
            &shared.encodings,
        )
        .map_err(StartError::thread("the thread that checks access rights"))?;
        let watches = WatchQueue::new(Arc::clone(&ingest.intake));
        let readers = Watches::new(Arc::clone(&watches), Arc::clone(&shared.metrics));
        let found = shared.found.sink(&ingest.registry);
        let mut sinks: Vec<Box<dyn TickSink>> =
            vec![Box::new(distributor), Box::new(readers), found];
        let queries = Queries::new(
            Arc::clone(&ingest.registry),
            watches,
            handles.clone(),
            shared.pool.clone(),
        );
        let metrics = Arc::clone(&shared.metrics);
        let plain_clients = PlainClients::new(metrics, users, access.tokens.clone());
        if let Some(formulas) = &ingest.formulas {
            sinks.push(Box::new(FormulaInputs::new(formulas.clone())));
        }
        let history = history(shared, ingest)?;
        let history = history.map(|(running, sink)| {
            sinks.push(Box::new(sink));
            running
        });
        let mut fleet = None;
        if let Some(joining) = joining {
            let planes = Planes {
                intake: Arc::clone(&ingest.intake),
                registry: Arc::clone(&ingest.registry),
                control: Arc::clone(control),
                audit: access.audit.clone(),
                memory: Arc::clone(&shared.memory),
                client: others(config, shared),
                peers: Arc::clone(&shared.peers),
                clients: clients_of(handles.clone(), Arc::clone(&plain_clients)),
                max_unresolved: config.max_unresolved,
                hosts: Hosts::new(&config.member_hosts),
                history: shared.history.clone(),
            };
            joining.show(&shared.metrics);
            let (running, publisher) = joining.start(planes)?;
            sinks.push(Box::new(publisher));
            fleet = Some(running);
        }
        let ticks = Arc::new(TickCounters::default());
        let ticker = Ticker::start(
            Arc::clone(&ingest.intake),
            Table::new(config.not_found_after),
            sinks,
            TickLimits {
                shortest: config.shortest_tick,
                longest: config.longest_tick,
            },
            Arc::clone(&ticks),
        )
        .map_err(StartError::thread("the tick thread"))?;
        Ok(Self {
            fleet,
            _ticker: ticker,
            _history: history,
            _shards: shards,
            control: Arc::clone(control),
            handles,
            ticks,
            queries,
            plain_clients,
        })
    }
}

/// Starts what keeps the past of PVs, unless the operator keeps none.
fn history(
    shared: &DeliveryShared,
    ingest: &Ingest,
) -> Result<Option<(RunningHistory, HistorySink)>, StartError> {
    let Some(history) = shared.history.clone() else {
        return Ok(None);
    };
    let started = RunningHistory::start(&history, Arc::clone(&ingest.registry));
    let (running, sink) = started.map_err(StartError::thread("the thread that keeps the past"))?;
    (shared.metrics).watch_history(move || history.readings());
    Ok(Some((running, sink)))
}

/// Counts the clients of this relay.
fn clients_of(shards: Vec<ShardHandle>, plain: Arc<PlainClients>) -> Box<dyn Fn() -> u64 + Send> {
    Box::new(move || {
        let of_shards = shards.iter().map(ShardHandle::clients);
        (of_shards.sum::<usize>() + plain.count()) as u64
    })
}

/// Stands for the clients of other relays.
fn others(config: &Config, shared: &DeliveryShared) -> ClientId {
    ClientId {
        // After those of clients, so that the audit file's numbers differ.
        shard: config.shards,
        index: 0,
        generation: 0,
        encoding: shared.encodings.all()[0],
    }
}

fn shards(
    config: &Config,
    shared: &DeliveryShared,
    ingest: &Ingest,
    access: &Access,
    (control, users): (&Arc<ControlQueue>, &Arc<Users>),
) -> Result<Vec<Shard>, StartError> {
    let context = ShardContext {
        registry: Arc::clone(&ingest.registry),
        control: Arc::clone(control),
        encodings: Arc::clone(&shared.encodings),
        hello: shared.hello.clone(),
        peers: Arc::clone(&shared.peers),
        limits: ShardLimits {
            evict_after: config.evict_after,
            ack_window: config.ack_window,
            ping_after: config.ping_after,
            get_timeout: config.get_timeout,
            put_timeout: config.put_timeout,
            requests: shared.limits.requests,
            new_names: shared.limits.new_names,
        },
        users: Arc::clone(users),
        callers: Arc::clone(&shared.callers),
        memory: Arc::clone(&shared.memory),
        metrics: Arc::clone(&shared.metrics),
        tokens: access.tokens.clone(),
        audit: access.audit.clone(),
        batches: shared.batches.clone(),
        pool: shared.pool.clone(),
        services: Arc::clone(&shared.services),
    };
    (0..config.shards)
        .map(|number| Shard::start(number, context.clone()))
        .collect::<Result<_, _>>()
        .map_err(StartError::thread("a writer thread"))
}
