//! Clients that connect at the same time never exceed the relay's limits, whichever protocol they use.
//!
//! Topology: one relay with few clients or file descriptors, and hundreds of connections; a soft IOC that restarts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;

use pvwire_schema::types::ConnectionState;

use testbed::{
    Client, DEADLINE, Network, Relay, SoftIoc, eventually, handshake_at, relay_command_with_limit,
};

/// A WebSocket, or the status of its refusal.
pub(crate) fn upgraded(
    address: SocketAddr,
    path: &str,
    subprotocol: Option<&str>,
) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let subprotocol = subprotocol
        .map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n"))
        .unwrap_or_default();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         {subprotocol}\r\n"
    );
    answered(&mut stream, &request).map(|()| stream)
}

/// Sends a request; the status line unless the answer is a success.
fn answered(stream: &mut TcpStream, request: &str) -> Result<(), String> {
    stream
        .write_all(request.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            _ => return Err("closed".to_owned()),
        }
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    let is_success = line.starts_with("HTTP/1.1 101 ") || line.starts_with("HTTP/1.1 200 ");
    if is_success { Ok(()) } else { Err(line) }
}

/// Opens an event stream, or says the status of its refusal.
fn event_stream(address: SocketAddr) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let path = "/pv/sim%3A%2F%2Fcounter(rate_hz=1)/stream";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    answered(&mut stream, &request).map(|()| stream)
}

/// What `count` threads get that call this at the same time.
pub(crate) fn at_once<T: Send + 'static>(
    count: usize,
    call: fn(SocketAddr, usize) -> T,
    to: SocketAddr,
) -> Vec<T> {
    let barrier = Arc::new(Barrier::new(count));
    let started: Vec<_> = (0..count)
        .map(|n| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                barrier.wait();
                call(to, n)
            })
        })
        .collect();
    let got = started.into_iter().map(|each| each.join().unwrap());
    got.collect()
}

#[test]
fn simultaneous_handshakes_never_exceed_the_number_of_clients() {
    let flags = ["--max-clients=10", "--pvws", "--coniql"];
    let relay = Relay::start(Network::new(), &flags);
    let call = |address: SocketAddr, n: usize| match n % 5 {
        0 | 1 => upgraded(address, "/ws", Some("pvwire.v1")),
        2 => upgraded(address, "/pvws/pv", None),
        3 => upgraded(address, "/ws", Some("graphql-transport-ws")),
        _ => event_stream(address),
    };
    for _ in 0..2 {
        let got = at_once(300, call, relay.address());
        let refused = got.iter().filter_map(|each| each.as_ref().err());
        for why in refused {
            assert!(why.contains(" 503 "), "{why}");
        }
        let open: Vec<_> = got.into_iter().flatten().collect();
        assert_eq!(open.len(), 10);
        assert_eq!(relay.metric("pvwire_sessions_active"), 10.0);
        drop(open);
        eventually("all have left", || {
            relay.metric("pvwire_sessions_active") == 0.0
        });
    }
}

/// Reads a PV that no server has as a client of PVWS does by HTTP, for which the relay waits; or the status of its
/// refusal.
fn read_in_vain(address: SocketAddr, n: usize) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let path = format!("/pvws/pvget?name=nowhere:{n}");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    answered(&mut stream, &request)
}

#[test]
fn simultaneous_requests_that_wait_never_exceed_the_number_of_clients() {
    let relay = Relay::start(Network::new(), &["--max-clients=10", "--pvws"]);
    let got = at_once(100, read_in_vain, relay.address());
    assert_eq!(got.iter().filter(|each| each.is_ok()).count(), 10);
    for why in got.iter().filter_map(|each| each.as_ref().err()) {
        assert!(why.contains(" 503 "), "{why}");
    }
    // Each has left its place.
    let clients: Vec<_> = (0..10)
        .map(|_| upgraded(relay.address(), "/ws", Some("pvwire.v1")))
        .collect();
    assert!(clients.iter().all(Result::is_ok));
}

#[test]
fn refused_and_broken_handshakes_leave_their_place_to_others() {
    let relay = Relay::start(Network::new(), &["--max-clients=3"]);
    let address = relay.address();
    for n in 0..20 {
        // A foreign page, a missing key, an unknown subprotocol, and a client that leaves in the handshake.
        let foreign = [("Origin", "https://foreign.example")];
        assert_eq!(handshake_at(address, "/ws", &foreign).status, 403);
        assert!(upgraded(address, "/ws", Some("other")).is_err());
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        drop(stream);
        // A value that is read once and a stream that ends.
        if n % 5 == 0 {
            drop(event_stream(address));
        }
    }
    let mut clients = Vec::new();
    eventually("three clients are served", || {
        clients.extend(upgraded(address, "/ws", Some("pvwire.v1")).ok());
        clients.len() == 3
    });
    assert!(upgraded(address, "/ws", Some("pvwire.v1")).is_err());
}

#[test]
fn streams_of_large_values_leave_the_descriptors_of_probes() {
    let relay = Relay::spawn(relay_command_with_limit(Network::new(), "-n 256"), &[]);
    let address = relay.address();
    let mut clients: Vec<_> = (0..40).map(|_| Client::connect(address)).collect();
    let paths: Vec<_> = clients.iter_mut().map(Client::ask_for_stream).collect();
    let others: Vec<_> = (0..256)
        .map_while(|_| upgraded(address, "/ws", Some("pvwire.v1")).ok())
        .collect();
    assert!(others.len() > 20, "{}", others.len());
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        answered(&mut stream, &request).is_ok().then_some(stream)
    };
    let streams: Vec<_> = paths.iter().filter_map(|path| ask(path)).collect();
    assert_eq!(streams.len(), 0, "the relay is full");
    eventually("probes are answered", || ask("/live").is_some());
    drop(others);
    eventually("there is room again", || ask(&paths[0]).is_some());
}

#[test]
fn event_streams_leave_the_descriptors_that_an_ioc_needs_to_come_back() {
    let network = Network::new();
    let record = r#"record(ao, "$(P)ao") { field(VAL, "1") }"#;
    let ioc = SoftIoc::start(network, record);
    let prefix = ioc.prefix().to_owned();
    let mut relay = Relay::spawn(relay_command_with_limit(network, "-n 400"), &[]);
    let address = relay.address();
    let mut client = Client::connect(address);
    let name = ioc.name("ao");
    client.subscribe_live(&[&name]);

    let got = at_once(300, |address, _| event_stream(address), address);
    let streams: Vec<_> = got.into_iter().flatten().collect();
    // As many as there is room for, not none because more came.
    assert!((180..280).contains(&streams.len()), "{}", streams.len());
    let status = relay.proc("status");
    let pid = status.lines().find_map(|line| line.strip_prefix("Pid:"));
    let folder = format!("/proc/{}/fd", pid.unwrap().trim());
    let open = || std::fs::read_dir(&folder).unwrap().count();
    assert!(open() <= 400 - 64, "{} descriptors", open());
    let probe = format!("GET /live HTTP/1.1\r\nHost: {address}\r\n\r\n");
    eventually("the refused ones have left room for probes", || {
        answered(&mut TcpStream::connect(address).unwrap(), &probe).is_ok()
    });

    ioc.kill();
    client.wait_state(&name, ConnectionState::Disconnected);
    let mut ioc = SoftIoc::with_prefix(network, &prefix, record, "");
    client.wait_state(&name, ConnectionState::Connected);
    ioc.put("ao", "2");
    client.wait_number(&name, 2.0);
    assert!(relay.runs());
    assert!(
        !relay.output().contains("Too many open files"),
        "{}",
        relay.output()
    );
}
