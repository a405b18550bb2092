//! Subscribing, unsubscribing and getting PVs, and how the relay answers. The IOC serves one monitor per PV.
//!
//! Topology: one soft IOC, one relay, one or two clients that read all the time.

use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, Filter, FrameKind, NameProblem, Reply, RequestBody};
use testbed::{Client, Kept, Network, Relay, SoftIoc, connect_all, eventually, keep_up, prefix};

use crate::values::{CALM, start};

#[test]
fn name_with_and_without_its_source_is_one_pv() {
    let (ioc, _relay, mut client) = start(r#"record(ai, "$(P)ai") { field(VAL, "1") }"#);
    let plain = ioc.name("ai");
    let with_source = format!("ca://{plain}");

    client.subscribe_live(&[&plain, &with_source]);

    assert_eq!(client.id(&plain), client.id(&with_source));
    assert_eq!(client.pvs.len(), 1);
}

#[test]
fn get_answers_with_the_value_and_subscribes_nothing() {
    let (mut ioc, _relay, mut client) =
        start(r#"record(ao, "$(P)ao") { field(VAL, "3.5") field(EGU, "A") field(PINI, "YES") }"#);
    let name = ioc.name("ao");

    let (pvs, errors) = client.get(&[&name], 0);

    assert_eq!(errors, []);
    let pv = pvs[0].as_ref().unwrap();
    assert!(pv.is_number(3.5), "{pv:?}");
    assert_eq!(pv.now.as_ref().unwrap().alarm, CALM);
    assert_eq!(pv.metadata.as_ref().unwrap().units, "A");
    assert_eq!(pv.state(), ConnectionState::Connected);
    // The monitor lingers, but nothing of it reaches this client.
    ioc.put("ao", "4");
    client.wait_until_known(&name, |pv| pv.is_number(4.0));
    assert_eq!(client.messages, []);
}

#[test]
fn get_of_an_unknown_name_says_so_and_answers_the_others() {
    let (ioc, _relay, mut client) = start(r#"record(ao, "$(P)ao") { field(VAL, "3.5") }"#);
    let [known, unknown] = ioc.names(["ao", "nobody"]);
    // A busy machine may take longer than that to connect it.
    assert_eq!(client.get(&[&known], 0).1, []);
    let start = Instant::now();

    let (pvs, errors) = client.get(&[unknown, known], 300);

    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(pvs[0].is_none());
    assert!(pvs[1].as_ref().unwrap().is_number(3.5));
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (errors[0].index, errors[0].problem),
        (0, NameProblem::TimedOut)
    );
    assert_eq!(errors[0].message, "not found within 300 ms");
}

#[test]
fn unsubscribed_pv_is_silent_and_the_others_go_on() {
    let (ioc, _relay, mut client) = start(
        r#"
        record(calc, "$(P)a") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        record(calc, "$(P)b") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        "#,
    );
    let [a, b] = ioc.names(["a", "b"]);
    client.subscribe_live(&[&a, &b]);
    let (id, before) = (client.id(&a), client.pv(&b).rows.len());

    assert_eq!(client.unsubscribe(&[&a]), [id]);

    // The client fails on a row of a PV that it doesn't hold.
    client.wait_pv(&b, "more updates", |pv| pv.rows.len() >= before + 4);
    assert_eq!(client.pv(&b).skipped, 0);
    assert!(!client.pvs.contains_key(&id));
}

#[test]
fn pv_that_is_subscribed_again_keeps_its_id() {
    let (mut ioc, _relay, mut client) =
        start(r#"record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }"#);
    let name = ioc.name("ao");
    client.subscribe_live(&[&name]);
    let (id, snapshots) = (client.id(&name), |client: &Client| {
        let kinds = client.messages.iter().map(|message| message.kind);
        kinds.filter(|kind| *kind == FrameKind::Snapshot).count()
    });
    assert_eq!(snapshots(&client), 1);

    // While it is held.
    client.subscribe_live(&[&name]);
    assert_eq!((client.id(&name), snapshots(&client)), (id, 2));

    // After it was given up. One Unsubscribe ends both subscriptions.
    client.unsubscribe(&[&name]);
    ioc.put("ao", "2");
    client.wait_until_known(&name, |pv| pv.is_number(2.0));
    assert_eq!(client.subscribe(&[&name]), []);
    assert_eq!((client.id(&name), snapshots(&client)), (id, 3));
    assert!(
        client.pv(&name).is_number(2.0),
        "the snapshot has the value"
    );
    ioc.put("ao", "3");
    client.wait_number(&name, 3.0);
}

#[test]
fn late_client_gets_the_value_of_a_rarely_changing_pv_at_once() {
    let (ioc, relay, mut first) =
        start(r#"record(ao, "$(P)ao") { field(VAL, "7") field(PINI, "YES") }"#);
    let name = ioc.name("ao");
    first.subscribe_live(&[&name]);
    let stamp = first.pv(&name).now.clone().unwrap().time_ns;
    // The IOC could say nothing now.
    ioc.hang();

    let mut late = Client::connect(relay.address());
    late.subscribe(&[&name]);

    let now = late.pv(&name).now.clone().unwrap();
    assert_eq!((now.value, now.time_ns), (Kept::Number(7.0), stamp));
}

#[test]
fn ping_is_answered_with_both_clocks() {
    let (_ioc, _relay, mut client) = start("");
    let wall = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_nanos() as i64
    };
    let before = wall();

    let (reply, _) = client.ask(RequestBody::Ping {
        client_time_ns: -42,
    });

    let Reply::Pong {
        client_time_ns,
        relay_time_ns,
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(client_time_ns, -42);
    assert!((before..=wall()).contains(&relay_time_ns));
}

/// What the IOC says of the channels that it serves: name and number of event subscriptions, by
/// name. The relay makes two for a PV, one for values and alarms and one for metadata.
pub(crate) fn served(ioc: &mut SoftIoc) -> Vec<(String, u32)> {
    let report = ioc.ask("casr 4");
    let mut served = Vec::new();
    for line in report.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Channel: '") {
            served.push((name.trim_end_matches('\'').to_owned(), 0));
        } else if let Some(rest) = line.strip_prefix("# on eventq=") {
            let count = rest.split(',').next().unwrap().parse().unwrap();
            served.last_mut().unwrap().1 = count;
        }
    }
    served.sort();
    served
}

#[test]
fn ioc_serves_one_monitor_per_pv_whatever_the_number_of_clients() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(
        network,
        r#"
        record(ao, "$(P)a") { field(VAL, "1") }
        record(ao, "$(P)b") { field(VAL, "2") }
        "#,
    );
    let relay = Relay::start(network, &["--linger-ms", "200"]);
    let names = ioc.names(["a", "b"]);
    let once = names.each_ref().map(|name| (name.clone(), 2));
    let mut first = Client::connect(relay.address());
    first.subscribe_live(&names);
    eventually("each is served", || served(&mut ioc) == once);

    let mut clients = connect_all(relay.address(), 9);
    for (number, client) in clients.iter_mut().enumerate() {
        // Some have only one PV, some subscribe twice, and some also send a get.
        client.subscribe_live(&names[number % 2..]);
        client.subscribe_live(&names[1..]);
        assert_eq!(client.get(&names, 0).1, []);
    }
    assert_eq!(served(&mut ioc), once);
    assert_eq!(relay.metric("pvwire_monitors_active"), 2.0);
    ioc.put("b", "3");
    let mut all: Vec<&mut Client> = clients.iter_mut().collect();
    keep_up("everybody has the new value", &mut all, |clients| {
        clients
            .iter()
            .all(|client| client.pv(&names[1]).is_number(3.0))
    });

    // The last one keeps one PV: the other's monitor ends.
    drop(clients);
    first.unsubscribe(&[&names[0]]);
    eventually("one channel is left", || served(&mut ioc) == once[1..]);
    drop(first);
    eventually("no channel is left", || served(&mut ioc).is_empty());
    relay.wait_metric("pvwire_monitors_active", 0.0);
}

#[test]
fn ioc_serves_one_monitor_of_a_pv_whatever_its_filters() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, r#"record(ao, "$(P)a") { field(VAL, "1") }"#);
    let relay = Relay::start(network, &["--linger-ms", "200"]);
    let name = ioc.name("a");
    let mut clients = connect_all(relay.address(), 6);
    for (number, client) in clients.iter_mut().enumerate() {
        let filter = Filter {
            every: number as u32 / 2,
            ..Filter::default()
        };
        assert_eq!(client.subscribe_with(&[&name], filter), []);
        client.wait_pv(&name, "a value", |pv| pv.now.is_some());
    }
    eventually("it is served once", || {
        served(&mut ioc) == [(name.clone(), 2)]
    });
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
    drop(clients);
    eventually("no channel is left", || served(&mut ioc).is_empty());
    relay.wait_metric("pvwire_monitors_active", 0.0);
}

