//! A fleet of relays on NATS: one monitor per PV, and the truth at every edge whatever is lost; structures, calls and
//! puts of every kind.
//!
//! Topology: one NATS server, ingest relays and edges, a soft IOC or a p4p server, clients of the edges.

mod faults;
mod hostile;
mod moves;
mod past;
mod silence;

use std::path::Path;
use std::time::{Duration, Instant};

use pvwire_schema::limits::MAX_REQUEST_BYTES;
use pvwire_schema::types::{
    Array, ConnectionState, Expected, Outcome, PutRequest, PutValue, Reply, RequestBody, Severity,
    ValueType,
};
use testbed::{
    Client, Kept, NatsServer, Network, Relay, SoftIoc, eventually, prefix, relay_command, within,
};

use crate::audit::attempts;
use crate::pva_structures::{check_procedure, check_structures, check_values};
use crate::subscriptions::served;
use crate::users::{BY_NAME, ONLY_JANE, client, put, put_within};

const RECORDS: &str = r#"
    record(ao, "$(P)ao") {
        field(VAL, "1") field(EGU, "mA") field(PREC, "2") field(DESC, "a current") field(PINI, "YES")
        field(HIHI, "5") field(HHSV, "MAJOR")
    }
    record(mbbo, "$(P)mode") {
        field(ZRST, "off") field(ONST, "on") field(VAL, "1") field(PINI, "YES")
    }
    record(stringout, "$(P)text") { field(VAL, "hello") field(PINI, "YES") }
    record(waveform, "$(P)wave") { field(FTVL, "LONG") field(NELM, "9") field(INP, [4, 5]) field(PINI, "YES") }
    record(waveform, "$(P)large") { field(FTVL, "DOUBLE") field(NELM, "100000") }
    record(calc, "$(P)count") { field(SCAN, ".1 second") field(INPA, "$(P)count") field(CALC, "A+1") }
"#;

const NAMES: [&str; 6] = ["ao", "mode", "text", "wave", "large", "count"];

fn relay(network: Network, nats: &NatsServer, role: &str, flags: &[&str]) -> Relay {
    let url = nats.url();
    let of_fleet = ["--bus", &url, "--role", role, "--linger-ms", "200"];
    Relay::start(network, &[&of_fleet, flags].concat())
}

/// Waits until a client has what the records hold at first.
fn wait_for_truth(client: &mut Client, names: &[String; 6]) {
    for name in names {
        client.wait_state(name, ConnectionState::Connected);
    }
    client.wait_number(&names[0], 1.0);
    client.wait_number(&names[1], 1.0);
    client.wait_pv(&names[2], "its text", |pv| pv.is(&Kept::text("hello")));
    let elements: Vec<u8> = [4_i32, 5].into_iter().flat_map(i32::to_le_bytes).collect();
    let wave = Kept::Array(ValueType::Int32, elements);
    client.wait_pv(&names[3], "its elements", |pv| pv.is(&wave));
    client.wait_pv(&names[0], "its metadata", |pv| {
        pv.metadata.as_ref().is_some_and(|metadata| {
            (metadata.units.as_str(), metadata.precision) == ("mA", Some(2))
        })
    });
    client.wait_pv(&names[1], "its labels", |pv| {
        (pv.metadata.as_ref()).is_some_and(|metadata| metadata.choices == ["off", "on"])
    });
}

