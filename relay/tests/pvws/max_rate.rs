//! `max_rate` caps the updates of PVs at this door too, and the last value always arrives.

use std::time::Instant;

use serde_json::Value;
use testbed::{Network, Relay, SoftIoc, prefix};

use super::client::{Pvws, flags};

const DATABASE: &str = r#"
    record(calc, "$(P)n") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)a") { field(VAL, "0") field(PINI, "YES") field(HIGH, "1000") field(HSV, "MINOR") }
"#;

fn is_value(message: &Value) -> bool {
    message["type"] == "update" && message["value"].is_number()
}

#[test]
fn capped_pvs_have_no_more_updates_than_their_cap_and_their_last_value() {
    let network = Network::new();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let cap = format!("--max-rate={}*=2", ioc.prefix());
    let relay = Relay::start(network, &flags(&[&cap]));
    let [n, a] = ioc.names(["n", "a"]);
    let spellings = [n.clone(), format!("ca://{n}"), format!("pva://{n}")];
    let mut client = Pvws::connect(&relay);
    let started = Instant::now();
    let mut names: Vec<&str> = spellings.iter().map(String::as_str).collect();
    names.push(&a);
    client.subscribe(&names);
    let mut seen = Vec::new();
    for name in &spellings {
        let count = |seen: &[Value]| {
            let of_name = |message: &&Value| message["pv"] == **name && is_value(message);
            seen.iter().filter(of_name).count()
        };
        while count(&seen) < 5 {
            seen.extend(client.until("an update", is_value));
        }
    }
    let most = started.elapsed().as_millis() / 500 + 2;
    for name in &spellings {
        let of_name = |message: &&Value| message["pv"] == **name && is_value(message);
        let count = seen.iter().filter(of_name).count();
        assert!(count as u128 <= most, "{name}: {count}, {most} at most");
    }

    // A burst of which the cap leaves out nearly all: the last one arrives, with its alarm at once.
    let started = Instant::now();
    for value in 1..=200 {
        ioc.put("a", &value.to_string());
    }
    let is = |number: f64| move |message: &Value| message["value"] == number;
    let all = client.until("the last value", |message| {
        message["pv"] == *a && is(200.0)(message)
    });
    let of_a = all
        .iter()
        .filter(|message| message["pv"] == *a && is_value(message));
    let most = started.elapsed().as_millis() / 500 + 2;
    assert!(of_a.count() as u128 <= most);
    ioc.put("a", "1500");
    let minor = client.update(&a, "its alarm", is(1500.0));
    assert_eq!(minor["severity"], "MINOR");
}
