//! Clients that merge results forget what a PV has no longer: value, time stamp, alarm and display.

use std::time::Instant;

use pvwire_schema::types::{Array, Outcome, PutValue, ValueType};
use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, SHAPES, SoftIoc, StructureServer, prefix};

use super::client::Client;

/// Every field that can be null, and one that says what the object is.
const FIELDS: &str = "value { __typename string(units: true) float stringArray base64Array(length: 3) { base64 } } \
     time { seconds nanoseconds userTag } status { quality message mutable } \
     display { units precision displayRange { min max } choices description }";

const GROUPS: [&str; 4] = ["value", "time", "status", "display"];

/// What a client that merges results has: it replaces each object that is not null.
fn merge(known: &mut Value, result: &Value) {
    for group in GROUPS {
        if !result[group].is_null() {
            known[group] = result[group].clone();
        }
    }
}

/// Null in place of objects whose fields are null.
fn plain(channel: &Value) -> Value {
    let mut channel = channel.clone();
    for group in GROUPS {
        let is_gone = channel[group].as_object().is_some_and(|object| {
            let mut fields = object.iter();
            fields.all(|(key, field)| key == "__typename" || field.is_null())
        });
        if is_gone {
            channel[group] = Value::Null;
        }
    }
    channel
}

fn subscription(pv: &str) -> String {
    format!("subscription {{ subscribeChannel(id: \"{pv}\") {{ {FIELDS} }} }}")
}

fn channel(mut data: Value) -> Value {
    data["subscribeChannel"].take()
}

/// What a new client is told of the PV.
fn truth(relay: &Relay, pv: &str) -> Value {
    let mut client = Client::begin(relay);
    client.start("1", &subscription(pv));
    plain(&channel(client.data("1")))
}

/// A client that merges results.
struct Merging {
    client: Client,
    pv: String,
    known: Value,
}

impl Merging {
    fn start(relay: &Relay, pv: &str) -> Self {
        let mut client = Client::begin(relay);
        client.start("1", &subscription(pv));
        let known = channel(client.data("1"));
        let pv = pv.to_owned();
        Self { client, pv, known }
    }

    /// Merges results until the client has what a new one has, of a PV that fits.
    fn becomes(&mut self, relay: &Relay, what: &str, fits: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let truth = truth(relay, &self.pv);
            if fits(&truth) {
                for data in self.client.so_far("1") {
                    merge(&mut self.known, &channel(data));
                }
                if plain(&self.known) == truth {
                    return;
                }
            }
            let known = plain(&self.known);
            assert!(
                Instant::now() < deadline,
                "{what}: the client has {known:#}, a new one {truth:#}"
            );
        }
    }
}

#[test]
fn merging_client_forgets_what_a_reopened_structure_has_no_longer() {
    for strict in [&[][..], &["--coniql-strict"]] {
        let (network, prefix) = (Network::new(), prefix());
        let mut server = StructureServer::start(Some(network), &prefix);
        let arguments = [&["--coniql"], strict].concat();
        let relay = Relay::start(network, &arguments);
        let mut merging = Merging::start(&relay, &format!("pva://{prefix}shaped"));
        for (shape, text) in SHAPES {
            server.reshape(shape);
            merging.becomes(&relay, &format!("{shape}, {strict:?}"), |truth| {
                let value = &truth["value"];
                let is_text = |shown: &str| shown.contains(text);
                // With units, Coniql shows the index of an enum, and a number without a precision without a fraction.
                value["string"].as_str().is_some_and(is_text)
                    || value["float"]
                        .as_f64()
                        .is_some_and(|float| text.parse() == Ok(float))
                    || shape == "enum" && truth["display"]["choices"].is_array()
            });
        }
    }
}

#[test]
fn merging_client_forgets_a_value_that_it_may_not_read_any_more() {
    let (network, prefix) = (Network::new(), prefix());
    let database = r#"
        record(ao, "$(P)number") { field(VAL, "2.5") field(ASG, "GATED") field(PINI, "YES") }
        record(stringout, "$(P)text") { field(VAL, "two") field(ASG, "GATED") field(PINI, "YES") }
        record(waveform, "$(P)large") {
            field(FTVL, "DOUBLE") field(NELM, "5000") field(ASG, "GATED")
        }
        record(ao, "$(P)gate") { field(VAL, "1") field(PINI, "YES") }
    "#;
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, WRITE) }}
         ASG(GATED) {{ INPA(\"{prefix}gate\") RULE(1, WRITE) {{ CALC(\"A>=1\") }} }}"
    );
    let mut ioc = SoftIoc::with_prefix(network, &prefix, database, &rules);
    let relay = Relay::start(network, &["--coniql", "--enable-put", "--allow-put=*"]);
    let data: Vec<u8> = [2.5_f64; 5000]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let array = Array {
        value_type: ValueType::Float64,
        count: 5000,
        data: data.into(),
    };
    let mut writer = testbed::Client::connect(relay.address());
    let (outcome, why) = writer.put(&ioc.name("large"), PutValue::Array(array));
    assert_eq!(outcome, Outcome::Done, "{why}");
    for name in ioc.names(["number", "text", "large"]) {
        let mut merging = Merging::start(&relay, &name);
        assert!(merging.known["value"].is_object(), "{name}");
        ioc.put("gate", "0");
        merging.becomes(&relay, &name, |truth| truth["value"].is_null());
        assert_eq!(merging.known["value"]["__typename"], json!("ChannelValue"));
        assert_eq!(merging.known["value"]["string"], Value::Null);
        ioc.put("gate", "1");
        merging.becomes(&relay, &name, |truth| truth["value"].is_object());
    }
}
