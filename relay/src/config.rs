//! The relay's settings: read from the file, the environment and flags, checked, and shown.
//!
//! Every key has one row in `KEYS`. A flag wins over the environment, the environment over the file, and
//! the file over the default; a value is checked by the same code wherever it was set.

mod cgroup;
mod channelfinder;
mod command;
mod consistency;
mod documents;
mod error;
mod file;
mod history;
mod hosts;
mod key;
mod last_read;
mod reference;
mod rule_text;
mod screens;
mod value;
mod variable;
mod version;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ArgMatches;
use hyper::header::HeaderName;
use ipnet::IpNet;
use pvwire_fleet::{Role, Site};

pub use self::channelfinder::ChannelFinderUrl;
pub use self::command::{Check, DemoOptions, ExportOptions, Invocation, RecordOptions};
use self::command::{OFF, command, default_here, flag, one_line};
pub use self::error::ConfigError;
pub use self::history::ArchiverRule;
pub use self::history::HistoryRule;
pub use self::hosts::Hosts;
use self::key::{KEYS, Key};
pub use self::last_read::LastRead;
pub use self::rule_text::{Access, RuleText};
pub use self::screens::{ScreenAccess, ScreenFolder};
pub use self::value::{MaxRate, ReplaySpeed};
pub use self::version::{set_commit, version};

/// Cores that this process may use, by its affinity and its control group.
static CORES: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// Memory that this process may use.
static BUDGET_MIB: LazyLock<usize> =
    LazyLock::new(|| cgroup::default_budget_mib(|path| std::fs::read_to_string(path).ok()));

