//! Names of Phoebus that need no IOC: simulated PVs and local PVs.

use std::time::Instant;

use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, eventually, relay_command};

use super::client::{Pvws, flags};

const LOCAL_PUTS: [&str; 3] = ["--enable-put", "--allow-put", "loc://*"];

fn start(more: &[&str]) -> (Relay, Pvws) {
    let relay = Relay::start(Network::new(), &flags(more));
    let client = Pvws::connect(&relay);
    (relay, client)
}

/// The first update of a PV, without its name and time.
fn first(client: &mut Pvws, name: &str) -> Value {
    client.subscribe(&[name]);
    let mut update = client.update(name, "its first message", |_| true);
    let fields = update.as_object_mut().unwrap();
    for key in ["type", "pv", "seconds", "nanos"] {
        fields.remove(key).unwrap();
    }
    update
}

#[test]
fn simulated_pv_has_values_and_metadata_of_phoebus() {
    let (_relay, mut client) = start(&[]);
    let name = "sim://ramp(0,10,1)";
    let expected = json!({
        "vtype": "VDouble", "units": "a.u.", "description": null, "precision": 2, "min": 0.0, "max": 10.0,
        "warn_low": 2.0, "warn_high": 8.0, "alarm_low": 1.0, "alarm_high": 9.0, "severity": "MAJOR",
        "value": 0.0, "readonly": true,
    });
    assert_eq!(first(&mut client, name), expected);
    for (value, severity) in [
        (2.0, "MINOR"),
        (3.0, "NONE"),
        (8.0, "MINOR"),
        (9.0, "MAJOR"),
    ] {
        let update = client.update(name, "its next severity", |update| {
            update.get("severity").is_some()
        });
        let seen = (&update["value"], &update["severity"]);
        assert_eq!(seen, (&json!(value), &json!(severity)), "{update}");
    }
    let enumeration = first(&mut client, "sim://flipflop(2)");
    let expected = json!({
        "vtype": "VEnum", "labels": ["false", "true"], "severity": "NONE", "value": 1, "text": "true",
        "readonly": true,
    });
    assert_eq!(enumeration, expected);
    let wave = first(&mut client, "sim://sinewave(1, 10, 3, 0.1)");
    assert_eq!(wave["vtype"], "VDoubleArray");
    assert_eq!(wave["b64dbl"].as_str().unwrap().len(), 32);
    let text = first(&mut client, "sim://strings(2)");
    assert_eq!(
        (&text["vtype"], &text["text"]),
        (&json!("VString"), &json!("A"))
    );
}

#[test]
fn first_simulated_value_comes_after_one_period() {
    let (_relay, mut client) = start(&[]);
    client.subscribe(&["sim://flipflop(29.929)", "sim://ramp(0,10,0.05)"]);
    let seen = client.until("some values", |update| update["value"] == 3.0);
    let early = seen
        .iter()
        .find(|update| update["pv"] != "sim://ramp(0,10,0.05)");
    assert_eq!(early, None);
}

#[test]
fn intermittent_pv_is_disconnected_every_second_time() {
    let (_relay, mut client) = start(&[]);
    let name = "sim://intermittent(0.05,7)";
    client.subscribe(&[name]);
    for _ in 0..2 {
        client.update(name, "its value", |update| update["value"] == 7.0);
        let gone = client.update(name, "its loss", |update| update["value"] == "NaN");
        assert_eq!(gone["severity"], "INVALID");
    }
}

