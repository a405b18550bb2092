//! The life of a PV: connection, loss and return of its IOC, alarms, metadata, rights; and clients that connect again and
//! again while an IOC is lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pvwire_schema::types::ConnectionState;
use serde_json::{Value, json};
use testbed::{Client, Network, Relay, SoftIoc, eventually, keep_up, prefix, relay_command};

use super::client::{Pvws, flags};

fn database(units: &str) -> String {
    format!(
        r#"
        record(ao, "$(P)ao") {{
            field(VAL, "1") field(EGU, "{units}") field(PINI, "YES") field(HIGH, "5") field(HSV, "MINOR")
        }}
        record(mbbo, "$(P)enum") {{
            field(VAL, "0") field(ZRST, "off") field(ONST, "on") field(ONSV, "MAJOR") field(PINI, "YES")
        }}
        record(stringout, "$(P)text") {{ field(VAL, "hello") field(PINI, "YES") }}
        record(waveform, "$(P)wave") {{
            field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, 2]) field(PINI, "YES")
        }}
        "#
    )
}

/// An update without its type, name and time.
fn inner(update: &Value) -> Value {
    let mut update = update.clone();
    let fields = update.as_object_mut().unwrap();
    for key in ["type", "pv", "seconds", "nanos"] {
        assert!(fields.remove(key).is_some(), "{key}");
    }
    update
}

/// Reads until it has two messages of each of four PVs, by name.
fn two_of_each(client: &mut Pvws) -> BTreeMap<String, Vec<Value>> {
    let mut seen = BTreeMap::<String, Vec<Value>>::new();
    while seen.len() < 4 || seen.values().any(|updates| updates.len() < 2) {
        let update = client.next();
        let name = update["pv"].as_str().unwrap().to_owned();
        seen.entry(name).or_default().push(update);
    }
    seen
}

#[test]
fn first_two_messages_have_the_value_and_the_right_to_write() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database("V"));
    let name = ioc.name("ao");
    for (more, readonly) in [
        (&[][..], true),
        (&["--enable-put", "--allow-put", "*"], false),
        (&["--enable-put", "--allow-put", "other*"], true),
        (
            &["--enable-put", "--allow-put", "*", "--pvws-write=false"],
            true,
        ),
    ] {
        let relay = Relay::start(network, &flags(more));
        let mut client = Pvws::connect(&relay);
        client.subscribe(&[&name]);
        let (first, second) = (client.next(), client.next());
        assert_eq!(first["vtype"], "VDouble");
        for update in [&first, &second] {
            assert_eq!(update["value"], 1.0);
            assert_eq!(update["readonly"], readonly, "{more:?}");
        }
        assert_eq!(inner(&second), json!({"value": 1.0, "readonly": readonly}));
    }
}

#[test]
fn killed_ioc_is_told_as_each_class_can_and_its_return_as_new() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_prefix(network, &prefix, &database("V"), "");
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let names = ["ao", "enum", "text", "wave"].map(|record| ioc.name(record));
    client.subscribe(&names.each_ref().map(String::as_str));
    for name in &names {
        let mut one = Pvws::connect(&relay);
        one.subscribe(&[name]);
        one.update(name, "its value", |update| update["vtype"].is_string());
    }
    two_of_each(&mut client);
    client.so_far();

    ioc.kill();
    let mut gone: Vec<_> = (0..4).map(|_| client.next()).collect();
    gone.sort_by_key(|update| names.iter().position(|name| update["pv"] == **name));
    let gone: Vec<_> = gone.iter().map(inner).collect();
    let nan = json!({"severity": "INVALID", "value": "NaN"});
    let array = json!({"severity": "INVALID", "b64srt": ""});
    assert_eq!(gone, [nan.clone(), nan.clone(), nan, array]);
    assert!(client.so_far().is_empty());
    // A new client is told only that it may not write.
    let mut late = Pvws::connect(&relay);
    late.subscribe(&[&names[0]]);
    assert_eq!(inner(&late.next()), json!({"readonly": true}));

    let _ioc = SoftIoc::with_prefix(network, &prefix, &database("A"), "");
    let back = two_of_each(&mut client);
    for (name, key) in names.iter().zip(["value", "value", "text", "b64srt"]) {
        let [first, second, ..] = &back[name][..] else {
            panic!("{back:?}");
        };
        assert!(
            first["vtype"].is_string() && !first["readonly"].is_null(),
            "{first}"
        );
        assert!(
            second["vtype"].is_null() && !second["readonly"].is_null(),
            "{second}"
        );
        assert!(first[key] != "NaN" && first[key] == second[key], "{first}");
    }
    assert_eq!(back[&names[0]][0]["units"], "A");
    late.update(&names[0], "its value", |update| update["units"] == "A");
}

#[test]
fn name_that_is_never_found_has_one_message_without_a_value() {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &flags(&["--not-found-after-ms", "300"]));
    let mut client = Pvws::connect(&relay);
    let name = format!("ca://{prefix}ao");
    client.subscribe(&[&name]);
    let update = client.next();
    assert_eq!(
        (&update["pv"], inner(&update)),
        (&json!(name), json!({"readonly": true}))
    );
    let _ioc = SoftIoc::with_prefix(network, &prefix, &database("V"), "");
    let found = client.next();
    assert_eq!(
        (&found["vtype"], &found["value"]),
        (&json!("VDouble"), &json!(1.0))
    );
}

