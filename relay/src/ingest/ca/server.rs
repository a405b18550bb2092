//! What is known of each server: whether it has the names that records of EPICS base have besides their value.
//!
//! A server that other software wrote may have none of them. Each PV of it would otherwise wait for them once more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of servers at which those without a PV are forgotten.
const SWEPT_FROM: usize = 1_024;

/// Maximum number of PVs of a server that are known to lack such a name; beyond this all are forgotten.
const MAX_MISSED: usize = 4_096;

/// Which PVs of a server have a name of one kind, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// One has been found.
    is_found: bool,
    /// PVs whose name has not been found in time, and not since.
    missed: HashSet<Box<str>>,
}

impl Names {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether most likely the server has none for this PV: it had none before, or none for any PV.
    pub(super) fn lack(&self, pv: &str) -> bool {
        let known = self.known();
        known.missed.contains(pv) || (!known.missed.is_empty() && !known.is_found)
    }

    /// Whether one has been found.
    pub(super) fn exist(&self) -> bool {
        self.known().is_found
    }

    /// That of this PV has been found.
    pub(super) fn found(&self, pv: &str) {
        let mut known = self.known();
        known.is_found = true;
        known.missed.remove(pv);
    }

    /// That of this PV has not been found in time.
    pub(super) fn missed(&self, pv: &str) {
        let mut known = self.known();
        if known.missed.len() >= MAX_MISSED {
            known.missed.clear();
        }
        known.missed.insert(pv.into());
    }

    fn forget(&self) {
        *self.known() = Known::default();
    }
}

/// A server of Channel Access.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) descriptions: Names,
    pub(super) long_strings: Names,
}

impl Server {
    /// The server is gone: another one may listen at its address.
    pub(super) fn forget(&self) {
        self.descriptions.forget();
        self.long_strings.forget();
    }
}

/// The servers of a context, by host and port.
#[derive(Debug, Default)]
pub(super) struct Servers(Mutex<HashMap<Box<str>, Arc<Server>>>);

impl Servers {
    /// The server at an address.
    pub(super) fn at(&self, address: &str) -> Arc<Server> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(address) {
            return Arc::clone(server);
        }
        if servers.len() >= SWEPT_FROM {
            servers.retain(|_, server| Arc::strong_count(server) > 1);
        }
        let server = Arc::<Server>::default();
        servers.insert(address.into(), Arc::clone(&server));
        server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pv_lacks_a_name_that_was_missed_or_that_no_pv_of_its_server_has() {
        let servers = Servers::default();
        let server = servers.at("a:5064");
        let names = &server.descriptions;
        assert!(!names.lack("x"), "not known");
        names.missed("x");
        assert!(names.lack("x") && names.lack("y"), "none has one");
        names.found("y");
        assert!(names.lack("x") && !names.lack("y") && !names.lack("z"));
        assert!(!servers.at("b:5064").descriptions.lack("x"));
        assert!(servers.at("a:5064").descriptions.lack("x"), "remembered");
        server.forget();
        assert!(!names.lack("x"));
    }
}
