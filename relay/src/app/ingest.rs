//! Starts the sources of PVs and the registry that opens their channels.

use std::path::Path;
use std::sync::Arc;

use super::StartError;
use super::fleet::Joining;
use crate::access::rule::{RateCaps, Rules};
use crate::compute::PoolHandle;
use crate::config::{Auth, Config};
use crate::ingest::ca::CaSource;
use crate::ingest::directory::Directory;
use crate::ingest::formula::{FormulaSource, OpenedFormulas};
use crate::ingest::host::Hosts;
use crate::ingest::local::LocalSource;
use crate::ingest::name_files::NameFiles;
use crate::ingest::pva::PvaSource;
use crate::ingest::replay::{Replay, ReplayOptions};
use crate::ingest::sim::SimSource;
use crate::ingest::{Intake, Source};
use crate::limits::memory::Owner;
use crate::ops::metrics::Metrics;
use crate::state::registry::Registry;

/// Values that wait for the next tick may take this part of the memory budget.
const RING_PART: usize = 8;

/// Where updates come in, and the PVs that are open.
pub(super) struct Ingest {
    pub(super) intake: Arc<Intake>,
    pub(super) registry: Arc<Registry>,
    /// Where names of PVs are known from before clients open them.
    pub(super) directories: Vec<Arc<dyn Directory>>,
    /// Set if the relay has formulas.
    pub(super) formulas: Option<OpenedFormulas>,
    /// Set if the relay serves a recording, until it is dropped.
    pub(super) replay: Option<Replay>,
}

impl Ingest {
    /// Starts the sources, and looks up the servers' host names from time to time.
    /// Other relays of a fleet share them, except those of this machine.
    pub(super) fn start(
        config: &Config,
        metrics: &Arc<Metrics>,
        joining: Option<&Joining>,
        pool: &PoolHandle,
    ) -> Result<Self, StartError> {
        let intake = Intake::bounded((config.max_memory_mib << 20) / RING_PART);
        let mut replay = open_replay(config)?;
        let (mut sources, directory) = match &replay {
            Some(replay) => (recorded(config, replay)?, replay.directory()),
            None => sources(config)?,
        };
        if let Some(joining) = joining {
            sources = joining.fleet.share(sources);
        }
        let formulas = formulas(config, &mut sources, pool)?;
        let mut directories = vec![directory];
        if !config.names_file.is_empty() {
            let files = NameFiles::read(&config.names_file, &config.default_source);
            directories.push(Arc::new(files.map_err(StartError::file)?));
        }
        let registry = Registry::new(
            Arc::clone(&intake),
            sources,
            &config.default_source,
            config.linger,
            Rules::read(config).map_err(StartError::file)?,
        );
        let registry =
            (registry.with_max_pvs(config.max_pvs)).with_rate_caps(RateCaps::new(&config.max_rate));
        let registry = Arc::new(registry.shared(joining.is_some()));
        if let Some(replay) = &mut replay {
            hold(&registry, replay);
            let started = replay.start();
            started.map_err(StartError::thread("the thread that replays the recording"))?;
        }
        let (sources, renewed) = (Arc::clone(&registry), Arc::clone(metrics));
        let renew = move |scheme: &str| {
            sources.renew(scheme);
            renewed.sources_renewed.inc();
        };
        let hosts = Hosts::read(|name| std::env::var(name).ok());
        tokio::task::spawn_local(hosts.watch(config.host_lookup, renew));
        Ok(Self {
            intake,
            registry,
            directories,
            formulas,
            replay,
        })
    }
}

/// Opens the recording, if the configuration names one.
pub(super) fn open_replay(config: &Config) -> Result<Option<Replay>, StartError> {
    if config.replay.is_empty() {
        return Ok(None);
    }
    let options = ReplayOptions {
        default_source: &config.default_source,
        speed: config.replay_speed.times(),
        is_looped: config.replay_loop,
    };
    let opened = Replay::open(Path::new(&config.replay), options);
    let opened = opened.map_err(|why| format!("replay: {}: {why}", config.replay));
    opened.map(Some).map_err(StartError::file)
}

/// Opens the recorded PVs, which stay open: their state is known to clients that come later.
fn hold(registry: &Registry, replay: &Replay) {
    let owner = Owner::unlimited();
    for name in replay.names() {
        if let Err(refusal) = registry.acquire_own(name, &owner) {
            log::warn!("replay: {name} can't be served: {refusal}");
        }
    }
}

/// The sources of a recording, and those that need no server.
fn recorded(config: &Config, replay: &Replay) -> Result<Vec<Box<dyn Source>>, StartError> {
    let mut sources = replay.sources();
    sources.extend(local_sources(config)?);
    Ok(sources)
}

/// The sources, and the names of PVs that servers list.
type Sources = (Vec<Box<dyn Source>>, Arc<dyn Directory>);

/// The sources, and the names that servers of pvAccess list.
fn sources(config: &Config) -> Result<Sources, StartError> {
    let pva = PvaSource::start()?;
    let directory = pva.directory();
    let ca = CaSource::new(config.auth != Auth::None, pva.forms());
    let simulated = if config.enable_sim {
        SimSource::start()
    } else {
        Ok(SimSource::off())
    };
    let [sim, ssim, psim] = simulated.map_err(StartError::thread("the thread of simulated PVs"))?;
    let mut sources: Vec<Box<dyn Source>> = vec![
        Box::new(ca),
        Box::new(pva),
        Box::new(sim),
        Box::new(ssim),
        Box::new(psim),
    ];
    sources.extend(local_sources(config)?);
    Ok((sources, directory))
}

/// The sources of this machine for clients of PVWS, and for displays, whose local PVs stay in the page.
fn local_sources(config: &Config) -> Result<Vec<Box<dyn Source>>, StartError> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    if config.pvws {
        sources.push(Box::new(LocalSource));
    }
    if config.pvws || !config.screens.is_empty() {
        let system = SimSource::system();
        let system = system.map_err(StartError::thread("the thread of simulated PVs"))?;
        sources.push(Box::new(system));
    }
    Ok(sources)
}

/// Adds the source of formulas for clients of PVWS.
fn formulas(
    config: &Config,
    sources: &mut Vec<Box<dyn Source>>,
    pool: &PoolHandle,
) -> Result<Option<OpenedFormulas>, StartError> {
    if !config.pvws {
        return Ok(None);
    }
    let source = FormulaSource::start(&config.pvws_default_type, pool.clone());
    let source = source.map_err(StartError::thread("the thread of formulas"))?;
    let opened = source.opened();
    sources.push(Box::new(source));
    Ok(Some(opened))
}
