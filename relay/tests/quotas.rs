//! A client, or all connections of one address or user, that exceed their limits are refused or closed, and delay no
//! other client.
//!
//! Topology: one relay with small limits, one client that exceeds them and one that doesn't; a soft IOC where a PV is
//! needed. Or a relay that trusts the loopback as a proxy, and clients whose addresses that proxy reports.

use std::net::SocketAddr;
use std::time::Instant;

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{
    ConnectionState, NameProblem, Outcome, PutRequest, PutValue, Reply, RequestBody,
};
use testbed::{Client, Network, Relay, SoftIoc, eventually, get, handshake, prefix};

const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

const RECORD: &str = r#"record(ao, "$(P)set") { field(VAL, "1") }"#;

fn put(name: &str, number: f64) -> RequestBody {
    RequestBody::Put(PutRequest {
        name: name.to_owned(),
        value: PutValue::Number(number),
        wait: false,
        timeout_ms: 0,
        expected: None,
    })
}

#[test]
fn client_that_floods_is_closed_and_the_others_are_served() {
    let relay = Relay::start(Network::new(), &["--max-requests-per-s=2"]);
    let mut good = Client::connect(relay.address());
    let mut flooding = Client::connect(relay.address());
    for _ in 0..100 {
        flooding.request(PING);
    }
    assert_eq!(flooding.wait_closed(), CloseCode::TooManyRequests.number());
    good.ask(PING);
}

#[test]
fn puts_beyond_the_limit_are_refused_and_never_reach_the_ioc() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORD);
    let set = ioc.name("set");
    let flags = ["--enable-put", "--allow-put=*", "--max-puts-per-s=1"];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&set]);
    let asked: Vec<u32> = (0..40)
        .map(|n| client.request(put(&set, f64::from(n))))
        .collect();
    let mut done = Vec::new();
    for (n, id) in asked.into_iter().enumerate() {
        match client.wait_answer(id).0 {
            Reply::PutDone {
                outcome: Outcome::Done,
                ..
            } => done.push(n as f64),
            Reply::PutDone { outcome, message } => {
                assert_eq!(outcome, Outcome::NotAllowed);
                assert!(message.contains("max_puts_per_s"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((10..=30).contains(&done.len()), "ten at once: {done:?}");
    client.wait_number(&set, *done.last().unwrap());
    // No other client has to wait for that.
    let mut other = Client::connect(relay.address());
    let (reply, _) = other.ask(put(&set, 77.0));
    assert!(
        matches!(
            reply,
            Reply::PutDone {
                outcome: Outcome::Done,
                ..
            }
        ),
        "{reply:?}"
    );
}

#[test]
fn new_names_are_limited_in_rate_and_known_names_are_free() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORD);
    let set = ioc.name("set");
    let flags = [
        "--max-subscriptions=10",
        "--max-new-names-per-s=1",
        "--linger-ms=0",
    ];
    let relay = Relay::start(network, &flags);
    let mut good = Client::connect(relay.address());
    good.subscribe_live(&[&set]);
    let mut greedy = Client::connect(relay.address());
    let prefix = prefix();
    let mut refused = Vec::new();
    for round in 0..5 {
        let names: Vec<_> = (0..8).map(|n| format!("{prefix}{round}:{n}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        refused.extend(greedy.get(&names, 1).1);
    }
    refused.retain(|error| error.problem != NameProblem::TimedOut);
    assert!((10..=20).contains(&refused.len()), "{refused:?}");
    for error in &refused {
        assert_eq!(error.problem, NameProblem::TooManyPvs);
        assert!(
            error.message.contains("max_new_names_per_s"),
            "{}",
            error.message
        );
    }
    assert_eq!(greedy.get(&[&set], 0).1, []);
}

#[test]
fn client_gets_no_more_unknown_names_until_it_gives_some_up() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORD);
    let set = ioc.name("set");
    let flags = ["--max-unresolved=3", "--not-found-after-ms=100"];
    let relay = Relay::start(network, &flags);
    let mut good = Client::connect(relay.address());
    good.subscribe_live(&[&set]);
    let mut greedy = Client::connect(relay.address());
    let unknown: Vec<_> = (0..6).map(|n| ioc.name(&format!("none{n}"))).collect();
    assert_eq!(greedy.subscribe(&unknown[..3]), []);
    for name in &unknown[..3] {
        greedy.wait_state(name, ConnectionState::NotFound);
    }

    let errors = greedy.subscribe(&[&unknown[3], &set, &unknown[4]]);
    let refused: Vec<_> = errors.iter().map(|error| error.index).collect();
    assert_eq!(refused, [0, 2], "who is there is no burden: {errors:?}");
    for error in &errors {
        assert_eq!(error.problem, NameProblem::TooManyPvs);
        assert!(error.message.contains("max_unresolved"), "{errors:?}");
    }
    greedy.wait_number(&set, 1.0);
    // Nothing is searched for a client that is refused.
    eventually("they are closed", || {
        relay.metric("pvwire_monitors_active") == 4.0
    });
    // Another client has a separate budget of names, and may request the same ones.
    assert_eq!(good.subscribe(&unknown[3..5]), []);

    greedy.unsubscribe(&[unknown[0].as_str()]);
    assert_eq!(greedy.subscribe(&[&unknown[5]]), []);
}

#[test]
fn full_relay_takes_no_new_pvs_and_keeps_those_that_it_has() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORD);
    let set = ioc.name("set");
    let relay = Relay::start(network, &["--max-pvs=2"]);
    let mut good = Client::connect(relay.address());
    good.subscribe_live(&[&set]);
    let mut greedy = Client::connect(relay.address());
    let names = [prefix(), prefix(), prefix()].map(|name| format!("{name}x"));
    let errors = greedy.subscribe(&names);
    assert_eq!(errors.len(), 2);
    assert!(
        errors
            .iter()
            .all(|error| error.problem == NameProblem::TooManyPvs)
    );
    assert!(
        errors[0].message.contains("max_pvs"),
        "{}",
        errors[0].message
    );
    let mut third = Client::connect(relay.address());
    third.subscribe_live(&[&set]);
    assert!(good.pv(&set).is_number(1.0));
}

