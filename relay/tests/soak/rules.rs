//! Rules that change meanwhile: they deny some PVs for a while.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::fleet::Fleet;
use super::watcher::Order;
use super::{World, door};
use testbed::{Client, How, eventually, file};

/// The relay has read and applied changed rules within this time.
const TAKES_EFFECT: Duration = Duration::from_secs(3);

/// The file with the rules, which the relay reads again when it changes.
pub(super) struct RulesFile {
    pub(super) path: PathBuf,
    /// A PV that may not be read now.
    denied: Option<String>,
    /// A PV was denied since everything was last allowed, so clients may lack it.
    was_denied: bool,
}

impl RulesFile {
    pub(super) fn new(prefix: &str) -> Self {
        let name = format!("{}.soak.toml", prefix.replace(':', ""));
        Self {
            path: file(&name, &text(None)),
            denied: None,
            was_denied: false,
        }
    }

    fn deny(&mut self, denied: Option<String>) {
        // Replaced atomically: the relay never sees half a file.
        let next = self.path.with_extension("next");
        std::fs::write(&next, text(denied.as_deref())).unwrap();
        std::fs::rename(next, &self.path).unwrap();
        self.was_denied |= denied.is_some();
        self.denied = denied;
    }
}

/// There is always a rule: the relay refuses a file that has lost its last one.
fn text(denied: Option<&str>) -> String {
    let deny = denied.map(|name| format!("[[rule]]\npv = '{name}'\ndeny = 'read'\n"));
    deny.unwrap_or_default() + "[[rule]]\npv = '*'\nallow = 'read'\n"
}

impl World {
    /// A PV and its fields may not be read any more, or may be read again.
    pub(super) fn change_rules(&mut self) {
        let (name, begin) = ("the rules change", SystemTime::now());
        self.say(name);
        self.waits.add_window(name, begin, begin + TAKES_EFFECT);
        let number = self.random.below(self.entries.len());
        let is_denied = self.rules.denied.is_some();
        let denied = (!is_denied).then(|| self.entries[number].name.clone());
        self.rules.deny(denied);
    }

    /// All PVs may be read again, and every client that lost one subscribes again.
    pub(super) fn open_rules(&mut self) {
        if !std::mem::take(&mut self.rules.was_denied) {
            return;
        }
        self.say("the rules allow everything");
        self.rules.deny(None);
        let names: Vec<String> = self
            .entries
            .iter()
            .map(|entry| entry.name.clone())
            .collect();
        let relay = self.relay.as_ref().unwrap().address();
        let second = self.fleet.as_ref().and_then(Fleet::second_address);
        for relay in [relay].into_iter().chain(second) {
            eventually("the rules allow everything", || {
                // For a moment an attack may have left too few file descriptors.
                let client = Client::try_connect(relay, How::default());
                client.is_some_and(|mut client| client.subscribe(&names).is_empty())
            });
        }
        for watcher in &mut self.watchers {
            watcher.order(Order::Cut);
        }
        for door in &mut self.doors {
            door.order(door::Order::Cut);
        }
    }
}
