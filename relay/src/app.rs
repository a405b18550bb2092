//! The whole relay: starts the planes in their order, runs them until a signal, and stops them.

mod access;
mod check;
mod delivery;
mod error;
mod fleet;
mod http;
mod ingest;
mod memory;
mod stop;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::spawn_local;

pub use self::check::check;
pub use self::error::StartError;

use self::access::Access;
use self::delivery::{Delivery, DeliveryShared};
use self::fleet::Joining;
use self::http::{Front, Listeners};
use self::ingest::Ingest;
use self::stop::StopSignals;
use crate::access::keys;
use crate::compute::Pool;
use crate::config::{Config, ConfigError, Invocation};
use crate::doors::coniql::Coniql;
use crate::fanout::control::ControlQueue;
use crate::http::reload::Reload;
use crate::http::saved::SavedLists;
use crate::http::screens::Screens;
use crate::http::server::HeaderCase;
use crate::http::tls::Tls;
use crate::ingest::name_services;
use crate::limits::Limits;
use crate::limits::connections::Callers;
use crate::limits::descriptors::Descriptors;
use crate::limits::memory::Memory;
use crate::ops::metrics::Metrics;
use crate::ops::shutdown::Readiness;
use crate::queries::about::AboutService;
use crate::queries::archiver::{self, ArchiverService};
use crate::queries::history::{Histories, HistoryService, MissedService};
use crate::queries::names::{NameService, Names};
use crate::queries::service::{Service, ServiceTable};
use crate::queries::thread::QueryThread;
use crate::state::found_names::FoundNames;
use crate::state::history::{History, HistoryOptions};

