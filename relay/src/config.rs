//! What may be set, from where, and what is wrong with it?
//!
//! Every key has one row in `KEYS`; a value comes from the default, the file, the environment or a
//! flag, the later winning, and is checked in the same place wherever it came from.

mod cgroup;
mod command;
mod file;
mod key;
mod rule_text;
mod similar;
mod variable;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

pub use self::command::{Asked, Check};
use self::command::{command, flag};
use self::key::{KEYS, Key};
pub use self::rule_text::{Access, RuleText};

/// What the relay runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the HTTP server listens.
    pub listen: SocketAddr,
    /// Where operators' pages and probes are served, if not at `listen`.
    pub admin_listen: Option<SocketAddr>,
    /// Who gets operators' pages at `listen`.
    pub pages: Pages,
    /// File with the certificates that the relay shows; empty for plain HTTP.
    pub tls_cert: String,
    /// File with the key of the first of them.
    pub tls_key: String,
    /// Origins of pages that may connect besides those that this host serves; `*` stands for all.
    pub allow_origin: Vec<String>,
    /// Host names by which clients may call this relay, besides IP addresses and `localhost`.
    pub allow_host: Vec<String>,
    /// How the relay learns who a client is.
    pub auth: Auth,
    /// Whether a relay that others can reach lets in everybody.
    pub allow_anonymous: bool,
    /// File or URL of the keys that tokens are signed by.
    pub jwt_keys: String,
    /// How long keys that can't be read again let clients in.
    pub jwt_keys_keep: Duration,
    /// Whom a token must be for.
    pub jwt_audience: String,
    /// Who must have issued a token; empty for anybody with one of the keys.
    pub jwt_issuer: String,
    /// Claim with the user's name.
    pub jwt_user_claim: String,
    /// Claim with the user's groups.
    pub jwt_groups_claim: String,
    /// Networks of proxies whose headers are believed.
    pub trusted_proxy: Vec<String>,
    /// The proxy's header with the user's name.
    pub user_header: String,
    /// The proxy's header with the user's groups; empty when it says none.
    pub groups_header: String,
    /// Source of PV names without a scheme.
    pub default_source: String,
    /// Whether the relay makes simulated PVs.
    pub enable_sim: bool,
    /// How long a monitor stays open after its last client has left.
    pub linger: Duration,
    /// After how long without an answer a PV counts as not found.
    pub not_found_after: Duration,
    /// How long a get waits for first values, unless it says otherwise.
    pub get_timeout: Duration,
    /// Whether puts are taken at all.
    pub enable_put: bool,
    /// Patterns of the PVs that everybody may write unless a rule says otherwise.
    pub allow_put: Vec<String>,
    /// The file's rules, in order.
    pub rules: Vec<RuleText>,
    /// List of the PVs that are served, as gateways have it; empty for all.
    pub pvlist: String,
    /// Access security file that is asked where no rule fits; empty for none.
    pub access_security: String,
    /// File that attempts to write are put on record in; empty for none.
    pub audit_file: String,
    /// Whether nothing is written when that file can't be.
    pub audit_fail_closed: bool,
    /// When records are brought to the disk.
    pub audit_sync: AuditSync,
    /// How long a put waits for its answer, unless it says otherwise.
    pub put_timeout: Duration,
    /// Shortest tick.
    pub shortest_tick: Duration,
    /// Longest tick.
    pub longest_tick: Duration,
    /// Writer threads.
    pub shards: usize,
    /// Most clients at a time.
    pub max_clients: usize,
    /// Maximum number of connections of one address; 0 for no limit.
    pub max_connections_per_address: usize,
    /// Maximum rate of new connections of one address or user; 0 for no limit.
    pub max_new_connections_per_s: usize,
    /// Most subscriptions of one client.
    pub max_subscriptions: usize,
    /// Most names of one client that were searched in vain.
    pub max_unresolved: usize,
    /// Most requests of one client a second, in the long run.
    pub max_requests_per_s: usize,
    /// Most puts and calls of one client a second, in the long run.
    pub max_puts_per_s: usize,
    /// Most names of one client a second that nobody had subscribed, in the long run.
    pub max_new_names_per_s: usize,
    /// Most connections of one user.
    pub max_clients_per_user: usize,
    /// Most PVs that are monitored.
    pub max_pvs: usize,
    /// With more memory than this in use, in MiB, nothing new is taken.
    pub max_memory_mib: usize,
    /// Memory that one connection's PVs and answers may take, in MiB; `None` for a part of that.
    pub max_memory_per_client_mib: Option<usize>,
    /// The same of all connections of one user.
    pub max_memory_per_user_mib: Option<usize>,
    /// The same of all connections from one address.
    pub max_memory_per_address_mib: Option<usize>,
    /// A client that acknowledged nothing for so long gets no frames until it does.
    pub ack_window: Duration,
    /// A client that took nothing for so long is closed.
    pub evict_after: Duration,
    /// A client that sent nothing for so long gets a ping; zero for none.
    pub ping_after: Duration,
    /// How often the IOCs' host names are looked up; zero for once.
    pub host_lookup: Duration,
    /// How long the relay says that it isn't ready before it closes clients.
    pub drain_delay: Duration,
    /// Time over which clients are closed when the relay stops.
    pub drain_spread: Duration,
}

