//! What do the relay's tests share: a real soft IOC, a relay process and a client that keeps books.

mod client;
mod http;
mod ioc;
mod line;
mod lying;
pub(crate) mod random;
pub(crate) mod records;
mod relay;
mod truth;
mod wire;

use std::collections::HashSet;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use client::{Client, How, Kept, Message, Pv, RowSeen, Stream, connect_all, keep_up};
pub(crate) use http::{get, get_by, handshake, try_get};
pub(crate) use ioc::{SoftIoc, python};
pub(crate) use line::{Line, Pair, Trust};
pub(crate) use lying::{LIES, LyingServer};
pub(crate) use relay::{
    Relay, Threads, relay_command, relay_command_with_hosts, relay_command_with_limit,
    relay_command_with_small_disk,
};
pub(crate) use truth::Truth;
pub(crate) use wire::Wire;

/// More than anything here takes on a busy machine; reached only by a failure.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A file of a test with this text.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Waits until `done`, for what has no event.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(sent.unwrap().success(), "kill -{name} {process}");
}

/// Where one test's IOCs and its relay meet: ports of this machine that nobody else uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    server_port: u16,
    repeater_port: u16,
    pva_port: u16,
    pva_broadcast_port: u16,
    searches_by_udp: bool,
    /// Where its IOCs listen.
    host: &'static str,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            server_port: free_port(),
            repeater_port: free_port(),
            pva_port: free_port(),
            pva_broadcast_port: free_port(),
            searches_by_udp: false,
            host: "127.0.0.1",
        }
    }

    /// The same for one server of pvAccess that doesn't know searches by TCP.
    pub(crate) fn with_searches_by_udp() -> Self {
        Self {
            searches_by_udp: true,
            ..Self::new()
        }
    }

    /// The same whose IOCs listen at another address of this machine.
    pub(crate) fn at(self, host: &'static str) -> Self {
        Self { host, ..self }
    }

    /// Where its IOC serves Channel Access.
    pub(crate) fn server_port(self) -> u16 {
        self.server_port
    }

    /// Where its IOC serves pvAccess.
    pub(crate) fn pva_port(self) -> u16 {
        self.pva_port
    }

    /// EPICS's variables for a process of this network, and nothing beyond this machine.
    pub(crate) fn apply(self, command: &mut Command) {
        let [pva, broadcast] =
            [self.pva_port, self.pva_broadcast_port].map(|port| port.to_string());
        command
            .env("EPICS_CA_ADDR_LIST", "127.0.0.1")
            .env("EPICS_CA_AUTO_ADDR_LIST", "NO")
            .env("EPICS_CA_SERVER_PORT", self.server_port.to_string())
            .env("EPICS_CA_REPEATER_PORT", self.repeater_port.to_string())
            .env("EPICS_CAS_INTF_ADDR_LIST", self.host)
            .env("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1")
            .env("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO")
            .env("EPICS_CAS_BEACON_PORT", self.repeater_port.to_string())
            .env("EPICS_PVA_ADDR_LIST", "")
            .env("EPICS_PVA_AUTO_ADDR_LIST", "NO")
            // Processes that share a UDP port of one machine can't all be reached by it.
            .env("EPICS_PVA_NAME_SERVERS", format!("127.0.0.1:{pva}"))
            .env("EPICS_PVA_SERVER_PORT", &pva)
            .env("EPICS_PVA_BROADCAST_PORT", &broadcast)
            .env("EPICS_PVAS_INTF_ADDR_LIST", self.host)
            .env("EPICS_PVAS_BEACON_ADDR_LIST", "127.0.0.1")
            .env("EPICS_PVAS_AUTO_BEACON_ADDR_LIST", "NO")
            .env("EPICS_PVAS_SERVER_PORT", &pva)
            .env("EPICS_PVAS_BROADCAST_PORT", &broadcast);
        if self.searches_by_udp {
            command
                .env("EPICS_PVA_ADDR_LIST", "127.0.0.1")
                .env("EPICS_PVA_NAME_SERVERS", "");
        }
    }
}

/// A port that nobody has now, neither by TCP nor by UDP, below those that the system hands out by
/// itself; no other test of this process gets it.
fn free_port() -> u16 {
    static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() * 37 + clock();
    loop {
        let next = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + (next % 22_000) as u16;
        let is_free = TcpListener::bind(("127.0.0.1", port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", port)).is_ok();
        if is_free && TAKEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

/// A prefix for PV names that no other IOC has.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("R{:x}{:x}{next}:", std::process::id(), clock())
}

fn clock() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.subsec_micros()
}
