//! An IOC that hangs, and names that aren't connected: what clients of PVWS see within the time that is promised.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{NatsServer, Network, Relay, SoftIoc, StructureServer, get, prefix, signal, within};

use super::client::{Pvws, flags};

const DATABASE: &str = r#"
    record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
    record(longout, "$(P)long") { field(VAL, "7") field(PINI, "YES") }
    record(mbbo, "$(P)enum") { field(VAL, "1") field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
    record(stringout, "$(P)text") { field(VAL, "hello") field(PINI, "YES") }
    record(waveform, "$(P)wave") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, 2]) field(PINI, "YES") }
    record(waveform, "$(P)large") { field(FTVL, "DOUBLE") field(NELM, "4000") field(INP, "[ELEMENTS]") field(PINI, "YES") }
    record(ao, "$(P)b") { field(VAL, "3") field(PINI, "YES") }
"#;

/// Within this time clients are told that an IOC doesn't respond.
const TOLD_WITHIN: Duration = Duration::from_secs(3);

fn database() -> String {
    DATABASE.replace("ELEMENTS", &vec!["1"; 4_000].join(","))
}

/// What a client that merges updates knows of each PV, as ORNL's does.
#[derive(Default)]
struct Merged(BTreeMap<String, serde_json::Map<String, Value>>);

impl Merged {
    fn take(&mut self, update: &Value) {
        let name = update["pv"].as_str().unwrap().to_owned();
        let fields = update.as_object().unwrap().clone();
        self.0.entry(name).or_default().extend(fields);
    }

    /// Reads updates until all PVs fit.
    fn until(&mut self, client: &mut Pvws, names: &[String], fits: impl Fn(&Value) -> bool) {
        let all_fit = |merged: &Self| {
            let known = |name| merged.0.get(name).cloned().map(Value::Object);
            names
                .iter()
                .all(|name| known(name).is_some_and(|pv| fits(&pv)))
        };
        while !all_fit(self) {
            self.take(&client.next());
        }
    }

    /// Everything but time and severity.
    fn values(&self) -> Vec<Value> {
        let value = |pv: &serde_json::Map<String, Value>| {
            let mut pv = pv.clone();
            for key in ["seconds", "nanos"] {
                pv.remove(key);
            }
            // The last value of an enum and a text stays "NaN" beside the text that clients show.
            if pv.contains_key("text") {
                pv.remove("value");
            }
            Value::Object(pv)
        };
        self.0.values().map(value).collect()
    }
}

fn is_calm(pv: &Value) -> bool {
    pv["severity"] == "NONE" && pv["vtype"].is_string()
}

/// Hangs a server and checks that all PVs become INVALID in time, and what they were afterwards.
fn hang(client: &mut Pvws, names: &[String], stop: impl Fn(bool)) {
    client.subscribe(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut merged = Merged::default();
    merged.until(client, names, is_calm);
    client
        .so_far()
        .iter()
        .for_each(|update| merged.take(update));
    let before = merged.values();
    within(TOLD_WITHIN, "every PV is INVALID", || {
        stop(true);
        let begin = Instant::now();
        merged.until(client, names, |pv| pv["severity"] == "INVALID");
        let took = begin.elapsed();
        for name in names {
            let pv = &merged.0[name];
            let array = pv.keys().find(|key| key.starts_with("b64"));
            let (key, expected) = array.map_or(("value", "NaN"), |key| (key.as_str(), ""));
            assert_eq!(pv[key], expected, "{name}: {pv:?}");
        }
        stop(false);
        merged.until(client, names, is_calm);
        client
            .so_far()
            .iter()
            .for_each(|update| merged.take(update));
        took
    });
    assert_eq!(merged.values(), before);
}

#[test]
fn ioc_that_hangs_is_seen_in_every_class_within_three_seconds() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), &database());
    let relay = Relay::start(network, &flags(&["--pvws-array-throttle-ms", "0"]));
    let records = ["ao", "long", "enum", "text", "wave", "large"];
    let mut names: Vec<_> = ioc.names(records).into();
    names.extend(ioc.names(records).map(|name| format!("pva://{name}")));
    let [a, b] = ioc.names(["ao", "b"]);
    names.push(format!("=`{a}` + `pva://{b}`"));
    let mut client = Pvws::connect(&relay);
    hang(&mut client, &names, |stops| match stops {
        true => ioc.hang(),
        false => ioc.resume(),
    });
}

