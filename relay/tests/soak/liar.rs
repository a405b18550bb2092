//! A server of Channel Access that lies all the time, beside the IOC that tells the truth.

use super::watcher::{Address, Watcher};
use crate::support::{How, LyingServer};

/// Lies that crash libca, damage its tables, or are about the IOC's PVs. Not all: each has a circuit, and the
/// relay has few file descriptors.
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
    /// Wants its PVs, so that the relay connects to it again whenever it was cut.
    _believer: Watcher,
}

impl Liar {
    pub(super) fn start(address: &Address) -> Self {
        let server = LyingServer::start(&TOLD);
        let names = server.names.clone();
        Self {
            server,
            _believer: Watcher::start("who believes the liar", How::default(), names, address),
        }
    }

    /// Where the relay is to search: at the IOC and here.
    pub(super) fn addresses(&self, ioc: &str) -> String {
        self.server.addresses(ioc)
    }
}
