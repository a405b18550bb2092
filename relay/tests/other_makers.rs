//! PVs of servers that EPICS base did not write are right and stay so.
//!
//! Topology: a server of another maker, one relay, one client.

use pvwire_schema::types::{ConnectionState, Outcome};
use testbed::{
    Client, Kept, Maker, Network, OtherServer, PvaGateway, Relay, StructureServer, prefix,
};

/// Subscribes PVs of a server and checks their first values and those that are posted afterwards.
fn values_follow(maker: Maker, names: &[&str]) {
    let network = maker.network();
    let mut server = OtherServer::start(network, maker);
    let scheme = if maker.is_by_ca() { "ca://" } else { "pva://" };
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let name = |pv: &str| format!("{scheme}{}", server.pv(pv));
    let all: Vec<_> = names.iter().map(|pv| name(pv)).collect();
    let [number, text] = [name("number"), name("text")];
    client.subscribe(&all);
    for name in &all {
        client.wait_pv(name, "has a value", |pv| pv.now.is_some());
    }
    client.wait_number(&number, 1.5);
    client.wait_pv(&text, "is abc", |pv| pv.is(&Kept::text("abc")));
    server.post("number", "2.5");
    server.post("text", "\"b\"");
    client.wait_number(&number, 2.5);
    client.wait_pv(&text, "is b", |pv| pv.is(&Kept::text("b")));
}

#[test]
fn values_of_caproto_follow_its_pvs() {
    values_follow(
        Maker::Caproto,
        &["number", "still", "text", "char_text", "choice", "array"],
    );
}

#[test]
fn values_of_pcas_follow_its_pvs() {
    values_follow(
        Maker::Pcas,
        &["number", "still", "text", "char_text", "choice", "array"],
    );
}

#[test]
fn values_of_pv_access_cpp_follow_its_pvs() {
    values_follow(
        Maker::PvAccessCpp,
        &["number", "long", "text", "mode", "array", "empty"],
    );
}

#[test]
fn values_of_caj_follow_its_pvs() {
    values_follow(Maker::Caj, &["number", "still", "text", "choice", "array"]);
}

#[test]
fn values_of_core_pva_follow_its_pvs() {
    values_follow(
        Maker::CorePva,
        &["number", "long", "text", "mode", "array", "empty"],
    );
}

#[test]
fn values_behind_a_pva_gateway_are_those_of_its_server() {
    let [behind, before] = [Network::with_searches_by_udp(), Network::new()];
    let prefix = prefix();
    let _server = StructureServer::start(Some(behind), &prefix);
    let _gateway = PvaGateway::start(behind, before);
    let relay = Relay::start(before, &[]);
    let mut client = Client::connect(relay.address());
    let name = format!("pva://{prefix}step");
    client.subscribe(&[&name]);
    client.wait_pv(&name, "has a value", |pv| pv.now.is_some());
}

#[test]
fn pv_that_pv_access_cpp_does_not_let_be_monitored_says_so_while_its_server_is_there() {
    let network = Maker::PvAccessCppRpc.network();
    let server = OtherServer::start(network, Maker::PvAccessCppRpc);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let name = format!("pva://{}", server.pv("service"));
    let mut client = Client::connect(relay.address());
    client.subscribe(&[&name]);
    client.wait_state(&name, ConnectionState::Connected);
    client.wait_pv(&name, "the server's reason", |pv| {
        let metadata = pv.metadata.as_ref();
        metadata.is_some_and(|it| it.missing_field.contains("Not Implemented"))
    });
    assert_eq!(client.pv(&name).now, None);
    let (outcome, why) = client.put_number(&name, 1.0);
    assert_eq!(outcome, Outcome::Failed, "{why}");
    assert!(why.contains("Not Implemented"), "{why}");
    drop(server);
    client.wait_state(&name, ConnectionState::Disconnected);
}
