//! The command `check`: what a user may do with PVs, and which rule decides.

use super::StartError;
use crate::access::rule::{Identity, Rules};
use crate::config::{Check, Config};

/// One line for each PV and access: whether it is allowed, and by which rule. Also returns whether every
/// access is allowed.
///
/// # Errors
/// When the rules, the pvlist or the access security file can't be read.
pub fn check(config: &Config, check: Check) -> Result<(String, bool), StartError> {
    let rules = Rules::read(config).map_err(StartError::file)?;
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
