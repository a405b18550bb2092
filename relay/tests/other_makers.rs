//! PVs of servers that EPICS base did not write are right and stay so.
//!
//! Topology: a server of another maker, one relay, one client.

use testbed::{
    Client, Kept, Maker, Network, OtherServer, PvaGateway, Relay, StructureServer, prefix,
};

/// Subscribes PVs of a server and checks their first values and those that are posted afterwards.
fn values_follow(network: Network, server: &mut OtherServer, names: &[&str], scheme: &str) {
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
    let network = Network::new();
    let mut server = OtherServer::start(network, Maker::Caproto);
    values_follow(
        network,
        &mut server,
        &["number", "still", "text", "char_text", "choice", "array"],
        "ca://",
    );
}

#[test]
fn values_of_pcas_follow_its_pvs() {
    let network = Network::new();
    let mut server = OtherServer::start(network, Maker::Pcas);
    values_follow(
        network,
        &mut server,
        &["number", "still", "text", "char_text", "choice", "array"],
        "ca://",
    );
}

#[test]
fn values_of_pv_access_cpp_follow_its_pvs() {
    let network = Network::with_searches_by_udp();
    let mut server = OtherServer::start(network, Maker::PvAccessCpp);
    values_follow(
        network,
        &mut server,
        &["number", "long", "text", "mode", "array", "empty"],
        "pva://",
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
