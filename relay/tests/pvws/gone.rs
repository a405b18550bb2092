//! Clients that merge updates forget what a PV has no longer: text, labels, units, limits, alarm and value.

use std::time::Instant;

use serde_json::{Map, Value, json};
use testbed::{DEADLINE, Network, Relay, SHAPES, SoftIoc, StructureServer, prefix};

use super::client::{Pvws, flags, relay_of_users};

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
