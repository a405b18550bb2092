//! Starts the sources of PVs and the registry that opens their channels.

use std::sync::Arc;

use super::StartError;
use super::fleet::Joining;
use crate::access::rule::{RateCaps, Rules};
use crate::compute::PoolHandle;
use crate::config::{Auth, Config};
use crate::ingest::ca::CaSource;
use crate::ingest::formula::{FormulaSource, OpenedFormulas};
use crate::ingest::host::Hosts;
use crate::ingest::local::LocalSource;
use crate::ingest::pva::PvaSource;
use crate::ingest::sim::SimSource;
use crate::ingest::{Intake, Source};
use crate::ops::metrics::Metrics;
use crate::state::registry::Registry;

/// Values that wait for the next tick may take this part of the memory budget.
const RING_PART: usize = 8;

/// Where updates come in, and the PVs that are open.
pub(super) struct Ingest {
    pub(super) intake: Arc<Intake>,
    pub(super) registry: Arc<Registry>,
    /// Set if the relay has formulas.
    pub(super) formulas: Option<OpenedFormulas>,
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
        let mut sources = sources(config)?;
        if let Some(joining) = joining {
            sources = joining.fleet.share(sources);
        }
        let formulas = formulas(config, &mut sources, pool)?;
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
            formulas,
        })
    }
}

fn sources(config: &Config) -> Result<Vec<Box<dyn Source>>, StartError> {
    let pva = PvaSource::start()?;
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
    if config.pvws {
        let system = SimSource::system();
        let system = system.map_err(StartError::thread("the thread of simulated PVs"))?;
        sources.push(Box::new(LocalSource));
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
