//! The throttle, slow clients, many names, long values, and clients when the relay stops.

use std::collections::HashSet;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pvwire_schema::close::CloseCode;
use serde_json::{Value, json};
use testbed::{Client, Network, Relay, SoftIoc, eventually, prefix, relay_command};

use super::client::{Pvws, flags};

const DATABASE: &str = r#"
record(longout, "$(P)n") { field(VAL, "0") field(PINI, "YES") field(HIGH, "9000") field(HSV, "MINOR") }
record(waveform, "$(P)source") { field(FTVL, "SHORT") field(NELM, "4000") field(INP, "[ELEMENTS]") }
record(waveform, "$(P)large") { field(FTVL, "DOUBLE") field(NELM, "4000") field(INP, "[ELEMENTS]") }
record(waveform, "$(P)many") { field(FTVL, "SHORT") field(NELM, "4000") field(INP, "$(P)source") }
record(waveform, "$(P)wave") {
    field(FTVL, "SHORT") field(NELM, "4") field(INP, "$(P)n CP") field(PINI, "YES")
}
"#;

fn database() -> String {
    DATABASE.replace("ELEMENTS", &vec!["1"; 4_000].join(","))
}

/// Counts to the number in the `{}`, as fast as it can.
const COUNT: &str = "
for i in range(1, {} + 1):
    ioc('dbpf %sn %d' % (P, i))
";

fn count(ioc: &mut SoftIoc, to: u32) {
    ioc.run(&COUNT.replace("{}", &to.to_string()));
}

#[test]
fn throttle_delivers_the_first_value_and_the_last() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let mut command = relay_command(network);
    command.envs([("PV_THROTTLE_MS", "300"), ("PV_ARRAY_THROTTLE_MS", "600")]);
    let relay = Relay::spawn(command, &["--pvws"]);
    let [number, wave] = ioc.names(["n", "wave"]);
    let mut client = Pvws::connect(&relay);
    client.subscribe(&[&number]);
    client.update(&number, "its value again", |update| {
        update["vtype"].is_null()
    });
    let start = Instant::now();
    count(&mut ioc, 1_000);
    let mut seen = 1;
    while client.update(&number, "a value", |_| true)["value"] != 1_000 {
        seen += 1;
    }
    let most = start.elapsed().as_millis() / 300 + 2;
    assert!(seen <= most, "{seen} updates in {:?}", start.elapsed());
    // Arrays have a separate interval.
    client.subscribe(&[&wave]);
    client.update(&wave, "its value again", |update| {
        update["vtype"].is_null() && update["b64srt"].is_string()
    });
    let (mut numbers, mut arrays) = (Vec::new(), Vec::new());
    for value in ["1", "2", "3"] {
        ioc.put("n", value);
    }
    let start = Instant::now();
    while numbers.last() != Some(&json!(3)) || arrays.last() != Some(&json!("AwA=")) {
        let update = client.next();
        if update["pv"] == *number {
            numbers.push(update["value"].clone());
        } else {
            arrays.push(update["b64srt"].clone());
        }
    }
    let most = start.elapsed().as_millis() / 600 + 2;
    assert!(arrays.len() as u128 <= most, "{arrays:?}");
}

#[test]
fn clients_with_the_same_names_get_the_same_bytes() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&[]));
    let name = ioc.name("n");
    let mut clients = [(); 3].map(|()| Pvws::connect(&relay));
    for client in &mut clients {
        client.subscribe(&[&name]);
        client.update(&name, "its value again", |update| update["vtype"].is_null());
    }
    let encoded = relay.metric("pvwire_frames_encoded_total");
    count(&mut ioc, 50);
    let texts = clients.each_mut().map(|client| {
        let mut texts = Vec::new();
        while texts
            .last()
            .is_none_or(|text: &String| !text.contains("\"value\":50,"))
        {
            texts.push(client.next_text());
        }
        texts
    });
    assert_eq!(texts[0].len(), 50);
    assert!(texts.iter().all(|other| *other == texts[0]));
    assert_eq!(
        relay.metric("pvwire_frames_encoded_total"),
        encoded,
        "no private frames"
    );
}

