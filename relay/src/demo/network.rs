//! A network of EPICS that only the demo uses: loopback, on ports that no other program has.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Ports that the demo's network needs: Channel Access, pvAccess, and pvAccess's searches.
const PORTS: usize = 3;

/// Sets EPICS's variables for this process and its children. Call it before any thread is started.
///
/// Keep the result: it has the port of the repeater of Channel Access. While the port is bound, libca starts no program
/// `caRepeater`, which would outlive the demo. A repeater passes beacons on, and nothing in the demo depends on them.
///
/// # Errors
/// When no port is free.
pub fn private_network() -> io::Result<UdpSocket> {
    let repeater_socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let repeater = repeater_socket.local_addr()?.port().to_string();
    let [access, pva, broadcast] = free_ports()?.map(|port| port.to_string());
    let loopback = || "127.0.0.1".to_owned();
    let no = || "NO".to_owned();
    pvwire_epics::set_variables(&[
        ("EPICS_CA_ADDR_LIST", loopback()),
        ("EPICS_CA_AUTO_ADDR_LIST", no()),
        ("EPICS_CA_NAME_SERVERS", String::new()),
        ("EPICS_CA_SERVER_PORT", access.clone()),
        ("EPICS_CA_REPEATER_PORT", repeater.clone()),
        ("EPICS_CAS_SERVER_PORT", access),
        ("EPICS_CAS_INTF_ADDR_LIST", loopback()),
        ("EPICS_CAS_BEACON_ADDR_LIST", loopback()),
        ("EPICS_CAS_AUTO_BEACON_ADDR_LIST", no()),
        ("EPICS_CAS_BEACON_PORT", repeater),
        ("EPICS_PVA_ADDR_LIST", String::new()),
        ("EPICS_PVA_AUTO_ADDR_LIST", no()),
        // By TCP: a search by UDP reaches only one of several processes that share a port.
        ("EPICS_PVA_NAME_SERVERS", format!("127.0.0.1:{pva}")),
        ("EPICS_PVA_SERVER_PORT", pva.clone()),
        ("EPICS_PVA_BROADCAST_PORT", broadcast.clone()),
        ("EPICS_PVAS_SERVER_PORT", pva),
        ("EPICS_PVAS_BROADCAST_PORT", broadcast),
        ("EPICS_PVAS_INTF_ADDR_LIST", loopback()),
        ("EPICS_PVAS_BEACON_ADDR_LIST", loopback()),
        ("EPICS_PVAS_AUTO_BEACON_ADDR_LIST", no()),
    ]);
    Ok(repeater_socket)
}

/// Ports that are free for TCP and UDP.
fn free_ports() -> io::Result<[u16; PORTS]> {
    let mut found = Vec::new();
    while found.len() < PORTS {
        let stream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = stream.local_addr()?.port();
        if let Ok(datagrams) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
            // Bound until all are found, so that each is found once.
            found.push((port, stream, datagrams));
        }
    }
    Ok(std::array::from_fn(|at| found[at].0))
}
