//! An owner that isn't heard: its PVs are unresponsive at other relays until it is heard again, or is lost.
//! And servers that are silent or can't send a value: other relays than the owner know it too.

use std::time::{Duration, Instant};

use pvwire_schema::types::ConnectionState;

use super::{NAMES, RECORDS, relay, wait_for_truth};
use crate::hangs::{event, open};
use testbed::{
    Client, LyingServer, NatsServer, Network, Pv, Relay, SoftIoc, get, prefix, relay_command,
    within,
};

/// What the reasons of values that their server can't send begin with.
const UNSENT: &str = "the server can't send it: ";

/// Two announcements are missing after 1.1 s at most.
const SHOWN_WITHIN: Duration = Duration::from_millis(1500);

fn is_unresponsive(pv: &Pv) -> bool {
    let connections = pv.states.iter();
    let mut connected =
        connections.filter(|connection| connection.state == ConnectionState::Connected);
    connected.any(|connection| connection.heard_ns != 0)
}

#[test]
fn pvs_of_an_owner_that_is_not_heard_do_not_stand_still_as_connected() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let ioc = SoftIoc::start(network, RECORDS);
    let edge = relay(network, &nats, "edge", &[]);
    let names = ioc.names(NAMES);
    let mut client = Client::connect(edge.address());
    assert_eq!(client.subscribe(&names), []);
    let mut owner = relay(network, &nats, "ingest", &[]);
    wait_for_truth(&mut client, &names);

    for fault in ["STOP", "bus", "KILL"] {
        within(SHOWN_WITHIN, fault, || {
            client.forget_history();
            match fault {
                "bus" => nats.hang(),
                signal => owner.signal(signal),
            }
            let gone = Instant::now();
            for name in &names {
                client.wait_pv(name, "unresponsive", is_unresponsive);
            }
            let took = gone.elapsed();
            assert!(client.pv(&names[0]).is_number(1.0), "the value stays");
            match fault {
                "STOP" => owner.signal("CONT"),
                "bus" => nats.resume(),
                _ => owner = relay(network, &nats, "ingest", &[]),
            }
            for name in &names {
                client.wait_pv(name, "responsive", |pv| {
                    (pv.connection).is_some_and(|connection| {
                        (connection.state, connection.heard_ns) == (ConnectionState::Connected, 0)
                    })
                });
            }
            wait_for_truth(&mut client, &names);
            took
        });
    }
    let before = client.pv(&names[5]).numbers().len();
    client.wait_pv(&names[5], "further values", |pv| {
        pv.numbers().len() > before + 10
    });
}

#[test]
fn server_that_does_not_connect_a_pv_is_named_at_an_edge() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let server = LyingServer::start(&["silent", "refuses", "unreachable"]);
    let mut command = relay_command(network);
    server.apply(&mut command);
    let url = nats.url();
    let [owner, at_edge] = ["ingest", "edge"].map(|role| {
        let flags = ["--bus", &url, "--role", role];
        [&flags[..], &["--not-found-after-ms=1000"]].concat()
    });
    let _owner = Relay::spawn(command, &owner);
    let edge = Relay::start(network, &at_edge);
    let mut client = Client::connect(edge.address());
    client.subscribe(&server.names);
    for (index, name) in server.names.iter().enumerate() {
        let address = format!(":{}", server.port(index));
        client.wait_pv(name, "not found, with the server's address", |pv| {
            let metadata = pv.metadata.as_ref();
            pv.state() == ConnectionState::NotFound
                && metadata.is_some_and(|metadata| metadata.missing_field.contains(&address))
        });
        // Once with a request that has to wait for the state, and once with one that doesn't.
        for path in [format!("/pv/{name}"), format!("/pv/{name}?timeout_ms=300")] {
            let read = get(edge.address(), &path, &[]);
            assert_eq!(read.status, 504, "{name}: {}", read.body);
            assert!(read.body.contains(&address), "{name}: {}", read.body);
        }
    }
    let unknown = get(edge.address(), &format!("/pv/{}nothing", prefix()), &[]);
    assert_eq!(unknown.status, 404, "{}", unknown.body);
}

#[test]
fn value_that_the_server_cannot_send_is_told_at_an_edge_with_the_servers_reason() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let database =
        r#"record(waveform, "$(P)array") { field(FTVL, "DOUBLE") field(NELM, "10000") }"#;
    let ioc = SoftIoc::with_array_limit(network, database, 20_000);
    let _owner = relay(network, &nats, "ingest", &[]);
    let edge = relay(network, &nats, "edge", &[]);
    let name = ioc.name("array");
    let mut client = Client::connect(edge.address());
    client.subscribe(&[&name]);
    client.wait_pv(&name, "the reason", |pv| {
        let metadata = pv.metadata.as_ref();
        pv.state() == ConnectionState::Connected
            && pv.now.is_none()
            && metadata.is_some_and(|metadata| metadata.missing_field.starts_with(UNSENT))
    });
    let read = get(edge.address(), &format!("/pv/{name}?timeout_ms=20000"), &[]);
    assert_eq!(read.status, 503, "{}", read.body);
    assert!(read.body.contains(UNSENT), "{}", read.body);
    let (_, errors) = client.get(&[&name], 20_000);
    assert!(errors[0].message.starts_with(UNSENT), "{errors:?}");
    let mut events = open(&edge, &format!("/pv/{name}/stream"));
    event(&mut events, |pv| {
        let reason = pv["connection"]["reason"].as_str();
        reason.is_some_and(|reason| reason.starts_with(UNSENT))
    });
}