#[test]
fn edges_show_all_of_a_pv_through_one_monitor() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let mut ioc = SoftIoc::start(network, RECORDS);
    let ingest = relay(network, &nats, "ingest", &["--enable-put", "--allow-put=*"]);
    let flags = ["--enable-put", "--allow-put=*"];
    let edges = [(); 2].map(|()| relay(network, &nats, "edge", &flags));
    let names = ioc.names(NAMES);
    let mut clients =
        [&edges[0], &edges[0], &edges[1], &ingest].map(|relay| Client::connect(relay.address()));
    for client in &mut clients {
        assert_eq!(client.subscribe(&names), []);
        wait_for_truth(client, &names);
        client.wait_pv(&names[0], "its rights", |pv| {
            (pv.connection).is_some_and(|connection| connection.read && connection.write)
        });
    }
    // The relay reads some fields of records on other channels.
    let of = |served: &[(String, u32)], name: &String| -> Vec<u32> {
        let channels = served.iter().filter(|(channel, _)| channel == name);
        channels.map(|(_, events)| *events).collect()
    };
    eventually("one monitor each, of values and of metadata", || {
        let served = served(&mut ioc);
        [&names[0], &names[1], &names[5]].map(|name| of(&served, name)) == [[2], [2], [2]]
            && names.iter().all(|name| of(&served, name).len() == 1)
    });

    edges[0].wait_metric("pvwire_fleet_members{role=\"edge\"}", 2.0);
    edges[0].wait_metric("pvwire_fleet_pvs_fed", names.len() as f64);
    ingest.wait_metric("pvwire_bus_connected", 1.0);

    let client = &mut clients[0];
    assert_eq!(
        put(client, &names[0], PutValue::Number(6.5)).0,
        Outcome::Done
    );
    assert_eq!(
        put(client, &names[0], PutValue::Text("much".into())).0,
        Outcome::BadValue
    );
    ioc.put("large", "[7.5]");
    for client in &mut clients {
        client.wait_number(&names[0], 6.5);
        let alarm = client.pv(&names[0]).now.as_ref().unwrap().alarm;
        assert_eq!((alarm.severity, alarm.status), (Severity::Major, 3));
    }
    clients[2].describe(&[&names[0]]);
    clients[2].wait_pv(&names[0], "its description", |pv| {
        (pv.metadata.as_ref()).is_some_and(|metadata| metadata.description == "a current")
    });
    // Of each of these no description has been asked for, and they have none.
    let mut undescribed = [1, 2, 3, 5].into_iter();
    within(Duration::from_secs(1), "no description", || {
        let name = &names[undescribed.next().expect("one attempt for each PV")];
        let asked = Instant::now();
        let (pvs, _) = clients[1].get_with(&[name], 20_000, true);
        let took = asked.elapsed();
        let description = pvs[0].as_ref().unwrap().metadata.as_ref().unwrap();
        assert_eq!(description.description, "");
        took
    });
    for client in &mut clients {
        assert_eq!(client.get(&[&names[0]], 20_000).1, []);
        assert_eq!(client.pv(&names[5]).skipped, 0);
    }

    ioc.kill();
    for client in &mut clients {
        for name in &names {
            client.wait_state(name, ConnectionState::Disconnected);
        }
        assert!(client.pv(&names[0]).is_number(6.5), "the last value stays");
    }
}

#[test]
fn lost_owner_or_bus_shows_and_is_right_again() {
    let (network, mut nats) = (Network::new(), NatsServer::start());
    let ioc = SoftIoc::start(network, RECORDS);
    let edge = relay(network, &nats, "edge", &[]);
    let names = ioc.names(NAMES);
    let mut client = Client::connect(edge.address());
    assert_eq!(client.subscribe(&names), []);
    let mut owner = relay(network, &nats, "ingest", &[]);
    wait_for_truth(&mut client, &names);

    within(Duration::from_secs(3), "disconnected", || {
        let killed = Instant::now();
        owner.signal("KILL");
        for name in &names {
            client.wait_state(name, ConnectionState::Disconnected);
        }
        let took = killed.elapsed();
        assert!(client.pv(&names[0]).is_number(1.0), "the value stays");
        owner = relay(network, &nats, "ingest", &[]);
        wait_for_truth(&mut client, &names);
        took
    });

    nats.kill();
    for name in &names {
        client.wait_state(name, ConnectionState::Disconnected);
    }
    nats.restart();
    wait_for_truth(&mut client, &names);

    owner.signal("STOP");
    for name in &names {
        client.wait_state(name, ConnectionState::Disconnected);
    }
    let other = relay(network, &nats, "ingest", &[]);
    wait_for_truth(&mut client, &names);
    owner.signal("CONT");
    let before = client.pv(&names[5]).numbers().len();
    client.wait_pv(&names[5], "further values", |pv| {
        pv.numbers().len() > before + 10
    });
    wait_for_truth(&mut client, &names);
    drop(other);
}

