//! Limits for all connections of one address or user, and addresses that proxies report.
//!
//! Topology: a relay that trusts the loopback as a proxy, and clients whose addresses that proxy
//! reports.

use std::net::SocketAddr;
use std::time::Instant;

use pvwire_schema::types::{NameProblem, RequestBody};

use testbed::{Client, Network, Relay, eventually, get, handshake, prefix};

const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

fn behind_a_proxy(flags: &[&str]) -> Relay {
    Relay::start(
        Network::new(),
        &[&["--trusted-proxy=127.0.0.1"], flags].concat(),
    )
}

/// The status of a handshake that the proxy makes for a client at this address.
fn status(relay: SocketAddr, client: &str) -> u16 {
    handshake(relay, &[("X-Forwarded-For", client)]).status
}

fn connect(relay: SocketAddr, client: &str) -> Client {
    Client::connect_with(relay, &[("X-Forwarded-For", client)])
}

#[test]
fn address_with_too_many_connections_is_refused_and_others_not() {
    let relay = behind_a_proxy(&["--max-connections-per-address=3"]);
    let address = relay.address();
    let mut held: Vec<_> = (0..3).map(|_| connect(address, "192.0.2.7")).collect();
    for same in [
        "192.0.2.7",
        "192.0.2.7:4711",
        "::ffff:192.0.2.7",
        "203.0.113.1, 192.0.2.7",
    ] {
        assert_eq!(status(address, same), 429, "{same}");
    }
    for other in ["192.0.2.8", "192.0.2.7, 192.0.2.8", ""] {
        assert_eq!(status(address, other), 101, "{other}");
    }
    // The client's page requests count, its probes don't.
    let from = [("X-Forwarded-For", "192.0.2.7")];
    let refused = get(address, "/status", &from);
    assert_eq!(refused.status, 429);
    assert!(
        refused.body.contains("max_connections_per_address"),
        "{}",
        refused.body
    );
    assert!(refused.body.contains("trusted_proxy"), "{}", refused.body);
    assert_eq!(get(address, "/live", &from).status, 200);
    // IPv6 addresses are grouped by the prefix that a provider assigns to one customer.
    let mut more: Vec<_> = (0..3)
        .map(|n| connect(address, &format!("2001:db8::{n}:1")))
        .collect();
    assert_eq!(status(address, "2001:db8::ffff:9"), 429);
    assert_eq!(status(address, "2001:db8:0:1::1"), 101);
    for client in held.iter_mut().chain(&mut more) {
        client.ask(PING);
    }
    drop(held.pop());
    eventually("one may come again", || status(address, "192.0.2.7") == 101);
    eventually("they are counted", || {
        relay.metric("pvwire_handshakes_refused_total{code=\"429\"}") >= 6.0
    });
}

#[test]
fn many_addresses_that_fill_the_relay_disturb_no_client() {
    const PLACES: u8 = 40;
    let places = format!("--max-clients={PLACES}");
    let relay = behind_a_proxy(&[&places, "--max-connections-per-address=2"]);
    let address = relay.address();
    let counter = "sim://counter(rate_hz=50)";
    let mut good = connect(address, "192.0.2.1");
    good.subscribe_live(&[counter]);
    // Each of them is below the limit of its address.
    let mut held: Vec<_> = (1..PLACES)
        .map(|n| connect(address, &format!("198.51.100.{n}")))
        .collect();
    for n in 0..20 {
        assert_eq!(status(address, &format!("203.0.113.{n}")), 503, "{n}");
    }

    // The relay is full and continues to serve its clients.
    assert_eq!(get(address, "/live", &[]).status, 200);
    let rows = good.pv(counter).rows.len();
    good.wait_pv(counter, "more values", |pv| pv.rows.len() >= rows + 25);
    let pv = good.pv(counter);
    assert_eq!(pv.skipped, 0);
    good.ask(PING);
    for client in &mut held {
        client.ask(PING);
    }
    drop(held.pop());
    eventually("another address may come", || {
        status(address, "203.0.113.1") == 101
    });
}

