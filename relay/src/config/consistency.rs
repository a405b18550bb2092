//! Refuses settings that are valid alone but not together, and settings without effect.

use super::key::KEYS;
use super::{Auth, Config, ConfigError, Hosts, Pages};

/// Keys that have no effect unless `auth` is `jwt`.
const JWT_KEYS: [&str; 7] = [
    "jwt_keys",
    "jwt_keys_keep_ms",
    "jwt_audience",
    "jwt_issuer",
    "jwt_user_claim",
    "jwt_groups_claim",
    "jwt_cookie",
];

/// Keys that have no effect unless `auth` is `trusted-header`. `trusted_proxy` isn't one: it also says
/// which proxies' `X-Forwarded-For` is used.
const PROXY_KEYS: [&str; 2] = ["user_header", "groups_header"];

/// Keys that have no effect without `bus`.
const BUS_KEYS: [&str; 7] = [
    "bus_credentials",
    "bus_ca",
    "bus_key",
    "role",
    "site",
    "member_url",
    "member_hosts",
];

/// Keys that have no effect without `archiver`.
const ARCHIVER_KEYS: [&str; 4] = [
    "archiver_max_bytes",
    "archiver_max_requests",
    "archiver_names_interval_ms",
    "archiver_timeout_ms",
];

/// Keys that have no effect without `channelfinder`.
const CHANNELFINDER_KEYS: [&str; 4] = [
    "channelfinder_credentials",
    "channelfinder_property",
    "channelfinder_interval_ms",
    "channelfinder_timeout_ms",
];

/// Keys that have no effect without `replay`.
const REPLAY_KEYS: [&str; 2] = ["replay_speed", "replay_loop"];

/// Smallest space for past updates on a disk, in bytes.
const LEAST_HISTORY_DISK: usize = 1_000_000;

type Checked = Result<(), ConfigError>;

fn refuse(key: &str, value: impl Into<String>, expected: impl Into<String>) -> Checked {
    Err(ConfigError::Value {
        origin: "configuration".into(),
        key: key.into(),
        value: value.into(),
        expected: expected.into(),
    })
}

/// The value of a key, as it is set.
fn shown(config: &Config, name: &str) -> String {
    let key = KEYS.iter().find(|key| key.name == name);
    key.map_or_else(String::new, |key| (key.show)(config))
}

impl Config {
    /// Checks the settings together.
    pub(super) fn check_together(&self) -> Checked {
        self.check_ticks()?;
        self.check_listeners()?;
        self.check_tls()?;
        self.check_auth()?;
        self.check_fleet()?;
        self.check_history()?;
        self.check_archiver()?;
        self.check_channelfinder()?;
        self.check_replay()?;
        self.check_screens()?;
        self.check_puts()
    }

    fn check_ticks(&self) -> Checked {
        if self.shortest_tick <= self.longest_tick {
            return Ok(());
        }
        let longest = self.longest_tick.as_millis();
        let expected = format!("at most longest_tick_ms ({longest})");
        refuse(
            "shortest_tick_ms",
            shown(self, "shortest_tick_ms"),
            expected,
        )
    }

    fn check_listeners(&self) -> Checked {
        if self.auth == Auth::None && !self.allow_anonymous && !self.listen.ip().is_loopback() {
            let expected = "a loopback address, as 127.0.0.1:8080, or auth = jwt or trusted-header, or \
                            allow_anonymous to let everyone connect who can reach this address";
            return refuse("listen", self.listen.to_string(), expected);
        }
        if self.pages == Pages::Login && self.auth == Auth::None {
            let expected =
                "auth = jwt or trusted-header as well, because without auth there is no login";
            return refuse("pages", "login", expected);
        }
        if self.pages != Pages::Open && self.admin_listen.is_some() {
            let expected = "no value together with admin_listen, which serves the pages instead";
            return refuse("pages", shown(self, "pages"), expected);
        }
        if self.enable_put && self.allow_origin.iter().any(|origin| origin == "*") {
            let expected = "the origins of your own pages: with enable_put, * would let any web page that \
                            a user opens write to PVs";
            return refuse("allow_origin", "*", expected);
        }
        Ok(())
    }

    fn check_tls(&self) -> Checked {
        for (key, value, other) in [
            ("tls_cert", &self.tls_cert, &self.tls_key),
            ("tls_key", &self.tls_key, &self.tls_cert),
        ] {
            if value.is_empty() && !other.is_empty() {
                return refuse(key, "", "a file: TLS needs tls_cert and tls_key");
            }
        }
        Ok(())
    }

