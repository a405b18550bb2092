//! A client gets a record's description by Channel Access when it asks for it. The first whole answer about a PV
//! doesn't wait for names that its server doesn't have, and what is found later arrives as an update.
//!
//! Topology: one relay, clients that ask and one that doesn't, a soft IOC that restarts; a server of caproto or PCAS,
//! whose PVs have no fields, or a soft IOC behind a program that holds back searches.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::types::RequestBody;
use serde_json::Value;
use testbed::{
    Client, Kept, Maker, Network, OtherServer, Pv, Relay, SoftIoc, eventually, get, prefix, within,
};

const DATABASE: &str = r#"
    record(ai, "$(P)ai") { field(DESC, "Gap of the undulator") field(VAL, "1") field(PINI, "YES") }
    record(lso, "$(P)lso") { field(DESC, "Where the beam goes") field(SIZV, "80") }
    record(mbbo, "$(P)mode") { field(DESC, "What it does") field(ZRST, "off") }
    record(ai, "$(P)full") { field(DESC, "exactly 40 bytes of text are what it has") }
    record(ai, "$(P)none") {}
"#;

fn wait_description(client: &mut Client, name: &str, description: &str) {
    client.wait_pv(name, description, |pv| {
        pv.metadata.as_ref().unwrap().description == description
    });
}

#[test]
fn description_by_channel_access_comes_on_request_and_again() {
    let (network, prefix) = (Network::new(), prefix());
    let mut ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let fields = ["ai", "ai.HIHI", "lso.VAL$", "lso", "mode", "full", "none"];
    let names = ioc.names(fields);
    client.subscribe_live(&names);
    for name in &names {
        assert_eq!(client.pv(name).metadata.as_ref().unwrap().description, "");
    }
    client.describe(&names);
    let expected = [
        "Gap of the undulator",
        "Gap of the undulator",
        "Where the beam goes",
        "Where the beam goes",
        "What it does",
        "exactly 40 bytes of text are what it has",
    ];
    for (name, description) in names.iter().zip(expected) {
        wait_description(&mut client, name, description);
    }
    let ai = client.pv(&names[0]).metadata.clone().unwrap();
    // It is kept when other metadata changes, and the other metadata is kept when it arrives.
    ioc.put("ai.EGU", "mm");
    client.wait_pv(&names[0], "the unit", |pv| {
        let metadata = pv.metadata.as_ref().unwrap();
        metadata.units == "mm" && metadata.description == ai.description
    });

    ioc.kill();
    client.wait_state(
        &names[0],
        pvwire_schema::types::ConnectionState::Disconnected,
    );
    let other = DATABASE.replace("Gap of the undulator", "Gap of the wiggler");
    let _ioc = SoftIoc::with_prefix(network, &prefix, &other, "");
    wait_description(&mut client, &names[0], "Gap of the wiggler");
    wait_description(&mut client, &names[1], "Gap of the wiggler");
    wait_description(&mut client, &names[4], "What it does");
}

#[test]
fn description_is_read_once_for_all_clients() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let ai = ioc.name("ai");
    let mut first = Client::connect(relay.address());
    first.subscribe_live(&[&ai]);
    first.describe(&[&ai]);
    wait_description(&mut first, &ai, "Gap of the undulator");
    // The IOC can't be asked any more.
    ioc.hang();
    let mut second = Client::connect(relay.address());
    second.subscribe_live(&[&ai]);
    second.describe(&[&ai]);
    wait_description(&mut second, &ai, "Gap of the undulator");
    ioc.resume();
}