#[test]
fn address_that_a_client_says_itself_counts_for_nothing() {
    // No proxy is trusted here, and loopback has no limit, because any proxy may be behind it.
    let relay = Relay::start(Network::new(), &["--max-connections-per-address=1"]);
    let address = relay.address();
    let _held: Vec<_> = (0..3).map(|_| connect(address, "192.0.2.7")).collect();
    let status = get(address, "/status", &[]).body;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let shown = |client: &serde_json::Value| client["address"].as_str().unwrap().to_owned();
    for client in status["clientList"].as_array().unwrap() {
        assert!(shown(client).starts_with("127.0.0.1:"), "{client}");
    }
    drop(relay);

    let relay = behind_a_proxy(&[]);
    let _client = connect(relay.address(), "203.0.113.1, 192.0.2.7");
    let status = get(relay.address(), "/status", &[]).body;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(shown(&status["clientList"][0]), "192.0.2.7");
}

/// Connects until that is refused: 25 times at once, and once more for each second that it takes.
fn assert_burst(status: impl Fn(usize) -> u16) {
    let start = Instant::now();
    let statuses = (0..200).map(status);
    let taken = statuses.take_while(|status| *status == 101).count();
    let most = 26 + start.elapsed().as_secs() as usize;
    assert!((25..=most).contains(&taken), "{taken}, {most} at most");
}

#[test]
fn address_that_connects_too_fast_is_refused_for_a_while() {
    let relay = behind_a_proxy(&["--max-new-connections-per-s=1"]);
    let address = relay.address();
    assert_burst(|_| status(address, "192.0.2.7"));
    // A page request takes a connection of a second that has passed meanwhile.
    let page = || get(address, "/status", &[("X-Forwarded-For", "192.0.2.7")]);
    eventually("a page is refused, too", || {
        let refused = page();
        refused.status == 429 && refused.body.contains("max_new_connections_per_s")
    });
    assert_eq!(status(address, "192.0.2.8"), 101);
    eventually("it may come again", || status(address, "192.0.2.7") == 101);
}

#[test]
fn user_who_connects_too_fast_is_refused_from_any_address() {
    let flags = ["--auth=trusted-header", "--max-new-connections-per-s=1"];
    let relay = behind_a_proxy(&flags);
    let shake = |n: usize, user: &str| {
        let from = format!("192.0.2.{n}");
        let headers = [
            ("X-Forwarded-For", from.as_str()),
            ("X-Forwarded-User", user),
        ];
        handshake(relay.address(), &headers).status
    };
    assert_burst(|n| shake(n, "jane"));
    assert_eq!(shake(0, "joe"), 101);
}

#[test]
fn thousand_clients_of_one_address_may_come_at_once() {
    let relay = behind_a_proxy(&[]);
    let address = relay.address();
    for n in 0..2_000 {
        assert_eq!(status(address, "192.0.2.7"), 101, "{n}");
    }
}

#[test]
fn connecting_again_brings_no_new_names() {
    // Ten times ten names at once for an address, twice ten for a connection.
    let flags = [
        "--max-subscriptions=10",
        "--max-new-names-per-s=1",
        "--linger-ms=0",
    ];
    let relay = behind_a_proxy(&flags);
    let prefix = prefix();
    let mut taken = 0;
    let ask = |from: &str, round: usize| {
        let mut client = connect(relay.address(), from);
        let names: Vec<_> = (0..15).map(|n| format!("{prefix}{round}:{n}")).collect();
        let (_, errors) = client.get(&names, 1);
        let refused: Vec<_> = (errors.iter())
            .filter(|error| error.problem == NameProblem::TooManyPvs)
            .collect();
        for error in &refused {
            assert!(
                error.message.contains("max_new_names_per_s"),
                "{}",
                error.message
            );
        }
        names.len() - refused.len()
    };
    let start = Instant::now();
    for round in 0..12 {
        taken += ask("192.0.2.7", round);
    }
    // Five more for each second that this takes; a busy machine may take long.
    let most = 105 + 5 * start.elapsed().as_secs();
    assert!(
        taken >= 100 && taken as u64 <= most,
        "{taken}, {most} at most"
    );
    assert_eq!(ask("192.0.2.8", 12), 15, "another address has its own");
}
