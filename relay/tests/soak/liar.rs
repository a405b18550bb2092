//! A Channel Access server that sends false answers all the time, beside the real IOC.

use super::watcher::{Address, Watcher};
use testbed::{How, LyingServer};

/// Lies that crash libca, damage its tables, or concern the IOC's PVs. Not all of them: each needs
/// a circuit, and the relay has few file descriptors.
const TOLD: [&str; 8] = [
    "count",
    "destroyed",
    "written",
    "created",
    "jump",
    "others",
    "rights",
    "read",
];

pub(super) struct Liar {
    server: LyingServer,
    /// Subscribes its PVs, so that the relay reconnects to it whenever it was cut.
    believer: Option<Watcher>,
}

impl Liar {
    pub(super) fn start() -> Self {
        Self {
            server: LyingServer::start(&TOLD),
            believer: None,
        }
    }

    /// From the first call on a client wants the server's PVs.
    pub(super) fn be_believed(&mut self, address: &Address) {
        let names = &self.server.names;
        self.believer.get_or_insert_with(|| {
            Watcher::start(
                "client of the lying server",
                How::default(),
                names.clone(),
                address,
            )
        });
    }

    /// Fails when its client has failed.
    pub(super) fn fail_if_ended(&mut self) {
        self.believer.iter_mut().for_each(Watcher::fail_if_ended);
    }

    /// The addresses that the relay searches: these and the server's.
    pub(super) fn addresses(&self, ioc: &str) -> String {
        self.server.addresses(ioc)
    }
}