/// The settings of one relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the HTTP server listens.
    pub listen: SocketAddr,
    /// Separate address of operators' pages and probes.
    pub admin_listen: Option<SocketAddr>,
    /// Access to operators' pages at `listen`.
    pub pages: Pages,
    /// Users and groups who may disconnect clients at `listen`.
    pub disconnect_access: Vec<String>,
    /// File with the TLS certificate and its chain; empty for plain HTTP.
    pub tls_cert: String,
    /// File with the certificate's private key.
    pub tls_key: String,
    /// Origins of web pages that may connect besides the relay's own; `*` for any.
    pub allow_origin: Vec<String>,
    /// Host names by which clients may address this relay, besides IP addresses and `localhost`.
    pub allow_host: Vec<String>,
    /// How clients authenticate.
    pub auth: Auth,
    /// Whether a relay without authentication may listen on an address that other machines can reach.
    pub allow_anonymous: bool,
    /// File or URL of the keys that tokens are verified with.
    pub jwt_keys: String,
    /// How long the last keys stay valid while they can't be read again.
    pub jwt_keys_keep: Duration,
    /// Required audience of tokens.
    pub jwt_audience: String,
    /// Required issuer of tokens; empty for any.
    pub jwt_issuer: String,
    /// Claim with the user's name.
    pub jwt_user_claim: String,
    /// Claim with the user's groups.
    pub jwt_groups_claim: String,
    /// The cookie that may have a client's token.
    pub jwt_cookie: String,
    /// Networks of trusted proxies.
    pub trusted_proxy: Vec<IpNet>,
    /// The proxy's header with the user's name.
    pub user_header: HeaderName,
    /// The proxy's header with the user's groups.
    pub groups_header: Option<HeaderName>,
    /// Source of PV names without a prefix.
    pub default_source: String,
    /// Whether the app is served at `/`, where the relay was built with it.
    pub app: bool,
    /// Patterns of the PVs that the app writes only after a confirmation.
    pub confirm_put: Vec<String>,
    /// Folders of displays.
    pub screens: Vec<ScreenFolder>,
    /// Who may read them; folders without an entry are for every client.
    pub screens_access: Vec<ScreenAccess>,
    /// Folder for the lists of PVs that users save; empty for none.
    pub saved: String,
    /// Whether simulated PVs are served.
    pub enable_sim: bool,
    /// Recording whose PVs are served in place of those of servers; empty for none.
    pub replay: String,
    /// Times its speed.
    pub replay_speed: ReplaySpeed,
    /// Whether it begins again at its end.
    pub replay_loop: bool,
    /// How long a monitor stays open after its last client unsubscribed.
    pub linger: Duration,
    /// Time after which a PV that did not connect is reported as not found.
    pub not_found_after: Duration,
    /// How long a get waits for first values, unless the request says otherwise.
    pub get_timeout: Duration,
    /// Whether clients may write at all.
    pub enable_put: bool,
    /// Patterns of the PVs that every client may write unless a rule decides.
    pub allow_put: Vec<String>,
    /// Files with names of PVs that clients may look for.
    pub names_file: Vec<String>,
    /// Where ChannelFinder is, whose channels clients may look for.
    pub channelfinder: Option<ChannelFinderUrl>,
    /// File with the user and password for ChannelFinder; empty to read without a login.
    pub channelfinder_credentials: String,
    /// Properties of ChannelFinder's channels that clients are told.
    pub channelfinder_property: Vec<String>,
    /// Interval at which ChannelFinder's channels are read.
    pub channelfinder_interval: Duration,
    /// How long a request waits for ChannelFinder, and for each further part of its answer.
    pub channelfinder_timeout: Duration,
    /// Maximum rates of updates by PV pattern.
    pub max_rate: Vec<MaxRate>,
    /// For how long the past of PVs is kept; the first rule that fits decides.
    pub history: Vec<HistoryRule>,
    /// Memory for the past of all PVs in bytes; 0 keeps nothing.
    pub history_memory: usize,
    /// Folder in which the past of PVs survives a restart; empty: none does.
    pub history_dir: String,
    /// Space for the past of all PVs in that folder, in bytes.
    pub history_disk: usize,
    /// Which archiver has the past of which PVs; the first rule that fits decides.
    pub archiver: Vec<ArchiverRule>,
    /// Longest answer of an archiver that is passed on, in bytes.
    pub archiver_max_bytes: usize,
    /// Maximum number of requests to archivers at the same time.
    pub archiver_max_requests: usize,
    /// Interval at which the names of archivers are read; zero for never.
    pub archiver_names_interval: Duration,
    /// How long a request waits for an archiver, and for each further part of its answer.
    pub archiver_timeout: Duration,
    /// The file's rules, in order.
    pub rules: Vec<RuleText>,
    /// The configuration file; empty without one.
    pub config_file: String,
    /// File with the list of served PVs, in the gateways' format; empty for all PVs.
    pub pvlist: String,
    /// Access security file, which decides where no rule does; empty for none.
    pub access_security: String,
    /// File that records attempts to write; empty for none.
    pub audit_file: String,
    /// Whether puts are refused while the audit file can't be written.
    pub audit_fail_closed: bool,
    /// When audit records are flushed to disk.
    pub audit_sync: AuditSync,
    /// How long a put waits for its completion, unless the request says otherwise.
    pub put_timeout: Duration,
    /// Serve clients of Coniql.
    pub coniql: bool,
    /// Behave as Coniql 0.4.2 to the letter towards its clients.
    pub coniql_strict: bool,
    /// Serve the page for trying documents at `/graphiql`.
    pub coniql_graphiql: bool,
    /// Serve single PVs by plain HTTP.
    pub http_api: bool,
    /// Whether clients of PVWS are served.
    pub pvws: bool,
    /// Their source of names without a prefix.
    pub pvws_default_type: String,
    /// Whether they may write what the rules allow.
    pub pvws_write: bool,
    /// Minimum interval between two updates of a PV to them.
    pub pvws_throttle: Duration,
    /// The same while the value is an array.
    pub pvws_array_throttle: Duration,
    /// Servers of the bus that connects the relays of a fleet; empty for a single relay.
    pub bus: String,
    /// File with the credentials for these servers; empty for none.
    pub bus_credentials: String,
    /// File with the certificates of the authorities that sign the servers' certificates; empty for the system's.
    pub bus_ca: String,
    /// File with the keys that sign what the relays ask each other; empty for none.
    pub bus_key: String,
    /// What the relay does in the fleet.
    pub role: Role,
    /// The fleet's name.
    pub site: Site,
    /// Where clients reach this relay; empty if they are not told.
    pub member_url: String,
    /// Patterns of the hosts to which clients may be sent; empty for all.
    pub member_hosts: Vec<String>,
    /// Shortest tick.
    pub shortest_tick: Duration,
    /// Longest tick.
    pub longest_tick: Duration,
    /// Writer threads.
    pub shards: usize,
    /// Maximum number of connected clients.
    pub max_clients: usize,
    /// Maximum number of connections of one address; 0 for no limit.
    pub max_connections_per_address: usize,
    /// Maximum rate of new connections of one address or user; 0 for no limit.
    pub max_new_connections_per_s: usize,
    /// Maximum number of subscriptions of one client.
    pub max_subscriptions: usize,
    /// Maximum number of names of one client that were not found.
    pub max_unresolved: usize,
    /// Maximum rate of requests of one client.
    pub max_requests_per_s: usize,
    /// Maximum rate of puts and calls of one client.
    pub max_puts_per_s: usize,
    /// Maximum rate of names of one client that no client has open.
    pub max_new_names_per_s: usize,
    /// Maximum number of connections of one user.
    pub max_clients_per_user: usize,
    /// Maximum number of monitored PVs.
    pub max_pvs: usize,
    /// Memory of the process in MiB above which new clients and PVs are refused.
    pub max_memory_mib: usize,
    /// Memory budget of one connection in MiB; `None` for a part of `max_memory_mib`.
    pub max_memory_per_client_mib: Option<usize>,
    /// Memory budget of all connections of one user in MiB.
    pub max_memory_per_user_mib: Option<usize>,
    /// Memory budget of all connections from one address in MiB.
    pub max_memory_per_address_mib: Option<usize>,
    /// CPU time of one connection in milliseconds per second; 0 for no limit.
    pub max_cpu_per_client_ms_per_s: usize,
    /// CPU time of all connections of one user in milliseconds per second; 0 for no limit.
    pub max_cpu_per_user_ms_per_s: usize,
    /// CPU time of all connections from one address in milliseconds per second; 0 for no limit.
    pub max_cpu_per_address_ms_per_s: usize,
    /// A client that acknowledged nothing for this time is sent no frames until it does.
    pub ack_window: Duration,
    /// A client that accepted no data for this time is disconnected.
    pub evict_after: Duration,
    /// A client that sent nothing for this time is sent a ping; zero for no pings.
    pub ping_after: Duration,
    /// How often the host names in EPICS's address lists are resolved; zero for once.
    pub host_lookup: Duration,
    /// How long the relay answers that it is not ready before it closes clients.
    pub drain_delay: Duration,
    /// Time over which clients are closed when the relay stops.
    pub drain_spread: Duration,
    /// Serve the demo page instead of the status page. Not a key: the command `demo` sets it.
    pub demo_page: bool,
}