#[test]
fn constants_and_local_pvs_have_the_types_of_their_declarations() {
    let (_relay, mut client) = start(&[]);
    for (name, expected) in [
        (
            "sim://const(42)",
            json!({"vtype": "VDouble", "severity": "NONE", "value": 42.0}),
        ),
        (
            "sim://const(\"Fred S\")",
            json!({"vtype": "VString", "severity": "NONE", "text": "Fred S"}),
        ),
        (
            "sim://const(1.5, 2)",
            json!({"vtype": "VDoubleArray", "b64dbl": "AAAAAAAA+D8AAAAAAAAAQA=="}),
        ),
        (
            "loc://a",
            json!({"vtype": "VDouble", "units": "", "min": "NaN", "severity": "UNDEFINED", "value": 0.0}),
        ),
        (
            "loc://b(2.5)",
            json!({"vtype": "VDouble", "severity": "NONE", "value": 2.5}),
        ),
        ("loc://c(\"a\")", json!({"vtype": "VString", "text": "a"})),
        (
            "loc://d(1.5,2)",
            json!({"vtype": "VDoubleArray", "b64dbl": "AAAAAAAA+D8AAAAAAAAAQA=="}),
        ),
        ("loc://e<VInt>(3)", json!({"vtype": "VInt", "value": 3})),
        (
            "loc://f<VLong>(9007199254740993)",
            json!({"vtype": "VLong", "value": 9_007_199_254_740_993_u64}),
        ),
        (
            "loc://g<VEnum>(2, \"A\", \"B\", \"C\")",
            json!({"vtype": "VEnum", "labels": ["A", "B", "C"], "value": 2, "text": "C"}),
        ),
        ("loc://h(0x10)", json!({"vtype": "VDouble", "value": 16.0})),
    ] {
        let seen = first(&mut client, name);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(seen[key], *value, "{name}: {key} in {seen}");
        }
    }
    for (name, text) in [
        ("loc://i<VBoolean>(true)", "VBoolean[true, "),
        ("loc://j(\"a\",\"b\")", "VStringArray[[a, b], size [2], "),
        ("loc://k<VTable>(\"X\")", "VTable["),
    ] {
        let seen = first(&mut client, name);
        assert!(seen["text"].as_str().unwrap().starts_with(text), "{seen}");
        assert_eq!(seen.get("vtype"), None, "{seen}");
    }
}

#[test]
fn system_time_is_a_text_that_comes_each_second() {
    let (_relay, mut client) = start(&[]);
    let seen = first(&mut client, "sys://time");
    assert_eq!(
        (&seen["vtype"], &seen["severity"]),
        (&json!("VString"), &json!("NONE"))
    );
    let text = seen["text"].as_str().unwrap().to_owned();
    let shape: String = (text.chars())
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0000-00-00 00:00:00");
    client.update("sys://time", "the next second", |update| {
        update["text"] != *text
    });
}

#[test]
fn local_pv_is_shared_by_all_clients_and_spellings() {
    let (relay, mut one) = start(&LOCAL_PUTS);
    let mut other = Pvws::connect(&relay);
    let seen = first(&mut one, "loc://x(1)");
    assert_eq!(
        (&seen["value"], &seen["readonly"]),
        (&json!(1.0), &json!(false))
    );
    // It has a type and a value already.
    let seen = first(&mut other, "loc://x<VString>(\"a\")");
    assert_eq!(
        (&seen["vtype"], &seen["value"]),
        (&json!("VDouble"), &json!(1.0))
    );
    one.write("loc://x(1)", json!(2.5));
    one.update("loc://x(1)", "the new value", |update| {
        update["value"] == 2.5
    });
    other.update("loc://x<VString>(\"a\")", "the new value", |update| {
        update["value"] == 2.5
    });
    other.write("loc://x<VString>(\"a\")", json!("not a number"));
    let refused = other.until("the refusal", |message| message["type"] == "error");
    let why = refused.last().unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(why.contains("loc://x") && why.contains("a number"), "{why}");
}

#[test]
fn undeclared_local_pv_takes_the_type_of_its_first_text() {
    let (_relay, mut client) = start(&LOCAL_PUTS);
    let name = "loc://undeclared";
    assert_eq!(first(&mut client, name)["severity"], "UNDEFINED");
    client.write(name, json!("hello"));
    let update = client.update(name, "the text", |update| update["text"] == "hello");
    assert_eq!(
        (&update["vtype"], &update["severity"]),
        (&json!("VString"), &json!("NONE"))
    );
}

