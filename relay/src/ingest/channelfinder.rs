//! The names of ChannelFinder's channels, with what it knows of them. One thread reads all of them, page by page, and
//! again after an interval, so that ChannelFinder's delays and answers reach no client. Until a reading is complete, and
//! when it fails, the names of the last one stay.

mod page;
mod reading;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::setpriority_process;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use self::page::Pages;
pub use self::reading::CredentialsError;
use self::reading::{Reading, authorization};
use super::directory::{Directory, NameList, Origin};
use crate::config::Config;
use crate::ops::metrics::Metrics;

/// Name of the thread.
const THREAD: &str = "channelfinder";

/// How far the thread yields to others (`nice`): to read a million channels takes seconds.
const NICE: i32 = 10;

/// Pause after the first failure; after each further one it is twice as long, up to the interval.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// The names of ChannelFinder.
pub struct ChannelFinder {
    /// As the operator named it.
    address: String,
    state: Mutex<State>,
    metrics: Arc<Metrics>,
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
pub struct ChannelFinderHealth {
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
pub struct ChannelFinderThread {
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

/// The names of the ChannelFinder that the configuration names, and the thread that reads them.
///
/// # Errors
/// When the system gives no thread.
pub fn start(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> io::Result<Option<(Arc<ChannelFinder>, ChannelFinderThread)>> {
    let Some(url) = &config.channelfinder else {
        return Ok(None);
    };
    let finder = Arc::new(ChannelFinder {
        address: url.to_string(),
        state: Mutex::default(),
        metrics: Arc::clone(metrics),
    });
    let reading = Reading {
        pages: Pages::new(&url.service, &url.query),
        credentials: config.channelfinder_credentials.clone(),
        properties: config.channelfinder_property.clone(),
        default_scheme: config.default_source.clone(),
        patience: config.channelfinder_timeout,
    };
    let (stop, stopped) = oneshot::channel();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (of_thread, interval) = (Arc::clone(&finder), config.channelfinder_interval);
    let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
        // On Linux this is the priority of the calling thread. Without it the thread only yields less.
        let _ = setpriority_process(None, NICE);
        LocalSet::new().block_on(&runtime, async {
            tokio::select! {
                () = of_thread.keep_fresh(&reading, interval) => {}
                // The other end is dropped when the relay stops.
                _ = stopped => {}
            }
        });
        // Doesn't wait for a name that is being resolved.
        runtime.shutdown_background();
    })?;
    let thread = ChannelFinderThread {
        stop: Some(stop),
        thread: Some(thread),
    };
    Ok(Some((finder, thread)))
}

impl ChannelFinder {
    /// Reads the names, for ever.
    async fn keep_fresh(&self, reading: &Reading, interval: Duration) {
        let mut retry = FIRST_RETRY;
        loop {
            let begun = Instant::now();
            let pause = match reading.all().await {
                Ok(lists) => {
                    self.replace(lists, begun.elapsed());
                    retry = FIRST_RETRY;
                    interval
                }
                Err(error) => {
                    self.failed(error.to_string());
                    let pause = retry.min(interval);
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
        let (address, ms) = (&self.address, took.as_millis());
        if before.last_read.is_none() || before.failure.is_some() {
            log::info!("ChannelFinder {address} lists {names} names, read in {ms} ms");
        } else {
            log::debug!("ChannelFinder {address} lists {names} names, read in {ms} ms");
        }
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.metrics.channelfinder_reads.inc();
        self.metrics.channelfinder_names.set(names as i64);
        self.metrics.channelfinder_failing.set(0);
        self.metrics.channelfinder_read.set(since.as_secs() as i64);
    }

    /// The names could not be read. The same reason is logged once.
    fn failed(&self, why: String) {
        let mut state = self.state();
        if state.failure.as_ref() != Some(&why) {
            let (address, names) = (&self.address, state.names);
            log::warn!(
                "ChannelFinder {address} {why}; clients are offered the {names} names that were read before"
            );
        }
        state.failure = Some(why);
        self.metrics.channelfinder_failures.inc();
        self.metrics.channelfinder_failing.set(1);
    }

    /// What operators are told.
    #[must_use]
    pub fn health(&self) -> ChannelFinderHealth {
        let state = self.state();
        ChannelFinderHealth {
            address: self.address.clone(),
            names: state.names,
            last_read: state.last_read,
            failure: state.failure.clone(),
        }
    }
}

impl Directory for ChannelFinder {
    fn origin(&self) -> Origin {
        Origin::ChannelFinder
    }

    fn lists(&self) -> Vec<Arc<NameList>> {
        self.state().lists.clone()
    }
}

impl Drop for ChannelFinderThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}
