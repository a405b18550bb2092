//! The command `demo`: an IOC, the relay and a page on this machine alone, from nothing to live values.
//!
//! The IOC is a child process, the relay is this process. All addresses are on loopback, on ports that were free, so
//! the demo finds no PV of the site and no other program finds its PVs.

mod greeting;
mod ioc;
mod network;
mod records;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_local;

use self::greeting::{greeting, say};
use self::ioc::Ioc;
pub use self::network::private_network;
use self::records::PREFIX;
use crate::app::{self, StartError};
use crate::config::{Config, DemoOptions, Invocation};
use crate::limits::descriptors::Descriptors;

/// How long the relay takes to close its clients. They have no other relay to move to.
const DRAIN_SPREAD: Duration = Duration::from_millis(200);

/// A running demo: its IOC, and the settings of its relay.
pub struct Demo {
    ioc: Option<Ioc>,
    config: Config,
}

impl Demo {
    /// Starts the IOC, unless it is unwanted or this machine has none.
    ///
    /// # Errors
    /// When the system gives no pipe or thread.
    pub fn start(options: DemoOptions) -> Result<Self, DemoError> {
        let ioc = if options.simulated {
            None
        } else {
            Ioc::start()?
        };
        Ok(Self {
            ioc,
            config: config(options),
        })
    }

    /// Runs the relay until a signal stops it, then ends the IOC. Needs a `LocalSet`.
    ///
    /// # Errors
    /// When the relay can't start.
    pub async fn run(self, descriptors: Descriptors) -> Result<(), StartError> {
        // A relay takes this signal for a request to read its files again.
        let mut terminal_closed = signal(SignalKind::hangup())?;
        spawn_local(async move {
            terminal_closed.recv().await;
            let _ = kill_process(getpid(), Signal::TERM);
        });
        let config = self.config.clone();
        let read = move || Ok(Invocation::Run(Box::new(config.clone())));
        let ioc = self.ioc;
        let greet = |address| say(&greeting(address, ioc.as_ref().map(Ioc::name)));
        app::run(self.config, read, descriptors, greet).await
    }
}

/// The settings of the relay, on which neither the environment nor a file has influence.
fn config(options: DemoOptions) -> Config {
    Config {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, options.port)),
        allow_origin: options.allow_origin,
        enable_sim: true,
        enable_put: true,
        // Not all that the page shows: one of its set points is there to be refused by the relay.
        allow_put: vec![format!("{PREFIX}:*:SET"), format!("{PREFIX}:OP:MESSAGE")],
        drain_delay: Duration::ZERO,
        drain_spread: DRAIN_SPREAD,
        demo_page: true,
        ..Config::default()
    }
}

/// Why the demo can't start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The IOC's records can't be written.
    #[error("the records of the demo's IOC can't be written to {folder}: {source}")]
    Records {
        /// The folder of temporary files.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// The system gives no pipe or thread.
    #[error("the demo's IOC can't be watched: {0}")]
    System(#[from] io::Error),
}
