//! Services that list names of PVs: ChannelFinder, with what it knows of them, and archivers. One thread reads all names of
//! each of them, and again after an interval, so that their delays and answers reach no client. Until a reading is complete,
//! and when it fails, the names of the last one stay.

mod archiver;
mod channelfinder;
mod fetch;
mod gathered;
mod page;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::setpriority_process;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use self::channelfinder::authorization;
use self::fetch::Fetch;
use self::gathered::Gathered;
use self::page::Pages;
use super::directory::{Directory, NameList, Origin};
use crate::config::Config;
use crate::ops::metrics::Metrics;

pub use self::channelfinder::CredentialsError;

/// Name of the thread.
const THREAD: &str = "name-services";

/// How far the thread yields to others (`nice`): to read a million names takes seconds.
const NICE: i32 = 10;

/// Pause after the first failure; after each further one it is twice as long, up to the interval.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// The names of a service.
pub struct NameService {
    /// As the operator named it.
    address: String,
    reading: Reading,
    interval: Duration,
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

/// How the names of a service are read.
enum Reading {
    ChannelFinder(channelfinder::Reading),
    Archiver(archiver::Reading),
}

#[derive(Default)]
struct State {
    lists: Vec<Arc<NameList>>,
    names: usize,
    last_read: Option<SystemTime>,
    failure: Option<String>,
}

/// What operators are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServiceHealth {
    /// What it is: `ChannelFinder` or `archiver`.
    pub kind: &'static str,
    /// As the operator named it.
    pub address: String,
    /// Number of names.
    pub names: usize,
    /// When they were read; `None` for never.
    pub last_read: Option<SystemTime>,
    /// Why they could not be read again, and who must act.
    pub failure: Option<String>,
}

/// The thread. Dropping it ends it, whatever it waits for.
pub struct NameServicesThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Refuses a file with a user and a password that can't be used.
///
/// # Errors
/// When it can't be read, or isn't `USER:PASSWORD`.
pub fn check_file(config: &Config) -> Result<(), CredentialsError> {
    let path = &config.channelfinder_credentials;
    if path.is_empty() {
        return Ok(());
    }
    authorization(path).map(drop)
}

