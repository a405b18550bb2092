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

#[test]
fn server_that_lies_is_cut_and_other_servers_pvs_stay() {
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

    for name in &liar.names {
        let said = |state| move |pv: &testbed::Pv| pv.states.iter().any(|seen| seen.state == state);
        victim.wait_pv(name, "connected once", said(ConnectionState::Connected));
        victim.wait_pv(name, "disconnected", said(ConnectionState::Disconnected));
        let numbers = victim.pv(name).numbers();
        assert!(
            numbers.iter().all(|number| *number == 7.0),
            "{name}: {numbers:?}"
        );
    }
    let before = client.pv(&good).numbers().len();
    client.wait_pv(&good, "ten more", |pv| pv.numbers().len() > before + 10);

    assert!(relay.runs());
    eventually("they are counted", || {
        relay.metric("pvwire_ca_circuits_cut_total") >= LIES.len() as f64
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
