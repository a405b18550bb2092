//! Channel Access circuits with servers of any maker: quiet ones, ones that hang, ones that say
//! nothing.
//!
//! Topology: servers of EPICS base and of other makers, one relay, one client.

use std::process::Command;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Connection, ConnectionState, Outcome, PutRequest, PutValue, Reply, RequestBody,
};

use testbed::{
    Client, Kept, LyingServer, Maker, Network, OtherServer, Pv, Relay, SoftIoc, prefix,
    relay_command,
};

/// Long enough for several probes of a quiet server.
const QUIET: Duration = Duration::from_secs(6);

/// A relay finds a server that hangs unresponsive within this time.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);

const PUTS: [&str; 2] = ["--enable-put", "--allow-put=*"];

fn is_unresponsive(pv: &Pv) -> bool {
    let connection = pv.connection.unwrap();
    connection.state == ConnectionState::Connected && connection.heard_ns != 0
}

/// Why a PV has no value.
fn reason(pv: &Pv) -> &str {
    let metadata = pv.metadata.as_ref();
    metadata.map_or("", |metadata| &metadata.missing_field)
}

/// Subscribes PVs that don't change, and checks that they stay connected and that nothing in the
/// server reads a record meanwhile.
fn quiet_server_is_left_alone(maker: Maker, names: &[&str]) {
    let network = Network::new();
    let server = OtherServer::start(network, maker);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let all: Vec<_> = names.iter().map(|name| server.pv(name)).collect();
    client.subscribe(&all);
    client.wait("all are connected", |client| {
        let connected = |name: &String| client.pv(name).state() == ConnectionState::Connected;
        all.iter().all(connected)
    });
    // Of servers that count reads, the last PV is their number.
    let reads = all.last().unwrap().clone();
    client.wait_pv(&all[0], "has a value", |pv| pv.now.is_some());
    // Reads at the begin of a monitor have ended.
    let settled = Instant::now();
    client.wait("a second passes", |_| {
        settled.elapsed() > Duration::from_secs(1)
    });
    let before = client.pv(&reads).rows.len();

    let start = Instant::now();
    client.wait("nothing happens", |client| {
        assert!(
            !client.pvs.values().any(is_unresponsive),
            "a quiet server is healthy"
        );
        start.elapsed() > QUIET
    });

    assert_eq!(
        client.pv(&reads).rows.len(),
        before,
        "nobody reads a record"
    );
    for name in &all {
        let states: Vec<_> = client
            .pv(name)
            .states
            .iter()
            .map(|seen| seen.state)
            .collect();
        assert!(
            !states.contains(&ConnectionState::Disconnected),
            "{name}: {states:?}"
        );
    }
    assert_eq!(relay.metric("pvwire_ca_circuits_cut_total"), 0.0);
    assert_eq!(relay.metric("pvwire_ca_messages_ignored_total"), 0.0);
    // It is asked all the same.
    let hung = Instant::now();
    server.hang();
    client.wait_pv(&all[0], "no news", is_unresponsive);
    // The machine may be busy.
    assert!(hung.elapsed() < SHOWN_WITHIN * 4, "{:?}", hung.elapsed());
    server.resume();
    client.wait_pv(&all[0], "news", |pv| !is_unresponsive(pv));
}

#[test]
fn quiet_pvs_of_pcas_stay_connected_and_are_not_read() {
    let names = [
        "number",
        "slow",
        "text",
        "char_text",
        "choice",
        "empty",
        "array",
        "strings",
    ];
    quiet_server_is_left_alone(Maker::Pcas, &names);
}

#[test]
fn quiet_pvs_of_caproto_stay_connected_beside_empty_arrays_and_are_not_read() {
    let names = [
        "number",
        "slow",
        "empty",
        "text",
        "char_text",
        "choice",
        "one",
    ];
    quiet_server_is_left_alone(Maker::Caproto, &names);
}

#[test]
fn quiet_pvs_of_caj_stay_connected() {
    let names = ["number", "text", "choice", "array", "still"];
    quiet_server_is_left_alone(Maker::Caj, &names);
}

#[test]
fn puts_to_pcas_are_answered_although_it_sends_short_strings() {
    let network = Network::new();
    let server = OtherServer::start(network, Maker::Pcas);
    let relay = Relay::start(network, &PUTS);
    let mut client = Client::connect(relay.address());
    let [text, waits, choice] = ["text", "waits", "choice"].map(|name| server.pv(name));
    client.subscribe_live(&[&text, &waits, &choice]);

    for wait in [true, false] {
        for value in ["ab", "", "seven b", "eight by", "x"] {
            let order = RequestBody::Put(PutRequest {
                wait,
                ..order(&text, PutValue::Text(value.to_owned()))
            });
            let (reply, _) = client.ask(order);
            assert_eq!(outcome(reply), Outcome::Done, "{value:?}");
            client.wait_pv(&text, value, |pv| pv.is(&Kept::text(value)));
        }
    }
    assert_eq!(client.put_number(&waits, 4.5).0, Outcome::Done);
    client.wait_number(&waits, 4.5);
    assert_eq!(client.put_number(&choice, 0.0).0, Outcome::Done);
    for name in [&text, &waits, &choice] {
        let states = &client.pv(name).states;
        let lost = |seen: &&Connection| seen.state == ConnectionState::Disconnected;
        assert_eq!(states.iter().find(lost), None, "{name}");
    }
}

