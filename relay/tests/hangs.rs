//! An IOC that hangs: every way out of the relay says so within three seconds, as far as it can.
//!
//! After a stall of an IOC, or of the network to it, every field of every PV is right. `relay/tests/pvws/hangs.rs` is about
//! PVWS.
//!
//! Topology: a soft IOC or a pvAccess server that is stopped and resumed, a relay with the door of Coniql, HTTP clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_schema::types::{Connection, ConnectionState, Outcome};
use serde_json::{Value, json};
use testbed::records::{KINDS, record};
use testbed::{
    Client, DEADLINE, Network, Pv, Relay, SoftIoc, StructureServer, Truth, Wire, get, prefix,
    relay_command, signal, within,
};
use tungstenite::client::{ClientRequestBuilder, client};
use tungstenite::{Message, WebSocket};

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
"#;

/// Within this time clients are told that an IOC doesn't respond.
const TOLD_WITHIN: Duration = Duration::from_secs(3);

/// A request by HTTP, and what comes of its answer.
pub(crate) fn open(relay: &Relay, path: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n",
        relay.address()
    )
    .unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        answer.read_line(&mut line).unwrap();
    }
    answer
}

/// The next event that fits.
pub(crate) fn event(stream: &mut BufReader<TcpStream>, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ended");
        if let Some(data) = line.strip_prefix("data: ") {
            let event = serde_json::from_str(data).unwrap();
            if fits(&event) {
                return event;
            }
        }
    }
}

struct Coniql(WebSocket<TcpStream>);

impl Coniql {
    fn subscribe(relay: &Relay, name: &str) -> Self {
        let stream = TcpStream::connect(relay.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let uri = format!("ws://{}/ws", relay.address()).parse().unwrap();
        let request = ClientRequestBuilder::new(uri).with_sub_protocol("graphql-transport-ws");
        let mut socket = client(request, stream).unwrap().0;
        let query = format!(
            "subscription {{ subscribeChannel(id: \"{name}\") {{ value {{ float }} status {{ quality }} }} }}"
        );
        for message in [
            json!({"type": "connection_init"}),
            json!({"type": "subscribe", "id": "1", "payload": {"query": query}}),
        ] {
            socket.send(Message::text(message.to_string())).unwrap();
        }
        Self(socket)
    }

    fn until(&mut self, quality: &str) {
        loop {
            if let Message::Text(text) = self.0.read().unwrap() {
                let message: Value = serde_json::from_str(&text).unwrap();
                let channel = &message["payload"]["data"]["subscribeChannel"];
                if channel["status"]["quality"] == quality {
                    return;
                }
            }
        }
    }
}

#[test]
fn ioc_that_hangs_is_told_by_events_and_by_coniql() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let strict = ["--coniql", "--coniql-strict"];
    let relays = [
        Relay::start(network, &["--coniql"]),
        Relay::start(network, &strict),
    ];
    let name = ioc.name("ao");
    let mut events = open(&relays[0], &format!("/pv/{name}/stream"));
    event(&mut events, |pv| pv["value"]["float"] == 1);
    let mut coniql = relays
        .each_ref()
        .map(|relay| Coniql::subscribe(relay, &name));
    for client in &mut coniql {
        client.until("VALID");
    }
    // Coniql has no quality for what isn't known.
    let unknown = ["UNDEFINED", "INVALID"];
    let query = format!("/ws?query=%7BgetChannel(id:%22{name}%22)%7Bstatus%7Bquality%7D%7D%7D");
    within(TOLD_WITHIN, "every client is told", || {
        let begin = Instant::now();
        ioc.hang();
        let told = event(&mut events, |pv| pv["connection"]["unresponsive"] == true);
        assert_eq!(
            (&told["value"]["float"], &told["status"]["quality"]),
            (&json!(1), &json!("UNDEFINED"))
        );
        for (client, quality) in coniql.iter_mut().zip(unknown) {
            client.until(quality);
        }
        let took = begin.elapsed();
        for (relay, quality) in relays.iter().zip(unknown) {
            let read = get(relay.address(), &query, &[]).body;
            assert!(
                read.contains(&format!(r#""quality":"{quality}""#)),
                "{read}"
            );
        }
        let read = get(relays[0].address(), &format!("/pv/{name}"), &[]);
        assert_eq!(read.status, 503, "{}", read.body);
        ioc.resume();
        event(&mut events, |pv| pv["connection"]["unresponsive"] == false);
        for client in &mut coniql {
            client.until("VALID");
        }
        took
    });
}

/// The next image of a stream.
fn image(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8_lossy(&line);
        if let Some(text) = line.strip_prefix("Content-Length: ") {
            length = Some(text.trim().parse::<usize>().unwrap());
        } else if line == "\r\n"
            && let Some(length) = length
        {
            // Sizes of chunks may be within, so that a few bytes are missing at the end.
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).unwrap();
            return bytes;
        }
    }
}

