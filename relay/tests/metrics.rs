//! The metrics and alerts, as collectors that others wrote read them.
//!
//! Topology: a relay with simulated PVs, a client, a soft IOC, and the parsers of Prometheus and of its client for Python.

use std::process::Command;

use pvwire_schema::types::{Array, PutValue, ValueType};
use serde_json::Value;
use testbed::{
    Client, Network, Relay, SoftIoc, eventually, get, in_repository, promtool, python, succeeds,
};

#[test]
fn quantiles_of_ages_are_numbers_to_real_parsers_of_both_formats() {
    let relay = Relay::start(Network::new(), &["--enable-sim"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&["sim://sine(1,rate_hz=50)"]);
    for age in ["received", "sent"] {
        let count = format!("pvwire_update_age_{age}_seconds_count");
        eventually(&count, || relay.metric(&count) > 0.0);
    }
    let output = Command::new(python())
        .arg(in_repository("testbed/python/metrics_parsers.py"))
        .arg(relay.address().to_string())
        .arg(promtool())
        .output();
    succeeds(&output.unwrap());
}

#[test]
fn alerts_are_valid_rules_of_prometheus() {
    let output = Command::new(promtool())
        .args(["check", "rules"])
        .arg(in_repository("deploy/prometheus/alerts.yaml"))
        .output();
    succeeds(&output.unwrap());
}

#[test]
fn bytes_are_shown_by_pv_and_by_server_and_in_the_metrics_for_the_largest() {
    let network = Network::new();
    let records = r#"
        record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
        record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "100") }
    "#;
    let mut ioc = SoftIoc::start(network, records);
    let names = ioc.names(["ao", "wave"]);
    let relay = Relay::start(network, &["--enable-sim"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    for value in ["2", "3", "4"] {
        ioc.put("ao", value);
        client.wait_number(&names[0], value.parse().unwrap());
    }
    let simulated: Vec<_> = (1..=30)
        .map(|number| format!("sim://sine({number},rate_hz=50)"))
        .collect();
    client.subscribe_live(&simulated);

    let status =
        || -> Value { serde_json::from_str(&get(relay.address(), "/status", &[]).body).unwrap() };
    let now = status();
    let pv = |name: &str| {
        let list = now["list"].as_array().unwrap().iter();
        let whole = format!("ca://{name}");
        let mut found = list.filter(|pv| pv["name"] == whole.as_str());
        found.next().unwrap().clone()
    };
    let [ao, wave] = names.each_ref().map(|name| pv(name));
    assert_eq!(ao["bytes"], 8 * ao["updates"].as_u64().unwrap());
    assert!(ao["bytes"].as_u64().unwrap() >= 32, "{ao}");
    let server = ao["server"].as_str().unwrap();
    assert!(server.contains(':'), "{server}");
    assert_eq!(wave["server"], server);
    let servers = now["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "simulated PVs have none: {servers:?}");
    assert_eq!(servers[0]["name"], server);
    assert_eq!(servers[0]["pvs"], 2);
    let both = [&ao, &wave].map(|pv| pv["bytes"].as_u64().unwrap());
    assert_eq!(servers[0]["bytes"], both.iter().sum::<u64>());

    let text = get(relay.address(), "/metrics", &[]).body;
    let series = text
        .lines()
        .filter(|line| line.starts_with("pvwire_pv_received_bytes_total{"));
    assert_eq!(series.count(), 20);
    let of_server = format!("pvwire_server_received_bytes_total{{server=\"{server}\"}}");
    assert!(relay.metric(&of_server) >= servers[0]["bytes"].as_f64().unwrap());
}

#[test]
fn bytes_of_arrays_and_texts_are_those_of_their_contents() {
    let network = Network::new();
    let records = r#"
        record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "100") }
    "#;
    let ioc = SoftIoc::start(network, records);
    let [wave] = ioc.names(["wave"]);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[&wave]);
    let metric = format!("pvwire_pv_received_bytes_total{{pv=\"ca://{wave}\"}}");
    let before = relay.metric(&metric);
    let bytes: Vec<u8> = (0..100_u8)
        .flat_map(|n| f64::from(n).to_le_bytes())
        .collect();
    let array = Array {
        value_type: ValueType::Float64,
        count: 100,
        data: bytes.into(),
    };
    client.put(&wave, PutValue::Array(array));
    relay.wait_metric(&metric, before + 800.0);
}