#[test]
fn slow_client_gets_the_newest_state_and_is_counted() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let more = ["--evict-after-ms", "60000", "--pvws-array-throttle-ms", "0"];
    let relay = Relay::start(network, &flags(&more));
    let [number, many] = ioc.names(["n", "many"]);
    let (mut slow, mut other) = (Pvws::connect_slow(&relay), Pvws::connect(&relay));
    for client in [&mut slow, &mut other] {
        client.subscribe(&[&number, &many]);
        client.update(&number, "its value again", |update| {
            update["vtype"].is_null()
        });
    }
    // The slow client reads nothing while megabytes of arrays are sent to it. A busy IOC leaves out
    // many of its updates.
    let mut end = 0;
    while relay.metric("pvwire_frames_skipped_total") == 0.0 {
        let begin = end + 1;
        end += 9_500;
        assert!(end < 200_000, "the client that reads nothing isn't behind");
        ioc.run(&format!(
            "
import time
for i in range({begin}, {end} + 1):
    ioc('dbpf %sn %d' % (P, i))
    if i % 10 == 0: ioc('dbpf %smany.PROC 1' % P)
    if i % 20 == 0: time.sleep(.002)
"
        ));
        other.update(&number, "the last value", |update| update["value"] == end);
    }
    let mut merged = serde_json::Map::new();
    let mut last = 0;
    while merged.get("value") != Some(&Value::from(end)) {
        let update = slow.next();
        // A busy IOC may not respond for a while.
        if update["pv"] == *number && update["value"].is_number() {
            let value = update["value"].as_u64().unwrap();
            assert!(value >= last, "{value} after {last}");
            last = value;
            merged.extend(update.as_object().unwrap().clone());
        }
    }
    eventually("the updates are counted", || {
        relay.metric("pvwire_updates_skipped_total{cause=\"behind\"}") > 0.0
    });
    assert_eq!(
        merged["severity"], "MINOR",
        "a change of alarm isn't skipped"
    );
}

#[test]
fn many_subscriptions_of_one_name_each_are_taken() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let name = ioc.name("n");
    let names: Vec<_> = (0..500)
        .map(|n| format!("{name}.{{\"dbnd\":{{\"abs\":{n}}}}}"))
        .collect();
    for name in &names {
        client.subscribe(&[name]);
    }
    let mut missing: HashSet<_> = names.iter().map(String::as_str).collect();
    while !missing.is_empty() {
        let update = client.next();
        missing.remove(update["pv"].as_str().unwrap());
    }
}

#[test]
fn many_names_of_one_pv_are_taken_and_too_many_refused_by_name() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    // Blanks around a name aren't part of the PV's name, but of what PVWS returns.
    let names: Vec<_> = (0..65)
        .map(|blanks| format!("{}{}", " ".repeat(blanks), ioc.name("n")))
        .collect();
    for name in &names[..64] {
        client.subscribe(&[name]);
        client.update(name, "its value again", |update| update["vtype"].is_null());
    }
    let refused = |client: &mut Pvws| {
        client.subscribe(&[&names[64]]);
        let told = client.until("refused", |message| message["type"] == "error");
        told.last().unwrap()["message"].as_str().unwrap().to_owned()
    };
    let expected = format!(
        "Cannot subscribe {}: your connection has subscribed this PV under 64 different names",
        names[64]
    );
    for _ in 0..2 {
        let message = refused(&mut client);
        assert!(message.starts_with(&expected), "{message}");
    }
    client.send(&json!({"type": "clear", "pvs": [names[3]]}));
    client.subscribe(&[&names[64]]);
    client.update(&names[64], "its value", |update| {
        update["vtype"].is_string()
    });
}

#[test]
fn name_beyond_a_limit_is_refused_by_name_and_may_come_again() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let more = ["--max-unresolved", "1", "--not-found-after-ms", "100"];
    let relay = Relay::start(network, &flags(&more));
    let mut client = Pvws::connect(&relay);
    let (missing, name) = (ioc.name("missing"), ioc.name("n"));
    // A name that the IOC has could be found before it is asked for again.
    let other = ioc.name("other");
    client.subscribe(&[&missing]);
    client.update(&missing, "not found", |update| update["readonly"] == true);
    for _ in 0..2 {
        client.subscribe(&[&other]);
        let told = client.until("refused", |message| message["type"] == "error");
        let message = told.last().unwrap()["message"].as_str().unwrap();
        let expected = format!("Cannot subscribe {other}: 1 of your names are not found");
        assert!(message.starts_with(&expected), "{message}");
        client.send(&json!({"type": "list"}));
        let listed = client.until("the list", |message| message["type"] == "list");
        assert_eq!(listed.last().unwrap()["pvs"], json!([missing]));
    }
    client.send(&json!({"type": "clear", "pvs": [missing]}));
    client.subscribe(&[&name]);
    client.update(&name, "its value", |update| update["vtype"].is_string());
}

/// Answers that a client's messages ask for, in each of which its names or its message come back.
#[test]
fn answers_that_a_client_does_not_read_count_against_its_memory() {
    let budget = ["--max-memory-per-client-mib=8", "--evict-after-ms=60000"];
    let relay = Relay::start(Network::new(), &flags(&budget));
    let list = json!({"type": "list"});
    let echo = json!({"type": "echo", "padding": "x".repeat(1 << 19)});
    for (names, message) in [(2_000, list), (0, echo)] {
        let mut client = Pvws::connect_slow(&relay);
        client.hold_names(names);
        for _ in 0..30 {
            client.send(&message);
        }
        let expected = CloseCode::TooManyRequests.number();
        assert_eq!(client.close_code(), expected, "{:.20}", message.to_string());
    }
}

#[test]
fn clients_are_closed_when_the_relay_stops() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(
        network,
        &flags(&["--drain-delay-ms", "0", "--drain-spread-ms", "100"]),
    );
    let name = ioc.name("n");
    let mut native = Client::connect(relay.address());
    native.subscribe(&[&name]);
    native.wait_number(&name, 0.0);
    let mut client = Pvws::connect(&relay);
    client.subscribe(&[&name]);
    client.update(&name, "its value", |update| update["vtype"].is_string());
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
    relay.signal("TERM");
    assert_eq!(client.close_code(), CloseCode::ServiceRestart.number());
}

