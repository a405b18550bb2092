//! Joins a fleet: connects to the bus, and starts what shares PVs over it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pvwire_fleet::members::About;
use pvwire_fleet::nats::{Nats, Settings};
use pvwire_fleet::seal::{Keys, KeysError, Seals};
use pvwire_fleet::{MemberId, Refusal, Role};
use pvwire_schema::types::Outcome;

use super::StartError;
use crate::config::Config;
use crate::fleet::{Fleet, FleetCounters, Planes, Publisher, RunningFleet};
use crate::ops::file_reads::{FileReads, NO_ANSWER, read_regular, read_text};
use crate::ops::metrics::{FleetReadings, Metrics};
use crate::ops::rhythm;

/// The name of this machine.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Maximum length of a file with credentials or certificates, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Maximum length of a file with keys, in bytes.
const MAX_KEY_FILE: u64 = 16 << 10;

/// Interval between reads of the file with keys.
const KEYS_EVERY: Duration = Duration::from_secs(1);

/// Refuses files that can't be read. They are read again for each connection to the bus, since they may change.
pub(super) fn check_files(config: &Config) -> Result<(), StartError> {
    let files = [
        ("bus_credentials", &config.bus_credentials),
        ("bus_ca", &config.bus_ca),
    ];
    for (key, path) in files.into_iter().filter(|(_, path)| !path.is_empty()) {
        let read = read_regular(path, MAX_FILE);
        read.map_err(|error| StartError::file(format!("{key}: {path}: {error}")))?;
    }
    keys(config)?;
    Ok(())
}

/// Reads a file for the bus. It may have been replaced since the start.
fn read_for_bus(path: &Path) -> io::Result<Vec<u8>> {
    Ok(read_regular(path, MAX_FILE)?)
}

/// What operators should know of a fleet whose messages are not signed.
pub(super) const UNSIGNED: &str = "bus_key is not set: every program that can publish on the bus can speak for relays \
                                   and write PVs as any user that the rules name";

/// The keys that sign the relays' messages, if the configuration names their file.
fn keys(config: &Config) -> Result<Option<Keys>, StartError> {
    let path = &config.bus_key;
    if path.is_empty() {
        return Ok(None);
    }
    let keys = read_keys(path).map(|(_, keys)| Some(keys));
    keys.map_err(|error| StartError::file(format!("bus_key: {path}: {error}")))
}

/// The text of the file, and its keys.
fn read_keys(path: &str) -> Result<(String, Keys), String> {
    let text = read_text(path, MAX_KEY_FILE).map_err(|error| error.to_string())?;
    let keys = text.parse().map_err(|error: KeysError| error.to_string())?;
    Ok((text, keys))
}

/// Reads the keys again, for ever. While they can't be read the previous keys stay in effect.
pub(super) async fn keep_keys_fresh(seals: Arc<Seals>, path: String) {
    let mut reads = FileReads::default();
    let (mut last, mut complaint) = (None, None);
    loop {
        let of_read = path.clone();
        let read = reads.read(move || read_keys(&of_read)).await;
        match read.unwrap_or_else(|| Err(NO_ANSWER.to_owned())) {
            Ok((text, keys)) => {
                if last.as_ref().is_some_and(|last| *last != text) {
                    seals.replace(keys);
                    log::info!("bus_key: {path}: new keys are in effect");
                }
                (last, complaint) = (Some(text), None);
            }
            Err(error) if complaint.as_ref() != Some(&error) => {
                log::error!("bus_key: {path}: {error}; the previous keys stay in effect");
                complaint = Some(error);
            }
            Err(_) => {}
        }
        rhythm::next(KEYS_EVERY).await;
    }
}

/// The operations that other relays were asked for, by kind and outcome; without those that never occurred.
fn operations(counters: &FleetCounters) -> Vec<(&'static str, Outcome, u64)> {
    let kinds = [("put", &counters.puts), ("call", &counters.calls)];
    let each = kinds.into_iter().flat_map(|(kind, counts)| {
        let outcomes = Outcome::ALL.iter().zip(counts);
        outcomes.map(move |(outcome, count)| (kind, *outcome, count.load(Ordering::Relaxed)))
    });
    each.filter(|(_, _, count)| *count > 0).collect()
}

