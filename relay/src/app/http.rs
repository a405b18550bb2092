//! Binds the HTTP ports and serves them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::Uri;
use pvwire_schema::limits::MAX_REQUEST_BYTES;
use pvwire_schema::types::Hello;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::StartError;
use super::access::Access;
use super::delivery::{Delivery, DeliveryShared};
use super::ingest::Ingest;
use crate::config::{Auth, Config};
use crate::doors::coniql::Coniql;
use crate::doors::pvws::site::Site;
use crate::http::admin::{Admin, LastOverview, LastText};
use crate::http::saved::SavedLists;
use crate::http::screens::Screens;
use crate::http::server::{
    Audience, Disconnections, Gate, HeaderCase, Listening, PvRoutes, RefusedPages, Server, Trust,
};
use crate::http::tls::Tls;
use crate::ingest::name_services::NameService;
use crate::ingest::search;
use crate::limits::connections::Clients;
use crate::limits::descriptors::Descriptors;
use crate::limits::lines::Lines;
use crate::ops::pulse::Pulse;
use crate::ops::rhythm;
use crate::ops::shutdown::Readiness;
use crate::queries::archiver::Archivers;
use crate::queries::history::Histories;
use crate::queries::names::Names;

/// How often a client should acknowledge while frames arrive.
const ACK_INTERVAL: Duration = Duration::from_millis(500);

/// Interval of the pulse of the HTTP server's thread.
const PULSE_EVERY: Duration = Duration::from_secs(1);

/// Lines of the log about threads that hang: a second, and at once.
const HANGS_PER_S: usize = 1;
const HANGS_AT_ONCE: usize = 10;

/// The bound ports.
pub(super) struct Listeners {
    clients: TcpListener,
    /// Where `clients` is bound, which port 0 leaves open.
    address: SocketAddr,
    operators: Option<TcpListener>,
}

/// The served ports.
pub(super) struct Serving {
    _listening: Listening,
    _tasks: JoinSet<()>,
}

/// Shows that the thread of the HTTP server makes progress.
async fn keep_pulse(server: Arc<Server>) {
    loop {
        server.admin.http_pulse.turned(Instant::now());
        rhythm::next(PULSE_EVERY).await;
    }
}

impl Listeners {
    pub(super) async fn bind(config: &Config) -> Result<Self, StartError> {
        let clients = bind("listen", config.listen).await?;
        let operators = match config.admin_listen {
            None => None,
            Some(address) => Some(bind("admin_listen", address).await?),
        };
        Ok(Self {
            address: clients.local_addr()?,
            clients,
            operators,
        })
    }

    /// Serves until the result is dropped.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn serve(self, server: &Arc<Server>) -> io::Result<Serving> {
        let mut listeners = Vec::new();
        if let Some(listener) = self.operators {
            if let Ok(address) = listener.local_addr() {
                log::info!("pages and probes at http://{address}");
            }
            listeners.push((listener.into_std()?, Audience::Operators));
        }
        let scheme = if server.tls.is_some() {
            "https"
        } else {
            "http"
        };
        log::info!("listening on {scheme}://{}", self.address);
        listeners.push((self.clients.into_std()?, Audience::Clients));
        let (listening, accepted) = Listening::start(server, listeners)?;
        let mut tasks = JoinSet::new();
        tasks.spawn_local(Arc::clone(server).serve(accepted));
        tasks.spawn_local(keep_pulse(Arc::clone(server)));
        Ok(Serving {
            _listening: listening,
            _tasks: tasks,
        })
    }

    /// Where clients connect.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    fn has_operators(&self) -> bool {
        self.operators.is_some()
    }
}

async fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| StartError::Bind {
        key,
        address,
        source,
    })
}

/// What the HTTP server needs besides the planes.
pub(super) struct Front {
    pub(super) started: Instant,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) descriptors: Descriptors,
    pub(super) coniql: Option<Coniql>,
    pub(super) names: Arc<Names>,
    pub(super) histories: Arc<Histories>,
    pub(super) archivers: Option<Arc<Archivers>>,
    pub(super) name_services: Vec<Arc<NameService>>,
    pub(super) screens: Option<Screens>,
    pub(super) saved: Option<SavedLists>,
    pub(super) header_case: HeaderCase,
}