/// Runs the relay until a signal stops it. `read` reads the configuration again while it runs, and `listening` is
/// called with the address of the clients' port when it is served. Needs a `LocalSet`.
///
/// # Errors
/// When it can't start.
pub async fn run(
    config: Config,
    read: impl Fn() -> Result<Invocation, ConfigError> + Send + Sync + 'static,
    descriptors: Descriptors,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), StartError> {
    let started = Instant::now();
    let tls = open_tls(&config)?;
    let screens = Screens::open(&config).map_err(StartError::file)?;
    let saved = SavedLists::open(&config.saved).map_err(StartError::file)?;
    fleet::check_files(&config)?;
    name_services::check_file(&config).map_err(StartError::file)?;
    // Before the port is bound: a signal would kill the relay until then.
    let hangup = signal(SignalKind::hangup())?;
    let mut stop = StopSignals::new()?;
    let listeners = Listeners::bind(&config).await?;
    log::info!("pvwire-relay {}", env!("CARGO_PKG_VERSION"));
    log::info!("settings: {}", config.show_changed());
    log::debug!("all settings: {}", config.show());

    let metrics = Arc::new(Metrics::default());
    let joining = Joining::begin(&config, listeners.address())?;
    if let Some(joining) = joining.as_ref().filter(|_| !config.bus_key.is_empty()) {
        let (seals, path) = (joining.seals(), config.bus_key.clone());
        spawn_local(fleet::keep_keys_fresh(seals, path));
    }
    let pool = Pool::start().map_err(StartError::thread("a thread that computes for clients"))?;
    let mut ingest = Ingest::start(&config, &metrics, joining.as_ref(), &pool.handle())?;
    let replay = ingest.replay.take();
    let readiness = Arc::new(Readiness::default());
    spawn_local(memory::watch(
        Arc::clone(&ingest.registry),
        Arc::clone(&readiness),
        config.max_memory_mib << 20,
    ));
    let limits = Limits::of(&config);
    let found = Arc::new(FoundNames::default());
    let mut directories = ingest.directories.clone();
    directories.push(Arc::clone(&found) as _);
    let (name_services, reading_names) = name_services::start(&config, &metrics)
        .map_err(StartError::thread("the thread that reads lists of names"))?;
    directories.extend((name_services.iter()).map(|service| Arc::clone(service) as _));
    let names = Names::new(Arc::clone(&ingest.registry), directories);
    let options = HistoryOptions::new(&config.history, config.history_memory);
    let history = open_history(&config, options)?;
    let archiving = archiver::start(&config, &ingest.registry, &metrics)
        .map_err(StartError::thread("the thread that asks archivers"))?;
    let archivers = archiving
        .as_ref()
        .map(|(archivers, _)| Arc::clone(archivers));
    let registry = Arc::clone(&ingest.registry);
    let owners = joining.as_ref().map(|joining| joining.fleet.past());
    let histories = Histories::new(registry, history.clone(), archivers.clone(), owners);
    let hello = http::hello(&config)?;
    let instance = hello.relay_instance;
    let control = ControlQueue::new(Arc::clone(&ingest.intake));
    let about = AboutService::new(Arc::clone(&ingest.registry), Arc::clone(&control));
    let mut services: Vec<Arc<dyn Service>> = vec![
        Arc::new(about),
        Arc::new(NameService(Arc::clone(&names))),
        Arc::new(HistoryService::new(Arc::clone(&histories), pool.handle())),
        Arc::new(MissedService::new(Arc::clone(&histories), instance)),
    ];
    if let Some(archivers) = &archivers {
        services.push(Arc::new(ArchiverService(Arc::clone(archivers))));
    }
    let coniql = config.coniql.then(|| Coniql::new(&config));
    let (batches, waiting) = unbounded_channel();
    let shared = DeliveryShared {
        limits,
        callers: Callers::new(limits.callers),
        memory: Memory::with_cpu(limits.memory, limits.cpu),
        pool: pool.handle(),
        metrics: Arc::clone(&metrics),
        hello,
        peers: Arc::default(),
        encodings: Arc::new(delivery::encodings(&config, coniql.as_ref())),
        batches,
        control,
        services: Arc::new(ServiceTable::new(services)),
        found,
        history,
    };
    let access = Access::start(&config).await?;
    let delivery = Delivery::start(&config, &shared, &ingest, &access, joining)?;

    let answering = QueryThread::start(Arc::clone(&delivery.queries), waiting)
        .map_err(StartError::thread("the thread that answers questions"))?;
    let reload = Reload::new(
        config.clone(),
        Arc::clone(&ingest.registry),
        delivery.handles.clone(),
        Arc::clone(&delivery.plain_clients),
        Arc::clone(&metrics),
    );
    spawn_local(reload.keep_fresh(read, hangup));
    if let Some(tokens) = access.tokens.clone() {
        let metrics = Arc::clone(&metrics);
        spawn_local(keys::keep_fresh(tokens, config.clone(), metrics));
    }
    if let Some(tls) = tls.clone() {
        spawn_local(tls.keep_fresh(metrics));
    }
    let front = Front {
        started,
        tls,
        readiness,
        descriptors,
        coniql,
        names,
        histories,
        archivers,
        name_services,
        screens,
        saved,
        header_case: HeaderCase::read().await?,
    };
    let audit = access.audit.clone();
    let planes = (shared, ingest, access);
    let server = Arc::new(http::server(&config, &listeners, front, planes, &delivery));
    spawn_local(memory::return_free(Arc::clone(&server)));

    server.gate.readiness.listening();
    let address = listeners.address();
    let serving = listeners.serve(&server)?;
    listening(address);
    (stop.drained(&config, &server, delivery.fleet.as_ref())).await;
    drop(serving);
    drop(answering);
    drop(archiving);
    drop(reading_names);
    drop(replay);
    drop(delivery);
    access::finish(audit.as_deref());
    Ok(())
}

/// The past of PVs, with what its folder has of it, unless the operator keeps none.
fn open_history(config: &Config, options: HistoryOptions) -> Result<Option<History>, StartError> {
    let folder = &config.history_dir;
    if !options.is_on() {
        if !folder.is_empty() {
            log::warn!("history_dir {folder} isn't used: history keeps nothing of any PV");
        }
        return Ok(None);
    }
    if folder.is_empty() {
        return Ok(Some(History::new(options)));
    }
    let opened = History::open(options, Path::new(folder), config.history_disk as u64);
    opened.map(Some).map_err(StartError::file)
}

/// The certificate and its key, if the configuration names them.
fn open_tls(config: &Config) -> Result<Option<Arc<Tls>>, StartError> {
    let tls = (!config.tls_cert.is_empty()).then(|| Tls::open(&config.tls_cert, &config.tls_key));
    tls.transpose().map_err(StartError::file)
}