#[test]
fn put_at_an_edge_is_its_users_at_the_ioc_and_its_outcome_is_true() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let database = r#"record(ao, "$(P)gap") { field(VAL, "1") field(PINI, "YES") }"#;
    let ioc = SoftIoc::with_prefix(network, &prefix(), database, ONLY_JANE);
    let gap = ioc.name("gap");
    let audit = format!("{}fleet.jsonl", prefix().replace(':', "-"));
    let audit = Path::new(env!("CARGO_TARGET_TMPDIR")).join(audit);
    let audit_flag = format!("--audit-file={}", audit.display());
    let owner = relay(
        network,
        &nats,
        "ingest",
        &[&BY_NAME[..], &[&audit_flag]].concat(),
    );
    let edge = relay(network, &nats, "edge", &BY_NAME);
    let (mut jane, mut joe) = (client(&edge, "jane"), client(&edge, "joe"));
    // Before the edge knows the PV.
    let number = PutValue::Number;
    assert_eq!(put(&mut jane, &gap, number(2.0)).0, Outcome::Done);
    let refused = (
        Outcome::NoAccess,
        "as user \"joe\": the IOC gives no write access".to_owned(),
    );
    assert_eq!(put(&mut joe, &gap, number(9.0)), refused);
    joe.subscribe_live(&[&gap]);
    joe.wait_number(&gap, 2.0);
    eventually("the owner has both on record", || {
        attempts(&audit).len() == 2
    });
    let users = attempts(&audit);
    let users: Vec<_> = users.iter().map(|line| line["user"].clone()).collect();
    assert_eq!(users, ["jane", "joe"]);

    owner.signal("STOP");
    let (outcome, why) = put_within(&mut jane, &gap, number(7.0), 1_000);
    assert_eq!(outcome, Outcome::TimedOut, "{why}");
    assert!(why.contains("it may have been done"), "{why}");
    owner.signal("CONT");
    assert_eq!(put(&mut jane, &gap, number(3.0)).0, Outcome::Done);
    joe.wait_number(&gap, 3.0);
    assert!(!joe.pv(&gap).numbers().contains(&7.0), "it came too late");

    owner.signal("STOP");
    let (outcome, why) = put_within(&mut jane, &gap, number(8.0), 20_000);
    assert_eq!(outcome, Outcome::Interrupted, "{why}");
    owner.signal("KILL");
}

#[test]
fn relay_whose_files_for_the_bus_are_missing_does_not_start() {
    for key in ["--bus-credentials", "--bus-ca"] {
        let mut command = relay_command(Network::new());
        let address = ["--listen=127.0.0.1:0", "--bus=tls://127.0.0.1:1"];
        let ended = command.args(address).args([key, "/nowhere"]).output();
        let ended = ended.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert!(said.contains("/nowhere"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// An edge and the relay that holds its PVs.
fn fleet(nats: &NatsServer, network: Network, flags: &[&str]) -> Vec<Relay> {
    ["edge", "ingest"]
        .map(|role| relay(network, nats, role, flags))
        .into()
}

#[test]
fn structures_and_calls_over_the_bus_are_what_an_independent_client_sees() {
    let nats = NatsServer::start();
    let over_the_bus = |network: Network, flags: &[&str]| {
        let site = format!("--site=n{}", network.pva_port());
        fleet(&nats, network, &[flags, &[&site]].concat())
    };
    check_structures(&over_the_bus);
    check_values(&over_the_bus);
    check_procedure(&over_the_bus);
}

#[test]
fn large_and_guarded_puts_over_the_bus_do_what_they_say() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let ioc = SoftIoc::start(
        network,
        r#"
        record(waveform, "$(P)large") { field(FTVL, "UCHAR") field(NELM, "2000000") }
        record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
        "#,
    );
    let relays = fleet(&nats, network, &["--enable-put", "--allow-put=*"]);
    let names = ioc.names(["large", "ao"]);
    let [large, ao] = names.each_ref().map(String::as_str);
    let mut client = Client::connect(relays[0].address());
    client.subscribe_live(&[large, ao]);
    // As long as a request may be: with its head it is longer than a message of NATS.
    let elements: Vec<u8> = (0..MAX_REQUEST_BYTES - 300)
        .map(|at| (at / 7) as u8)
        .collect();
    let value = PutValue::Array(Array {
        value_type: ValueType::UInt8,
        count: elements.len() as u32,
        data: elements.clone().into(),
    });
    assert_eq!(
        put(&mut client, large, value),
        (Outcome::Done, String::new())
    );
    let whole = Kept::Array(ValueType::UInt8, elements);
    client.wait_pv(large, "all elements", |pv| pv.is(&whole));

    let mut other = Client::connect(relays[0].address());
    other.subscribe_live(&[ao]);
    let seen = |client: &Client| Expected {
        sequence: client.pv(ao).sequence,
        epoch: client.pv(ao).metadata.as_ref().unwrap().epoch,
    };
    let (first, second) = (seen(&client), seen(&other));
    let guarded = |client: &mut Client, value: f64, expected: Expected| {
        let put = RequestBody::Put(PutRequest {
            name: ao.to_owned(),
            value: PutValue::Number(value),
            wait: true,
            timeout_ms: 20_000,
            expected: Some(expected),
        });
        match client.ask(put).0 {
            Reply::PutDone { outcome, .. } => outcome,
            reply => panic!("{reply:?}"),
        }
    };
    assert_eq!(guarded(&mut client, 2.0, first), Outcome::Done);
    assert_eq!(guarded(&mut other, 3.0, second), Outcome::Changed);
    other.wait_number(ao, 2.0);
    let now = seen(&other);
    assert_eq!(guarded(&mut other, 4.0, now), Outcome::Done);
    client.wait_number(ao, 4.0);
    assert_eq!(client.pv(ao).numbers(), [1.0, 2.0, 4.0]);
}
