//! A relay that joins or is stopped by SIGTERM moves PVs, and no client sees a gap, or an update twice. The relays tell
//! clients and operators of each other.
//!
//! Topology: one NATS server, relays of the roles `both` and `edge`, with and without an address for clients, a soft IOC
//! whose PVs count, a client of each relay that stays.

use std::time::Duration;

use pvwire_schema::types::{
    ConnectionState, Expected, Hello, Outcome, PutRequest, PutValue, Reply, RequestBody,
};
use serde_json::Value;
use testbed::{Client, NatsServer, Network, Relay, SoftIoc, eventually, get, keep_up};

use super::relay;

/// Counting PVs: enough that each of three relays owns some.
const COUNTS: usize = 30;

/// Waits until two relays own all PVs and none is moving.
fn wait_owned(relays: &[&Relay], of: &[&Relay], clients: &mut [Client; 2]) {
    let [a, b] = clients;
    keep_up("all PVs have moved", &mut [a, b], |_| {
        let owned = |relay: &&Relay| relay.metric("pvwire_fleet_pvs_owned");
        let each = of.iter().map(owned);
        let is_shared = each.clone().all(|owned| owned > 0.0);
        is_shared
            && each.sum::<f64>() == (COUNTS + 1) as f64
            && relays.iter().map(owned).sum::<f64>() == (COUNTS + 1) as f64
    });
}

/// Waits for 10 further updates of each PV, and checks that every one came, once.
fn check(clients: &mut [Client; 2], names: &[String]) {
    let seen = clients
        .each_ref()
        .map(|client| client.pv(&names[0]).rows.len());
    let [a, b] = &mut *clients;
    keep_up("further updates", &mut [a, b], |clients| {
        let mut each = clients.iter().zip(seen);
        each.all(|(client, seen)| client.pv(&names[0]).rows.len() > seen + 10)
    });
    for client in clients {
        for name in names {
            let pv = client.pv(name);
            let numbers = pv.numbers();
            let each_once = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1.0);
            assert!(each_once && numbers.len() > 10, "{name}: {numbers:?}");
            assert_eq!(pv.skipped, 0, "{name}");
            let states = pv.states.iter().map(|connection| connection.state);
            assert!(
                states
                    .clone()
                    .all(|state| state != ConnectionState::Disconnected),
                "{name}"
            );
        }
    }
}

fn guarded(client: &mut Client, name: &str, value: f64) -> Outcome {
    let expected = Expected {
        sequence: client.pv(name).sequence,
        epoch: client.pv(name).metadata.as_ref().unwrap().epoch,
    };
    let put = RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: PutValue::Number(value),
        wait: true,
        timeout_ms: 20_000,
        expected: Some(expected),
    });
    match client.ask(put).0 {
        Reply::PutDone { outcome, .. } => outcome,
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn pvs_move_from_a_stopped_relay_and_to_a_new_one_without_a_gap() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let counts: String = (0..COUNTS)
        .map(|n| {
            format!(
                r#"record(calc, "$(P){n}") {{
                    field(SCAN, ".1 second") field(INPA, "$(P){n}") field(CALC, "A+1")
                }}"#
            )
        })
        .collect();
    let set_point =
        r#"record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") field(DESC, "gap") }"#;
    let ioc = SoftIoc::start(network, &(counts + set_point));
    let flags = ["--enable-put", "--allow-put=*"];
    let both = |network| relay(network, &nats, "both", &flags);
    let first = both(network);
    let edge = relay(network, &nats, "edge", &flags);
    let names: Vec<String> = (0..COUNTS).map(|n| ioc.name(&n.to_string())).collect();
    let ao = ioc.name("ao");
    let mut clients = [&first, &edge].map(|relay| {
        let mut client = Client::connect(relay.address());
        client.subscribe_live(&names);
        client.subscribe_live(&[&ao]);
        client
    });
    let mut stopped = both(network);
    wait_owned(&[&first, &stopped], &[&first, &stopped], &mut clients);
    check(&mut clients, &names);
    let next = both(network);
    let all = [&first, &stopped, &next];
    wait_owned(&all, &all, &mut clients);
    check(&mut clients, &names);
    let mut before = 1.0;
    for (client, value) in clients.iter_mut().zip([5.0, 6.0]) {
        // The numbers of updates go on.
        client.wait_number(&ao, before);
        assert_eq!(guarded(client, &ao, value), Outcome::Done);
        client.wait_number(&ao, value);
        before = value;
    }

    stopped.signal("TERM");
    let [a, b] = &mut clients;
    keep_up("it ends", &mut [a, b], |_| !stopped.runs());
    assert!(stopped.wait_end(Duration::ZERO).success());
    wait_owned(&[&first, &next], &[&first, &next], &mut clients);
    check(&mut clients, &names);
    clients[1].wait_number(&ao, 6.0);
    clients[0].wait_number(&ao, 6.0);
    assert_eq!(guarded(&mut clients[0], &ao, 7.0), Outcome::Done);
    for client in &mut clients {
        client.wait_number(&ao, 7.0);
        assert_eq!(client.pv(&ao).numbers(), [1.0, 5.0, 6.0, 7.0]);
    }
}

fn plain_relay(network: Network, nats: &NatsServer, flags: &[&str]) -> Relay {
    let url = nats.url();
    Relay::start(network, &[&["--bus", &url], flags].concat())
}

fn greeting(relay: &Relay) -> Hello {
    Client::connect(relay.address()).hello.unwrap()
}

#[test]
fn clients_are_told_where_the_live_relays_of_their_site_are() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let one = plain_relay(network, &nats, &["--member-url=wss://one/ws"]);
    let drain = ["--drain-delay-ms=60000", "--member-url=wss://two/ws"];
    let two = plain_relay(network, &nats, &[&["--role=edge"], &drain[..]].concat());
    let hidden = plain_relay(network, &nats, &["--role=ingest"]);
    let other_site = ["--site=other", "--member-url=wss://three/ws"];
    let _other = plain_relay(network, &nats, &other_site);
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
        let fleet = status["fleet"].as_array().unwrap();
        for relay in fleet {
            assert_eq!(relay["version"], env!("CARGO_PKG_VERSION"));
            assert!(relay["uptimeSeconds"].as_u64() < Some(600), "{relay}");
        }
        let mut seen: Vec<_> = (fleet.iter())
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
    let one = plain_relay(network, &nats, &["--member-url=wss://one/ws"]);
    let clients: Vec<_> = (0..24).map(|_| Client::connect(one.address())).collect();
    assert!(
        clients
            .iter()
            .all(|client| !client.hello.as_ref().unwrap().crowded)
    );
    let two = plain_relay(network, &nats, &["--member-url=wss://two/ws"]);
    eventually("the first relay is crowded", || greeting(&one).crowded);
    assert!(!greeting(&two).crowded);
    drop(clients);
    eventually("there is room again", || !greeting(&one).crowded);
}
