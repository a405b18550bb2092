//! The first whole answer about a PV doesn't wait for names that its server doesn't have, and what is found later
//! arrives as an update.
//!
//! Topology: a server of caproto or PCAS, whose PVs have no fields, or a soft IOC behind a program that holds back
//! searches; new relays, which know nothing of the server.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Client, Kept, Maker, Network, OtherServer, Relay, SoftIoc, get, within};

/// Names are read once and closed, so that each answer is a first one.
const FLAGS: [&str; 3] = ["--coniql", "--linger-ms=0", "--not-found-after-ms=60000"];

const SOON: Duration = Duration::from_millis(500);

/// What `GET /pv/…` answers.
fn whole(relay: &Relay, name: &str) -> Value {
    let answer = get(
        relay.address(),
        &format!("/pv/{name}?timeout_ms=20000"),
        &[],
    );
    serde_json::from_str(&answer.body).unwrap()
}

/// What Coniql's door answers to a query with the description.
fn by_coniql(relay: &Relay, name: &str) -> Value {
    let query = format!(
        "{{ getChannel(id: \"{name}\") {{ display {{ description }} value {{ string }} }} }}"
    );
    let query = query
        .replace(' ', "%20")
        .replace('{', "%7B")
        .replace('}', "%7D")
        .replace('"', "%22");
    let answer = get(relay.address(), &format!("/graphql?query={query}"), &[]);
    let mut answer: Value = serde_json::from_str(&answer.body).unwrap();
    answer["data"]["getChannel"].take()
}

#[test]
fn first_whole_answers_of_servers_without_descriptions_take_half_a_second_at_most() {
    for maker in [Maker::Caproto, Maker::Pcas] {
        let network = Network::new();
        let mut server = OtherServer::start(network, maker);
        let text = server.pv("text");
        // Channel Access may have cut a string of this length.
        let full = "x".repeat(39);
        server.post("text", &format!("{full:?}"));
        let relay = || Relay::start(network, &FLAGS);
        for (pv, expected) in [("still", "7"), ("integers", "[1, 2, 3]"), ("text", &full)] {
            let name = server.pv(pv);
            let mut known = relay();
            within(SOON, pv, || {
                known = relay();
                let begun = Instant::now();
                let answer = whole(&known, &name);
                assert_eq!(answer["value"]["string"], expected, "{answer}");
                assert_eq!(answer["display"]["description"], "", "{answer}");
                begun.elapsed()
            });
            within(SOON / 2, "what the relay knows by now", || {
                let begun = Instant::now();
                let answer = whole(&known, &name);
                assert_eq!(answer["value"]["string"], expected, "{answer}");
                begun.elapsed()
            });
            within(SOON, "a query of Coniql", || {
                let relay = relay();
                let begun = Instant::now();
                let answer = by_coniql(&relay, &name);
                assert_eq!(answer["value"]["string"], expected, "{answer}");
                begun.elapsed()
            });
            within(SOON, "a get with descriptions", || {
                let relay = relay();
                let mut client = Client::connect(relay.address());
                let begun = Instant::now();
                let (pvs, errors) = client.get_with(&[&name, &text], 20_000, true);
                assert!(errors.is_empty() && pvs.iter().all(Option::is_some));
                begun.elapsed()
            });
        }
    }
}

/// Forwards searches by UDP to a network's IOC. While it holds them back, it drops those for names with a certain
/// end.
struct Searches {
    holds_back: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl Searches {
    fn forward(from: Network, to: Network, end: &'static str) -> Self {
        let [holds_back, has_ended] = [true, false].map(|is| Arc::new(AtomicBool::new(is)));
        let socket = UdpSocket::bind(("127.0.0.1", from.server_port())).unwrap();
        let forwarding = (Arc::clone(&holds_back), Arc::clone(&has_ended));
        thread::spawn(move || Self::run(&socket, to.server_port(), end, forwarding));
        Self {
            holds_back,
            has_ended,
        }
    }

    fn run(
        socket: &UdpSocket,
        port: u16,
        end: &str,
        (holds_back, has_ended): (Arc<AtomicBool>, Arc<AtomicBool>),
    ) {
        let pause = Some(Duration::from_millis(5));
        socket.set_read_timeout(pause).unwrap();
        // One for each client context, because their searches have the same numbers.
        let mut iocs = HashMap::new();
        let mut bytes = [0; 65_536];
        let name_end = format!("{end}\0").into_bytes();
        while !has_ended.load(Ordering::Acquire) {
            if let Ok((length, client)) = socket.recv_from(&mut bytes) {
                let ioc = iocs.entry(client).or_insert_with(|| {
                    let ioc = UdpSocket::bind("127.0.0.1:0").unwrap();
                    ioc.set_nonblocking(true).unwrap();
                    ioc.connect(("127.0.0.1", port)).unwrap();
                    ioc
                });
                let names = |name: &[u8]| name == name_end;
                let is_held = bytes[..length].windows(name_end.len()).any(names);
                if !(is_held && holds_back.load(Ordering::Acquire)) {
                    let _ = ioc.send(&bytes[..length]);
                }
            }
            for (client, ioc) in &iocs {
                while let Ok(length) = ioc.recv(&mut bytes) {
                    let _ = socket.send_to(&bytes[..length], client);
                }
            }
        }
    }

    fn release(&self) {
        self.holds_back.store(false, Ordering::Release);
    }
}

impl Drop for Searches {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

const DATABASE: &str = r#"
    record(ai, "$(P)ai") { field(DESC, "Gap of the undulator") field(VAL, "1") field(PINI, "YES") }
    record(lso, "$(P)lso") { field(SIZV, "80") }
"#;

#[test]
fn description_that_is_found_late_delays_no_answer_and_arrives() {
    let [behind, before] = [Network::new(), Network::new()];
    let ioc = SoftIoc::start(behind, DATABASE);
    let searches = Searches::forward(before, behind, ".DESC");
    let ai = ioc.name("ai");
    let mut relay = Relay::start(before, &FLAGS);
    let mut client = Client::connect(relay.address());
    within(SOON, "an answer without the description", || {
        relay = Relay::start(before, &FLAGS);
        client = Client::connect(relay.address());
        let begun = Instant::now();
        let answer = whole(&relay, &ai);
        assert_eq!(answer["display"]["description"], "", "{answer}");
        begun.elapsed()
    });
    client.subscribe_live(&[&ai]);
    client.describe(&[&ai]);
    searches.release();
    client.wait_pv(&ai, "the description", |pv| {
        pv.metadata.as_ref().unwrap().description == "Gap of the undulator"
    });
    assert_eq!(
        whole(&relay, &ai)["display"]["description"],
        "Gap of the undulator"
    );
}

#[test]
fn long_string_that_is_found_late_is_shown_cut_and_then_whole() {
    let [behind, before] = [Network::new(), Network::new()];
    let mut ioc = SoftIoc::start(behind, DATABASE);
    let long = "a text of more than thirty-nine bytes, to be whole";
    ioc.put("lso", long);
    let searches = Searches::forward(before, behind, ".VAL$");
    let lso = ioc.name("lso");
    let relay = Relay::start(before, &FLAGS);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&lso]);
    client.wait_pv(&lso, "what Channel Access has", |pv| {
        pv.is(&Kept::text(&long[..39]))
    });
    searches.release();
    client.wait_pv(&lso, "the whole text", |pv| pv.is(&Kept::text(long)));
    ioc.put("lso", "short");
    client.wait_pv(&lso, "a short text", |pv| pv.is(&Kept::text("short")));
}
