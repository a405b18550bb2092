//! PVs whose class changes, and values that cease to exist: what a client that merges updates shows.

use std::time::Instant;

use serde_json::{Map, Value, json};
use testbed::{DEADLINE, Network, Relay, SHAPES, SoftIoc, StructureServer, get, prefix};

use super::client::{Pvws, flags, relay_of_users};

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

/// What a client has of a PV: its updates, merged as PVWS's own client does.
struct Merging {
    client: Pvws,
    known: Map<String, Value>,
}

impl Merging {
    fn start(relay: &Relay, pv: &str) -> Self {
        Self::with(Pvws::connect(relay), pv)
    }

    fn with(mut client: Pvws, pv: &str) -> Self {
        client.subscribe(&[pv]);
        let mut merging = Self {
            client,
            known: Map::new(),
        };
        while !merging.known.contains_key("readonly") {
            let update = merging.client.next();
            merging.merge(update);
        }
        merging
    }

    fn merge(&mut self, update: Value) {
        let Value::Object(update) = update else {
            panic!("{update}");
        };
        for (key, value) in update {
            let is_array = key.starts_with("b64");
            self.known
                .insert(if is_array { "value".into() } else { key }, value);
        }
    }

    /// What an operator sees: the text if there is one, otherwise the value.
    fn shown(&self) -> String {
        let text = self.known.get("text").or_else(|| self.known.get("value"));
        match text.expect("a value") {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Reads until the client has what fits.
    fn becomes(&mut self, what: &str, fits: impl Fn(&Self) -> Result<(), String>) {
        let deadline = Instant::now() + DEADLINE;
        while let Err(why) = fits(self) {
            assert!(
                Instant::now() < deadline,
                "{what}: {why}: {:#?}",
                self.known
            );
            for update in self.client.so_far() {
                self.merge(update);
            }
        }
    }

    /// Whether a key has this value, or is absent or empty where that is null.
    fn has(&self, key: &str, expected: &Value) -> Result<(), String> {
        let is_empty = |value: &Value| {
            value.is_null() || ["", "NaN"].iter().any(|empty| value == empty) || *value == json!([])
        };
        let fits = match self.known.get(key) {
            Some(value) if !expected.is_null() => value == expected,
            value => expected.is_null() && value.is_none_or(is_empty),
        };
        let wrong = || format!("{key} isn't {expected}");
        fits.then_some(()).ok_or_else(wrong)
    }
}

#[test]
fn merging_client_forgets_what_a_reopened_structure_has_no_longer() {
    let (network, prefix) = (Network::new(), prefix());
    let mut server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &flags(&[]));
    let mut merging = Merging::start(&relay, &format!("pva://{prefix}shaped"));
    for (shape, text) in SHAPES {
        server.reshape(shape);
        let is_large = shape.starts_with("large");
        let has = |part: bool, value: Value| if part { value } else { Value::Null };
        let has_units = ["full", "timeless", "calm", "array", "large"].contains(&shape);
        let has_alarm = !["bare", "calm", "large_bare"].contains(&shape);
        let labels = has(shape == "enum", json!(["off", "on"]));
        merging.becomes(shape, |client| {
            let shown = client.shown();
            if is_large {
                let elements = client.known["value"].as_str().map_or(0, str::len);
                if elements < 5000 * 8 || !(shown.is_empty() || shown.len() == elements) {
                    return Err(format!(
                        "{elements} bytes of base64, and the text {shown:?}"
                    ));
                }
            } else if !(shown.contains(text) || (shape == "array" && shown.len() == 24)) {
                return Err(format!("{shown:?} is shown"));
            }
            client.has("units", &has(has_units, json!("mm")))?;
            client.has("min", &has(has_units, json!(-5.0)))?;
            client.has("labels", &labels)?;
            client.has("severity", &json!(if has_alarm { "MINOR" } else { "NONE" }))?;
            let is_stamped = !["bare", "timeless", "large_bare"].contains(&shape);
            if is_stamped != (client.known["seconds"] == 1_700_000_000) {
                return Err("the time is that of another shape".to_owned());
            }
            Ok(())
        });
    }
}

#[test]
fn merging_client_forgets_a_text_that_it_may_not_read_any_more() {
    let (network, prefix) = (Network::new(), prefix());
    let database = r#"
        record(stringout, "$(P)text") { field(VAL, "two") field(ASG, "GATED") field(PINI, "YES") }
        record(bo, "$(P)enum") { field(VAL, "0") field(ZNAM, "two") field(ONAM, "on") field(ASG, "GATED") field(PINI, "YES") }
        record(ao, "$(P)gate") { field(VAL, "1") field(PINI, "YES") }
    "#;
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, WRITE) }}
         ASG(GATED) {{ INPA(\"{prefix}gate\") RULE(1, READ) {{ CALC(\"A>=1\") }} }}"
    );
    let mut ioc = SoftIoc::with_prefix(network, &prefix, database, &rules);
    let relay = Relay::start(network, &flags(&[]));
    for name in ioc.names(["text", "enum"]) {
        let mut merging = Merging::start(&relay, &name);
        let shows = |text: &'static str, severity: &'static str| {
            move |client: &Merging| {
                if client.shown() != text {
                    return Err(format!("{:?} is shown", client.shown()));
                }
                client.has("severity", &json!(severity))
            }
        };
        merging.becomes(&name, shows("two", "NONE"));
        ioc.put("gate", "0");
        merging.becomes(&name, shows("NaN", "INVALID"));
        ioc.put("gate", "1");
        merging.becomes(&name, shows("two", "NONE"));
    }
}

/// Rules that let another user write, or everybody.
const RULES: [&str; 2] = [
    "enable_put = true\n[[rule]]\nuser = \"bob\"\npv = \"*\"\nallow = \"put\"\n",
    "enable_put = true\n[[rule]]\npv = \"*\"\nallow = \"put\"\n",
];

#[test]
fn merging_client_does_not_keep_a_text_when_a_reload_changes_its_right_to_write() {
    let (network, prefix) = (Network::new(), prefix());
    let text = r#"record(stringout, "$(P)x") { field(VAL, "hello") field(PINI, "YES") }"#;
    let number = r#"record(ao, "$(P)x") { field(VAL, "5") field(PREC, "3") field(PINI, "YES") }"#;
    let ioc = SoftIoc::with_prefix(network, &prefix, text, "");
    let (relay, rules) = relay_of_users(network, RULES[0], &[]);
    let ann = Pvws::try_connect(relay.address(), &[("X-Forwarded-User", "ann")]);
    let mut merging = Merging::with(ann.unwrap(), &ioc.name("x"));
    let shows = |text: &'static str, readonly: bool| {
        move |client: &Merging| {
            if client.shown() != text {
                return Err(format!("{:?} is shown", client.shown()));
            }
            client.has("readonly", &json!(readonly))
        }
    };
    merging.becomes("a text", shows("hello", true));
    ioc.kill();
    let mut ioc = SoftIoc::with_prefix(network, &prefix, number, "");
    merging.becomes("a number", shows("5.000", true));
    for (rule, readonly, value, shown) in [
        (RULES[1], false, "6", "6.000"),
        (RULES[0], true, "7", "7.000"),
    ] {
        std::fs::write(&rules, rule).unwrap();
        relay.signal("HUP");
        let right = |client: &Merging| client.has("readonly", &json!(readonly));
        merging.becomes("another right", right);
        ioc.put("x", value);
        merging.becomes("the next number", shows(shown, readonly));
    }
}