/// When audit records are flushed to disk (fsync), so that they survive a crash of the machine. A crash of
/// the relay alone loses no written record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditSync {
    /// Left to the operating system.
    Never,
    /// Before a record counts as written.
    Each,
    /// Once a second.
    EverySecond,
}

/// Access to operators' pages at the clients' address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Without a login.
    Open,
    /// With a login.
    Login,
    /// Not served.
    Off,
}

/// How clients authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    None,
    /// By a JSON Web Token in the client's first message.
    Jwt,
    /// By headers that a reverse proxy sets in the handshake.
    TrustedHeader,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            pages: Pages::Open,
            disconnect_access: Vec::new(),
            tls_cert: String::new(),
            tls_key: String::new(),
            allow_origin: Vec::new(),
            allow_host: Vec::new(),
            auth: Auth::None,
            allow_anonymous: false,
            jwt_keys: String::new(),
            jwt_keys_keep: Duration::from_secs(3600),
            jwt_audience: String::new(),
            jwt_issuer: String::new(),
            jwt_user_claim: "sub".into(),
            jwt_groups_claim: "groups".into(),
            jwt_cookie: "pvwire_token".into(),
            trusted_proxy: Vec::new(),
            user_header: HeaderName::from_static("x-forwarded-user"),
            groups_header: None,
            default_source: "ca".into(),
            app: true,
            confirm_put: Vec::new(),
            screens: Vec::new(),
            screens_access: Vec::new(),
            saved: String::new(),
            enable_sim: false,
            replay: String::new(),
            replay_speed: ReplaySpeed::default(),
            replay_loop: false,
            linger: Duration::from_secs(10),
            not_found_after: Duration::from_secs(5),
            get_timeout: Duration::from_secs(5),
            enable_put: false,
            allow_put: Vec::new(),
            max_rate: Vec::new(),
            history: Vec::new(),
            history_memory: 64_000_000,
            history_dir: String::new(),
            history_disk: 1_000_000_000,
            archiver: Vec::new(),
            archiver_max_bytes: 64_000_000,
            archiver_max_requests: 4,
            archiver_names_interval: Duration::ZERO,
            archiver_timeout: Duration::from_secs(30),
            rules: Vec::new(),
            names_file: Vec::new(),
            channelfinder: None,
            channelfinder_credentials: String::new(),
            channelfinder_property: Vec::new(),
            channelfinder_interval: Duration::from_secs(300),
            channelfinder_timeout: Duration::from_secs(30),
            pvlist: String::new(),
            access_security: String::new(),
            audit_file: String::new(),
            audit_fail_closed: false,
            audit_sync: AuditSync::EverySecond,
            put_timeout: Duration::from_secs(10),
            coniql: false,
            coniql_strict: false,
            coniql_graphiql: false,
            http_api: true,
            pvws: false,
            pvws_default_type: "ca".into(),
            pvws_write: true,
            pvws_throttle: Duration::from_millis(100),
            pvws_array_throttle: Duration::from_millis(500),
            bus: String::new(),
            bus_credentials: String::new(),
            bus_ca: String::new(),
            bus_key: String::new(),
            role: Role::default(),
            site: Site::default(),
            member_url: String::new(),
            member_hosts: Vec::new(),
            shortest_tick: Duration::from_millis(5),
            longest_tick: Duration::from_millis(100),
            shards: *CORES,
            max_clients: 10_000,
            // Enough for a thousand clients behind one address that each have a stream of large values, when
            // all reconnect at once after a restart.
            max_connections_per_address: 2_500,
            max_new_connections_per_s: 100,
            max_subscriptions: 20_000,
            max_unresolved: 10_000,
            max_requests_per_s: 1_000,
            max_puts_per_s: 200,
            max_new_names_per_s: 1_000,
            max_clients_per_user: 100,
            max_pvs: 1_000_000,
            max_memory_per_client_mib: None,
            max_memory_per_user_mib: None,
            max_memory_per_address_mib: None,
            max_memory_mib: *BUDGET_MIB,
            max_cpu_per_client_ms_per_s: 200,
            max_cpu_per_user_ms_per_s: 1_000,
            max_cpu_per_address_ms_per_s: 1_000,
            ack_window: Duration::from_secs(2),
            evict_after: Duration::from_secs(15),
            ping_after: Duration::from_secs(20),
            host_lookup: Duration::from_secs(10),
            drain_delay: Duration::from_secs(2),
            drain_spread: Duration::from_secs(3),
            config_file: String::new(),
            demo_page: false,
        }
    }
}

