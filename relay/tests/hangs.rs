//! An IOC that hangs: every way out of the relay says so within three seconds, as far as it can.
//!
//! `relay/tests/stalls.rs` is about the frames of pvwire's own protocol, `relay/tests/pvws/hangs.rs` about PVWS.
//!
//! Topology: a soft IOC or a pvAccess server that is stopped and resumed, a relay with the door of Coniql, HTTP clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, SoftIoc, StructureServer, get, prefix, signal, within};
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