/// When what was written to the audit file is brought to the disk (fsync), where it outlives a crash of the
/// machine. A crash of the relay alone loses nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditSync {
    /// When the system does it by itself.
    Never,
    /// Before a record counts as written.
    Each,
    /// Once a second.
    EverySecond,
}

/// Who gets operators' pages where clients connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Everybody.
    Open,
    /// Those who show who they are.
    Login,
    /// Nobody.
    Off,
}

/// How the relay learns who a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    None,
    /// By a JSON Web Token in the client's first message.
    Jwt,
    /// By what a proxy says in the handshake's headers.
    TrustedHeader,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            pages: Pages::Open,
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
            trusted_proxy: Vec::new(),
            user_header: "x-forwarded-user".into(),
            groups_header: String::new(),
            default_source: "ca".into(),
            enable_sim: false,
            linger: Duration::from_secs(10),
            not_found_after: Duration::from_secs(5),
            get_timeout: Duration::from_secs(5),
            enable_put: false,
            allow_put: Vec::new(),
            rules: Vec::new(),
            pvlist: String::new(),
            access_security: String::new(),
            audit_file: String::new(),
            audit_fail_closed: false,
            audit_sync: AuditSync::EverySecond,
            put_timeout: Duration::from_secs(10),
            shortest_tick: Duration::from_millis(5),
            longest_tick: Duration::from_millis(100),
            shards: std::thread::available_parallelism().map_or(1, usize::from),
            max_clients: 10_000,
            // A thousand clients behind one address have a stream of large values each, and connect again
            // all at once when their relay was restarted.
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
            max_memory_mib: cgroup::default_budget_mib(|path| std::fs::read_to_string(path).ok()),
            ack_window: Duration::from_secs(2),
            evict_after: Duration::from_secs(15),
            ping_after: Duration::from_secs(20),
            host_lookup: Duration::from_secs(10),
            drain_delay: Duration::from_secs(2),
            drain_spread: Duration::from_secs(3),
        }
    }
}

/// Why the relay can't start with what it was told.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value doesn't fit its key.
    #[error("{origin}: {key} is {value:?}, expected {expected}")]
    Value {
        /// Where the value stands.
        origin: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would fit.
        expected: String,
    },
    /// An unknown key.
    #[error("{origin}: unknown key {key:?}{hint}")]
    Key {
        /// Where it stands.
        origin: String,
        /// The key.
        key: String,
        /// What the operator may have meant.
        hint: String,
    },
    /// An unknown environment variable.
    #[error("environment variable {name}: no such setting{hint}")]
    Variable {
        /// The variable.
        name: String,
        /// What the operator may have meant.
        hint: String,
    },
    /// The file can't be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The flags make no sense.
    #[error("{0}")]
    Flags(String),
}

/// Keys that only tokens need.
const JWT_KEYS: [&str; 6] = [
    "jwt_keys",
    "jwt_keys_keep_ms",
    "jwt_audience",
    "jwt_issuer",
    "jwt_user_claim",
    "jwt_groups_claim",
];

/// Keys that only a proxy's headers need; its `trusted_proxy` says addresses of clients, too.
const PROXY_KEYS: [&str; 2] = ["user_header", "groups_header"];

/// What the command line's parser says, without the usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let said = said.join(" ").replace(" tip: ", "; ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

