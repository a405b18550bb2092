//! Checks the environment: every variable that begins with `PVWIRE_` must be a known setting.

use std::collections::BTreeMap;

use log::LevelFilter;

use super::ConfigError;
use super::error::similar;
use super::key::{KEYS, Key};

/// Prefix of the relay's variables.
const PREFIX: &str = "PVWIRE_";

/// Path of the configuration file.
pub(super) const CONFIG: &str = "PVWIRE_CONFIG";

/// Log levels.
const LOG: &str = "PVWIRE_LOG";

/// Variables of the project's tests and tools, which a developer may have exported.
const OF_TOOLS: &[&str] = &[
    "PVWIRE_CHROMIUM",
    "PVWIRE_COMMIT",
    "PVWIRE_DELAYED_NETWORK",
    "PVWIRE_DEMO_CONTROL_PORT",
    "PVWIRE_EPICS_LIBDIR",
    "PVWIRE_FAR_END",
    "PVWIRE_FUZZ_TARGET",
    "PVWIRE_HISTORY_KILLS",
    "PVWIRE_HISTORY_RESTARTS",
    "PVWIRE_NATS_SERVER",
    "PVWIRE_ORACLE_CASES",
    "PVWIRE_PVXS_PUBLIC_API",
    "PVWIRE_PYTHON",
    "PVWIRE_RELAY",
    "PVWIRE_RELEASE_TARGET",
    "PVWIRE_SEED",
    "PVWIRE_SOAK_FLEET",
    "PVWIRE_SOAK_SECONDS",
    "PVWIRE_SOAK_SEED",
    "PVWIRE_TEST_PROCESS",
    "PVWIRE_TRACE",
    "PVWIRE_WRITE_GOLDEN",
    "PVWIRE_WRITE_REFERENCE",
    "PVWIRE_WRITE_VECTORS",
];

/// The variable that sets a key.
pub(super) fn of(key: &Key) -> String {
    format!("{PREFIX}{}", key.name.to_ascii_uppercase())
}

/// Variables of PVWS, and the keys that they set.
const OF_PVWS: [(&str, &str); 4] = [
    ("PV_DEFAULT_TYPE", "pvws_default_type"),
    ("PV_WRITE_SUPPORT", "pvws_write"),
    ("PV_THROTTLE_MS", "pvws_throttle_ms"),
    ("PV_ARRAY_THROTTLE_MS", "pvws_array_throttle_ms"),
];

/// The variable of PVWS that sets a key, with its value, if it is set.
pub(super) fn of_pvws<'a>(
    key: &Key,
    environment: &'a BTreeMap<String, String>,
) -> Option<(&'static str, &'a str)> {
    let (variable, _) = OF_PVWS.iter().find(|(_, name)| *name == key.name)?;
    Some((variable, environment.get(*variable)?))
}

/// Refuses unknown variables and invalid log levels.
pub(super) fn check(environment: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let settings: Vec<_> = (KEYS.iter().map(of))
        .chain([CONFIG, LOG].map(str::to_owned))
        .collect();
    for name in environment.keys() {
        let is_known = !name.starts_with(PREFIX)
            || settings.contains(name)
            || OF_TOOLS.contains(&name.as_str())
            || is_made_for_a_service(name);
        if !is_known {
            // The common prefix would make all names similar.
            let known = settings.iter().filter_map(|name| name.strip_prefix(PREFIX));
            let hint = match similar(&name[PREFIX.len()..], known) {
                Some(meant) => format!("; did you mean {PREFIX}{meant}?"),
                None => "; pvwire-relay --help lists all settings".to_owned(),
            };
            let name = name.escape_debug().to_string();
            return Err(ConfigError::Variable { name, hint });
        }
    }
    let filter = environment.get(LOG).map_or("", |filter| filter.trim());
    let level = |part: &str| {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        level.trim().parse::<LevelFilter>().is_ok()
    };
    if filter.is_empty() || filter.split(',').all(level) {
        return Ok(());
    }
    Err(ConfigError::Value {
        origin: format!("environment variable {LOG}"),
        key: "log".into(),
        value: filter.into(),
        expected: "error, warn, info, debug, trace or off, or MODULE=LEVEL, separated by commas"
            .into(),
    })
}

/// Whether Kubernetes sets this variable for a Service whose name begins with "pvwire".
fn is_made_for_a_service(name: &str) -> bool {
    name.contains("_SERVICE_") || name.ends_with("_PORT") || name.contains("_PORT_")
}
