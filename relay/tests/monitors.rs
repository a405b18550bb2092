//! The IOC serves one monitor per PV, however many clients there are, and none without clients.
//!
//! Topology: one soft IOC that reports its clients, one relay, one to ten clients.

use pvwire_schema::types::Filter;
use testbed::{Client, Network, Relay, SoftIoc, connect_all, eventually, keep_up, prefix};

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
