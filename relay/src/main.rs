//! Starts the relay, runs it and ends it.

#![forbid(unsafe_code)]

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::panic;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use env_logger::Target;
use pvwire_relay::access::audit::{self, Audit};
use pvwire_relay::access::auth;
use pvwire_relay::access::keys;
use pvwire_relay::access::rule::{Identity, Rules};
use pvwire_relay::config::{Asked, Auth, Check, Config, ConfigError};
use pvwire_relay::fanout::control::ControlQueue;
use pvwire_relay::fanout::distributor::Distributor;
use pvwire_relay::fanout::output::FrameSink;
use pvwire_relay::http::admin::Admin;
use pvwire_relay::http::reload::{Reload, refuse_damaged};
use pvwire_relay::http::server::{ProxyHeaders, Server, Side, Trust};
use pvwire_relay::http::tls::Tls;
use pvwire_relay::ingest::ca::CaSource;
use pvwire_relay::ingest::host::Hosts;
use pvwire_relay::ingest::pva::PvaSource;
use pvwire_relay::ingest::search;
use pvwire_relay::ingest::sim::SimSource;
use pvwire_relay::ingest::{Intake, Source};
use pvwire_relay::limits::Limits;
use pvwire_relay::limits::connections::{Callers, Users};
use pvwire_relay::limits::descriptors::Descriptors;
use pvwire_relay::limits::memory::Memory;
use pvwire_relay::ops::log_queue::{self, FlushAtEnd};
use pvwire_relay::ops::metrics::Metrics;
use pvwire_relay::ops::shutdown::Readiness;
use pvwire_relay::session::shard::{Shard, ShardContext, ShardLimits};
use pvwire_relay::state::registry::{Registry, SHORT_OF_MEMORY};
use pvwire_relay::state::table::Table;
use pvwire_relay::state::tick::{TickCounters, TickLimits, Ticker};
use pvwire_schema::limits::MAX_REQUEST_BYTES;
use pvwire_schema::types::Hello;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// "The command was used incorrectly", by sysexits(3).
const EXIT_USAGE: u8 = 64;

/// Of the command `check`: an access is denied.
const EXIT_DENIED: u8 = 1;

/// Of the command `check-audit`: a line doesn't follow from the one before.
const EXIT_CHANGED: u8 = 1;

/// How long the last records may take to be written.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// How often a client should acknowledge while frames arrive.
const ACK_INTERVAL: Duration = Duration::from_millis(500);

/// After the drain, how long farewells may take.
const FAREWELLS: Duration = Duration::from_secs(2);

/// Of the memory budget one in so many bytes may be values that wait for the next tick.
const RING_PART: usize = 8;

/// How often it is looked at whether the process uses more memory than it may.
const MEMORY_EVERY: Duration = Duration::from_millis(250);

/// So many bytes that were charged and are free are worth giving back, when no more come…
const MUCH_BYTES: usize = 4 << 20;

/// … and so many at once.
const VERY_MUCH_BYTES: usize = 256 << 20;

/// After this nothing is on its way any more to those who have gone.
const STRAGGLERS: Duration = Duration::from_millis(1500);

/// So many clients that come or go leave memory that is worth giving back.
const MANY_CLIENTS: usize = 20;

