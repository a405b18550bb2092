//! Values of each type, as PVWS sends them.

use serde_json::{Value, json};
use testbed::{Network, OtherServer, Relay, SoftIoc, prefix};

use super::client::{Pvws, flags};

const DATABASE: &str = r#"
record(ao, "$(P)double") {
    field(VAL, "5") field(EGU, "mm") field(PREC, "3") field(DESC, "a length") field(PINI, "YES")
    field(HOPR, "10") field(LOPR, "0") field(HIGH, "8") field(HSV, "MINOR") field(HIHI, "9")
    field(HHSV, "MAJOR")
}
record(ao, "$(P)plain") { field(VAL, "0") field(PINI, "YES") }
record(ao, "$(P)udf") { }
record(longout, "$(P)long") { field(VAL, "7") field(EGU, "n") field(PINI, "YES") }
record(int64out, "$(P)int64") { field(VAL, "9007199254740993") field(PINI, "YES") }
record(mbbo, "$(P)enum") {
    field(VAL, "1") field(ZRST, "off") field(ONST, "on \"x\"") field(ONSV, "MINOR") field(PINI, "YES")
}
record(stringout, "$(P)text") { field(VAL, "hello \"you\"") field(PINI, "YES") }
record(waveform, "$(P)doubles") { field(FTVL, "DOUBLE") field(NELM, "4") field(INP, [1.5, 2]) field(PINI, "YES") }
record(waveform, "$(P)floats") { field(FTVL, "FLOAT") field(NELM, "4") field(INP, [1.5, 2]) field(PINI, "YES") }
record(waveform, "$(P)shorts") { field(FTVL, "SHORT") field(NELM, "4") field(INP, [1, -1]) field(PINI, "YES") }
record(waveform, "$(P)longs") { field(FTVL, "LONG") field(NELM, "4") field(INP, [1, -1]) field(PINI, "YES") }
record(waveform, "$(P)chars") { field(FTVL, "CHAR") field(NELM, "4") field(INP, [104, 105]) field(PINI, "YES") }
record(waveform, "$(P)empty") { field(FTVL, "DOUBLE") field(NELM, "4") field(PINI, "YES") }
record(waveform, "$(P)strings") { field(FTVL, "STRING") field(NELM, "4") field(INP, ["a", "b"]) field(PINI, "YES") }
record(waveform, "$(P)large") { field(FTVL, "DOUBLE") field(NELM, "4000") }
"#;

/// An IOC with both protocols.
fn ioc(network: Network) -> SoftIoc {
    SoftIoc::with_pv_access(network, &prefix(), DATABASE)
}

/// Writes all elements of the large array.
fn fill(ioc: &mut SoftIoc) {
    ioc.put("large", &format!("[{}]", vec!["1"; 4_000].join(",")));
    let count = ioc.ask(&format!("dbgf {}", ioc.name("large.NORD")));
    assert!(count.contains("4000"), "{count}");
}

/// The first two messages of a PV, without its name, rights and time.
fn first(client: &mut Pvws, name: &str) -> [Value; 2] {
    client.subscribe(&[name]);
    [(); 2].map(|()| {
        let mut update = client.next();
        let fields = update.as_object_mut().unwrap();
        assert_eq!(fields.remove("type").unwrap(), "update");
        assert_eq!(fields.remove("pv").unwrap(), name);
        assert_eq!(fields.remove("readonly").unwrap(), true);
        assert!(fields.remove("seconds").unwrap().is_u64());
        assert!(fields.remove("nanos").unwrap().is_u64());
        update
    })
}