/// A relay that joins a fleet, before its planes run.
pub(super) struct Joining {
    pub(super) fleet: Fleet,
    about: About,
    bus: Arc<Nats>,
    seals: Arc<Seals>,
}

impl Joining {
    /// Connects to the bus, if one is configured. `address` is where the relay serves its clients.
    pub(super) fn begin(config: &Config, address: SocketAddr) -> Result<Option<Self>, StartError> {
        if config.bus.is_empty() {
            return Ok(None);
        }
        let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
        let host = fs::read_to_string(HOST_NAME_FILE).unwrap_or_default();
        let about = About {
            id: MemberId::random()?,
            name: format!("{}:{}", host.trim(), address.port()),
            role: config.role,
            url: (!config.member_url.is_empty()).then(|| config.member_url.clone()),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let fleet = Fleet::default();
        let keys = keys(config)?;
        if keys.is_none() {
            log::warn!("{UNSIGNED}");
        }
        let seals = Arc::new(Seals::new(keys, fleet.refusals()));
        let settings = Settings {
            servers: config.bus.parse().map_err(StartError::file)?,
            read_file: read_for_bus,
            credentials: file(&config.bus_credentials),
            ca: file(&config.bus_ca),
            site: config.site.clone(),
            seals: Arc::clone(&seals),
        };
        let bus = Nats::start(settings, about.id, fleet.inbox());
        let bus = bus.map_err(StartError::thread("the thread of the bus"))?;
        log::info!("relay {} joins the fleet as {}", about.id, about.name);
        Ok(Some(Self {
            fleet,
            about,
            bus: Arc::new(bus),
            seals,
        }))
    }

    /// Signs the messages of the relays.
    pub(super) fn seals(&self) -> Arc<Seals> {
        Arc::clone(&self.seals)
    }

    /// Shows the fleet's numbers among the metrics, which don't keep the bus open.
    pub(super) fn show(&self, metrics: &Metrics) {
        let (counters, bus) = (self.fleet.counters(), Arc::downgrade(&self.bus));
        let refusals = self.fleet.refusals();
        metrics.watch_fleet(move || {
            let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let bus = bus.upgrade()?;
            let passed = bus.counters();
            let members = Role::ALL.into_iter().zip(&counters.members);
            Some(FleetReadings {
                members: members
                    .map(|(role, count)| (role.token(), get(count)))
                    .collect(),
                pvs_owned: get(&counters.pvs_owned),
                pvs_fed: get(&counters.pvs_fed),
                pvs_without_owner: get(&counters.pvs_without_owner),
                moves: get(&counters.moves),
                pvs_with_two_owners: get(&counters.pvs_with_two_owners),
                handovers: vec![
                    ("done", get(&counters.handovers_done)),
                    ("failed", get(&counters.handovers_failed)),
                ],
                handover_time: Duration::from_millis(get(&counters.handover_millis)),
                operations: operations(&counters),
                gaps: get(&counters.gaps),
                damaged: get(&counters.damaged),
                discarded: get(&counters.discarded),
                snapshots: get(&counters.snapshots_out),
                connected: bus.is_connected(),
                connections: get(&passed.connections),
                sent: (get(&passed.messages_sent), get(&passed.bytes_sent)),
                received: (get(&passed.messages_received), get(&passed.bytes_received)),
                refused: get(&passed.messages_refused),
                refusals: Refusal::ALL
                    .map(|why| (why.token(), refusals.count(why)))
                    .to_vec(),
            })
        });
    }

    /// Starts the thread; returns the sink of the ticker that publishes.
    pub(super) fn start(self, planes: Planes) -> Result<(RunningFleet, Publisher), StartError> {
        let started = self.fleet.start(self.about, self.bus, planes);
        started.map_err(StartError::thread("the thread of the fleet"))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn metrics_do_not_keep_the_bus_open() {
        let config = Config {
            bus: "nats://127.0.0.1:1".into(),
            ..Config::default()
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let joining = Joining::begin(&config, address).unwrap().unwrap();
        let metrics = Metrics::default();
        joining.show(&metrics);
        let bus = Arc::downgrade(&joining.bus);
        // As at a planned stop: then the bus sends what waits and ends its connection.
        drop(joining);
        assert!(bus.upgrade().is_none());
    }
}
