//! The status page's data and the metrics, for operators.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pvwire_schema::types::{Hello, PvId, SkipCause};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::access::audit::{Audit, Health, State};
use crate::fanout::control::{
    ClientId, ControlQueue, ControlRequest, ListedPv, Overview, ServerTraffic, SourceTraffic,
    TableRead,
};
use crate::fanout::set::PvSet;
use crate::ingest::Intake;
use crate::ingest::name_services::NameService;
use crate::limits::memory::{Memory, resident_bytes};
use crate::ops::latency::{Ages, BOUNDS_MICROS};
use crate::ops::log_queue;
use crate::ops::metrics::{AuditReadings, Metrics, PvCounts, Readings, TextFormat};
use crate::ops::pulse::Pulse;
use crate::queries::internal::Queries;
use crate::queries::plain_clients::PlainClients;
use crate::session::peers::Peers;
use crate::session::shard::{ClientSeen, ShardHandle};
use crate::state::registry::Registry;
use crate::state::tick::TickCounters;

/// Maximum number of PVs on the status page.
const LISTED_PVS: usize = 500;

/// Maximum number of clients on the status page.
const LISTED_CLIENTS: usize = 500;

/// How long the status page waits for the tick thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread without a turn for this long hangs. Threads have a turn at least every two
/// seconds, also while the relay is idle or overloaded.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// How long the metrics wait for the tick thread, if they have an earlier answer.
const METRICS_PATIENCE: Duration = Duration::from_millis(80);

/// An answer of the tick thread that is older than this is not shown in place of a late one.
const OVERVIEW_LASTS: Duration = Duration::from_secs(60);

/// The last answer of the tick thread for the metrics.
#[derive(Debug, Default)]
pub struct LastOverview(Mutex<Option<Requested>>);

/// A request for an overview.
#[derive(Debug)]
struct Requested {
    at: Instant,
    /// The answer, unless it is late.
    overview: Option<Overview>,
    /// Gets it when it is late.
    late: Option<oneshot::Receiver<Overview>>,
}

impl LastOverview {
    /// The last answer, which may have come since it was late, if it is not too old.
    fn take(&self) -> Option<Requested> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut last = last.filter(|last| last.at.elapsed() < OVERVIEW_LASTS)?;
        if let Some(mut late) = last.late.take()
            && let Ok(overview) = late.try_recv()
        {
            last.overview = Some(overview);
        }
        last.overview.is_some().then_some(last)
    }

    fn set(&self, requested: Requested) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(requested);
    }
}

/// The last text of the metrics, for all who had asked when it was begun: it takes milliseconds, and the thread of
/// probes makes it.
#[derive(Debug, Default)]
pub struct LastText(Mutex<Option<(Instant, TextFormat, Bytes)>>);

impl LastText {
    /// The text, if it was begun after a request came that asks for this format.
    fn since(&self, asked: Instant, format: TextFormat) -> Option<Bytes> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = last.as_ref();
        let shared = shared.filter(|(begun, of, _)| *begun >= asked && *of == format);
        shared.map(|(.., text)| text.clone())
    }

    fn set(&self, begun: Instant, format: TextFormat, text: Bytes) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((begun, format, text));
    }
}

/// The page at `/`.
pub const STATUS_PAGE: &str = include_str!("status.html");

/// What this page may run and load: its own script and style, and `/status`.
pub const STATUS_POLICY: &str = "default-src 'none'; style-src 'nonce-{NONCE}'; script-src 'nonce-{NONCE}'; \
                                 connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers operators, with what it reads from the other stages.
pub struct Admin {
    /// Counters of the data path.
    pub metrics: Arc<Metrics>,
    /// Counters of the tick thread.
    pub ticks: Arc<TickCounters>,
    /// Turned by the thread of the HTTP server.
    pub http_pulse: Pulse,
    /// What the tick thread has said last of the PVs.
    pub overview: LastOverview,
    /// What the metrics were last.
    pub last_text: LastText,
    /// Where updates come in.
    pub intake: Arc<Intake>,
    /// Open monitors.
    pub registry: Arc<Registry>,
    /// Requests to the tick thread.
    pub control: Arc<ControlQueue>,
    /// The shards.
    pub shards: Vec<ShardHandle>,
    /// Answers questions about PVs.
    pub queries: Arc<Queries>,
    /// The clients of plain HTTP.
    pub plain_clients: Arc<PlainClients>,
    /// The memory of clients' PVs and answers.
    pub memory: Arc<Memory>,
    /// The relay's version and instance, as in the greeting to clients.
    pub hello: Hello,
    /// The relays of the fleet.
    pub peers: Arc<Peers>,
    /// When the relay started.
    pub started: Instant,
    /// The audit file, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// The services whose lists of names the relay reads.
    pub name_services: Vec<Arc<NameService>>,
    /// Where PVs are searched, see [`search::addresses`](crate::ingest::search::addresses).
    pub searched: Value,
    /// The limits that operators set, for the status.
    pub limits: Value,
}