#[test]
fn monitor_outlives_the_last_client_by_the_linger() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, r#"record(ao, "$(P)a") { field(VAL, "1") }"#);
    let relay = Relay::start(network, &["--linger-ms", "60000"]);
    let name = ioc.name("a");
    let mut first = Client::connect(relay.address());
    first.subscribe_live(&[&name]);
    let id = first.id(&name);
    drop(first);
    eventually("the client is gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
    ioc.put("a", "2");

    // The reloaded page finds the monitor open, and its snapshot complete.
    let mut second = Client::connect(relay.address());
    second.wait_until_known(&name, |pv| pv.is_number(2.0));
    assert_eq!(second.subscribe(&[&name]), []);

    assert_eq!(second.id(&name), id);
    assert!(second.pv(&name).is_number(2.0));
    assert_eq!(served(&mut ioc), [(name, 2)]);
}

/// How many monitors a server of pvAccess says it serves.
fn served_by_pv_access(ioc: &mut SoftIoc) -> usize {
    let report = ioc.ask("pvxsr 9");
    report
        .lines()
        .filter(|line| line.contains("Executing") && line.ends_with("MONITOR"))
        .count()
}

#[test]
fn pva_server_serves_one_monitor_per_structure() {
    let network = Network::new();
    let database = r#"
        record(ao, "$(P)a") { field(VAL, "1") field(PINI, "YES") }
        record(ai, "$(P)x") { field(VAL, "1.5") field(HOPR, "7") field(PINI, "YES")
            info(Q:group, { "$(P)group": {
                "x": { "+channel": "VAL", "+type": "plain", "+trigger": "*" },
                "inner.y": { "+channel": "HOPR", "+type": "plain" } } }) }
    "#;
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), database);
    let relay = Relay::start(network, &["--linger-ms", "200"]);
    let names =
        ["a", "group", "group/x", "group/inner/y"].map(|name| format!("pva://{}", ioc.name(name)));
    let mut clients = connect_all(relay.address(), 5);
    for client in &mut clients {
        client.subscribe_live(&names);
        client.subscribe_live(&names[2..]);
        assert_eq!(client.get(&names, 0).1, []);
    }
    eventually("two structures are monitored once", || {
        served_by_pv_access(&mut ioc) == 2
    });
    clients[4].wait_number(&names[3], 7.0);
    drop(clients);
    eventually("no monitor is left", || served_by_pv_access(&mut ioc) == 0);
}