/// What Go's WebSocket library takes unless it is told otherwise.
const SMALL: usize = 32 << 10;

#[test]
fn message_above_32_kib_comes_only_for_a_large_value() {
    let (network, prefix) = (Network::new(), prefix());
    let record =
        |n| format!("record(ao, \"$(P)r{n}\") {{ field(VAL, \"{n}\") field(PINI, \"YES\") }}\n");
    let database = database() + &(0..300).map(record).collect::<String>();
    let ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect_limited(&relay, SMALL);
    // 300 scalars and an array of 8,000 bytes; another client holds an array that is larger.
    let mut names: Vec<_> = (0..300).map(|n| ioc.name(&format!("r{n}"))).collect();
    names.push(ioc.name("source"));
    let large = ioc.name("large");
    let mut other = Pvws::connect(&relay);
    other.subscribe(&[&large]);
    other.update(&large, "its value", |update| update["b64dbl"].is_string());
    client.subscribe(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let wait_all = |client: &mut Pvws, fits: &dyn Fn(&Value) -> bool| {
        let mut missing: HashSet<_> = names.iter().map(String::as_str).collect();
        while !missing.is_empty() {
            let update = client.next();
            if fits(&update) {
                missing.remove(update["pv"].as_str().unwrap());
            }
        }
        // Up to here it has read all messages, none of which was larger.
        client.so_far();
    };
    wait_all(&mut client, &|update| update["vtype"].is_string());
    ioc.kill();
    wait_all(&mut client, &|update| update["severity"] == "INVALID");
    let _ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
    wait_all(&mut client, &|update| update["vtype"].is_string());
    client.subscribe(&[&large]);
    client.wait_too_large();
}

/// A count that stands in the first element of 40,000 numbers, too.
const COUNTERS: &str = r#"
record(ao, "$(P)signal") { field(VAL, "0.5") field(PINI, "YES") }
record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") field(PINI, "YES") }
record(histogram, "$(P)huge") {
    field(NELM, "40000") field(ULIM, "40000") field(SVL, "$(P)signal") field(SCAN, ".1 second")
}
"#;

/// The first of 40,000 numbers; none before the record is processed.
fn first_element(update: &Value) -> Option<f64> {
    let bytes = STANDARD.decode(update["b64dbl"].as_str()?).unwrap();
    assert!([0, 40_000 * size_of::<f64>()].contains(&bytes.len()));
    Some(f64::from_le_bytes(*bytes.first_chunk()?))
}

#[test]
fn values_that_take_long_to_convert_come_in_order_and_none_after_their_loss() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_prefix(network, &prefix, COUNTERS, "");
    let relay = Relay::start(network, &flags(&["--pvws-array-throttle-ms=0"]));
    let [huge, n] = ioc.names(["huge", "n"]);
    let mut clients = [Pvws::connect(&relay), Pvws::connect(&relay)];
    for client in &mut clients {
        client.subscribe(&[&huge, &n]);
        let (mut arrays, mut numbers) = (Vec::new(), Vec::new());
        while arrays.len() < 10 || numbers.len() < 10 {
            let update = client.next();
            arrays.extend(first_element(&update).filter(|_| update["pv"] == *huge));
            numbers.extend(update["value"].as_f64().filter(|_| update["pv"] == *n));
        }
        assert!(arrays.is_sorted(), "{arrays:?}");
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
    ioc.kill();
    let losses = clients
        .each_mut()
        .map(|client| client.update(&huge, "its loss", |update| update["severity"] == "INVALID"));
    let _ioc = SoftIoc::with_prefix(network, &prefix, COUNTERS, "");
    for (client, loss) in clients.iter_mut().zip(losses) {
        let next = client.update(&huge, "a value", |update| first_element(update).is_some());
        let [before, now] = [loss, next].map(|update| update["seconds"].as_u64().unwrap());
        assert!(
            before < now,
            "a value of {now} came after the loss at {before}"
        );
    }
}

#[test]
fn client_that_waits_for_its_turn_of_converting_is_no_client_that_takes_nothing() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, COUNTERS);
    let limits = [
        "--pvws-array-throttle-ms=0",
        "--max-cpu-per-client-ms-per-s=1",
        "--evict-after-ms=500",
    ];
    let relay = Relay::start(network, &flags(&limits));
    let mut client = Pvws::connect(&relay);
    let huge = ioc.name("huge");
    client.subscribe(&[&huge]);
    let mut arrays = Vec::new();
    let waits = |arrays: &[f64]| {
        arrays
            .windows(2)
            .filter(|pair| pair[1] - pair[0] > 6.0)
            .count()
    };
    while waits(&arrays) < 2 {
        arrays.extend(first_element(&client.next()));
    }
    assert!(arrays.is_sorted(), "{arrays:?}");
}
