//! The command `check`: whether the relay would start with the configuration, what a user may do with PVs, and which
//! rule decides.

use super::ingest::open_replay;
use super::{StartError, fleet, open_tls};
use crate::access::keys;
use crate::access::rule::{Identity, Rules};
use crate::config::{Check, Config};
use crate::ingest::name_files::NameFiles;
use crate::ingest::name_services;

/// One line for each PV and access: whether it is allowed, and by which rule; without PVs one line about the
/// configuration. Also returns whether every access is allowed.
///
/// # Errors
/// When the relay would not start: a rule is invalid, or a file that the configuration names can't be used.
pub fn check(config: &Config, check: Check) -> Result<(String, bool), StartError> {
    let rules = Rules::read(config).map_err(StartError::file)?;
    open_tls(config)?;
    NameFiles::read(&config.names_file, &config.default_source).map_err(StartError::file)?;
    name_services::check_file(config).map_err(StartError::file)?;
    fleet::check_files(config)?;
    open_replay(config)?;
    keys::check_file(config).map_err(StartError::file)?;
    if check.pvs.is_empty() {
        let mut text = format!("the configuration is valid: {}\n", config.show_changed());
        if !config.bus.is_empty() && config.bus_key.is_empty() {
            text += &format!("warning: {}\n", fleet::UNSIGNED);
        }
        return Ok((text, true));
    }
    let identity = Identity {
        user: check.user,
        groups: check.groups,
    };
    let (mut text, mut allowed) = (String::new(), true);
    for pv in &check.pvs {
        let (scheme, name) = pv.split_once("://").unwrap_or((&config.default_source, pv));
        for &access in &check.access {
            let verdict = rules.decide(&identity, scheme, name, access);
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
