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

use std::sync::Arc;
use std::time::Instant;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::spawn_local;

pub use self::check::check;
pub use self::error::StartError;

use self::access::Access;
use self::delivery::{Delivery, Shared};
use self::fleet::Joining;
use self::http::{Front, Listeners};
use self::ingest::Ingest;
use self::stop::StopSignals;
use crate::access::keys;
use crate::compute::Pool;
use crate::config::{Asked, Config, ConfigError};
use crate::doors::coniql::Coniql;
use crate::http::reload::Reload;
use crate::http::server::HeaderCase;
use crate::http::tls::Tls;
use crate::limits::Limits;
use crate::limits::connections::Callers;
use crate::limits::descriptors::Descriptors;
use crate::limits::memory::Memory;
use crate::ops::metrics::Metrics;
use crate::ops::shutdown::Readiness;

/// Runs the relay until a signal stops it. `read` reads the configuration again while it runs. Needs a
/// `LocalSet`.
///
/// # Errors
/// When it can't start.
pub async fn run(
    config: Config,
    read: impl Fn() -> Result<Asked, ConfigError> + Send + Sync + 'static,
    descriptors: Descriptors,
) -> Result<(), StartError> {
    let started = Instant::now();
    let tls = open_tls(&config)?;
    fleet::check_files(&config)?;
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
    let ingest = Ingest::start(&config, &metrics, joining.as_ref(), &pool.handle())?;
    let readiness = Arc::new(Readiness::default());
    spawn_local(memory::watch(
        Arc::clone(&ingest.registry),
        Arc::clone(&readiness),
        config.max_memory_mib << 20,
    ));
    let limits = Limits::of(&config);
    let coniql = config.coniql.then(|| Coniql::new(&config));
    let (errands, ordered) = unbounded_channel();
    let shared = Shared {
        limits,
        callers: Callers::new(limits.callers),
        memory: Memory::with_cpu(limits.memory, limits.cpu),
        pool: pool.handle(),
        metrics: Arc::clone(&metrics),
        hello: http::hello(&config)?,
        neighbours: Arc::default(),
        encodings: Arc::new(delivery::encodings(&config, coniql.as_ref())),
        errands,
    };
    let access = Access::start(&config).await?;
    let delivery = Delivery::start(&config, &shared, &ingest, &access, joining)?;

    let reload = Reload::new(
        config.clone(),
        Arc::clone(&ingest.registry),
        delivery.handles.clone(),
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
        header_case: HeaderCase::read().await?,
    };
    let audit = access.audit.clone();
    let planes = (shared, ingest, access);
    let server = Arc::new(http::server(&config, &listeners, front, planes, &delivery));
    spawn_local(memory::return_free(Arc::clone(&server)));
    spawn_local(Arc::clone(&server).run_errands(ordered));

    server.readiness.listening();
    let serving = listeners.serve(&server)?;
    (stop.drained(&config, &server, delivery.fleet.as_ref())).await;
    drop(serving);
    drop(delivery);
    access::finish(audit.as_deref());
    Ok(())
}

/// The certificate and its key, if the configuration names them.
fn open_tls(config: &Config) -> Result<Option<Arc<Tls>>, StartError> {
    let tls = (!config.tls_cert.is_empty()).then(|| Tls::open(&config.tls_cert, &config.tls_key));
    tls.transpose().map_err(StartError::file)
}