#[test]
fn severity_comes_with_the_value_that_changes_it() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database("V"));
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let [ao, mode] = ioc.names(["ao", "enum"]);
    for name in [&ao, &mode] {
        client.subscribe(&[name]);
        client.update(name, "its value", |update| update["vtype"].is_string());
        client.update(name, "its value again", |update| update["vtype"].is_null());
    }
    for (field, value, expected) in [
        ("ao", "2", json!({"value": 2.0})),
        ("ao", "6", json!({"severity": "MINOR", "value": 6.0})),
        ("ao", "7", json!({"value": 7.0})),
        ("ao", "1", json!({"severity": "NONE", "value": 1.0})),
        (
            "enum",
            "1",
            json!({"severity": "MAJOR", "value": 1, "text": "on"}),
        ),
        (
            "enum",
            "0",
            json!({"severity": "NONE", "value": 0, "text": "off"}),
        ),
    ] {
        ioc.put(field, value);
        assert_eq!(inner(&client.next()), expected);
    }
}

#[test]
fn changed_units_come_with_a_value() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database("V"));
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let name = ioc.name("ao");
    client.subscribe(&[&name]);
    client.update(&name, "its value", |update| update["units"] == "V");
    client.update(&name, "its value again", |update| update["units"].is_null());
    ioc.put("ao.EGU", "kV");
    let changed = client.update(&name, "its units", |update| update["units"] == "kV");
    assert_eq!(
        (&changed["value"], &changed["vtype"]),
        (&json!(1.0), &json!("VDouble"))
    );
}

const THREADS: usize = 6;
const CLIENTS_OF_A_THREAD: usize = 50;
/// How many connections the clients make at least.
const CONNECTIONS: usize = 4 * THREADS * CLIENTS_OF_A_THREAD;
const PVS: usize = 20;

fn lost_records() -> String {
    let record =
        |n| format!("record(ao, \"$(P)r{n}\") {{ field(VAL, \"{n}\") field(PINI, \"YES\") }}\n");
    (0..PVS).map(record).collect()
}

const HEALTHY: &str = r#"record(longout, "$(P)n") { field(VAL, "0") field(PINI, "YES") }"#;

/// Connects all clients of a thread, subscribes, and ends the connections, until `is_over`. The clients of the
/// field wait 500 ms between two connections; these wait for nothing.
fn reconnect(address: SocketAddr, names: &[&str], made: &AtomicUsize, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let connect = || {
            // The relay may refuse clients that connect too often.
            let mut client = Pvws::try_connect(address, &[]).ok()?;
            client.subscribe(names);
            made.fetch_add(1, Ordering::Relaxed);
            Some(client)
        };
        let mut clients: Vec<_> = (0..CLIENTS_OF_A_THREAD).filter_map(|_| connect()).collect();
        for client in &mut clients {
            client.so_far();
        }
    }
}

/// Ends the storm when it is dropped, also when the test fails: the scope waits for the storm's threads.
struct EndOfStorm<'a>(&'a AtomicBool);

impl Drop for EndOfStorm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clients_that_reconnect_in_storms_do_not_harm_native_ones() {
    let (network, prefix) = (Network::new(), prefix());
    let lost = SoftIoc::with_prefix(network, &prefix, &lost_records(), "");
    let mut healthy = SoftIoc::start(network.at("127.0.0.2"), HEALTHY);
    let mut command = relay_command(network);
    command.env("EPICS_CA_ADDR_LIST", "127.0.0.1 127.0.0.2");
    let relay = Relay::spawn(command, &flags(&[]));
    let names: Vec<_> = (0..PVS).map(|n| lost.name(&format!("r{n}"))).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let counter = healthy.name("n");
    let mut natives = [(); 3].map(|()| Client::connect(relay.address()));
    for native in &mut natives {
        native.subscribe_live(&[counter.as_str(), names[7]]);
        native.wait_number(names[7], 7.0);
    }
    lost.kill();
    for native in &mut natives {
        native.wait_state(names[7], ConnectionState::Disconnected);
    }

    let states = |native: &Client| native.pv(&counter).states.len();
    let before = natives.each_ref().map(states);
    let (made, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut last = 0;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| reconnect(relay.address(), &names, &made, &is_over));
        }
        let _end = EndOfStorm(&is_over);
        while made.load(Ordering::Relaxed) < CONNECTIONS || last < 50 {
            last += 1;
            healthy.put("n", &last.to_string());
            let mut all = natives.each_mut();
            keep_up("the next value", &mut all, |natives| {
                let has_it = |native: &&mut Client| native.pv(&counter).is_number(last.into());
                natives.iter().all(has_it)
            });
        }
    });
    for native in &natives {
        let pv = native.pv(&counter);
        let every: Vec<f64> = (0..=last).map(f64::from).collect();
        assert_eq!((pv.numbers(), pv.skipped), (every, 0));
    }
    assert_eq!(
        natives.each_ref().map(states),
        before,
        "it stayed connected"
    );
    eventually("the relay has only its native clients", || {
        relay.metric("pvwire_sessions_active") == natives.len() as f64
    });

    let _back = SoftIoc::with_prefix(network, &prefix, &lost_records(), "");
    for native in &mut natives {
        native.wait_state(names[7], ConnectionState::Connected);
        native.wait_number(names[7], 7.0);
    }
    let mut client = Pvws::connect(&relay);
    client.subscribe(&names);
    let mut missing: Vec<_> = (0..PVS).collect();
    while !missing.is_empty() {
        let update = client.next();
        missing.retain(|n| update["pv"] != *names[*n] || update["value"] != json!(*n as f64));
    }
}