#[test]
fn local_pv_is_gone_with_its_last_client() {
    let (relay, mut one) = start(&LOCAL_PUTS);
    let mut other = Pvws::connect(&relay);
    let name = "loc://kept(1)";
    one.subscribe(&[name]);
    one.update(name, "its value", |update| update["value"] == 1.0);
    first(&mut other, name);
    other.write(name, json!(5));
    one.update(name, "the new value", |update| update["value"] == 5.0);
    let again = |client: &mut Pvws| {
        client.so_far();
        client.send(&json!({"type": "clear", "pvs": [name]}));
        client.subscribe(&[name]);
        let block = client.update(name, "its block", |update| update["vtype"] == "VDouble");
        block["value"].clone()
    };
    // The other client holds it.
    assert_eq!(again(&mut one), 5.0);
    other.send(&json!({"type": "clear", "pvs": [name]}));
    let deadline = Instant::now() + DEADLINE;
    while again(&mut one) != 1.0 {
        assert!(Instant::now() < deadline, "the value is kept");
    }
}

#[test]
fn values_of_local_pvs_are_charged_to_the_client() {
    let budget = ["--max-memory-per-client-mib=1", "--linger-ms=100"];
    let (relay, mut client) = start(&[&LOCAL_PUTS[..], &budget].concat());
    let names: Vec<_> = (0..8).map(|n| format!("loc://array{n}(1,2)")).collect();
    for name in &names {
        client.subscribe(&[name]);
        client.update(name, "its value again", |update| update["vtype"].is_null());
        client.write(name, json!(vec![1; 50_000]));
    }
    eventually("a value is refused", || {
        relay.metric("pvwire_memory_refused_total") > 0.0
    });
    let charged = relay.metric("pvwire_memory_charged_bytes");
    assert!(charged <= f64::from(1 << 20), "{charged} bytes");
    drop(client);
    eventually("nothing stays charged", || {
        relay.metric("pvwire_memory_charged_bytes") == 0.0
    });
}

#[test]
fn local_pv_is_written_under_the_rules_alone() {
    let (_relay, mut client) = start(&["--enable-put", "--allow-put", "loc://mine*"]);
    assert_eq!(first(&mut client, "loc://mine(1)")["readonly"], false);
    assert_eq!(first(&mut client, "loc://other(1)")["readonly"], true);
    client.write("loc://other(1)", json!(2));
    let refused = client.until("the refusal", |message| message["type"] == "error");
    let why = refused.last().unwrap()["message"].to_string();
    assert!(
        why.contains("loc://other(1)") && why.contains("allow_put"),
        "{why}"
    );
}

#[test]
fn invalid_names_are_not_answered() {
    let (_relay, mut client) = start(&[]);
    let invalid = [
        "sim://nosuch",
        "sys://nosuch",
        "sim://sine(1)",
        "sim://sine(1,2,3",
        "loc://",
        "loc://x(3",
        "loc://x<VNothing>(3)",
        "psim://sine",
        "dev://x",
    ];
    client.subscribe(&invalid);
    client.subscribe(&["loc://good(1)"]);
    let seen = client.until("the good one", |update| update["pv"] == "loc://good(1)");
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn simulated_pvs_need_the_operators_consent() {
    let mut command = relay_command(Network::new());
    command.env_remove("PVWIRE_ENABLE_SIM");
    let relay = Relay::spawn(command, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    client.subscribe(&["sim://const(1)", "sim://flipflop(0.05)"]);
    client.subscribe(&["loc://good(1)"]);
    let seen = client.until("the good one", |update| update["pv"] == "loc://good(1)");
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn clients_that_connect_again_and_again_with_a_wrong_name_do_not_flood_the_log() {
    let (mut relay, _client) = start(&["--max-new-connections-per-s=1000"]);
    let begun = Instant::now();
    for _ in 0..60 {
        let mut client = Pvws::connect(&relay);
        // An update of another one shows that the relay has looked for both.
        client.subscribe(&["sim://nosuch(1)", "sim://ramp(0,10,1)"]);
        client.update("sim://ramp(0,10,1)", "its value", |_| true);
    }
    // A line a second may be written, and ten at once.
    let most = 11 + begun.elapsed().as_secs() as usize;
    relay.signal("TERM");
    relay.wait_end(DEADLINE);
    let line = "a client of PVWS asks for";
    relay.says(line);
    let output = relay.output();
    let lines = output.lines().filter(|text| text.contains(line));
    assert!(lines.count() <= most, "{output}");
}