#[test]
fn values_of_channel_access_have_class_metadata_and_text_of_pvws() {
    let network = Network::new();
    let ioc = ioc(network);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let block = |vtype: &str, units: &str, precision: u32| {
        json!({
            "vtype": vtype, "units": units, "description": null, "precision": precision,
            "min": 0.0, "max": 0.0, "severity": "NONE",
        })
    };
    for (record, head, value) in [
        ("plain", block("VDouble", "", 0), json!({"value": 0.0})),
        ("long", block("VInt", "n", 0), json!({"value": 7})),
        (
            "doubles",
            block("VDoubleArray", "", 0),
            json!({"b64dbl": "AAAAAAAA+D8AAAAAAAAAQA=="}),
        ),
        (
            "floats",
            block("VFloatArray", "", 0),
            json!({"b64flt": "AADAPwAAAEA="}),
        ),
        (
            "shorts",
            block("VShortArray", "", 0),
            json!({"b64srt": "AQD//w=="}),
        ),
        (
            "longs",
            block("VIntArray", "", 0),
            json!({"b64int": "AQAAAP////8="}),
        ),
        (
            "chars",
            block("VByteArray", "", 0),
            json!({"b64byt": "aGk="}),
        ),
        ("empty", block("VDoubleArray", "", 0), json!({"b64dbl": ""})),
    ] {
        let name = ioc.name(record);
        let [whole, plain] = first(&mut client, &name);
        assert_eq!(plain, value, "{record}");
        for (key, expected) in head
            .as_object()
            .unwrap()
            .iter()
            .chain(value.as_object().unwrap())
        {
            assert_eq!(whole[key], *expected, "{record}: {key} in {whole}");
        }
        let keys = ["warn_low", "warn_high", "alarm_low", "alarm_high"];
        assert!(
            keys.iter().all(|key| !whole[key].is_null()),
            "{record}: {whole}"
        );
    }
    for (record, expected) in [
        (
            "enum",
            json!({"vtype": "VEnum", "labels": ["off", "on \"x\""], "severity": "MINOR", "value": 1,
                   "text": "on \"x\""}),
        ),
        (
            "text",
            json!({"vtype": "VString", "severity": "NONE", "text": "hello \"you\""}),
        ),
    ] {
        let [whole, _] = first(&mut client, &ioc.name(record));
        assert_eq!(whole, expected, "{record}");
    }
    let [strings, again] = first(&mut client, &ioc.name("strings"));
    let text = strings["text"].as_str().unwrap();
    assert!(
        text.starts_with("VStringArray[[a, b], size [2], NONE(NONE) - NO_ALARM, 20"),
        "{text}"
    );
    assert_eq!(strings, again);
    // Channel Access has no integers of 64 bits: they come as doubles.
    let [int64, _] = first(&mut client, &ioc.name("int64"));
    assert_eq!(int64["vtype"], "VDouble");
}

#[test]
fn first_message_has_the_keys_in_the_order_of_pvws() {
    let network = Network::new();
    let ioc = ioc(network);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    let name = ioc.name("double");
    client.subscribe(&[&name]);
    // A busy machine may take longer to connect than until a client is told so.
    let mut text = client.next_text();
    while !text.contains("vtype") {
        text = client.next_text();
    }
    let expected = format!(
        r#"{{"type":"update","pv":"{name}","vtype":"VDouble","units":"mm","description":null,"precision":3,"min":0.0,"max":10.0,"warn_low":"-Infinity","warn_high":8.0,"alarm_low":"-Infinity","alarm_high":9.0,"severity":"NONE","value":5.0,"readonly":true,"seconds":"#
    );
    assert!(text.starts_with(&expected), "{text}");
    let udf = ioc.name("udf");
    client.subscribe(&[&udf]);
    let update = client.update(&udf, "its value", |update| update["vtype"] == "VDouble");
    assert_eq!(update["severity"], "INVALID");
    assert_eq!(
        (&update["seconds"], &update["nanos"]),
        (&json!(631_152_000), &json!(0))
    );
}

