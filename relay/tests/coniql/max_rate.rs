//! `max_rate` caps the updates of PVs at this door too, and the last value always arrives.

use std::time::Instant;

use serde_json::Value;
use testbed::{Network, Relay, SoftIoc, prefix};

use super::client::Client;

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") }
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