fn order(name: &str, value: PutValue) -> PutRequest {
    PutRequest {
        name: name.to_owned(),
        value,
        wait: true,
        timeout_ms: 20_000,
        expected: None,
    }
}

fn outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::PutDone { outcome, .. } => outcome,
        other => panic!("{other:?} answers a Put"),
    }
}

/// A relay that searches two networks by Channel Access, and whose libca gives a server up after 6 s.
fn relay_of(one: Network, other: Network) -> Command {
    relay_with(one, &addresses(one, other), "")
}

/// The same relay without UDP: it searches by the servers' own connections.
fn relay_by_name_servers(one: Network, other: Network) -> Command {
    relay_with(one, "", &addresses(one, other))
}

fn addresses(one: Network, other: Network) -> String {
    [one, other]
        .map(|network| format!("127.0.0.1:{}", network.server_port()))
        .join(" ")
}

fn relay_with(network: Network, list: &str, name_servers: &str) -> Command {
    let mut command = relay_command(network);
    command
        .env("EPICS_CA_ADDR_LIST", list)
        .env("EPICS_CA_NAME_SERVERS", name_servers)
        .env("EPICS_CA_CONN_TMO", "1");
    command
}

const RECORDS: &str = r#"
    record(ao, "$(P)ao") { field(VAL, "1") }
    record(waveform, "$(P)array") { field(FTVL, "DOUBLE") field(NELM, "4") }
    record(stringout, "$(P)text") { field(VAL, "a") }
    record(calcout, "$(P)slow") { field(CALC, "A") field(ODLY, "8") }
"#;

#[test]
fn pvs_of_an_ioc_that_hangs_are_found_at_another_address() {
    hung_ioc_is_found_at_another_address(relay_of);
}

#[test]
fn pvs_of_an_ioc_that_hangs_are_found_by_another_name_server() {
    hung_ioc_is_found_at_another_address(relay_by_name_servers);
}

fn hung_ioc_is_found_at_another_address(relay_of: fn(Network, Network) -> Command) {
    let [first, second] = [Network::new(), Network::new()];
    let prefix = prefix();
    let hung = SoftIoc::with_prefix(first, &prefix, RECORDS, "");
    let relay = Relay::spawn(relay_of(first, second), &PUTS);
    let mut client = Client::connect(relay.address());
    let names = hung.names(["ao", "array", "text"]);
    client.subscribe_live(&names);

    hung.hang();
    let mut other = SoftIoc::with_prefix(second, &prefix, RECORDS, "");
    other.put("ao", "2");
    let since = Instant::now();
    client.wait_number(&names[0], 2.0);
    // libca's time-out is 6 s; the search is a matter of a second, on a busy machine of many.
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    for name in &names {
        client.wait_state(name, ConnectionState::Connected);
    }
    assert_eq!(client.put_number(&names[0], 3.0).0, Outcome::Done);
    client.wait_number(&names[0], 3.0);
    // The first one lives again and changes nothing.
    hung.resume();
    other.put("ao", "4");
    client.wait_number(&names[0], 4.0);
    assert!(!client.pv(&names[0]).numbers().contains(&1.5));
}

#[test]
fn ioc_that_dies_is_found_again_by_name_servers_alone_there_or_elsewhere() {
    let networks = [Network::new(), Network::new()];
    let prefix = prefix();
    let relay = Relay::spawn(relay_by_name_servers(networks[0], networks[1]), &PUTS);
    let mut client = Client::connect(relay.address());
    let name = format!("{prefix}ao");
    client.subscribe(&[&name]);
    // Neither name server is there at first; then one of them is, again, and the other one instead.
    for (value, at) in [(1.0, 0), (2.0, 0), (3.0, 1), (4.0, 0)] {
        let record = RECORDS.replace("\"1\"", &format!("\"{value}\""));
        let ioc = SoftIoc::with_prefix(networks[at], &prefix, &record, "");
        client.wait_number(&name, value);
        client.wait_state(&name, ConnectionState::Connected);
        assert_eq!(client.put_number(&name, 9.0).0, Outcome::Done);
        ioc.kill();
        client.wait_state(&name, ConnectionState::Disconnected);
    }
}

#[test]
fn pvs_of_a_server_of_another_maker_that_hangs_are_found_at_another_address() {
    for maker in [Maker::Caproto, Maker::Pcas, Maker::Caj] {
        let [first, second] = [Network::new(), Network::new()];
        let prefix = prefix();
        let hung = OtherServer::with_prefix(first, maker, &prefix);
        let relay = Relay::spawn(relay_of(first, second), &[]);
        let mut client = Client::connect(relay.address());
        let number = hung.pv("number");
        client.subscribe_live(&[&number]);
        hung.hang();
        let mut other = OtherServer::with_prefix(second, maker, &prefix);
        other.post("number", "2.5");
        client.wait_number(&number, 2.5);
    }
}