#[test]
fn values_of_pv_access_have_class_metadata_and_text_of_pvws() {
    let network = Network::new();
    let ioc = ioc(network);
    let relay = Relay::start(network, &flags(&["--pvws-default-type", "pva"]));
    let mut client = Pvws::connect(&relay);
    // A name without a prefix is a pvAccess name here.
    let [double, _] = first(&mut client, &ioc.name("double"));
    for (key, expected) in [
        ("vtype", json!("VDouble")),
        ("units", json!("mm")),
        ("description", json!("a length")),
        ("precision", json!(3)),
        ("max", json!(10.0)),
        ("value", json!(5.0)),
    ] {
        assert_eq!(double[key], expected, "{key} in {double}");
    }
    for (record, vtype, key, value) in [
        ("long", "VInt", "value", json!(7)),
        ("int64", "VLong", "value", json!(9_007_199_254_740_993_u64)),
        (
            "doubles",
            "VDoubleArray",
            "b64dbl",
            json!("AAAAAAAA+D8AAAAAAAAAQA=="),
        ),
        ("longs", "VIntArray", "b64int", json!("AQAAAP////8=")),
        ("text", "VString", "text", json!("hello \"you\"")),
        ("enum", "VEnum", "text", json!("on \"x\"")),
    ] {
        let name = format!("pva://{}", ioc.name(record));
        let [whole, plain] = first(&mut client, &name);
        assert_eq!(
            (&whole["vtype"], &whole[key]),
            (&json!(vtype), &value),
            "{whole}"
        );
        assert_eq!(plain[key], value, "{plain}");
    }
}

#[test]
fn large_array_comes_whole_to_new_clients_and_at_each_update() {
    let network = Network::new();
    let mut ioc = ioc(network);
    fill(&mut ioc);
    let relay = Relay::start(network, &flags(&["--pvws-array-throttle-ms", "0"]));
    let name = ioc.name("large");
    // Several thousand elements of 8 bytes are too large for the frame of other values.
    let is_large = |update: &Value| {
        let base64 = update["b64dbl"].as_str();
        base64.is_some_and(|base64| base64.len() > 32 << 10)
    };
    let mut clients = [(); 2].map(|()| Pvws::connect(&relay));
    for client in &mut clients {
        client.subscribe(&[&name]);
        let update = client.update(&name, "its value", is_large);
        assert_eq!(update["vtype"], "VDoubleArray");
    }
    for client in &mut clients {
        client.so_far();
    }
    let made = relay.metric("pvwire_large_frames_encoded_total");
    ioc.put("large.PROC", "1");
    for client in &mut clients {
        client.update(&name, "the next", is_large);
    }
    let made = relay.metric("pvwire_large_frames_encoded_total") - made;
    assert_eq!(made, 1.0, "made once for both");
}

#[test]
fn changed_units_of_a_large_array_are_written_once_for_all() {
    let network = Network::new();
    let mut ioc = ioc(network);
    fill(&mut ioc);
    let relay = Relay::start(network, &flags(&["--pvws-array-throttle-ms", "0"]));
    let name = ioc.name("large");
    let mut clients = [(); 2].map(|()| Pvws::connect(&relay));
    for client in &mut clients {
        client.subscribe(&[&name]);
        client.update(&name, "its value", |update| {
            update["b64dbl"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        });
        client.so_far();
    }
    let made = relay.metric("pvwire_large_frames_encoded_total");
    ioc.put("large.EGU", "kV");
    for client in &mut clients {
        let update = client.update(&name, "its units", |update| update["units"] == "kV");
        assert!(update["b64dbl"].as_str().unwrap().len() > 32 << 10);
        assert_eq!(update["vtype"], "VDoubleArray");
    }
    let made = relay.metric("pvwire_large_frames_encoded_total") - made;
    assert_eq!(made, 1.0, "in a separate frame that both get");
}

#[test]
fn first_messages_of_a_server_whose_metadata_come_late_have_labels_and_units() {
    let network = Network::new();
    let server = OtherServer::with_late_metadata(network, 0.3);
    for (name, key, expected) in [
        ("choice", "labels", json!(["Closed", "Open"])),
        ("number", "units", json!("mA")),
    ] {
        let relay = Relay::start(network, &flags(&["--not-found-after-ms=60000"]));
        let mut client = Pvws::connect(&relay);
        let name = server.pv(name);
        client.subscribe(&[&name]);
        let first = client.update(&name, "a value", |update| !update["value"].is_null());
        assert_eq!(first[key], expected, "{first}");
        if key == "labels" {
            assert_eq!(
                (&first["value"], &first["text"]),
                (&json!(1), &json!("Open"))
            );
        }
    }
}