#[test]
fn description_and_long_string_follow_the_right_to_read() {
    let network = Network::new();
    let database = r#"
        record(lso, "$(P)lso") { field(DESC, "Where the beam goes") field(SIZV, "80") }
    "#;
    let rules = "ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }\nASG(secret) { RULE(1, NONE) }\n";
    let mut ioc = SoftIoc::with_prefix(network, &prefix(), database, rules);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let lso = ioc.name("lso");
    client.subscribe_live(&[&lso]);
    client.describe(&[&lso]);
    wait_description(&mut client, &lso, "Where the beam goes");
    let long = "a text of more than thirty-nine bytes, to be whole";
    ioc.put("lso", long);
    client.wait_pv(&lso, "the whole text", |pv| pv.is(&Kept::text(long)));

    ioc.put("lso.ASG", "secret");
    client.wait_pv(&lso, "no right to read", |pv| {
        let description = &pv.metadata.as_ref().unwrap().description;
        !pv.connection.unwrap().read && pv.now.is_none() && description.is_empty()
    });
    ioc.put("lso.ASG", "DEFAULT");
    client.wait_pv(&lso, "the whole text again", |pv| pv.is(&Kept::text(long)));
    wait_description(&mut client, &lso, "Where the beam goes");
}

#[test]
fn description_that_no_server_has_leaves_the_pv_as_it_is() {
    let network = Network::new();
    let database = r#"record(ai, "$(P)ai") { field(VAL, "2") field(PINI, "YES") }"#;
    let mut ioc = SoftIoc::start(network, database);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let ai = ioc.name("ai");
    client.subscribe_live(&[&ai]);
    // Ids that are not open are ignored.
    let ids = vec![client.id(&ai), pvwire_schema::types::PvId(999_999)];
    client.request(RequestBody::Describe { ids });
    ioc.put("ai", "3");
    client.wait_number(&ai, 3.0);
    assert_eq!(client.pv(&ai).metadata.as_ref().unwrap().description, "");
}

#[test]
fn get_with_description_has_it_though_no_client_asked_before() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let description = |pv: &Option<Pv>| {
        let metadata = pv.as_ref().unwrap().metadata.clone();
        metadata.unwrap().description.clone()
    };
    let names = ioc.names(["ai", "full", "none"]);
    let (pvs, errors) = client.get_with(&names, 0, true);
    assert_eq!(errors, []);
    assert_eq!(
        pvs.iter().map(description).collect::<Vec<_>>(),
        [
            "Gap of the undulator",
            "exactly 40 bytes of text are what it has",
            ""
        ]
    );
    // Another client's monitor is open already, without a description.
    let mode = ioc.name("mode");
    client.subscribe_live(&[&mode]);
    let (pvs, _) = Client::connect(relay.address()).get_with(&[&mode], 0, true);
    assert_eq!(description(&pvs[0]), "What it does");
    // Simulated PVs send it with the metadata: there is nothing to wait for.
    let (pvs, _) = client.get_with(&["sim://sine"], 0, true);
    assert_ne!(description(&pvs[0]), "");
}

#[test]
fn get_that_does_not_ask_for_the_description_does_not_read_it() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let (pvs, _) = client.get(&[ioc.name("lso")], 0);
    let metadata = pvs[0].as_ref().unwrap().metadata.clone();
    assert_eq!(metadata.unwrap().description, "");
}

#[test]
fn description_from_a_hanging_ioc_comes_when_it_goes_on() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let ai = ioc.name("ai");
    client.subscribe_live(&[&ai]);
    ioc.hang();
    // A get waits for it, less long than for a value, until the relay gives up the request.
    eventually("a get that doesn't wait", || {
        let asked = Instant::now();
        let (pvs, errors) = client.get_with(&[&ai], 60_000, true);
        assert_eq!(errors, []);
        assert!(pvs[0].as_ref().unwrap().is_number(1.0));
        asked.elapsed() < Duration::from_secs(1)
    });
    ioc.resume();
    wait_description(&mut client, &ai, "Gap of the undulator");
}

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

const FOUND_LATE: &str = r#"
    record(ai, "$(P)ai") { field(DESC, "Gap of the undulator") field(VAL, "1") field(PINI, "YES") }
    record(lso, "$(P)lso") { field(SIZV, "80") }
"#;

#[test]
fn description_that_is_found_late_delays_no_answer_and_arrives() {
    let [behind, before] = [Network::new(), Network::new()];
    let ioc = SoftIoc::start(behind, FOUND_LATE);
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
    let mut ioc = SoftIoc::start(behind, FOUND_LATE);
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