#[test]
fn pvs_of_a_pv_access_server_that_hangs_are_found_at_another_address() {
    let [first, second] = [
        Network::with_searches_by_udp(),
        Network::with_searches_by_udp(),
    ];
    let prefix = prefix();
    let hung = OtherServer::with_prefix(first, Maker::PvAccessCpp, &prefix);
    let mut command = relay_command(first);
    let addresses =
        [first, second].map(|network| format!("127.0.0.1:{}", network.pva_search_port()));
    command
        .env("EPICS_PVA_ADDR_LIST", addresses.join(" "))
        .env("EPICS_PVA_CONN_TMO", "2");
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    let number = format!("pva://{}", hung.pv("number"));
    client.subscribe_live(&[&number]);
    hung.hang();
    let mut other = OtherServer::with_prefix(second, Maker::PvAccessCpp, &prefix);
    other.post("number", "2.5");
    client.wait_number(&number, 2.5);
}

#[test]
fn put_that_a_hung_ioc_has_not_answered_is_not_repeated_at_another_address() {
    let [first, second] = [Network::new(), Network::new()];
    let prefix = prefix();
    let hung = SoftIoc::with_prefix(first, &prefix, RECORDS, "");
    let relay = Relay::spawn(relay_of(first, second), &PUTS);
    let mut client = Client::connect(relay.address());
    let [slow, ao] = hung.names(["slow.A", "ao"]);
    client.subscribe_live(&[&slow, &ao]);
    let put = client.request(RequestBody::Put(order(&slow, PutValue::Number(5.0))));
    // The put is at the IOC.
    client.wait_number(&slow, 5.0);
    hung.hang();
    let mut other = SoftIoc::with_prefix(second, &prefix, RECORDS, "");
    other.put("ao", "2");

    let (reply, _) = client.wait_answer(put);
    assert_eq!(outcome(reply), Outcome::Interrupted);
    client.wait_number(&ao, 2.0);
    client.wait_number(&slow, 0.0);
    assert_eq!(client.put_number(&ao, 3.0).0, Outcome::Done);
    assert!(client.pv(&slow).is_number(0.0));
}

#[test]
fn server_that_answers_a_search_and_then_says_nothing_is_named() {
    let network = Network::new();
    let server = LyingServer::start(&["silent", "good", "refuses", "odd"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &["--not-found-after-ms=1000"]);
    let mut client = Client::connect(relay.address());
    let [silent, good, refuses, odd] = &server.names[..] else {
        panic!("four names")
    };
    client.subscribe(&server.names);
    client.wait_state(silent, ConnectionState::NotFound);
    client.wait_pv(silent, "says who", |pv| {
        reason(pv).contains("answers searches for this PV and then doesn't connect it")
            && reason(pv).contains(&format!(":{}", server.port(0)))
    });
    for (index, name) in [(2, refuses), (3, odd)] {
        client.wait_pv(name, "says who", |pv| {
            reason(pv).contains("knows this name and then refuses it")
                && reason(pv).contains(&format!(":{}", server.port(index)))
        });
    }
    client.wait_number(good, 8.0);
    assert_eq!(reason(client.pv(good)), "");
    assert_eq!(relay.metric("pvwire_ca_circuits_cut_total"), 0.0);
}

#[test]
fn server_that_answers_a_search_and_then_refuses_the_connection_is_named() {
    let network = Network::new();
    let server = LyingServer::start(&["unreachable", "closes", "good"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &["--not-found-after-ms=1000"]);
    let mut client = Client::connect(relay.address());
    client.subscribe(&server.names);
    for (index, what) in [
        (0, "refuses the connection"),
        (1, "ends the connection at once"),
    ] {
        let name = &server.names[index];
        client.wait_pv(name, "says who", |pv| {
            reason(pv).contains(what) && reason(pv).contains(&format!(":{}", server.port(index)))
        });
        assert_ne!(client.pv(name).state(), ConnectionState::Connected);
        assert_eq!(client.pv(name).now, None);
    }
    let good = &server.names[2];
    client.wait_number(good, 8.0);
    assert_eq!(reason(client.pv(good)), "");
}

#[test]
fn pv_whose_server_lies_once_is_connected_by_the_next_valid_value() {
    let network = Network::new();
    let server = LyingServer::start(&["repents"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    let name = &server.names[0];
    client.subscribe(&server.names);
    client.wait_pv(name, "says why it has no value", |pv| {
        pv.state() == ConnectionState::NotFound && reason(pv).contains("can't be read")
    });
    assert!(client.pv(name).now.is_none(), "its value is withdrawn");
    client.wait_number(name, 8.0);
    let pv = client.pv(name);
    assert_eq!((pv.state(), reason(pv)), (ConnectionState::Connected, ""));
    assert_eq!(pv.metadata.as_ref().unwrap().units, "mm");
    assert_eq!(relay.metric("pvwire_ca_circuits_cut_total"), 0.0);
}
