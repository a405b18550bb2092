//! `max_rate` caps the updates of PVs at this door too, and the last value always arrives.

use std::time::Instant;

use serde_json::Value;
use testbed::{Client as PlainClient, Network, Relay, SoftIoc, keep_up, prefix};

use super::client::Client;

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") }
"#;

/// Counters: a number, and the first element of a small and of a large array.
const CAPPED: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)signal") { field(VAL, "0.5") field(PINI, "YES") }
    record(histogram, "$(P)small") {
        field(NELM, "3") field(ULIM, "3") field(SVL, "$(P)signal") field(SCAN, ".1 second")
    }
    record(histogram, "$(P)large") {
        field(NELM, "9000") field(ULIM, "9000") field(SVL, "$(P)signal") field(SCAN, ".1 second")
    }
"#;

fn subscription(name: &str) -> String {
    format!(r#"subscription {{ subscribeChannel(id: "{name}") {{ value {{ float }} }} }}"#)
}

fn value_of(data: &Value) -> Option<f64> {
    data["subscribeChannel"]["value"]["float"].as_f64()
}

#[test]
fn capped_pvs_have_no_more_results_than_their_cap_and_their_last_value() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &["--coniql", &cap]);
    let [n, a] = ioc.names(["n", "a"]);
    for name in [n.clone(), format!("ca://{n}"), format!("pva://{n}")] {
        let mut client = Client::begin(&relay);
        let started = Instant::now();
        client.start("n", &subscription(&name));
        let mut values = Vec::new();
        while values.len() < 5 {
            values.extend(value_of(&client.data("n")));
        }
        let most = started.elapsed().as_millis() / 500 + 2;
        assert!(values.len() as u128 <= most, "{name}: {values:?}");
        // Ten counts a second.
        let left_out = values[4] - values[0] - 4.0;
        assert!(left_out >= 4.0, "{name}: {values:?}");
    }

    let mut client = Client::begin(&relay);
    client.start("a", &subscription(&a));
    client.until("a", "its first value", |data| value_of(data) == Some(0.0));
    let started = Instant::now();
    for value in 1..=200 {
        ioc.put("a", &value.to_string());
    }
    let mut count = 0;
    while value_of(&client.data("a")).inspect(|_| count += 1) != Some(200.0) {}
    let most = started.elapsed().as_millis() / 500 + 2;
    assert!(count <= most, "{count}, {most} at most");
}

#[test]
fn values_that_a_cap_leaves_out_are_counted_in_each_result() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), CAPPED);
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &["--coniql", &cap]);
    for (source, record) in [("", "n"), ("pva://", "n"), ("", "large"), ("", "small")] {
        let name = format!("{source}{}", ioc.name(record));
        let is_array = record != "n";
        let value = if is_array {
            "stringArray(length: 1)"
        } else {
            "float"
        };
        let query = format!(
            r#"subscription {{ subscribeChannel(id: "{name}") {{
                value {{ {value} }} skipped skips {{ filter behind relay source bus paced }} }} }}"#
        );
        let mut client = Client::begin(&relay);
        client.start("n", &query);
        let mut first = None;
        let mut skips = Value::Null;
        for result in 0..5 {
            let data = client.until("n", "a value", |data| {
                data["subscribeChannel"]["value"].is_object()
            });
            let channel = &data["subscribeChannel"];
            let number = match &channel["value"] {
                array if is_array => array["stringArray"][0].as_str().unwrap().parse().unwrap(),
                number => number["float"].as_f64().unwrap(),
            };
            let first = *first.get_or_insert(number);
            let skipped = channel["skipped"].as_f64().unwrap();
            assert_eq!(
                number - first,
                f64::from(result) + skipped,
                "{name}: {channel}"
            );
            if !channel["skips"].is_null() {
                skips = channel["skips"].clone();
            }
            // A busy machine leaves out some before the cap does.
            let causes = skips.as_object().into_iter().flat_map(|all| all.values());
            let counted: f64 = causes.filter_map(Value::as_f64).sum();
            assert_eq!(counted, skipped, "{name}: {channel}");
        }
        assert!(skips["filter"].as_f64().unwrap() >= 4.0, "{name}: {skips}");
    }
}

#[test]
fn skipped_values_are_as_many_as_a_client_of_the_relay_and_the_metrics_count() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_prefix(network, &prefix(), DATABASE, "");
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &["--coniql", &cap]);
    let a = ioc.name("a");
    let mut client = Client::begin(&relay);
    let query = format!(
        r#"subscription {{ subscribeChannel(id: "{a}") {{ value {{ float }} skipped }} }}"#
    );
    client.start("a", &query);
    client.until("a", "its first value", |data| value_of(data) == Some(0.0));
    let mut plain = PlainClient::connect(relay.address());
    plain.subscribe_live(&[&a]);
    for value in 1..=50 {
        ioc.put("a", &value.to_string());
    }
    keep_up("the last value", &mut [&mut plain], |clients| {
        clients[0].pv(&a).is_number(50.0)
    });
    let last = client.until("a", "the last value", |data| value_of(data) == Some(50.0));
    let skipped = last["subscribeChannel"]["skipped"].as_f64().unwrap();
    let results = plain.pv(&a).rows.len();
    assert_eq!(skipped, plain.pv(&a).skipped as f64);
    assert_eq!(results as f64 + skipped, 51.0);
    // The filter of each client's form leaves out as many.
    let metric = relay.metric("pvwire_updates_skipped_total{cause=\"filter\"}");
    assert_eq!(metric, 2.0 * skipped);
}
