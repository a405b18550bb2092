//! The EPICS network and the PV prefix of one test, which no other test has.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::free_port;

/// The ports by which one test's IOCs and its relay find each other, on loopback only.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    server_port: u16,
    repeater_port: u16,
    pva_port: u16,
    pva_broadcast_port: u16,
    searches_by_udp: bool,
    /// Where its IOCs listen.
    host: &'static str,
}

impl Network {
    pub fn new() -> Self {
        Self {
            server_port: free_port(),
            repeater_port: free_port(),
            pva_port: free_port(),
            pva_broadcast_port: free_port(),
            searches_by_udp: false,
            host: "127.0.0.1",
        }
    }

    /// The same for one pvAccess server that can be searched by UDP alone.
    pub fn with_searches_by_udp() -> Self {
        Self {
            searches_by_udp: true,
            ..Self::new()
        }
    }

    /// The same with IOCs that listen at another loopback address.
    pub fn at(self, host: &'static str) -> Self {
        Self { host, ..self }
    }

    /// The Channel Access port of its IOC.
    pub fn server_port(self) -> u16 {
        self.server_port
    }

    /// The pvAccess port of its IOC.
    pub fn pva_port(self) -> u16 {
        self.pva_port
    }

    /// The UDP port of pvAccess searches.
    pub fn pva_broadcast_port(self) -> u16 {
        self.pva_broadcast_port
    }

    /// The UDP port at which its pvAccess servers are searched.
    pub fn pva_search_port(self) -> u16 {
        self.pva_broadcast_port
    }

    /// Sets EPICS's variables for a process of this network; nothing leaves the machine.
    pub fn apply(self, command: &mut Command) {
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
            // Of several processes that share a UDP port, a search reaches only one.
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

/// A prefix of PV names that no other IOC has.
pub fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("R{:x}{:x}{next}:", std::process::id(), clock())
}

fn clock() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.subsec_micros()
}
