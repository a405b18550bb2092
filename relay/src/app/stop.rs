//! Stops the relay: the signals that end it, and the drain of its clients.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Config;
use crate::fleet::RunningFleet;
use crate::http::server::Server;

/// How long closing handshakes may take after the drain.
const FAREWELLS: Duration = Duration::from_secs(2);

/// How long other relays may take, from the signal on, to take over the PVs of this one.
const HANDOVER: Duration = Duration::from_secs(10);

/// Who stops the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopRequest {
    /// A cluster or a service manager: SIGTERM.
    Cluster,
    /// A user at the terminal: SIGINT.
    Keyboard,
}

/// The signals that stop the relay.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.terminate.recv() => StopRequest::Cluster,
            _ = self.interrupt.recv() => StopRequest::Keyboard,
        }
    }

    /// Waits for a signal, then drains; a second signal ends the drain.
    pub(super) async fn drained(
        &mut self,
        config: &Config,
        server: &Server,
        fleet: Option<&RunningFleet>,
    ) {
        let by = self.next().await;
        let deadline = Instant::now() + HANDOVER;
        if let Some(fleet) = fleet {
            fleet.drain();
        }
        let stopped = async {
            drain(config, server, by).await;
            while fleet.is_some_and(|fleet| !fleet.is_handed_over()) && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = stopped => log::info!("stopped"),
            _ = self.next() => log::warn!("stopped at once by a second signal"),
        }
    }
}

/// Makes `/ready` answer 503, gives the cluster time to notice, then closes clients one by one.
async fn drain(config: &Config, server: &Server, by: StopRequest) {
    server.gate.readiness.draining();
    let clients = server.admin.sessions();
    log::info!("stopping; {clients} clients will be told to reconnect");
    // A cluster may send new clients until it has noticed, even if there are none now.
    if clients == 0 && by == StopRequest::Keyboard {
        return;
    }
    tokio::time::sleep(config.drain_delay).await;
    for shard in &server.admin.shards {
        shard.drain(config.drain_spread);
    }
    server.admin.plain_clients.drain(config.drain_spread);
    let deadline = Instant::now() + config.drain_spread + FAREWELLS;
    while server.admin.sessions() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