#[test]
fn formula_follows_its_other_inputs_while_one_does_not_respond() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&["--enable-put", "--allow-put=loc://*"]));
    let mut client = Pvws::connect(&relay);
    let formula = format!("=`{}` + `loc://other(10)`", ioc.name("ao"));
    client.subscribe(&[&formula]);
    client.update(&formula, "its value", |update| update["value"] == 11.0);
    client.subscribe(&["loc://other"]);
    ioc.hang();
    client.update(&formula, "the hang", |update| {
        update["severity"] == "INVALID"
    });
    client.write("loc://other", json!(20));
    client.update("loc://other", "its value", |update| update["value"] == 20.0);
    ioc.resume();
    client.update(&formula, "its value", |update| {
        update["value"] == 21.0 && update["severity"] == "NONE"
    });
}

#[test]
fn ioc_that_hangs_is_seen_through_a_fleet() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let url = nats.url();
    let ioc = SoftIoc::start(network, &database());
    let of = |role: &str, more: &[&str]| {
        Relay::start(network, &[&["--bus", &url, "--role", role], more].concat())
    };
    let _ingest = of("ingest", &[]);
    let edge = of("edge", &flags(&[]));
    let names: Vec<_> = ioc.names(["ao", "enum", "text", "wave"]).into();
    let mut client = Pvws::connect(&edge);
    hang(&mut client, &names, |stops| match stops {
        true => ioc.hang(),
        false => ioc.resume(),
    });
}

#[test]
fn server_of_structures_that_hangs_is_seen() {
    let (network, structures) = (Network::new(), prefix());
    let server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let name = format!("pva://{structures}float");
    hang(&mut client, &[name], |stops| {
        signal(server.id(), if stops { "STOP" } else { "CONT" });
    });
}

#[test]
fn single_read_while_an_ioc_hangs_has_no_value() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&[]));
    let name = ioc.name("ao");
    let mut client = Pvws::connect(&relay);
    client.subscribe(&[&name]);
    client.update(&name, "its value", |update| update["vtype"].is_string());
    ioc.hang();
    client.update(&name, "the hang", |update| update["severity"] == "INVALID");
    let body = get(relay.address(), &format!("/pvws/pvget?name={name}"), &[]).body;
    let update: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&update["vtype"], &update["severity"], &update["value"]),
        (&json!("VDouble"), &json!("INVALID"), &json!("NaN"))
    );
    // A new client sees that the PV has no value at present.
    let mut late = Pvws::connect(&relay);
    late.subscribe(&[&name]);
    let update = late.next();
    assert!(
        update["value"].is_null() && update["readonly"] == true,
        "{update}"
    );
    ioc.resume();
    late.update(&name, "its value", |update| update["value"] == 1.0);
}

#[test]
fn names_that_are_not_connected_are_told_within_a_quarter_of_a_second() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let [there, gone] = ioc.names(["ao", "long"]);
    client.subscribe(&[&there, &gone]);
    client.update(&gone, "its value", |update| update["vtype"].is_string());
    client.so_far();
    let mut number = 0;
    for scheme in ["", "ca://", "pva://"] {
        within(Duration::from_millis(250), "the name is told", || {
            number += 1;
            let name = format!("{scheme}{}nowhere{number}", ioc.name(""));
            let begin = Instant::now();
            client.subscribe(&[&name]);
            let update = client.update(&name, "a message", |_| true);
            assert_eq!(update["readonly"], true, "{update}");
            assert!(
                update["value"].is_null() && update["vtype"].is_null(),
                "{update}"
            );
            begin.elapsed()
        });
    }
    // A PV that is known not to be connected.
    ioc.kill();
    client.update(&gone, "the loss", |update| update["severity"] == "INVALID");
    within(Duration::from_millis(250), "the lost PV is told", || {
        let mut late = Pvws::connect(&relay);
        let begin = Instant::now();
        late.subscribe(&[&gone]);
        let update = late.next();
        assert_eq!(
            (&update["readonly"], &update["value"]),
            (&json!(true), &Value::Null)
        );
        begin.elapsed()
    });
}

#[test]
fn name_that_connects_soon_has_its_value_in_the_first_message() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    // The circuit to the IOC takes the first PV some time.
    client.subscribe(&[&ioc.name("ao")]);
    client.update(&ioc.name("ao"), "its value", |update| {
        update["vtype"].is_string()
    });
    client.so_far();
    within(Duration::from_millis(200), "the value comes soon", || {
        let mut other = Pvws::connect(&relay);
        let name = ioc.name("long");
        let begin = Instant::now();
        other.subscribe(&[&name]);
        let update = other.next();
        let took = begin.elapsed();
        if took < Duration::from_millis(200) {
            assert_eq!(update["value"], 7, "{update}");
        }
        took
    });
}