impl Admin {
    /// Connected clients.
    #[must_use]
    pub fn sessions(&self) -> usize {
        let of_shards = self.shards.iter().map(ShardHandle::clients);
        of_shards.sum::<usize>() + self.plain_clients.count()
    }

    /// The first of the relay's threads that hangs.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let now = Instant::now();
        let ages = self.shards.iter().enumerate();
        let ages = ages.map(|(number, shard)| (format!("shard {number}"), shard.turned_ago(now)));
        let ticks = ("the tick thread".to_owned(), self.ticks.pulse.age(now));
        let http = ("the HTTP thread".to_owned(), self.http_pulse.age(now));
        let queries = ("the queries thread".to_owned(), self.queries.idle_for(now));
        let mut all = ages.chain([ticks, http, queries]);
        let (thread, age) = all.find(|(_, age)| *age >= STUCK_AFTER)?;
        Some(format!("{thread} has done nothing for {} s", age.as_secs()))
    }

    /// The tick thread's overview of the PVs; `None` when it doesn't answer.
    async fn overview(&self, limit: usize) -> Option<Overview> {
        let answered = tokio::time::timeout(PATIENCE, self.ask_overview(limit)).await;
        answered.ok().and_then(Result::ok)
    }

    fn ask_overview(&self, limit: usize) -> oneshot::Receiver<Overview> {
        let (answer, asked) = oneshot::channel();
        self.control
            .push(ControlRequest::Overview { limit, answer });
        asked
    }

    /// The overview for the metrics, which are on time: they show the last one while the tick thread is late.
    async fn overview_in_time(&self) -> Option<Overview> {
        let last = self.overview.take();
        let patience = if last.is_some() {
            METRICS_PATIENCE
        } else {
            PATIENCE
        };
        let (at, mut asked) = (Instant::now(), self.ask_overview(0));
        let requested = match tokio::time::timeout(patience, &mut asked).await {
            Ok(answered) => Requested {
                at,
                overview: answered.ok(),
                late: None,
            },
            Err(_) => Requested {
                at: last.as_ref().map_or(at, |last| last.at),
                overview: last.and_then(|last| last.overview),
                late: Some(asked),
            },
        };
        let overview = requested.overview.clone();
        self.overview.set(requested);
        overview
    }

    /// The metrics for Prometheus, with the number of open `connections`.
    pub async fn metrics_text(&self, connections: usize, format: TextFormat) -> Bytes {
        let asked = Instant::now();
        let overview = self.overview_in_time().await;
        if let Some(shared) = self.last_text.since(asked, format) {
            return shared;
        }
        let now = Instant::now();
        let shards = self.shards.iter();
        let readings = Readings {
            monitors: self.registry.monitors(),
            largest_pvs: overview
                .as_ref()
                .map_or_else(Vec::new, |all| all.largest.clone()),
            servers: overview.as_ref().map_or_else(Vec::new, |all| {
                let server = |server: &ServerTraffic| (Arc::clone(&server.name), server.bytes);
                all.servers.iter().map(server).collect()
            }),
            pvs: overview.map(|overview| PvCounts {
                connecting: overview.connecting,
                not_found: overview.not_found,
                connected: overview.connected,
                disconnected: overview.disconnected,
            }),
            sessions: self.sessions(),
            connections,
            shards_turned_ago: shards.map(|shard| shard.turned_ago(now)).collect(),
            ticks_turned_ago: self.ticks.pulse.age(now),
            ticks_late: self.ticks.late.load(Ordering::Relaxed),
            deliveries_late: self.shards.iter().map(ShardHandle::late_total).sum(),
            memory_charged: self.memory.used(),
            memory_short: self.registry.is_short(),
            memory_refused: self.memory.refused() as u64,
            tick_length: Duration::from_micros(self.ticks.length_micros.load(Ordering::Relaxed)),
            ages_received: self.intake.ages().read(),
            updates_received: self.ticks.updates.load(Ordering::Relaxed),
            skipped_by_relay: self.ticks.lost_by_relay.load(Ordering::Relaxed),
            skipped_by_source: self.ticks.lost_by_source.load(Ordering::Relaxed),
            lost_on_bus: self.ticks.lost_on_bus.load(Ordering::Relaxed),
            skipped_by_filter: self.ticks.withheld.load(Ordering::Relaxed),
            updates_stale: self.ticks.stale.load(Ordering::Relaxed),
            array_bytes_copied: self.intake.array_bytes().copied_total(),
            array_bytes_shared: self.intake.array_bytes().shared_total(),
            ca_reads: pvwire_epics::ca::reads_total(),
            ca_paced_reads: pvwire_epics::ca::paced_reads_total(),
            ca_circuits_cut: pvwire_epics::ca::circuits_cut_total(),
            ca_messages_ignored: pvwire_epics::ca::messages_withheld_total(),
            callback_panics: pvwire_epics::panics_caught(),
            audit: self
                .audit_health()
                .map_or_else(AuditReadings::default, |health| AuditReadings {
                    written: health.written,
                    lost: health.lost,
                    queued: health.queued,
                    failing: health.state != State::Writes,
                    last_written: seconds(health.last_written),
                }),
            log_lines_lost: log_queue::lines_lost(),
        };
        let text = Bytes::from(self.metrics.text(readings, format));
        self.last_text.set(now, format, text.clone());
        text
    }

    /// The state of the audit file, if there is one.
    #[must_use]
    pub fn audit_health(&self) -> Option<Health> {
        self.audit.as_ref().map(|audit| audit.health())
    }

    /// The clients that are behind, and then those that were sent the most bytes, in descending order.
    async fn clients_seen(&self) -> Vec<ClientSeen> {
        let mut all = self.plain_clients.seen();
        let asked: Vec<_> = (self.shards.iter())
            .map(|shard| shard.inspect(LISTED_CLIENTS))
            .collect();
        for clients in asked {
            if let Ok(Ok(clients)) = tokio::time::timeout(PATIENCE, clients).await {
                all.extend(clients);
            }
        }
        all.sort_by_key(|seen| Reverse((seen.is_behind, seen.bytes)));
        all.truncate(LISTED_CLIENTS);
        all
    }

    /// The client with this id, if it is there.
    pub async fn client_seen(&self, id: &str) -> Option<ClientSeen> {
        let mut of_http = self.plain_clients.seen().into_iter();
        if let Some(seen) = of_http.find(|seen| seen.id == id) {
            return Some(seen);
        }
        let shard = id.split_once('.')?.0.parse::<usize>().ok()?;
        let found = self.shards.get(shard)?.find(id);
        let found = tokio::time::timeout(PATIENCE, found).await.ok()?.ok()?;
        found.into_iter().next()
    }

    /// The PVs that clients subscribe; `None` when the tick thread doesn't answer.
    pub async fn sets_of(&self, clients: Vec<ClientId>) -> Option<Vec<Arc<PvSet>>> {
        let (answer, sets) = oneshot::channel();
        self.control.push(ControlRequest::Sets { clients, answer });
        tokio::time::timeout(PATIENCE, sets).await.ok()?.ok()
    }

    /// What is known of these PVs, with their numbers of holders; `None` when the tick thread doesn't answer.
    pub async fn pvs_seen(&self, pvs: Vec<(Arc<str>, PvId, usize)>) -> Option<Vec<ListedPv>> {
        let (answer, seen) = oneshot::channel();
        let registry = Arc::clone(&self.registry);
        let read = TableRead::new(move |table| {
            let ids: Vec<_> = pvs.iter().map(|(_, id, _)| *id).collect();
            // A PV that was closed meanwhile may have left its number to another one.
            let names = registry.names(&ids);
            let open = pvs.into_iter().zip(names);
            let open = open.filter(|((name, ..), now)| now.as_ref() == Some(name));
            let seen = open.filter_map(|((name, id, holders), _)| {
                Some(ListedPv::new(name, holders, table.get(id)?))
            });
            // The receiver may be gone meanwhile.
            let _ = answer.send(seen.collect::<Vec<_>>());
        });
        self.control.push(ControlRequest::Read(read));
        tokio::time::timeout(PATIENCE, seen).await.ok()?.ok()
    }

    /// The listed clients, as the status has them.
    async fn client_list(&self) -> Vec<Value> {
        let clients = self.clients_seen().await;
        let of_shards: Vec<_> = clients.iter().filter_map(|seen| seen.client).collect();
        let mut sets = self.sets_of(of_shards).await.map(Vec::into_iter);
        let client = |seen: &ClientSeen| {
            let pvs = match seen.client {
                Some(_) => sets.as_mut().and_then(Iterator::next).map(|set| set.len()),
                None => seen.pv.as_ref().map(|_| 1),
            };
            json!({
                "id": seen.id,
                "address": seen.address,
                "user": seen.user,
                "seconds": seen.connected.as_secs(),
                "bytes": seen.bytes,
                "inStep": seen.is_in_step,
                "behind": seen.is_behind,
                "pvs": pvs,
                "unsent": {
                    "bytes": seen.unsent.bytes,
                    "updates": seen.unsent.updates,
                    "ageMilliseconds": seen.unsent.age.map(|age| age.as_millis() as u64),
                },
                "skipped": seen.unsent.skipped,
            })
        };
        clients.iter().map(client).collect()
    }

    /// The data of the status page, which `/status` also serves as JSON.
    pub async fn status(&self) -> Value {
        // Without an answer, the numbers of PVs and groups are 0.
        let overview = self.overview(LISTED_PVS).await.unwrap_or_default();
        let clients = self.client_list().await;
        let server = |server: &ServerTraffic| json!({ "name": *server.name, "pvs": server.pvs, "connected": server.connected, "bytes": server.bytes });
        let source = |source: &SourceTraffic| json!({ "name": source.name, "pvs": source.pvs, "connected": source.connected, "updates": source.updates, "bytes": source.bytes });
        let ages = |Ages { counts, sum_micros }: Ages| json!({ "counts": counts, "sumMilliseconds": sum_micros as f64 / 1000.0 });
        let puts = self.registry.puts();
        json!({
            "version": self.hello.relay_version,
            "instance": format!("{:016x}", self.hello.relay_instance),
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "puts": { "enabled": puts.enabled, "rules": puts.rules, "accessSecurity": puts.by_access_security },
            "audit": self.audit_health().map(|health| json!({
                "failure": health.state.reason(),
                "stopsPuts": health.stops_puts(),
                "queued": health.queued,
                "written": health.written,
                "lost": health.lost,
                "lastWrittenSeconds": seconds(health.last_written),
            })),
            "nameServices": self.name_services.iter().map(|service| service.health()).map(|health| json!({
                "kind": health.kind,
                "address": health.address,
                "names": health.names,
                "lastReadSeconds": seconds(health.last_read),
                "failure": health.failure,
            })).collect::<Vec<_>>(),
            "searched": self.searched,
            "fleet": self.peers.all(),
            "clients": self.sessions(),
            "shards": self.shards.iter().map(ShardHandle::clients).collect::<Vec<_>>(),
            "groups": overview.groups,
            "monitors": self.registry.monitors(),
            "shortOfMemory": self.registry.is_short(),
            "memoryChargedBytes": self.memory.used(),
            "memoryBytes": resident_bytes(),
            "operations": self.metrics.operations_total(),
            "limits": self.limits,
            "pvs": {
                "connecting": overview.connecting,
                "notFound": overview.not_found,
                "connected": overview.connected,
                "disconnected": overview.disconnected,
            },
            "tickMilliseconds": self.ticks.length_micros.load(Ordering::Relaxed) as f64 / 1000.0,
            "updatesReceived": self.ticks.updates.load(Ordering::Relaxed),
            "updatesSkipped": {
                "relay": self.ticks.lost_by_relay.load(Ordering::Relaxed),
                "source": self.ticks.lost_by_source.load(Ordering::Relaxed),
                "filter": self.ticks.withheld.load(Ordering::Relaxed),
                "bus": self.ticks.lost_on_bus.load(Ordering::Relaxed),
                "behind": self.metrics.skipped_total(SkipCause::Behind),
                "paced": self.metrics.skipped_total(SkipCause::Paced),
            },
            "updatesSent": self.metrics.updates_sent.get(),
            "framesSent": self.metrics.frames_sent.get(),
            "framesSkipped": self.metrics.frames_skipped.get(),
            "catchUps": self.metrics.catch_ups.get(),
            "bytesSent": self.metrics.bytes_sent.get(),
            "clientList": clients,
            "updateAge": {
                "endsMilliseconds": BOUNDS_MICROS.map(|bound| bound / 1000),
                "received": ages(self.intake.ages().read()),
                "sent": ages(self.metrics.ages_sent.read()),
            },
            "servers": overview.servers.iter().map(server).collect::<Vec<_>>(),
            "sources": overview.sources.iter().map(source).collect::<Vec<_>>(),
            "list": overview.pvs.iter().map(pv_json).collect::<Vec<_>>(),
        })
    }
}

/// A PV, as the status has it.
pub(super) fn pv_json(pv: &ListedPv) -> Value {
    json!({ "name": *pv.name, "state": format!("{:?}", pv.state), "clients": pv.holders, "updates": pv.updates, "bytes": pv.bytes, "server": pv.server.as_deref() })
}

/// When something was last done, in seconds past the POSIX epoch; 0 for never.
fn seconds(last: Option<SystemTime>) -> f64 {
    let since = last.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0.0, |since| since.as_secs_f64())
}
