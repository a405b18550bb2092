//! The names of the PVs that the relay has found, for clients that look for names.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_queue::SegQueue;
use pvwire_schema::types::ConnectionState;

use crate::ingest::directory::{Directory, NameList, Origin};
use crate::state::registry::Registry;
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// Maximum number of names; further ones are not listed until the relay restarts.
const MAX_NAMES: usize = 200_000;

/// Maximum number of those among them that the relay makes itself: anybody can make many, and others look for few.
const MAX_SIMULATED: usize = 1_000;

/// Sources of servers' PVs.
const SERVERS: [&str; 2] = ["ca", "pva"];

/// Sources whose names are no names of PVs that others could look for: formulas, PVs of one client, the relay itself.
const UNLISTED: [&str; 3] = ["eq", "loc", "sys"];

/// The names of the PVs that were connected since the relay started, also of those that are closed by now.
#[derive(Default)]
pub struct FoundNames {
    /// Found since they were last listed, with their schemes.
    fresh: SegQueue<Arc<str>>,
    listed: Mutex<BTreeMap<String, Vec<Arc<NameList>>>>,
}

impl FoundNames {
    /// The sink that notes the names.
    #[must_use]
    pub fn sink(self: &Arc<Self>, registry: &Arc<Registry>) -> Box<dyn TickSink> {
        Box::new(Sink {
            names: Arc::clone(self),
            registry: Arc::clone(registry),
            seen: Seen::default(),
        })
    }

    fn add(&self, name: &Arc<str>) {
        self.fresh.push(Arc::clone(name));
    }
}

impl Directory for FoundNames {
    fn origin(&self) -> Origin {
        Origin::Relay
    }

    fn lists(&self) -> Vec<Arc<NameList>> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let names: Vec<_> = std::iter::from_fn(|| self.fresh.pop()).collect();
        for (scheme, name) in names.iter().filter_map(|name| name.split_once("://")) {
            fresh.entry(scheme).or_default().push(name);
        }
        for (scheme, names) in fresh {
            let lists = listed.entry(scheme.to_owned()).or_default();
            push_merged(lists, NameList::new(scheme, names));
        }
        listed.values().flatten().map(Arc::clone).collect()
    }
}

/// Adds a list. Lists that are not much longer are merged with it, so that there are few, and each name is sorted a
/// few times at most.
fn push_merged(lists: &mut Vec<Arc<NameList>>, mut added: NameList) {
    while let Some(last) = lists.pop_if(|last| last.len() <= 2 * added.len()) {
        added = NameList::new(added.scheme(), last.names().chain(added.names()));
    }
    lists.push(Arc::new(added));
}

/// Notes the names of PVs when they connect.
struct Sink {
    names: Arc<FoundNames>,
    registry: Arc<Registry>,
    seen: Seen,
}

/// The names so far.
#[derive(Default)]
struct Seen {
    names: HashSet<Arc<str>>,
    /// Number of those that the relay makes itself.
    simulated: usize,
}

impl Seen {
    fn is_full(&self) -> bool {
        self.names.len() >= MAX_NAMES
    }

    /// Adds a name if it is to be listed; returns whether it is new.
    fn add(&mut self, name: &Arc<str>) -> bool {
        let scheme = name.split_once("://").map_or("", |(scheme, _)| scheme);
        let is_simulated = !SERVERS.contains(&scheme);
        if UNLISTED.contains(&scheme)
            || self.is_full()
            || is_simulated && self.simulated >= MAX_SIMULATED
            || !self.names.insert(Arc::clone(name))
        {
            return false;
        }
        self.simulated += usize::from(is_simulated);
        true
    }
}

impl TickSink for Sink {
    fn needs_tick_at(&self, _now: Instant) -> Option<Instant> {
        None
    }

    fn tick(&mut self, _table: &Table, changes: &Arc<Changes>, _now: Now) {
        if changes.connections.is_empty() || self.seen.is_full() {
            return;
        }
        let found = (changes.connections.iter())
            .filter(|(_, connection)| connection.state == ConnectionState::Connected);
        let found: Vec<_> = found.map(|(pv, _)| *pv).collect();
        if found.is_empty() {
            return;
        }
        for name in self.registry.names_of_pvs(&found) {
            if self.seen.add(&name) {
                self.names.add(&name);
                if self.seen.is_full() {
                    log::warn!(
                        "{MAX_NAMES} names of PVs were found since the relay started: further ones are not offered \
                         to clients that look for names"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_pvs_take_no_room_from_names_of_servers() {
        let mut seen = Seen::default();
        let added = |seen: &mut Seen, scheme: &str, count: usize| {
            let names = (0..count).map(|number| format!("{scheme}://{number}").into());
            names.filter(|name| seen.add(name)).count()
        };
        assert_eq!(added(&mut seen, "sim", 2 * MAX_NAMES), MAX_SIMULATED);
        assert_eq!(added(&mut seen, "eq", 1), 0);
        assert_eq!(
            added(&mut seen, "ca", 2 * MAX_NAMES),
            MAX_NAMES - MAX_SIMULATED
        );
    }

    #[test]
    fn many_names_found_one_by_one_are_in_few_lists() {
        let found = FoundNames::default();
        for number in 0..2_000 {
            let scheme = if number % 2 == 0 { "ca" } else { "pva" };
            found.add(&format!("{scheme}://PV:{number}").into());
            if number % 3 == 0 {
                found.lists();
            }
        }
        let lists = found.lists();
        assert!(lists.len() < 24, "{} lists", lists.len());
        let count = |scheme: &str| -> usize {
            let of_scheme = lists.iter().filter(|list| list.scheme() == scheme);
            of_scheme.map(|list| list.len()).sum()
        };
        assert_eq!((count("ca"), count("pva")), (1_000, 1_000));
    }
}
