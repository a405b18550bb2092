//! The relays of a fleet tell clients and operators of each other.
//!
//! Topology: one NATS server, relays with and without an address for clients, and clients of them.

use pvwire_schema::types::Hello;
use serde_json::Value;

use testbed::{Client, NatsServer, Network, Relay, eventually, get};

fn relay(network: Network, nats: &NatsServer, flags: &[&str]) -> Relay {
    let url = nats.url();
    Relay::start(network, &[&["--bus", &url], flags].concat())
}

fn greeting(relay: &Relay) -> Hello {
    Client::connect(relay.address()).hello.unwrap()
}

#[test]
fn clients_are_told_where_the_live_relays_of_their_site_are() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let one = relay(network, &nats, &["--member-url=wss://one/ws"]);
    let drain = ["--drain-delay-ms=60000", "--member-url=wss://two/ws"];
    let two = relay(network, &nats, &[&["--role=edge"], &drain[..]].concat());
    let hidden = relay(network, &nats, &["--role=ingest"]);
    let other_site = ["--site=other", "--member-url=wss://three/ws"];
    let _other = relay(network, &nats, &other_site);
    for (relay, told) in [
        (&one, ["wss://one/ws", "wss://two/ws"]),
        (&two, ["wss://two/ws", "wss://one/ws"]),
    ] {
        eventually("both addresses", || greeting(relay).relays == told);
    }
    assert!(!greeting(&one).crowded);
    for (host, status) in [("one", 200), ("two", 421)] {
        let answer = get(one.address(), "/status", &[("Host", host)]);
        assert_eq!(answer.status, status, "{host}");
    }
    eventually("a relay without an address tells of the others", || {
        greeting(&hidden).relays.len() == 2
    });

    let expected = [
        ("both", Some("wss://one/ws")),
        ("edge", Some("wss://two/ws")),
        ("ingest", None),
    ];
    // That the hidden one knows the others doesn't mean that they know it.
    eventually("the status has all relays of the site", || {
        let status = get(one.address(), "/status", &[]).body;
        let status: Value = serde_json::from_str(&status).unwrap();
        let mut seen: Vec<_> = (status["fleet"].as_array().unwrap().iter())
            .map(|relay| (relay["role"].as_str().unwrap(), relay["url"].as_str()))
            .collect();
        seen.sort_unstable();
        seen == expected
    });

    two.signal("TERM");
    eventually("a relay that stops is left out", || {
        greeting(&one).relays == ["wss://one/ws"]
    });
}

#[test]
fn relay_with_more_clients_than_the_others_says_so() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let one = relay(network, &nats, &["--member-url=wss://one/ws"]);
    let clients: Vec<_> = (0..24).map(|_| Client::connect(one.address())).collect();
    assert!(
        clients
            .iter()
            .all(|client| !client.hello.as_ref().unwrap().crowded)
    );
    let two = relay(network, &nats, &["--member-url=wss://two/ws"]);
    eventually("the first relay is crowded", || greeting(&one).crowded);
    assert!(!greeting(&two).crowded);
    drop(clients);
    eventually("there is room again", || !greeting(&one).crowded);
}