fn main() -> ExitCode {
    let environment = environment();
    let asked = environment.get("PVWIRE_LOG").map_or("", String::as_str);
    // What is asked for one module leaves the others at the default.
    env_logger::Builder::new()
        .parse_filters(&format!("info,{asked}"))
        .format_target(false)
        .target(Target::Pipe(Box::new(log_queue::queue())))
        .init();
    // While there is one thread only.
    pvwire_epics::prepare_environment();
    if let Err(error) = log_queue::start() {
        eprintln!("pvwire-relay: the thread of the log can't start: {error}");
        return ExitCode::FAILURE;
    }
    let _flush = FlushAtEnd;
    pvwire_epics::ca::take_messages();
    // The standard library's own would write to stderr, and hang with it.
    panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        match trace.status() {
            BacktraceStatus::Captured => log::error!("{panic}\n{trace}"),
            _ => log::error!("{panic}"),
        }
    }));
    let descriptors = Descriptors::new(pvwire_epics::raise_descriptor_limit());
    let arguments: Vec<String> = std::env::args().collect();
    // The text that was read last, unless it was damaged.
    let whole = Mutex::new(String::new());
    let read_file = move |path: &str| {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_damaged(whole.as_bytes(), text.as_bytes())?;
        whole.clone_from(&text);
        Ok(text)
    };
    let read = move || Config::read(&arguments, &environment, &read_file);
    let config = match read() {
        Ok(Asked::Run(config)) => *config,
        Ok(Asked::Check(config, check)) => {
            return match self::check(&config, check) {
                Ok((text, allowed)) => {
                    print!("{text}");
                    ExitCode::from(if allowed { 0 } else { EXIT_DENIED })
                }
                Err(error) => {
                    eprintln!("pvwire-relay: {error}");
                    ExitCode::from(EXIT_USAGE)
                }
            };
        }
        Ok(Asked::CheckAudit(files)) => {
            return match audit::check(&files) {
                Ok(found) => {
                    print!("{}", found.text);
                    ExitCode::from(if found.is_whole { 0 } else { EXIT_CHANGED })
                }
                Err(error) => {
                    eprintln!("pvwire-relay: {error}");
                    ExitCode::from(EXIT_USAGE)
                }
            };
        }
        Ok(Asked::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("pvwire-relay: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            log::error!("the runtime can't start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = tokio::task::LocalSet::new().block_on(&runtime, run(config, read, descriptors));
    // A file that hangs is not waited for.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(line)) => {
            eprintln!("pvwire-relay: {line}");
            ExitCode::from(EXIT_USAGE)
        }
        Err(Failure::Start(line)) => {
            log::error!("{line}");
            ExitCode::FAILURE
        }
    }
}

/// The environment's variables; one that isn't text is none of ours.
fn environment() -> BTreeMap<String, String> {
    let text = |text: OsString| text.into_string().ok();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}

/// What a user may do with PVs, a line for each access, and which rule says so; and whether every
/// access is allowed.
fn check(config: &Config, check: Check) -> Result<(String, bool), String> {
    let rules = Rules::read(config)?;
    let identity = Identity {
        user: check.user,
        groups: check.groups,
    };
    let (mut text, mut allowed) = (String::new(), true);
    for pv in &check.pvs {
        let (scheme, name) = pv.split_once("://").unwrap_or((&config.default_source, pv));
        for &access in &check.access {
            let verdict = rules.judge(&identity, scheme, name, access);
            allowed &= verdict.allowed;
            let may = if verdict.allowed { "may" } else { "may not" };
            text += &format!(
                "{identity} {may} {access} {scheme}://{name}: {}\n",
                verdict.because
            );
        }
    }
    Ok((text, allowed))
}

enum Failure {
    /// The operator must change something.
    Usage(String),
    /// The machine doesn't give what is needed.
    Start(String),
}

