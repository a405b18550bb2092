//! A client that exceeds its limits is refused or closed, and delays no other client.
//!
//! Topology: one relay with small limits, one client that exceeds them and one that doesn't; a soft
//! IOC where a PV is needed.

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
