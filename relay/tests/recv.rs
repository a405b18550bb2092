//! libca reads by the relay's own `recv`: a busy circuit doesn't wake it for every piece, and a
//! lying server can't end the process.
//!
//! Topology: a soft IOC, lying servers, a relay, a client.

use pvwire_schema::types::ConnectionState;

use testbed::{Client, LIES, LyingServer, Network, Relay, SoftIoc, eventually, relay_command};

const COUNTER: &str =
    "record(calc, \"$(P)n\") { field(CALC, \"VAL+1\") field(SCAN, \".1 second\") }";

#[test]
fn relay_exports_the_function_that_libca_reads_by() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, COUNTER);
    let relay = Relay::start(network, &[]);
    assert_eq!(relay.metric("pvwire_ca_reads_total"), 0.0);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[ioc.name("n")]);

    assert!(relay.metric("pvwire_ca_reads_total") > 0.0);
}

/// Whether its messages have no known end, so that its circuit is cut.
fn loses_its_framing(lie: &str) -> bool {
    ["misaligned", "command", "huge"].contains(&lie)
}

/// Whether it is about the PV itself, which then has no value; the others are about something else.
fn costs_its_pv(lie: &str) -> bool {
    ["plain", "count", "extended", "small", "type", "destroyed"].contains(&lie)
}

#[test]
fn server_that_lies_costs_only_what_it_lies_about() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, COUNTER);
    let liar = LyingServer::start(&LIES);
    let mut command = relay_command(network);
    liar.apply(&mut command);
    let mut relay = Relay::spawn(command, &[]);
    let good = ioc.name("n");
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[good.as_str()]);
    let known = client.pv(&good).states.len();
    let mut victim = Client::connect(relay.address());
    victim.subscribe(&liar.names);

    for (name, lie) in liar.names.iter().zip(LIES) {
        let was = |state| move |pv: &testbed::Pv| pv.states.iter().any(|seen| seen.state == state);
        victim.wait_pv(name, "connected once", was(ConnectionState::Connected));
        if loses_its_framing(lie) {
            victim.wait_pv(name, "disconnected", was(ConnectionState::Disconnected));
        } else if costs_its_pv(lie) {
            victim.wait_pv(name, "says why it has no value", |pv| {
                pv.state() == ConnectionState::NotFound
                    && reason(pv).contains("sends what can't be read")
                    && reason(pv).contains("127.0.0.1:")
            });
        }
    }
    let before = client.pv(&good).numbers().len();
    client.wait_pv(&good, "ten more", |pv| pv.numbers().len() > before + 10);

    assert!(relay.runs());
    for (name, lie) in liar.names.iter().zip(LIES) {
        let pv = victim.pv(name);
        let numbers = pv.numbers();
        // Of all subscriptions that it pretends to have, its own is one.
        let own = if lie == "others" { 666.0 } else { 7.0 };
        assert!(
            numbers.iter().all(|number| [7.0, own].contains(number)),
            "{name}: {numbers:?}"
        );
        let was_lost = (pv.states.iter()).any(|seen| seen.state == ConnectionState::Disconnected);
        assert_eq!(was_lost, loses_its_framing(lie), "{lie}: {:?}", pv.states);
        let is_connected = pv.state() == ConnectionState::Connected;
        assert!(
            is_connected != (was_lost || costs_its_pv(lie)) || was_lost,
            "{lie}"
        );
    }
    eventually("they are counted", || {
        relay.metric("pvwire_ca_circuits_cut_total") >= 3.0
            && relay.metric("pvwire_ca_messages_ignored_total") >= 10.0
    });
    relay.says("sends what no server may send");
    relay.says("its administrator must");
    let pv = client.pv(&good);
    assert_eq!(pv.states.len(), known, "{:?}", pv.states);
    let numbers = pv.numbers();
    assert!(
        numbers.windows(2).all(|two| two[1] == two[0] + 1.0),
        "{numbers:?}"
    );
    assert_eq!(pv.skipped, 0);
}

/// Why a PV has no value.
fn reason(pv: &testbed::Pv) -> &str {
    let metadata = pv.metadata.as_ref();
    metadata.map_or("", |metadata| &metadata.missing_field)
}

#[test]
fn messages_in_pieces_and_without_an_element_are_no_lies() {
    let network = Network::new();
    let server = LyingServer::start(&["good", "halves", "zero"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&server.names);
    let [good, halves, zero] = &server.names[..] else {
        panic!("three names")
    };
    client.wait_number(good, 8.0);
    client.wait_pv(halves, "three values", |pv| pv.numbers() == [7.0; 3]);
    assert_eq!(client.pv(zero).numbers(), [7.0]);
    assert_eq!(relay.metric("pvwire_ca_circuits_cut_total"), 0.0);
}

#[test]
fn lie_about_a_read_is_no_harm_to_the_put_before_it() {
    let network = Network::new();
    let server = LyingServer::start(&["get", "read"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let mut relay = Relay::spawn(command, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&server.names);
    for name in &server.names {
        let (outcome, why) = client.put_number(name, 3.0);
        assert_eq!(
            outcome,
            pvwire_schema::types::Outcome::Done,
            "{name}: {why}"
        );
        assert_eq!(client.pv(name).state(), ConnectionState::Connected);
    }
    assert!(relay.runs());
    assert!(relay.metric("pvwire_ca_messages_ignored_total") >= 2.0);
    assert_eq!(relay.metric("pvwire_ca_circuits_cut_total"), 0.0);
}