/// The HTTP server over the running planes.
pub(super) fn server(
    config: &Config,
    listeners: &Listeners,
    front: Front,
    (shared, ingest, access): (DeliveryShared, Ingest, Access),
    delivery: &Delivery,
) -> Server {
    Server {
        gate: Gate {
            readiness: front.readiness,
            trust: Trust {
                origins: config.allow_origin.clone(),
                hosts: host_names(config),
                encrypted: front.tls.is_some(),
            },
            clients: Clients::new(config.max_clients),
            callers: shared.callers,
            descriptors: front.descriptors,
            proxies: access.proxies,
            proxy_headers: access.headers,
            tokens: access.tokens,
            token_cookie: config.jwt_cookie.clone(),
            pages: config.pages,
            disconnect_access: config.disconnect_access.clone(),
            has_admin_listener: listeners.has_operators(),
            registry: Arc::clone(&ingest.registry),
            memory: Arc::clone(&shared.memory),
            plain_clients: Arc::clone(&delivery.plain_clients),
        },
        admin: Admin {
            metrics: shared.metrics,
            ticks: Arc::clone(&delivery.ticks),
            http_pulse: Pulse::default(),
            overview: LastOverview::default(),
            last_text: LastText::default(),
            intake: ingest.intake,
            registry: ingest.registry,
            control: Arc::clone(&delivery.control),
            shards: delivery.handles.clone(),
            queries: Arc::clone(&delivery.queries),
            plain_clients: Arc::clone(&delivery.plain_clients),
            memory: shared.memory,
            hello: shared.hello,
            peers: shared.peers,
            started: front.started,
            audit: access.audit,
            name_services: front.name_services,
            searched: search::addresses(|name| std::env::var(name).ok()),
            limits: limits(config),
        },
        encodings: shared.encodings,
        refused_pages: RefusedPages::default(),
        hangs: Mutex::new(Lines::new(HANGS_PER_S, HANGS_AT_ONCE, front.started)),
        requests: shared.limits.requests,
        evict_after: config.evict_after,
        tls: front.tls,
        pv: config
            .http_api
            .then(|| PvRoutes::new(config.not_found_after)),
        pvws: config.pvws.then(|| Site::new(config)),
        coniql: front.coniql,
        names: front.names,
        histories: front.histories,
        archivers: front.archivers,
        screens: front.screens,
        saved: front.saved,
        header_case: front.header_case,
        pool: shared.pool,
        app: config.app,
        confirm_put: config.confirm_put.clone(),
        disconnections: Disconnections::new(front.started),
        demo_page: config.demo_page,
    }
}

/// The limits that the status shows; 0 stands for no limit where the key says so.
fn limits(config: &Config) -> Value {
    json!({
        "clients": config.max_clients,
        "clientsPerUser": config.max_clients_per_user,
        "connectionsPerAddress": config.max_connections_per_address,
        "pvs": config.max_pvs,
        "memoryBytes": config.max_memory_mib << 20,
        "subscriptionsPerClient": config.max_subscriptions,
        "requestsPerSecond": config.max_requests_per_s,
        "putsPerSecond": config.max_puts_per_s,
    })
}

/// Names by which clients may address this relay: also that by which the fleet's clients are told of it.
fn host_names(config: &Config) -> Vec<String> {
    let member: Option<Uri> = config.member_url.parse().ok();
    let member = member.and_then(|url| url.host().map(str::to_owned));
    config.allow_host.iter().cloned().chain(member).collect()
}

/// What every client is told first.
pub(super) fn hello(config: &Config) -> Result<Hello, StartError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)?;
    Ok(Hello {
        relay_version: env!("CARGO_PKG_VERSION").to_owned(),
        relay_instance: u64::from_ne_bytes(random),
        max_request_bytes: MAX_REQUEST_BYTES as u32,
        max_subscriptions: config.max_subscriptions as u32,
        ack_interval_ms: ACK_INTERVAL.as_millis() as u32,
        not_found_after_ms: config.not_found_after.as_millis() as u32,
        authenticate: config.auth == Auth::Jwt,
        user: String::new(),
        expires_in_ms: 0,
        relays: Vec::new(),
        crowded: false,
    })
}
