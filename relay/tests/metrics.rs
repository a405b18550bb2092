//! The metrics and alerts, as collectors that others wrote read them.
//!
//! Topology: a relay with a simulated PV, a client, and the parsers of Prometheus and of its client for Python.

use std::process::{Command, Output};

use testbed::{Client, Network, Relay, eventually, in_repository, promtool, python};

/// Checks that a program succeeds.
fn succeeds(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
}

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