#[test]
fn server_that_hangs_crosses_out_the_image() {
    let network = Network::new();
    let structures = prefix();
    let server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &["--not-found-after-ms=60000"]);
    let name = format!("pva:%2F%2F{structures}small_image");
    let mut images = open(&relay, &format!("/pv/{name}.mjpeg?timeout_ms=20000"));
    let first = image(&mut images);
    assert!(first.starts_with(b"\xff\xd8"));
    within(TOLD_WITHIN, "the image is crossed out", || {
        let begin = Instant::now();
        signal(server.id(), "STOP");
        let outdated = image(&mut images);
        let took = begin.elapsed();
        assert!(outdated.starts_with(b"\xff\xd8") && outdated != first);
        let read = get(relay.address(), &format!("/pv/{name}.png"), &[]);
        assert_eq!(read.status, 503, "{}", read.body);
        signal(server.id(), "CONT");
        assert!(image(&mut images) == first, "the image is back");
        took
    });
}

/// Within this a PV says that its server doesn't answer.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);

/// Longer than libca waits: 5 s without a sign of life and 5 s for the answer to an echo.
const STALL: Duration = Duration::from_secs(11);

const PUTS: [&str; 2] = ["--enable-put", "--allow-put=*"];

struct World {
    network: Network,
    ioc: SoftIoc,
    names: Vec<String>,
}

impl World {
    fn new() -> Self {
        let (network, prefix) = (Network::new(), prefix());
        let names: Vec<String> = KINDS
            .iter()
            .enumerate()
            .map(|(number, _)| format!("{prefix}{number}"))
            .collect();
        let database: String = (KINDS.iter().zip(&names))
            .map(|(kind, name)| record(kind, name, 3))
            .collect();
        let ioc = SoftIoc::with_pv_access(network, &prefix, &database);
        Self {
            network,
            ioc,
            names,
        }
    }

    /// Stalls for longer than the time-outs, then compares every field of every PV, in a client
    /// that was there and in a new one.
    fn stall(&mut self, relay: &Relay, mut stall: impl FnMut(&mut SoftIoc, bool)) {
        let mut client = Client::connect(relay.address());
        let pva: Vec<String> = (self.names.iter())
            .map(|name| format!("pva://{name}"))
            .collect();
        client.subscribe_live(&self.names);
        client.subscribe_live(&pva);
        let seen = |client: &Client| -> Vec<_> {
            pva.iter().map(|name| picture(client.pv(name))).collect()
        };
        let before = seen(&client);

        let (mut begin_ns, mut start) = (0, Instant::now());
        within(SHOWN_WITHIN, "no PV has news", || {
            stall(&mut self.ioc, false);
            client.wait("every PV has news", |client| {
                client.pvs.values().all(is_responsive)
            });
            begin_ns = wall_ns();
            stall(&mut self.ioc, true);
            start = Instant::now();
            client.wait("no PV has news", |client| {
                client.pvs.values().all(is_unresponsive)
            });
            start.elapsed()
        });
        for pv in client.pvs.values() {
            let heard_ns = pv.connection.unwrap().heard_ns;
            assert!(
                (begin_ns - 10_000_000_000..wall_ns() - 1_000_000_000).contains(&heard_ns),
                "{heard_ns}, {begin_ns}"
            );
        }
        client.wait("every PV is disconnected", |client| {
            let mut pvs = client.pvs.values();
            start.elapsed() >= STALL && pvs.all(|pv| pv.state() == ConnectionState::Disconnected)
        });
        for pv in client.pvs.values() {
            let connection = pv.connection.unwrap();
            assert!(!connection.read && !connection.write);
            let silent_ns = connection.since_ns - connection.heard_ns;
            assert!(
                silent_ns > 2_000_000_000,
                "old since the last news: {connection:?}"
            );
        }
        stall(&mut self.ioc, false);

        client.wait("every PV is connected", |client| {
            let mut pvs = client.pvs.values();
            pvs.all(|pv| pv.state() == ConnectionState::Connected)
        });
        let truth = Truth::ask(self.network, &self.names);
        truth.wait_equal(&mut client);
        for (name, before) in pva.iter().zip(&before) {
            client.wait_pv(name, before, |pv| picture(pv) == *before);
        }
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&self.names);
        truth.wait_equal(&mut late);
        for name in [&self.names[1], &pva[1]] {
            assert_eq!(late.put_number(name, 7.5).0, Outcome::Done);
            client.wait_number(name, 7.5);
        }
    }
}

fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_nanos() as i64
}

/// Connected, but its server doesn't answer.
fn is_unresponsive(pv: &Pv) -> bool {
    let connection = pv.connection.unwrap();
    connection.state == ConnectionState::Connected && connection.heard_ns != 0
}

/// Connected, and its server answers.
fn is_responsive(pv: &Pv) -> bool {
    let connection = pv.connection.unwrap();
    connection.state == ConnectionState::Connected && connection.heard_ns == 0
}

/// What a client knows of a PV but for the moment when it was connected.
fn picture(pv: &Pv) -> String {
    let connection = pv.connection.unwrap();
    let now = pv.now.as_ref();
    let now = now.map(|now| (&now.value, now.alarm, now.time_ns));
    format!(
        "{:?} {} {} {now:?} {:?}",
        connection.state, connection.read, connection.write, pv.metadata
    )
}

#[test]
fn every_field_is_right_after_an_ioc_hung_beyond_the_time_out() {
    let mut world = World::new();
    let relay = Relay::start(world.network, &PUTS);
    world.stall(&relay, |ioc, stalls| match stalls {
        true => ioc.hang(),
        false => ioc.resume(),
    });
}

#[test]
fn every_field_is_right_after_a_network_cut_beyond_the_time_out() {
    let mut world = World::new();
    let ports = [world.network.server_port(), world.network.pva_port()];
    let wires = ports.map(Wire::lay);
    let mut command = relay_command(world.network);
    let [ca, pva] = ports.map(|port| format!("127.0.0.2:{port}"));
    command
        .env("EPICS_CA_ADDR_LIST", "")
        .env("EPICS_CA_NAME_SERVERS", ca)
        .env("EPICS_PVA_NAME_SERVERS", pva);
    let relay = Relay::spawn(command, &PUTS);
    world.stall(&relay, |_, stalls| {
        wires.iter().for_each(|wire| wire.set(stalls));
    });
}

#[test]
fn ioc_that_hangs_for_a_moment_is_unresponsive_an_idle_one_not() {
    let mut world = World::new();
    let relay = Relay::start(world.network, &PUTS);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&world.names);
    let name = world.names[0].clone();

    for _ in 0..2 {
        let start = Instant::now();
        client.wait("nothing happens", |client| {
            for pv in client.pvs.values() {
                assert!(!is_unresponsive(pv), "an idle IOC is healthy");
            }
            start.elapsed() > SHOWN_WITHIN
        });
        world.ioc.hang();
        client.wait_pv(&name, "no news", is_unresponsive);
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&[&name]);
        assert!(is_unresponsive(late.pv(&name)), "a new client is told too");
        world.ioc.resume();
        client.wait("there is news", |client| {
            !client.pvs.values().any(is_unresponsive)
        });
        let states = &client.pv(&name).states;
        let connected = |connection: &Connection| connection.state == ConnectionState::Connected;
        assert!(
            states
                .iter()
                .skip_while(|connection| !connected(connection))
                .all(connected)
        );
    }
    world.ioc.put("0", "1.5");
    client.wait_number(&name, 1.5);
}
