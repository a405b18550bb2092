//! Results of subscriptions through the life of a PV, and what clients share. Clients that merge results forget what a PV
//! has no longer: value, time stamp, alarm and display.

use std::time::Instant;

use pvwire_schema::types::{Array, Outcome, PutValue, ValueType};
use serde_json::{Value, json};
use testbed::{
    DEADLINE, Network, OtherServer, Relay, SHAPES, SoftIoc, StructureServer, eventually, prefix,
};

use super::client::{Client, LEGACY};

const DATABASE: &str = r#"
record(ao, "$(P)ao") {
    field(DESC, "beam current")
    field(VAL, "2.5") field(EGU, "V") field(PREC, "2") field(HIGH, "5") field(HSV, "MINOR") field(PINI, "YES")
}
record(waveform, "$(P)wave") {
    field(DESC, "beam profile") field(FTVL, "DOUBLE") field(NELM, "10000") field(PINI, "YES")
}
"#;

fn subscription(pv: &str, fields: &str) -> String {
    format!("subscription {{ subscribeChannel(id: \"{pv}\") {{ {fields} }} }}")
}

const FIELDS: &str = "value { string(units: true) } status { quality } display { precision }";

fn channel(data: &Value) -> &Value {
    &data["subscribeChannel"]
}

fn value(value: &str) -> Value {
    json!({ "string": value })
}

#[test]
fn results_follow_a_pv_through_the_restart_of_its_ioc() {
    let (network, prefix) = (Network::new(), prefix());
    let start = || SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    let mut ioc = start();
    let relay = Relay::start(network, &["--coniql"]);
    let ao = ioc.name("ao");
    let mut client = Client::begin(&relay);
    client.start("1", &subscription(&ao, FIELDS));
    let first = client.data("1");
    let quality = |quality: &str| json!({ "quality": quality });
    let expected = json!({
        "value": value("2.50 V"), "status": quality("VALID"), "display": {"precision": 2},
    });
    assert_eq!(*channel(&first), expected);
    ioc.put("ao", "3");
    let next = client.data("1");
    let expected = json!({"value": value("3.00 V"), "status": null, "display": null});
    assert_eq!(*channel(&next), expected);
    ioc.put("ao", "6");
    let next = client.data("1");
    let expected = json!({"value": value("6.00 V"), "status": quality("WARNING"), "display": null});
    assert_eq!(*channel(&next), expected);
    ioc.kill();
    let gone = client.data("1");
    let expected = json!({"value": null, "status": quality("UNDEFINED"), "display": null});
    assert_eq!(*channel(&gone), expected);
    let _ioc = start();
    client.until("1", "the value after the restart", |data| {
        channel(data)["value"] == value("2.50 V")
    });
}

#[test]
fn client_that_comes_back_sees_what_changed_meanwhile() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql"]);
    let follow = subscription(&ioc.name("ao"), FIELDS);
    // A client of the newer subprotocol stays, so that the selection is known all the time.
    let mut other = Client::begin(&relay);
    other.start("1", &follow);
    other.data("1");
    let come = || {
        let mut client = Client::connect(&relay, Some(LEGACY));
        client.send(&json!({"type": "connection_init"}));
        let payload = json!({ "query": follow });
        client.send(&json!({"type": "start", "id": "1", "payload": payload}));
        loop {
            let mut message = client.next();
            if message["type"] == "data" {
                return (client, message["payload"]["data"].take());
            }
        }
    };
    drop(come());
    eventually("the client is gone", || {
        relay.metric("pvwire_sessions_active") == 1.0
    });
    ioc.put("ao", "6");
    ioc.put("ao.PREC", "1");
    other.until("1", "the new precision", |data| {
        channel(data)["display"]["precision"] == 1
    });
    let (_client, first) = come();
    let expected = json!({
        "value": value("6.0 V"), "status": {"quality": "WARNING"}, "display": {"precision": 1},
    });
    assert_eq!(*channel(&first), expected);
}

#[test]
fn description_is_read_for_clients_that_select_it() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql"]);
    let mut client = Client::begin(&relay);
    let ao = ioc.name("ao");
    let get = format!("{{ getChannel(id: \"{ao}\") {{ display {{ description }} }} }}");
    client.start("get", &get);
    let description = json!({"display": {"description": "beam current"}});
    assert_eq!(client.data("get"), json!({ "getChannel": description }));
    assert_eq!(client.next()["type"], "complete");
    let fields = "display { description }";
    client.start("wave", &subscription(&ioc.name("wave"), fields));
    client.until("wave", "the description", |data| {
        channel(data)["display"]["description"] == "beam profile"
    });
}