#[test]
fn relay_short_of_memory_refuses_new_clients() {
    // Less than it needs to start: it is short of memory at its first check.
    let relay = Relay::start(Network::new(), &["--max-memory-mib=1"]);
    relay.says("exceeds max_memory_mib");
    eventually("it refuses clients", || {
        handshake(relay.address(), &[]).status == 503
    });
}

#[test]
fn user_with_too_many_connections_is_refused_and_others_not() {
    let flags = [
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
        "--max-clients-per-user=2",
        "--coniql",
        "--pvws",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let connect = |user| Client::connect_with(relay.address(), &[("X-Forwarded-User", user)]);
    let (mut one, _two) = (connect("jane"), connect("jane"));
    assert_eq!(
        connect("jane").wait_closed(),
        CloseCode::TryAgainLater.number()
    );
    connect("joe").ask(PING);
    one.ask(PING);
    // Requests by HTTP are connections, too.
    for path in [
        "/names?q=a",
        "/pv/sim%3A%2F%2Fcounter",
        "/pv/sim%3A%2F%2Fcounter/history",
        "/graphql?query=%7B__typename%7D",
        "/pvws/pvget?name=sim%3A%2F%2Fcounter",
    ] {
        let answer = |user| get(relay.address(), path, &[("X-Forwarded-User", user)]);
        let refused = answer("jane");
        assert_eq!(refused.status, 503, "{path}");
        assert!(refused.body.contains("max_clients_per_user"), "{path}");
        assert_ne!(answer("joe").status, 503, "{path}");
    }
    drop(one);
    eventually("there is room again", || {
        let mut client = connect("jane");
        client.request(PING);
        client.read_for_a_moment();
        client.closed.is_none() && !client.read_for_a_moment()
    });
}

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
