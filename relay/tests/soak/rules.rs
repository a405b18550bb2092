//! Rules that change while everything else does: some PVs may not be read for a while.

use std::path::PathBuf;

use super::World;
use super::watcher::Order;
use crate::support::{Client, How, eventually, file};

/// Who may read what, in a file that the relay reads again.
pub(super) struct RulesFile {
    pub(super) path: PathBuf,
    /// A PV that may not be read now.
    denied: Option<String>,
    /// Since all was open a PV was denied, which clients may lack.
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
        // As configuration is changed where it matters: whole, never half.
        let next = self.path.with_extension("next");
        std::fs::write(&next, text(denied.as_deref())).unwrap();
        std::fs::rename(next, &self.path).unwrap();
        self.was_denied |= denied.is_some();
        self.denied = denied;
    }
}

/// The rules always have a table: a file that loses its last one is refused.
fn text(denied: Option<&str>) -> String {
    let deny = denied.map(|name| format!("[[rule]]\npv = '{name}'\ndeny = 'read'\n"));
    deny.unwrap_or_default() + "[[rule]]\npv = '*'\nallow = 'read'\n"
}

impl World {
    /// A PV and its fields may not be read any more, or may be read again.
    pub(super) fn change_rules(&mut self) {
        self.say("the rules change");
        let number = self.random.below(self.entries.len());
        let is_denied = self.rules.denied.is_some();
        let denied = (!is_denied).then(|| self.entries[number].name.clone());
        self.rules.deny(denied);
    }

    /// All may be read, and every client that lost a PV asks for it again.
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
        eventually("the rules allow everything", || {
            // An attack may have left few file descriptors for a moment.
            let client = Client::try_connect(relay, How::default());
            client.is_some_and(|mut client| client.subscribe(&names).is_empty())
        });
        for watcher in &mut self.watchers {
            watcher.order(Order::Cut);
        }
    }
}
