//! What must be right after each storm, and what a run must have had at its end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::writes::CROSSED;
use super::{FETCHING, World, makers, pva, streams};
use testbed::Truth;

/// After this long everything must be right again.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
/// libca searches less and less often for a name that was absent during a storm.
const FOUND_AGAIN_WITHIN: Duration = Duration::from_secs(100);
/// The record whose rights by pvAccess change, after each storm.
const RIGHTS: &str = "rights by pvAccess are taken and given back";

impl World {
    /// What the PVs don't show: all programs and clients still run, and each put's outcome was true.
    pub(super) fn check_others(&mut self) {
        self.check_relays();
        self.liar.fail_if_ended();
        for waits in [&mut self.waits, &mut self.streams.waits] {
            match self.fleet {
                Some(_) => waits.check_alive(),
                None => waits.check(),
            }
        }
        if self.ioc.is_some() {
            self.writers.wait_done();
        }
        self.writers.check();
        let relay = self.relay.as_ref().unwrap().address();
        if let Some(rights) = &mut self.pva_rights {
            rights.check(relay);
            *self.done.entry(RIGHTS).or_default() += 1;
        }
    }

    /// Fails unless each kind of fault that every run has was there.
    pub(super) fn check_drawn(&self) {
        let mut kinds = streams::FAULTS.to_vec();
        if self.fleet.is_none() {
            kinds.extend(makers::FAULTS);
            kinds.extend([CROSSED, RIGHTS, pva::RESTARTS]);
        }
        for kind in kinds {
            let times = self.done.get(kind).copied().unwrap_or_default();
            assert!(times > 0, "the run never had this: {kind}");
        }
        let braces = self.entries.iter().filter(|entry| entry.name.contains('{'));
        assert!(braces.count() > 0, "no name has braces");
        self.streams.check_used();
    }

    /// Waits until every PV in every client equals the IOC's; returns how many were compared.
    pub(super) fn settle(&mut self) -> usize {
        let names: Vec<String> = self.watchers[0].wanted.clone();
        let start = Instant::now();
        let within = match self.has_returned {
            true => FOUND_AGAIN_WITHIN,
            false => SETTLES_WITHIN,
        };
        loop {
            let truth = Truth::ask_described(self.network, &names);
            let mut different = Vec::new();
            let mut compared = 0;
            for watcher in &mut self.watchers {
                let report = watcher.tell();
                compared += report.pvs.len();
                let absent = watcher.wanted.iter();
                let absent = absent.filter(|name| !report.pvs.contains_key(*name));
                different
                    .extend(absent.map(|name| format!("{}: {name} isn't held", watcher.title)));
                let found = truth.differences(|name| report.pvs.get(name));
                let kinds: HashMap<String, &str> = (self.entries.iter())
                    .map(|entry| (entry.pv(), entry.kind))
                    .collect();
                different.extend(found.iter().map(|(name, fields)| {
                    let kind = kinds[name];
                    format!("{}: {name} ({kind}): {}", watcher.title, fields.join("; "))
                }));
                for (name, pv) in &report.pvs {
                    let Some(record) = pva::record_of(name) else {
                        continue;
                    };
                    let kind = kinds[record];
                    let found = pva::differences(kind, truth.told(record), pv);
                    if !found.is_empty() {
                        different.push(format!("{name} ({kind}): {}", found.join("; ")));
                    }
                }
            }
            for door in &mut self.doors {
                let report = door.tell();
                compared += door.wanted.len();
                for name in &door.wanted {
                    let told = truth.told(name.trim_start_matches("ca://"));
                    let found = (door.door.differences)(told, report.pvs.get(name));
                    if !found.is_empty() {
                        let found = found.join("; ");
                        let (server, title) = (door.door.server, door.title);
                        different.push(format!("{server}, {title}: {name}: {found}"));
                    }
                }
            }
            let fetching = self.watchers.iter_mut();
            for watcher in fetching.filter(|watcher| watcher.title == FETCHING) {
                let report = watcher.tell();
                let held = |name: &str| report.pvs.get(name)?.now.as_ref();
                different.extend(self.healthy.differences(FETCHING, held));
            }
            for client in &self.streams.waits.clients {
                let last = &client.book().by_stream.last;
                let title = "steady client with a stream";
                different.extend(self.healthy.differences(title, |name| last.get(name)));
                compared += last.len();
            }
            if let Some(makers) = &mut self.makers {
                let (found, wanted) = makers.differences();
                different.extend(found);
                compared += wanted;
            }
            if different.is_empty() {
                let took = start.elapsed().as_secs_f64();
                let at = self.start.elapsed().as_secs_f64();
                println!("{at:7.1} s  all {compared} are the truth, after {took:.1} s");
                return compared;
            }
            assert!(
                start.elapsed() < within,
                "{} of {compared} differ from the truth for good:\n{}",
                different.len(),
                different.join("\n")
            );
        }
    }
}