async fn run(
    config: Config,
    read: impl Fn() -> Result<Asked, ConfigError> + Send + Sync + 'static,
    descriptors: Descriptors,
) -> Result<(), Failure> {
    let started = Instant::now();
    let limits = Limits::of(&config);
    let tls = (!config.tls_cert.is_empty()).then(|| Tls::open(&config.tls_cert, &config.tls_key));
    let tls = tls.transpose().map_err(Failure::Usage)?;
    // Before anybody is told that the relay runs: a signal would kill it until then.
    let hangup = signal(SignalKind::hangup()).map_err(|error| Failure::Start(error.to_string()))?;
    let mut end = Signals::new().map_err(|error| Failure::Start(error.to_string()))?;
    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        Failure::Usage(format!(
            "listen is {:?}, which can't be bound: {error}",
            config.listen
        ))
    })?;
    let admin_listener = match config.admin_listen {
        None => None,
        Some(at) => Some(TcpListener::bind(at).await.map_err(|error| {
            Failure::Usage(format!(
                "admin_listen is {at:?}, which can't be bound: {error}"
            ))
        })?),
    };
    let address = listener
        .local_addr()
        .map_err(|error| Failure::Start(error.to_string()))?;
    log::info!(
        "pvwire-relay {} with {}",
        env!("CARGO_PKG_VERSION"),
        config.show()
    );

    let intake = Intake::bounded((config.max_memory_mib << 20) / RING_PART);
    let pva = PvaSource::start()
        .map_err(|error| Failure::Start(format!("pvAccess can't start: {error}")))?;
    let ca = CaSource::new(config.auth != Auth::None, pva.forms());
    let simulated = if config.enable_sim {
        SimSource::start()
    } else {
        Ok(SimSource::off())
    };
    let [sim, ssim] = simulated
        .map_err(|error| Failure::Start(format!("the generators' thread can't start: {error}")))?;
    let sources: Vec<Box<dyn Source>> =
        vec![Box::new(ca), Box::new(pva), Box::new(sim), Box::new(ssim)];
    let registry = Registry::new(
        Arc::clone(&intake),
        sources,
        &config.default_source,
        config.linger,
        Rules::read(&config).map_err(Failure::Usage)?,
    );
    let registry = Arc::new(registry.with_max_pvs(config.max_pvs));
    let readiness = Arc::new(Readiness::default());
    let watch = MemoryWatch {
        registry: Arc::clone(&registry),
        readiness: Arc::clone(&readiness),
        most: config.max_memory_mib << 20,
    };
    tokio::task::spawn_local(watch.run());
    let memory = Memory::new(limits.memory);
    let control = ControlQueue::new(Arc::clone(&intake));
    let metrics = Arc::new(Metrics::default());
    let (sources, renewed) = (Arc::clone(&registry), Arc::clone(&metrics));
    let renew = move |scheme: &str| {
        sources.renew(scheme);
        renewed.sources_renewed.inc();
    };
    let hosts = Hosts::read(|name| std::env::var(name).ok());
    tokio::task::spawn_local(hosts.watch(config.host_lookup, renew));
    let ticks = Arc::new(TickCounters::default());
    let hello = hello(&config)?;

    let gate = gate(&config)?;
    let proxies = proxies(&config)?;
    let callers = Callers::new(limits.callers);
    let audit = (!config.audit_file.is_empty()).then(|| {
        Audit::start(
            &config.audit_file,
            config.audit_fail_closed,
            config.audit_sync,
        )
        .map_err(|error| Failure::Usage(format!("audit_file: {}: {error}", config.audit_file)))
    });
    let audit = audit.transpose()?.map(Arc::new);
    if let Some(audit) = &audit {
        tokio::task::spawn_local(Arc::clone(audit).watch());
        let mut moved =
            signal(SignalKind::hangup()).map_err(|error| Failure::Start(error.to_string()))?;
        let looks = Arc::clone(audit);
        tokio::task::spawn_local(async move {
            while moved.recv().await.is_some() {
                looks.look();
            }
        });
    }
    let tokens = match config.auth {
        Auth::Jwt => Some(keys::tokens(&config).await.map_err(Failure::Usage)?),
        Auth::None | Auth::TrustedHeader => None,
    };

    let context = ShardContext {
        registry: Arc::clone(&registry),
        control: Arc::clone(&control),
        hello: hello.clone(),
        limits: ShardLimits {
            evict_after: config.evict_after,
            ack_window: config.ack_window,
            ping_after: config.ping_after,
            get_timeout: config.get_timeout,
            put_timeout: config.put_timeout,
            requests: limits.requests,
            new_names: limits.new_names,
        },
        users: Users::new(limits.clients_per_user),
        callers: Arc::clone(&callers),
        memory: Arc::clone(&memory),
        metrics: Arc::clone(&metrics),
        tokens: tokens.clone(),
        audit: audit.clone(),
    };
    let shards = (0..config.shards)
        .map(|number| Shard::start(number, context.clone()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::Start(format!("a writer thread can't start: {error}")))?;
    let handles: Vec<_> = shards.iter().map(Shard::handle).collect();
    let sinks = handles
        .iter()
        .map(|handle| Box::new(handle.clone()) as Box<dyn FrameSink>);
    let distributor = Distributor::new(
        Arc::clone(&control),
        Arc::clone(&registry),
        sinks.collect(),
        limits.subscriptions,
    )
    .map_err(|error| Failure::Start(format!("the thread that judges can't start: {error}")))?;
    let tick_limits = TickLimits {
        shortest: config.shortest_tick,
        longest: config.longest_tick,
    };
    let table = Table::new(config.not_found_after);
    let ticker = Ticker::start(
        Arc::clone(&intake),
        table,
        vec![Box::new(distributor)],
        tick_limits,
        Arc::clone(&ticks),
    )
    .map_err(|error| Failure::Start(format!("the tick thread can't start: {error}")))?;

    let reload = Reload::new(
        config.clone(),
        Arc::clone(&registry),
        handles.clone(),
        Arc::clone(&metrics),
    );
    tokio::task::spawn_local(reload.keep_fresh(read, hangup));
    let admin = Admin {
        metrics,
        ticks,
        intake,
        registry,
        control,
        shards: handles,
        memory,
        hello,
        started,
        audit: audit.clone(),
        searched: search::addresses(|name| std::env::var(name).ok()),
    };
    let server = Arc::new(Server {
        admin,
        readiness: Arc::clone(&readiness),
        trust: Trust {
            origins: config.allow_origin.clone(),
            hosts: config.allow_host.clone(),
            encrypted: !config.tls_cert.is_empty(),
        },
        max_clients: config.max_clients,
        proxies,
        gate,
        tokens: tokens.clone(),
        callers,
        pages: config.pages,
        has_admin_listener: admin_listener.is_some(),
        evict_after: config.evict_after,
        tls: tls.clone(),
        descriptors,
    });
    if let Some(tokens) = tokens {
        let counters = Arc::clone(&server.admin.metrics);
        tokio::task::spawn_local(keys::keep_fresh(tokens, config.clone(), counters));
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    if let Some(tls) = tls {
        tokio::task::spawn_local(tls.keep_fresh(Arc::clone(&server.admin.metrics)));
    }
    tokio::task::spawn_local(give_back_memory(Arc::clone(&server)));
    readiness.listening();
    let mut serving = tokio::task::JoinSet::new();
    if let Some(listener) = admin_listener {
        if let Ok(address) = listener.local_addr() {
            log::info!("pages and probes at http://{address}");
        }
        serving.spawn_local(Arc::clone(&server).serve(listener, Side::Operators));
    }
    log::info!("listening on {scheme}://{address}");
    serving.spawn_local(Arc::clone(&server).serve(listener, Side::Clients));
    let ending = end.next().await;
    tokio::select! {
        () = drain(&config, &server, ending) => log::info!("stopped"),
        _ = end.next() => log::warn!("stopped at once by a second signal"),
    }
    serving.abort_all();
    // Shards after the ticks that feed them, libca after both.
    drop(ticker);
    drop(shards);
    if let Some(audit) = audit {
        audit.finish(LAST_RECORDS);
    }
    Ok(())
}

/// Says that it isn't ready, gives the cluster time to notice, then sends clients elsewhere one by one.
async fn drain(config: &Config, server: &Server, ending: Ending) {
    server.readiness.draining();
    let clients = server.admin.sessions();
    log::info!("stopping; {clients} clients will be told to connect again");
    // A cluster may send new clients until it has noticed, whether the relay has clients or not.
    if clients == 0 && ending == Ending::Keyboard {
        return;
    }
    tokio::time::sleep(config.drain_delay).await;
    for shard in &server.admin.shards {
        shard.drain(config.drain_spread);
    }
    let deadline = Instant::now() + config.drain_spread + FAREWELLS;
    while server.admin.sessions() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Memory that this process occupies.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib = line.trim().strip_suffix(" kB")?.parse::<usize>().ok()?;
    Some(kib << 10)
}

/// Has nothing new taken while the process uses more memory than it may.
struct MemoryWatch {
    registry: Arc<Registry>,
    readiness: Arc<Readiness>,
    most: usize,
}

impl MemoryWatch {
    async fn run(self) {
        let is_over = || resident_bytes().is_some_and(|bytes| bytes > self.most);
        loop {
            let mut is_short = is_over();
            if is_short {
                // Some of it may be free.
                pvwire_epics::give_back_free_memory();
                is_short = is_over();
            }
            if is_short != self.registry.is_short() {
                if is_short {
                    log::warn!("memory in use is over max_memory_mib: {SHORT_OF_MEMORY}");
                } else {
                    log::warn!(
                        "memory in use is within max_memory_mib: new clients are taken again"
                    );
                }
                self.registry.set_short(is_short);
                self.readiness.set_short_of_memory(is_short);
            }
            tokio::time::sleep(MEMORY_EVERY).await;
        }
    }
}

/// When many clients have come or gone and no more do, gives back what they took only meanwhile: first
/// values of a thousand clients are megabytes. So it does when much that was charged is free.
async fn give_back_memory(server: Arc<Server>) {
    let (mut settled, mut before) = (0_usize, 0);
    let (mut given_back, mut released_before) = (0_usize, 0);
    let mut again = None;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let clients = server.admin.sessions();
        let released = server.admin.memory.released();
        let free = released.wrapping_sub(given_back);
        let is_settled = clients == before && clients.abs_diff(settled) >= MANY_CLIENTS;
        let is_free =
            free >= MUCH_BYTES && (released == released_before || free >= VERY_MUCH_BYTES);
        let is_again = again.is_some_and(|at| Instant::now() >= at);
        if is_settled || is_free || is_again {
            // What was on its way to those who have gone is free a little later.
            again = (!is_again).then(|| Instant::now() + STRAGGLERS);
            (settled, given_back) = (clients, released);
            pvwire_epics::give_back_free_memory();
        }
        (before, released_before) = (clients, released);
    }
}