impl Config {
    /// Reads flags, environment and file. `arguments` begin with the program's name.
    ///
    /// # Errors
    /// When something is said that can't be done; the message names where it stands.
    pub fn read(
        arguments: &[String],
        environment: &BTreeMap<String, String>,
        read_file: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Asked, ConfigError> {
        let matches = match command().try_get_matches_from(arguments) {
            Ok(matches) => matches,
            Err(error) if !error.use_stderr() => return Ok(Asked::Print(error.to_string())),
            Err(error) => return Err(ConfigError::Flags(one_line(&error))),
        };
        variable::check(environment)?;
        if let Some(check) = matches.subcommand_matches("check-audit") {
            let files = check.get_many::<String>("file").into_iter().flatten();
            return Ok(Asked::CheckAudit(files.cloned().collect()));
        }
        let check = matches.subcommand_matches("check");
        let matches = check.unwrap_or(&matches);
        let mut config = Self::default();
        let file = matches.get_one::<String>("config").cloned();
        if let Some(path) = file.or_else(|| environment.get(variable::CONFIG).cloned()) {
            let text = read_file(&path).map_err(|error| ConfigError::File {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            config.apply_file(file::File {
                path: &path,
                text: &text,
            })?;
        }
        for key in KEYS {
            let variable = variable::of(key);
            if let Some(text) = environment.get(&variable) {
                let values: Vec<_> = if key.list {
                    text.split_whitespace().collect()
                } else {
                    vec![text.as_str()]
                };
                config.apply(&format!("environment variable {variable}"), key, &values)?;
            }
        }
        for key in KEYS {
            if let Some(values) = matches.get_many::<String>(key.name) {
                let values: Vec<_> = values.map(String::as_str).collect();
                config.apply(&format!("flag --{}", flag(key)), key, &values)?;
            }
        }
        config.check_together()?;
        let config = Box::new(config);
        let Some(check) = check else {
            return Ok(Asked::Run(config));
        };
        let all = |name| {
            check
                .get_many::<String>(name)
                .into_iter()
                .flatten()
                .cloned()
        };
        let check = Check {
            user: check.get_one::<String>("user").cloned(),
            groups: all("group").collect(),
            pvs: all("pv").collect(),
            access: match check.get_one::<String>("access").map(String::as_str) {
                Some("read") => vec![Access::Read],
                Some(_) => vec![Access::Put],
                None => vec![Access::Read, Access::Put],
            },
        };
        Ok(Asked::Check(config, check))
    }

    /// Finds what is right by itself but not with the rest.
    fn check_together(&self) -> Result<(), ConfigError> {
        let wrong = |key: &str, value: String, expected: String| {
            Err(ConfigError::Value {
                origin: "configuration".into(),
                key: key.into(),
                value,
                expected,
            })
        };
        if self.shortest_tick > self.longest_tick {
            return wrong(
                "shortest_tick_ms",
                self.shortest_tick.as_millis().to_string(),
                format!(
                    "at most longest_tick_ms ({})",
                    self.longest_tick.as_millis()
                ),
            );
        }
        if self.auth == Auth::None && !self.allow_anonymous && !self.listen.ip().is_loopback() {
            return wrong(
                "listen",
                self.listen.to_string(),
                "an address of this machine only, as 127.0.0.1:8080, or auth = jwt or trusted-header, \
                 or allow_anonymous if everybody who reaches this address may come in"
                    .into(),
            );
        }
        if self.pages == Pages::Login && self.auth == Auth::None {
            let expected = "auth = jwt or trusted-header as well, so that there is a login";
            return wrong("pages", "login".into(), expected.into());
        }
        if self.pages != Pages::Open && self.admin_listen.is_some() {
            let pages = KEYS.iter().find(|key| key.name == "pages");
            let value = pages.map_or_else(String::new, |key| (key.show)(self));
            let expected = "nothing with admin_listen, where the pages are served then";
            return wrong("pages", value, expected.into());
        }
        for (key, value, other) in [
            ("tls_cert", &self.tls_cert, &self.tls_key),
            ("tls_key", &self.tls_key, &self.tls_cert),
        ] {
            if value.is_empty() && !other.is_empty() {
                let expected = "a file: TLS needs tls_cert and tls_key";
                return wrong(key, String::new(), expected.into());
            }
        }
        if self.audit_fail_closed && self.audit_file.is_empty() {
            return wrong(
                "audit_file",
                String::new(),
                "a file, for audit_fail = closed".into(),
            );
        }
        if !self.access_security.is_empty() && !self.allow_put.is_empty() {
            return wrong(
                "allow_put",
                self.allow_put.join(" "),
                "nothing with access_security, which has the last word; a [[rule]] is asked before it"
                    .into(),
            );
        }
        if self.auth == Auth::Jwt {
            for (key, value) in [
                ("jwt_keys", &self.jwt_keys),
                ("jwt_audience", &self.jwt_audience),
            ] {
                if value.is_empty() {
                    return wrong(key, value.clone(), "a value, for auth = jwt".into());
                }
            }
        }
        let defaults = Self::default();
        for (mode, name, keys) in [
            (Auth::Jwt, "jwt", &JWT_KEYS[..]),
            (Auth::TrustedHeader, "trusted-header", &PROXY_KEYS[..]),
        ] {
            let set = |key: &&Key| (key.show)(self) != (key.show)(&defaults);
            let mut keys = KEYS.iter().filter(|key| keys.contains(&key.name));
            if let Some(key) = keys.find(set).filter(|_| self.auth != mode) {
                let expected = format!("auth = {name} as well: without it this key has no effect");
                return wrong(key.name, (key.show)(self), expected);
            }
        }
        if self.auth == Auth::TrustedHeader && self.trusted_proxy.is_empty() {
            let expected = "the proxies' networks, for auth = trusted-header";
            return wrong("trusted_proxy", String::new(), expected.into());
        }
        if !self.enable_put && !self.allow_put.is_empty() {
            return wrong(
                "allow_put",
                self.allow_put.join(" "),
                "enable_put as well: without it the relay takes no puts".into(),
            );
        }
        if self.enable_put && self.allow_origin.iter().any(|origin| origin == "*") {
            return wrong(
                "allow_origin",
                "*".into(),
                "the origins that are meant: with enable_put any page that somebody opens could write"
                    .into(),
            );
        }
        Ok(())
    }

    /// Every key with its unit, default and meaning, as a table in Markdown.
    #[must_use]
    pub fn reference() -> String {
        let mut text = String::from("| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
        let defaults = Self::default();
        for key in KEYS {
            let default = match (key.show)(&defaults) {
                // They depend on the machine.
                _ if key.name == "shards" => "one per core".to_owned(),
                _ if key.name == "max_memory_mib" => {
                    "three quarters of the cgroup's memory limit, at most half of the machine's memory"
                        .to_owned()
                }
                _ if key.name == "max_memory_per_client_mib" => {
                    "a quarter of `max_memory_mib`, at most `512`".to_owned()
                }
                _ if key.name.starts_with("max_memory_per_") => {
                    "half of `max_memory_mib`, at most `2048`".to_owned()
                }
                empty if empty.is_empty() => "none".to_owned(),
                value => format!("`{value}`"),
            };
            let list = if key.list { " …" } else { "" };
            let _ = writeln!(
                text,
                "| `{}` | `{}`{list} | {default} | {} |",
                key.name,
                key.value,
                key.help.replace('|', "\\|")
            );
        }
        text
    }

    fn apply(&mut self, origin: &str, key: &Key, values: &[&str]) -> Result<(), ConfigError> {
        match key.name {
            "allow_origin" => self.allow_origin.clear(),
            "allow_host" => self.allow_host.clear(),
            "allow_put" => self.allow_put.clear(),
            "trusted_proxy" => self.trusted_proxy.clear(),
            _ => {}
        }
        for value in values {
            (key.set)(self, value).map_err(|expected| ConfigError::Value {
                origin: origin.to_owned(),
                key: key.name.to_owned(),
                value: (*value).to_owned(),
                expected: expected.to_owned(),
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

    /// The same of all connections of one user.
    #[must_use]
    pub fn memory_per_user_mib(&self) -> usize {
        let part = (self.max_memory_mib / 2).clamp(1, 2048);
        self.max_memory_per_user_mib.unwrap_or(part)
    }

    /// The same of all connections from one address.
    #[must_use]
    pub fn memory_per_address_mib(&self) -> usize {
        let part = (self.max_memory_mib / 2).clamp(1, 2048);
        self.max_memory_per_address_mib.unwrap_or(part)
    }

    /// All rules in the order in which they are asked: the file's, then what everybody may write.
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

    /// The keys whose values differ, beside those that say who may do what.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        const ACCESS: [&str; 3] = ["allow_put", "pvlist", "access_security"];
        let differs = |key: &&Key| (key.show)(self) != (key.show)(other);
        let keys = KEYS.iter().filter(|key| !ACCESS.contains(&key.name));
        keys.filter(differs).map(|key| key.name).collect()
    }

    /// The configuration in effect, for the log.
    #[must_use]
    pub fn show(&self) -> String {
        let mut text = format!("rules={} ", self.rules.len());
        for key in KEYS {
            let _ = write!(text, "{}={} ", key.name, (key.show)(self));
        }
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        flags: &[&str],
        environment: &[(&str, &str)],
        file: Option<&str>,
    ) -> Result<Config, String> {
        let mut arguments = vec!["pvwire-relay".to_owned()];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if file.is_some() {
            arguments.extend(["--config".to_owned(), "pvwire.toml".to_owned()]);
        }
        let variables = environment.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment: BTreeMap<_, _> = variables.collect();
        let content = |_: &str| {
            file.map(str::to_owned)
                .ok_or_else(|| io::Error::other("no such file"))
        };
        match Config::read(&arguments, &environment, content) {
            Ok(Asked::Run(config)) => Ok(*config),
            Ok(Asked::Print(text)) => Err(text),
            Ok(Asked::Check(..) | Asked::CheckAudit(..)) => Err("a check".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn flag_wins_over_environment_and_that_over_file_and_that_over_default() {
        let file = "linger_ms = 1\nget_timeout_ms = 2\nmax_clients = 3\n";
        let environment = [
            ("PVWIRE_GET_TIMEOUT_MS", "20"),
            ("PVWIRE_MAX_CLIENTS", "30"),
        ];
        let config = read(&["--max-clients", "300"], &environment, Some(file)).unwrap();
        assert_eq!(config.linger, Duration::from_millis(1));
        assert_eq!(config.get_timeout, Duration::from_millis(20));
        assert_eq!(config.max_clients, 300);
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn lists_come_from_repeated_flags_words_and_arrays() {
        let flags = [
            "--allow-origin",
            "http://a",
            "--allow-origin",
            "http://b:81",
        ];
        assert_eq!(
            read(&flags, &[], None).unwrap().allow_origin,
            ["http://a", "http://b:81"]
        );
        let environment = [("PVWIRE_ALLOW_ORIGIN", "http://a http://b:81")];
        assert_eq!(read(&[], &environment, None).unwrap().allow_origin.len(), 2);
        let file = "allow_origin = [\"http://a\"]";
        assert_eq!(
            read(&[], &[], Some(file)).unwrap().allow_origin,
            ["http://a"]
        );
    }

    #[test]
    fn mistakes_name_place_key_value_and_what_was_expected() {
        for (flags, environment, file, message) in [
            (
                vec!["--listen", "here"],
                vec![],
                None,
                "flag --listen: listen is \"here\", expected an IP address and a port, as 127.0.0.1:8080",
            ),
            (
                vec![],
                vec![("PVWIRE_SHARDS", "0")],
                None,
                "environment variable PVWIRE_SHARDS: shards is \"0\", expected a whole number from 1 to 256",
            ),
            (
                vec![],
                vec![],
                Some("linger_ms = \"soon\""),
                "pvwire.toml:1: linger_ms is \"soon\", expected milliseconds from 0 to 86400000",
            ),
            (
                vec!["--shortest-tick-ms", "200"],
                vec![],
                None,
                "configuration: shortest_tick_ms is \"200\", expected at most longest_tick_ms (100)",
            ),
        ] {
            assert_eq!(read(&flags, &environment, file).unwrap_err(), message);
        }
        let unknown = read(&[], &[], Some("colour = 1")).unwrap_err();
        assert!(
            unknown.starts_with("pvwire.toml:1: unknown key \"colour\", expected one of: listen")
        );
        assert!(
            read(&["--listn", "x"], &[], None)
                .unwrap_err()
                .contains("--listn")
        );
        assert!(
            read(&[], &[("PVWIRE_CONFIG", "x")], None)
                .unwrap_err()
                .starts_with("x: no such file")
        );
        assert!(
            read(&["--allow-origin", "*.example.org"], &[], None)
                .unwrap_err()
                .contains("expected an origin")
        );
    }

    #[test]
    fn error_in_the_file_names_its_line() {
        for (file, message) in [
            (
                "# relay\n\nlinger_ms = -1\n",
                "pvwire.toml:3: linger_ms is \"-1\", expected milliseconds",
            ),
            ("max_pvs = 1\nlisten =\n", "pvwire.toml:2: "),
            ("max_pvs = 1\nmax_pvs = 2\n", "pvwire.toml:2: "),
            (
                "\n[[rule]]\npv = 'X'\nallow = 'put'\n\n[[rule]]\npv = 'X'\nallow = 'write'\n",
                "pvwire.toml:8: rule 2: allow is \"write\", expected read, put or both",
            ),
            (
                "[[rule]]\npv = 'X'\n",
                "pvwire.toml:1: rule 1: rule is \"pv X\", expected allow or deny in it",
            ),
        ] {
            let error = read(&[], &[], Some(file)).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn unknown_setting_is_refused_and_the_one_that_was_meant_is_named() {
        let no_variables: &[(&str, &str)] = &[];
        for (flags, environment, file, message) in [
            (
                &["--listn", "127.0.0.1:1"][..],
                no_variables,
                None,
                "unexpected argument '--listn' found; a similar argument exists: '--listen'",
            ),
            (
                &[],
                &[("PVWIRE_LISTN", "127.0.0.1:1")],
                None,
                "environment variable PVWIRE_LISTN: no such setting; did you mean PVWIRE_LISTEN?",
            ),
            (
                &[],
                &[("PVWIRE_COLOUR", "red")],
                None,
                "environment variable PVWIRE_COLOUR: no such setting; pvwire-relay --help lists all",
            ),
            (
                &[],
                no_variables,
                Some("\nlistn = 1"),
                "pvwire.toml:2: unknown key \"listn\"; did you mean \"listen\"?",
            ),
            (
                &[],
                no_variables,
                Some("[[rule]]\nusers = 'jane'\npv = 'X'\nallow = 'put'"),
                "pvwire.toml:2: rule 1: unknown key \"users\"; did you mean \"user\"?",
            ),
            (
                &["check"],
                no_variables,
                None,
                "the following required arguments were not provided: --pv <P>",
            ),
        ] {
            assert_eq!(read(flags, environment, file).unwrap_err(), message);
        }
    }

    #[test]
    fn key_of_the_relay_below_a_rule_is_told_where_it_belongs() {
        let file = "[[rule]]\npv = 'X'\nallow = 'put'\n\nenable_put = true\n";
        assert_eq!(
            read(&[], &[], Some(file)).unwrap_err(),
            "pvwire.toml:5: rule 1: unknown key \"enable_put\"; it is a key of the relay: move it above \
             the first [[rule]]"
        );
    }

    #[test]
    fn variables_that_kubernetes_and_the_projects_tools_set_are_no_settings() {
        let environment = [
            ("PVWIRE_SERVICE_HOST", "10.0.0.1"),
            ("PVWIRE_SERVICE_PORT_HTTP", "80"),
            ("PVWIRE_PORT", "tcp://10.0.0.1:80"),
            ("PVWIRE_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("PVWIRE_CHROMIUM", "/usr/bin/chromium"),
        ];
        assert!(read(&[], &environment, None).is_ok());
    }

    #[test]
    fn level_of_the_log_that_does_not_exist_is_refused() {
        for level in [
            "debug",
            "",
            "info,pvwire_relay::session::shard=trace",
            "OFF",
        ] {
            assert!(read(&[], &[("PVWIRE_LOG", level)], None).is_ok(), "{level}");
        }
        for level in ["loud", "info,loud", "pvwire_relay=loud"] {
            let error = read(&[], &[("PVWIRE_LOG", level)], None).unwrap_err();
            let begin =
                format!("environment variable PVWIRE_LOG: log is {level:?}, expected error, warn");
            assert!(error.starts_with(&begin), "{error}");
        }
    }

    #[test]
    fn settings_without_effect_are_refused() {
        for (flags, message) in [
            (
                &["--allow-put=SR:*:SET"][..],
                "allow_put is \"SR:*:SET\", expected enable_put as well",
            ),
            (
                &["--jwt-keys=keys.json"],
                "jwt_keys is \"keys.json\", expected auth = jwt as well",
            ),
            (
                &["--user-header=x-user"],
                "user_header is \"x-user\", expected auth = trusted-header as well",
            ),
            (
                &["--groups-header=x-groups"],
                "groups_header is \"x-groups\", expected auth = trusted-header as well",
            ),
            (
                &["--pages=login"],
                "pages is \"login\", expected auth = jwt or trusted-header as well",
            ),
            (
                &["--pages=off", "--admin-listen=127.0.0.1:8081"],
                "pages is \"off\", expected nothing with admin_listen",
            ),
        ] {
            let error = read(flags, &[], None).unwrap_err();
            assert!(
                error.starts_with(&format!("configuration: {message}")),
                "{error}"
            );
        }
        for (flag, expected) in [
            ("--trusted-proxy=10.0.0.0/33", "a network, as 10.1.0.0/16"),
            ("--trusted-proxy=proxy", "a network, as 10.1.0.0/16"),
            ("--user-header=x user", "the name of a header"),
            ("--groups-header=", "the name of a header"),
            ("--pages=closed", "open, login or off"),
            ("--admin-listen=8081", "as 127.0.0.1:8081"),
            (
                "--max-connections-per-address=-1",
                "a whole number from 0 (no limit) to 1000000",
            ),
        ] {
            let error = read(&["--auth=trusted-header", flag], &[], None).unwrap_err();
            assert!(
                error.starts_with("flag --") && error.ends_with(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn pages_of_any_origin_may_read_but_a_relay_that_takes_puts_does_not_start_with_them() {
        let any = ["--allow-origin", "*"];
        assert_eq!(read(&any, &[], None).unwrap().allow_origin, ["*"]);
        for (flags, environment, file) in [
            (vec!["--allow-origin=*", "--enable-put"], vec![], None),
            (
                vec!["--enable-put"],
                vec![("PVWIRE_ALLOW_ORIGIN", "https://a *")],
                None,
            ),
            (
                vec![],
                vec![],
                Some("enable_put = true\nallow_origin = [\"*\"]"),
            ),
        ] {
            let error = read(&flags, &environment, file).unwrap_err();
            let begin = "configuration: allow_origin is \"*\", expected the origins that are meant";
            assert!(error.starts_with(begin), "{error}");
        }
    }
    #[test]
    fn rules_are_read_in_order_and_one_that_makes_no_sense_is_refused() {
        let file = r#"
            enable_put = true
            allow_put = ["LAST"]
            [[rule]]
            user = "jane"
            group = ["operators", "experts"]
            pv = "SR:*"
            allow = ["read", "put"]
            [[rule]]
            pv_regex = "X.*"
            deny = "put"
        "#;
        let rules = read(&[], &[], Some(file)).unwrap().all_rules();
        let shown: Vec<_> = (rules.iter())
            .map(|rule| format!("{} ({rule})", rule.origin))
            .collect();
        assert_eq!(
            shown,
            [
                "pvwire.toml: rule 1 (user jane, group operators experts, pv SR:*, allow read put)",
                "pvwire.toml: rule 2 (pv_regex X.*, deny put)",
                "allow_put (pv LAST, allow put)",
            ]
        );
        for (rule, message) in [
            ("allow = 'put'", "pv or pv_regex in it"),
            ("pv = 'X'", "allow or deny in it"),
            (
                "pv = 'X'\nallow = 'put'\ndeny = ['put']",
                "both in allow and in deny",
            ),
            ("pv = 'X'\nallow = 'write'", "read, put or both"),
            ("pv = 7\nallow = 'put'", "a text, or a list of texts"),
            ("pv = ''\nallow = 'put'", "a text, or a list of texts"),
            (
                "users = 'X'\npv = 'X'\nallow = 'put'",
                "unknown key \"users\"",
            ),
        ] {
            let error = read(&[], &[], Some(&format!("[[rule]]\n{rule}"))).unwrap_err();
            assert!(error.starts_with("pvwire.toml:"), "{error}");
            assert!(error.contains(": rule 1: "), "{error}");
            assert!(error.contains(message), "{error}");
        }
    }
}