    fn check_auth(&self) -> Checked {
        if self.auth == Auth::Jwt {
            for (key, value) in [
                ("jwt_keys", &self.jwt_keys),
                ("jwt_audience", &self.jwt_audience),
            ] {
                if value.is_empty() {
                    return refuse(key, "", "a value, because auth = jwt needs it");
                }
            }
        }
        for (key, is_on) in [
            ("coniql_strict", self.coniql_strict),
            ("coniql_graphiql", self.coniql_graphiql),
        ] {
            if is_on && !self.coniql {
                let expected = "coniql = true as well: without it this key has no effect";
                return refuse(key, "true", expected);
            }
        }
        let defaults = Self::default();
        for (mode, name, keys) in [
            (Auth::Jwt, "jwt", &JWT_KEYS[..]),
            (Auth::TrustedHeader, "trusted-header", &PROXY_KEYS[..]),
        ] {
            let is_set = |key: &&&str| shown(self, key) != shown(&defaults, key);
            if let Some(key) = keys.iter().find(is_set).filter(|_| self.auth != mode) {
                let expected = format!("auth = {name} as well: without it this key has no effect");
                return refuse(key, shown(self, key), expected);
            }
        }
        if self.auth == Auth::TrustedHeader && self.trusted_proxy.is_empty() {
            let expected = "the proxies' networks, because auth = trusted-header needs them";
            return refuse("trusted_proxy", "", expected);
        }
        Ok(())
    }

    fn check_fleet(&self) -> Checked {
        let defaults = Self::default();
        let is_set = |key: &&&str| shown(self, key) != shown(&defaults, key);
        if let Some(key) = BUS_KEYS.iter().find(is_set).filter(|_| self.bus.is_empty()) {
            let expected = "bus as well: without it this key has no effect";
            return refuse(key, shown(self, key), expected);
        }
        if !self.member_url.is_empty() && !Hosts::new(&self.member_hosts).allow(&self.member_url) {
            let expected =
                "a host of member_hosts: the other relays would not give this address to clients";
            return refuse("member_url", self.member_url.clone(), expected);
        }
        Ok(())
    }

    fn check_history(&self) -> Checked {
        if self.history_dir.is_empty() {
            if self.history_disk != Self::default().history_disk {
                let expected = "history_dir as well: without it this key has no effect";
                return refuse("history_disk", shown(self, "history_disk"), expected);
            }
            return Ok(());
        }
        if self.history_memory == 0 {
            let expected =
                "no folder together with history_memory = 0 or --no-history, which keeps nothing";
            return refuse("history_dir", self.history_dir.clone(), expected);
        }
        if self.history_disk < LEAST_HISTORY_DISK {
            return refuse("history_disk", shown(self, "history_disk"), "at least 1MB");
        }
        Ok(())
    }

    fn check_archiver(&self) -> Checked {
        if self.archiver_max_bytes == 0 {
            return refuse("archiver_max_bytes", "0", "at least 1KB");
        }
        let defaults = Self::default();
        let is_set = |key: &&&str| shown(self, key) != shown(&defaults, key);
        let key = ARCHIVER_KEYS.iter().find(is_set);
        if let Some(key) = key.filter(|_| self.archiver.is_empty()) {
            let expected = "archiver as well: without it this key has no effect";
            return refuse(key, shown(self, key), expected);
        }
        Ok(())
    }

    fn check_channelfinder(&self) -> Checked {
        let defaults = Self::default();
        let is_set = |key: &&&str| shown(self, key) != shown(&defaults, key);
        let key = CHANNELFINDER_KEYS.iter().find(is_set);
        if let Some(key) = key.filter(|_| self.channelfinder.is_none()) {
            let expected = "channelfinder as well: without it this key has no effect";
            return refuse(key, shown(self, key), expected);
        }
        Ok(())
    }

    fn check_replay(&self) -> Checked {
        let defaults = Self::default();
        let is_set = |key: &&&str| shown(self, key) != shown(&defaults, key);
        let key = REPLAY_KEYS.iter().find(is_set);
        if let Some(key) = key.filter(|_| self.replay.is_empty()) {
            let expected = "replay as well: without it this key has no effect";
            return refuse(key, shown(self, key), expected);
        }
        if !self.replay.is_empty() && !self.bus.is_empty() {
            let expected =
                "no bus: the other relays of the fleet would take recorded values for live ones";
            return refuse("replay", self.replay.clone(), expected);
        }
        Ok(())
    }

    fn check_screens(&self) -> Checked {
        let prefixes = |until: usize| self.screens[..until].iter().map(|folder| &folder.prefix);
        for (index, folder) in self.screens.iter().enumerate() {
            if prefixes(index).any(|known| *known == folder.prefix) {
                let expected = "another prefix for each folder, as ops=/epics/ops";
                return refuse("screens", folder.to_string(), expected);
            }
        }
        for access in &self.screens_access {
            if self.auth == Auth::None {
                let expected = "auth = jwt or trusted-header as well, because without auth no client has a name";
                return refuse("screens_access", access.to_string(), expected);
            }
            if !prefixes(self.screens.len()).any(|known| *known == access.prefix) {
                let expected = "the prefix of a folder of screens";
                return refuse("screens_access", access.to_string(), expected);
            }
        }
        Ok(())
    }

    fn check_puts(&self) -> Checked {
        if self.audit_fail_closed && self.audit_file.is_empty() {
            return refuse(
                "audit_file",
                "",
                "a file, because audit_fail = closed needs it",
            );
        }
        if self.allow_put.is_empty() {
            return Ok(());
        }
        let expected = if !self.access_security.is_empty() {
            "no value together with access_security, which decides where no [[rule]] does; write a \
             [[rule]] instead"
        } else if !self.enable_put {
            "enable_put as well: without it the relay takes no puts"
        } else {
            return Ok(());
        };
        refuse("allow_put", self.allow_put.join(" "), expected)
    }
}