/// Proxies that are believed.
fn proxies(config: &Config) -> Result<Vec<auth::Network>, Failure> {
    let network = |text: &String| {
        let wrong = || format!("trusted_proxy is {text:?}, expected a network, as 10.1.0.0/16");
        auth::Network::read(text).ok_or_else(|| Failure::Usage(wrong()))
    };
    config.trusted_proxy.iter().map(network).collect()
}

/// What a proxy in front says of clients, if it is asked.
fn gate(config: &Config) -> Result<Option<ProxyHeaders>, Failure> {
    if config.auth != Auth::TrustedHeader {
        return Ok(None);
    }
    let wrong = |key: &str, value: &str, expected: &str| {
        Failure::Usage(format!("{key} is {value:?}, expected {expected}"))
    };
    let header = |key, name: &String| {
        name.parse()
            .map_err(|_| wrong(key, name, "the name of a header"))
    };
    let groups = Some(&config.groups_header).filter(|name| !name.is_empty());
    Ok(Some(ProxyHeaders {
        user: header("user_header", &config.user_header)?,
        groups: (groups.map(|name| header("groups_header", name))).transpose()?,
    }))
}

fn hello(config: &Config) -> Result<Hello, Failure> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::Start(format!("no random numbers: {error}")))?;
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
    })
}

/// Who ends the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// A cluster or a service manager: SIGTERM.
    Cluster,
    /// A user at the terminal: SIGINT.
    Keyboard,
}

/// The signals that end the relay.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.terminate.recv() => Ending::Cluster,
            _ = self.interrupt.recv() => Ending::Keyboard,
        }
    }
}
