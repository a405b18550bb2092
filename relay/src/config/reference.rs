//! Shows a configuration: the reference of all keys, the line in the log, and what differs.

use std::fmt::Write as _;

use super::Config;
use super::key::{KEYS, Key};

/// Defaults that depend on the machine or on other keys.
const COMPUTED_DEFAULTS: [(&str, &str); 5] = [
    ("shards", "one per core"),
    (
        "max_memory_mib",
        "three quarters of the cgroup's memory limit, at most half of the machine's memory",
    ),
    (
        "max_memory_per_client_mib",
        "a quarter of `max_memory_mib`, at most `512`",
    ),
    (
        "max_memory_per_user_mib",
        "half of `max_memory_mib`, at most `2048`",
    ),
    (
        "max_memory_per_address_mib",
        "half of `max_memory_mib`, at most `2048`",
    ),
];

/// Keys that say who may do what; their values take effect while the relay runs.
const ACCESS_KEYS: [&str; 3] = ["allow_put", "pvlist", "access_security"];

/// How the default of a key is computed, if it is.
pub(super) fn computed_default(key: &Key) -> Option<&'static str> {
    let computed = COMPUTED_DEFAULTS.iter();
    let mut found = computed.filter(|(name, _)| *name == key.name);
    found.next().map(|(_, default)| *default)
}

impl Config {
    /// Every key with its unit, default and meaning, as a table in Markdown.
    #[must_use]
    pub fn reference() -> String {
        let mut text = String::from("| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
        let defaults = Self::default();
        for key in KEYS {
            let default = match (computed_default(key), (key.show)(&defaults)) {
                (Some(default), _) => default.to_owned(),
                (None, empty) if empty.is_empty() => "none".to_owned(),
                (None, value) => format!("`{value}`"),
            };
            let list = if key.is_list() { " …" } else { "" };
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

    /// The keys whose values differ, without those that say who may do what.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let differs = |key: &&Key| (key.show)(self) != (key.show)(other);
        let keys = KEYS.iter().filter(|key| !ACCESS_KEYS.contains(&key.name));
        keys.filter(differs).map(|key| key.name).collect()
    }

    /// The number of rules and the keys whose values aren't the defaults, for the log.
    #[must_use]
    pub fn show_changed(&self) -> String {
        let defaults = Self::default();
        let rules = match self.rules.len() {
            0 => None,
            number => Some(format!("rules={number}")),
        };
        let keys = KEYS.iter().filter_map(|key| {
            let value = (key.show)(self);
            (value != (key.show)(&defaults)).then(|| format!("{}={value}", key.name))
        });
        let changed: Vec<_> = rules.into_iter().chain(keys).collect();
        if changed.is_empty() {
            return "all settings have their defaults".to_owned();
        }
        changed.join(" ")
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