#[test]
fn clients_of_one_selection_share_its_execution() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql"]);
    let ao = ioc.name("ao");
    let mut clients: Vec<_> = (0..5).map(|_| Client::begin(&relay)).collect();
    // Each client has its own ids, and half of them other names of the field.
    for (at, client) in clients.iter_mut().enumerate() {
        let query = subscription(&ao, "value { string }");
        let query = query.replace("subscribeChannel", "mine: subscribeChannel");
        client.start(&format!("id{at}"), &query);
        let first = client.data(&format!("id{at}"));
        assert_eq!(first["mine"]["value"], value("2.50"));
    }
    for put in ["3", "4"] {
        ioc.put("ao", put);
        for (at, client) in clients.iter_mut().enumerate() {
            let next = client.data(&format!("id{at}"));
            assert_eq!(next["mine"]["value"], value(&format!("{put}.00")));
        }
    }
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
}

#[test]
fn large_array_arrives_as_base64_and_again_when_it_changes() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--coniql", "--enable-put", "--allow-put=*"]);
    let wave = ioc.name("wave");
    let mut client = Client::begin(&relay);
    let numbers = |fill: f64| {
        let numbers = vec![fill; 10_000];
        serde_json::to_string(&numbers).unwrap()
    };
    let put = |client: &mut Client, fill: f64| {
        let payload = json!({
            "query": "mutation ($ids: [ID!]!, $values: [String!]!) {
                putChannels(ids: $ids, values: $values) { value { base64Array(length: 1) { base64 } } }
            }",
            "variables": {"ids": [wave], "values": [numbers(fill)]},
        });
        client.send(&json!({"type": "subscribe", "id": "put", "payload": payload}));
    };
    put(&mut client, 1.0);
    client.data("put");
    assert_eq!(client.next()["type"], "complete");
    client.start(
        "1",
        &subscription(&wave, "value { base64Array { numberType base64 } }"),
    );
    let first = client.data("1");
    let array = |data: &Value| channel(data)["value"]["base64Array"]["base64"].clone();
    let text = array(&first);
    assert_eq!(text.as_str().unwrap().len(), 80_000_usize.div_ceil(3) * 4);
    let mut other = Client::begin(&relay);
    put(&mut other, 2.0);
    client.until("1", "the new elements", |data| {
        let now = array(data);
        now != text
            && now
                .as_str()
                .is_some_and(|now| now.len() == text.as_str().unwrap().len())
    });
}

#[test]
fn first_results_of_a_server_whose_metadata_come_late_have_labels_and_units() {
    let network = Network::new();
    let server = OtherServer::with_late_metadata(network, 0.3);
    let fields = "value { string(units: true) } display { choices units }";
    let queries = ["choice", "number"].map(|name| {
        let name = server.pv(name);
        [
            subscription(&name, fields),
            format!("{{ getChannel(id: \"{name}\", timeout: 20) {{ {fields} }} }}"),
        ]
    });
    for (queries, shown) in queries.iter().zip(["Open", "1.50 mA"]) {
        for (query, root) in queries.iter().zip(["subscribeChannel", "getChannel"]) {
            let relay = Relay::start(network, &["--coniql", "--not-found-after-ms=60000"]);
            let mut client = Client::begin(&relay);
            client.start("1", query);
            let first = client.until("1", "a value", |data| data[root]["value"].is_object());
            let (value, display) = (&first[root]["value"], &first[root]["display"]);
            assert_eq!(value["string"], shown, "{first}");
            let is_described = if shown == "Open" {
                display["choices"] == json!(["Closed", "Open"])
            } else {
                display["units"] == "mA"
            };
            assert!(is_described, "{first}");
        }
    }
}

/// Every field that can be null, and one that says what the object is.
const EACH: &str = "value { __typename string(units: true) float stringArray base64Array(length: 3) { base64 } } \
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

/// What a new client is told of the PV.
fn truth(relay: &Relay, pv: &str) -> Value {
    let mut client = Client::begin(relay);
    client.start("1", &subscription(pv, EACH));
    plain(channel(&client.data("1")))
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
        client.start("1", &subscription(pv, EACH));
        let known = channel(&client.data("1")).clone();
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
                    merge(&mut self.known, channel(&data));
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