/// The services that the configuration names, and the thread that reads them.
///
/// # Errors
/// When the system gives no thread.
pub fn start(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> io::Result<(Vec<Arc<NameService>>, NameServicesThread)> {
    let service = |address: String, reading, interval| {
        Arc::new(NameService {
            address,
            reading,
            interval,
            state: Mutex::default(),
            metrics: Arc::clone(metrics),
        })
    };
    let default_scheme = &config.default_source;
    let finder = config.channelfinder.iter().map(|url| {
        let reading = channelfinder::Reading {
            pages: Pages::new(&url.service, &url.query),
            credentials: config.channelfinder_credentials.clone(),
            properties: config.channelfinder_property.clone(),
            default_scheme: default_scheme.clone(),
            fetch: Fetch {
                service: &channelfinder::SERVICE,
                patience: config.channelfinder_timeout,
            },
        };
        let reading = Reading::ChannelFinder(reading);
        service(url.to_string(), reading, config.channelfinder_interval)
    });
    let interval = config.archiver_names_interval;
    let archivers = config.archiver.iter().filter(|_| !interval.is_zero());
    let archivers = archivers.map(|rule| {
        let reading = archiver::Reading::new(rule, default_scheme, config.archiver_timeout);
        service(rule.to_string(), Reading::Archiver(reading), interval)
    });
    let services: Vec<_> = finder.chain(archivers).collect();
    let thread = NameServicesThread::start(&services)?;
    Ok((services, thread))
}

impl NameServicesThread {
    fn start(services: &[Arc<NameService>]) -> io::Result<Self> {
        if services.is_empty() {
            return Ok(Self {
                stop: None,
                thread: None,
            });
        }
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let services = services.to_vec();
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            // On Linux this is the priority of the calling thread. Without it the thread only yields less.
            let _ = setpriority_process(None, NICE);
            let local = LocalSet::new();
            for service in services {
                local.spawn_local(async move { service.keep_fresh().await });
            }
            // The other end is dropped when the relay stops.
            let _ = local.block_on(&runtime, stopped);
            drop(local);
            // Doesn't wait for a name that is being resolved.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Reading {
    /// The kind of service, as the log names it.
    fn kind(&self) -> &'static str {
        match self {
            Self::ChannelFinder(_) => "ChannelFinder",
            Self::Archiver(_) => "archiver",
        }
    }

    /// All names, or why there are none and who must act.
    async fn all(&self) -> Result<Gathered, String> {
        match self {
            Self::ChannelFinder(reading) => reading.all().await.map_err(|error| error.to_string()),
            Self::Archiver(reading) => reading.all().await.map_err(|error| error.to_string()),
        }
    }
}

impl NameService {
    /// Reads the names, for ever.
    async fn keep_fresh(&self) {
        let mut retry = FIRST_RETRY;
        loop {
            let begun = Instant::now();
            let pause = match self.reading.all().await {
                Ok(names) => {
                    self.replace(names.into_lists(), begun.elapsed());
                    retry = FIRST_RETRY;
                    self.interval
                }
                Err(error) => {
                    self.failed(error);
                    let pause = retry.min(self.interval);
                    retry = retry.saturating_mul(2);
                    pause
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All names were read.
    fn replace(&self, lists: Vec<Arc<NameList>>, took: Duration) {
        let names = lists.iter().map(|list| list.len()).sum();
        let now = SystemTime::now();
        let before = std::mem::replace(
            &mut *self.state(),
            State {
                lists,
                names,
                last_read: Some(now),
                failure: None,
            },
        );
        let (kind, address) = (self.reading.kind(), &self.address);
        let ms = took.as_millis();
        if before.last_read.is_none() || before.failure.is_some() {
            log::info!("{kind} {address} lists {names} names, read in {ms} ms");
        } else {
            log::debug!("{kind} {address} lists {names} names, read in {ms} ms");
        }
        let metrics = &self.metrics;
        if let Reading::ChannelFinder(_) = self.reading {
            let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
            metrics.channelfinder_reads.inc();
            metrics.channelfinder_names.set(names as i64);
            metrics.channelfinder_failing.set(0);
            metrics.channelfinder_read.set(since.as_secs() as i64);
        } else {
            metrics
                .archiver_names
                .inc_by(names as i64 - before.names as i64);
            metrics
                .archiver_names_failing
                .dec_by(before.failure.is_some().into());
        }
    }

    /// The names could not be read. The same reason is logged once.
    fn failed(&self, why: String) {
        let mut state = self.state();
        if state.failure.as_ref() != Some(&why) {
            let (kind, address, names) = (self.reading.kind(), &self.address, state.names);
            log::warn!(
                "{kind} {address} {why}; clients are offered the {names} names that were read before"
            );
        }
        let is_new = state.failure.replace(why).is_none();
        if let Reading::ChannelFinder(_) = self.reading {
            self.metrics.channelfinder_failures.inc();
            self.metrics.channelfinder_failing.set(1);
        } else {
            self.metrics.archiver_names_failing.inc_by(is_new.into());
        }
    }

    /// What operators are told.
    #[must_use]
    pub fn health(&self) -> NameServiceHealth {
        let state = self.state();
        NameServiceHealth {
            kind: self.reading.kind(),
            address: self.address.clone(),
            names: state.names,
            last_read: state.last_read,
            failure: state.failure.clone(),
        }
    }
}

impl Directory for NameService {
    fn origin(&self) -> Origin {
        match self.reading {
            Reading::ChannelFinder(_) => Origin::ChannelFinder,
            Reading::Archiver(_) => Origin::Archiver,
        }
    }

    fn lists(&self) -> Vec<Arc<NameList>> {
        self.state().lists.clone()
    }
}

impl Drop for NameServicesThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}