impl Config {
    /// Reads flags, environment and file. `arguments` begin with the program's name.
    ///
    /// # Errors
    /// When a value, key or flag is wrong; the message names where it was set.
    pub fn read(
        arguments: &[String],
        environment: &BTreeMap<String, String>,
        read_file: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Invocation, ConfigError> {
        let matches = match command(default_here).try_get_matches_from(arguments) {
            Ok(matches) => matches,
            Err(error) if !error.use_stderr() => return Ok(Invocation::Print(error.to_string())),
            Err(error) => return Err(ConfigError::Flags(one_line(&error))),
        };
        variable::check(environment)?;
        if let Some(check) = matches.subcommand_matches("check-audit") {
            let files = check.get_many::<String>("file").into_iter().flatten();
            return Ok(Invocation::CheckAudit(files.cloned().collect()));
        }
        match matches.subcommand() {
            Some(("demo", options)) => return Ok(Invocation::Demo(DemoOptions::of(options))),
            Some(("record", options)) => return Ok(Invocation::Record(RecordOptions::of(options))),
            Some(("export", options)) => return Ok(Invocation::Export(ExportOptions::of(options))),
            Some(("completions", options)) => {
                let shell = options.get_one("shell").copied();
                return Ok(Invocation::Print(documents::completions(shell)));
            }
            Some(("manual", _)) => return Ok(Invocation::Print(documents::manual())),
            Some(("example-config", _)) => {
                return Ok(Invocation::Print(documents::example_config()));
            }
            _ => {}
        }
        let check = matches.subcommand_matches("check");
        let flags = check.unwrap_or(&matches);
        let mut config = Self::default();
        let file = flags.get_one::<String>("config");
        if let Some(path) = file.or_else(|| environment.get(variable::CONFIG)) {
            let text = read_file(path).map_err(|error| ConfigError::File {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            config.apply_file(file::File { path, text: &text })?;
            config.config_file.clone_from(path);
        }
        config.apply_environment(environment)?;
        config.apply_flags(flags)?;
        config.check_together()?;
        let config = Box::new(config);
        Ok(match check {
            None => Invocation::Run(config),
            Some(check) => Invocation::Check(config, Check::of(check)),
        })
    }

    fn apply_environment(
        &mut self,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), ConfigError> {
        for key in KEYS {
            // The relay's own variable wins.
            if let Some((variable, text)) = variable::of_pvws(key, environment) {
                self.apply(&format!("environment variable {variable}"), key, &[text])?;
            }
            let variable = variable::of(key);
            if let Some(text) = environment.get(&variable) {
                let values: Vec<_> = if key.is_list() {
                    text.split_whitespace().collect()
                } else {
                    vec![text.as_str()]
                };
                self.apply(&format!("environment variable {variable}"), key, &values)?;
            }
        }
        Ok(())
    }

    fn apply_flags(&mut self, flags: &ArgMatches) -> Result<(), ConfigError> {
        for key in KEYS {
            if let Some(values) = flags.get_many::<String>(key.name) {
                let values: Vec<_> = values.map(String::as_str).collect();
                self.apply(&format!("flag --{}", flag(key)), key, &values)?;
            }
            for (off, name, value) in OFF {
                if key.name == name && flags.get_flag(off) {
                    self.apply(&format!("flag --{off}"), key, &[value])?;
                }
            }
        }
        Ok(())
    }

    /// Sets one key to the values of one origin.
    fn apply(&mut self, origin: &str, key: &Key, values: &[&str]) -> Result<(), ConfigError> {
        if let Some(clear) = key.clear {
            clear(self);
        }
        for value in values {
            (key.set)(self, value).map_err(|expected| ConfigError::Value {
                origin: origin.to_owned(),
                key: key.name.to_owned(),
                value: (*value).to_owned(),
                expected: expected.into_text(),
            })?;
        }
        Ok(())
    }

    /// Memory that one connection's PVs and answers may take, in MiB.
    #[must_use]
    pub fn memory_per_client_mib(&self) -> usize {
        let part = (self.max_memory_mib / 4).clamp(1, 512);
        self.max_memory_per_client_mib.unwrap_or(part)
    }

    /// Memory that all connections of one user may take, in MiB.
    #[must_use]
    pub fn memory_per_user_mib(&self) -> usize {
        let part = (self.max_memory_mib / 2).clamp(1, 2048);
        self.max_memory_per_user_mib.unwrap_or(part)
    }

    /// Memory that all connections from one address may take, in MiB.
    #[must_use]
    pub fn memory_per_address_mib(&self) -> usize {
        let part = (self.max_memory_mib / 2).clamp(1, 2048);
        self.max_memory_per_address_mib.unwrap_or(part)
    }

    /// All rules in the order of evaluation: those of the file, then `allow_put`.
    #[must_use]
    pub fn all_rules(&self) -> Vec<RuleText> {
        let last = RuleText {
            origin: "allow_put".into(),
            pvs: self.allow_put.clone(),
            allow: vec![Access::Put],
            ..RuleText::default()
        };
        let last = (!self.allow_put.is_empty()).then_some(last);
        self.rules.iter().cloned().chain(last).collect()
    }
}

#[cfg(test)]
mod tests;
