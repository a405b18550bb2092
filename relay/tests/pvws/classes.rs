//! PVs whose class changes, and values that cease to exist: what a client that merges updates shows.

use serde_json::{Map, Value, json};
use testbed::{Network, Relay, SoftIoc, StructureServer, get, prefix};

use super::client::{Pvws, flags};

const DATABASE: &str = r#"
record(mbbo, "$(P)enum") {
    field(VAL, "2") field(ZRST, "zero") field(ONST, "one") field(TWST, "two") field(PINI, "YES")
}
record(mbbo, "$(P)bare") { field(VAL, "3") field(PINI, "YES") }
record(longout, "$(P)set") { field(OUT, "$(P)enum PP") }
"#;

const NINE: &str = "Invalid index : 9 must be within the label range [zero, one, two]";

/// Reads updates of a PV into what a client knows of it, until that fits.
fn merge(
    client: &mut Pvws,
    known: &mut Map<String, Value>,
    what: &str,
    fits: impl Fn(&Map<String, Value>) -> bool,
) {
    for _ in 0..1_000 {
        if fits(known) {
            return;
        }
        known.extend(client.next().as_object().unwrap().clone());
    }
    panic!("never: {what}: {known:?}");
}

#[test]
fn enum_that_leaves_its_labels_says_so_and_keeps_its_class() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let relay = Relay::start(network, &flags(&[]));
    let name = ioc.name("enum");
    for name in [name.clone(), format!("pva://{name}")] {
        let mut client = Pvws::connect(&relay);
        let mut known = Map::new();
        client.subscribe(&[&name]);
        ioc.put("set", "2");
        merge(&mut client, &mut known, "its label", |pv| {
            pv.get("text") == Some(&json!("two"))
        });
        ioc.put("set", "9");
        merge(&mut client, &mut known, "the index", |pv| pv["value"] == 9);
        assert_eq!(
            (&known["vtype"], &known["text"], &known["labels"]),
            (
                &json!("VEnum"),
                &json!(NINE),
                &json!(["zero", "one", "two"])
            ),
            "{name}"
        );
        // New clients and single reads have the same.
        let mut late = Pvws::connect(&relay);
        late.subscribe(&[&name]);
        let first = late.update(&name, "its value", |update| update["vtype"].is_string());
        let body = get(relay.address(), &format!("/pvws/pvget?name={name}"), &[]).body;
        for update in [first, serde_json::from_str(&body).unwrap()] {
            assert_eq!(
                (&update["vtype"], &update["value"], &update["text"]),
                (&json!("VEnum"), &json!(9), &json!(NINE))
            );
        }
        // The label may come to exist, and the value go back.
        ioc.put("enum.NIST", "nine");
        merge(&mut client, &mut known, "the new label", |pv| {
            pv["text"] == "nine"
        });
        ioc.put("enum.NIST", "");
        ioc.put("set", "0");
        merge(&mut client, &mut known, "its label", |pv| {
            pv["text"] == "zero" && pv["labels"].as_array().unwrap().len() == 3
        });
        assert_eq!(known["value"], 0);
    }
    let bare = ioc.name("bare");
    let mut client = Pvws::connect(&relay);
    client.subscribe(&[&bare]);
    let first = client.update(&bare, "its value", |update| update["vtype"].is_string());
    // Without any label it is a number at the IOC.
    assert_eq!(
        (&first["vtype"], &first["value"]),
        (&json!("VInt"), &json!(3))
    );
}

#[test]
fn pv_that_comes_back_in_another_class_keeps_neither_severity_nor_text() {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &flags(&["--pvws-array-throttle-ms", "0"]));
    let name = format!("{prefix}x");
    let mut client = Pvws::connect(&relay);
    client.subscribe(&[&name]);
    let mut known = Map::new();
    let large = vec!["1"; 4_000].join(",");
    let records = [
        (
            "ao",
            r#"field(VAL, "5") field(PREC, "1")"#,
            "value",
            json!(5.0),
        ),
        (
            "waveform",
            r#"field(FTVL, "STRING") field(NELM, "2") field(INP, ["a", "b"])"#,
            "text",
            Value::Null,
        ),
        (
            "ao",
            r#"field(VAL, "6") field(PREC, "1")"#,
            "text",
            json!("6.0"),
        ),
        (
            "stringout",
            r#"field(VAL, "hello")"#,
            "text",
            json!("hello"),
        ),
        ("longout", r#"field(VAL, "7")"#, "text", json!("7")),
        (
            "waveform",
            r#"field(FTVL, "SHORT") field(NELM, "2") field(INP, [1, 2])"#,
            "b64srt",
            json!("AQACAA=="),
        ),
        (
            "mbbo",
            r#"field(VAL, "1") field(ZRST, "off") field(ONST, "on")"#,
            "text",
            json!("on"),
        ),
        (
            "waveform",
            &format!(r#"field(FTVL, "DOUBLE") field(NELM, "4000") field(INP, "[{large}]")"#),
            "b64dbl",
            Value::Null,
        ),
    ];
    for (kind, fields, key, expected) in records {
        let database = format!(r#"record({kind}, "$(P)x") {{ {fields} field(PINI, "YES") }}"#);
        let ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
        merge(&mut client, &mut known, kind, |pv| {
            let is_there = pv
                .get(key)
                .is_some_and(|value| *value == expected || expected.is_null());
            is_there && pv.get("severity") == Some(&json!("NONE"))
        });
        if key == "text" && expected.is_null() {
            let text = known["text"].as_str().unwrap();
            assert!(text.starts_with("VStringArray[[a, b], size [2]"), "{text}");
        }
        ioc.kill();
        merge(&mut client, &mut known, "the loss", |pv| {
            pv["severity"] == "INVALID"
        });
    }
}

#[test]
fn number_without_a_precision_of_its_own_has_three_digits() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)ao") { field(PREC, "1") }"#);
    let structures = prefix();
    let _server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &flags(&[]));
    let mut client = Pvws::connect(&relay);
    for (name, digits) in [
        (format!("pva://{structures}float"), 3),
        ("loc://a(2.5)".to_owned(), 3),
        ("loc://undeclared".to_owned(), 3),
        ("loc://list(1, 2)".to_owned(), 3),
        ("=1 / 3".to_owned(), 3),
        ("eq://2 + 2".to_owned(), 3),
        ("sim://const(42)".to_owned(), 3),
        ("sim://sine".to_owned(), 2),
        (ioc.name("ao"), 1),
    ] {
        client.subscribe(&[&name]);
        let update = client.update(&name, "its metadata", |update| update["vtype"].is_string());
        assert_eq!(update["precision"], digits, "{update}");
    }
}
