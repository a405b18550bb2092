//! A client that asks for thousands of names delays no other client.
//!
//! Topology: one relay, one client with 10,000 names that no IOC has, one client with a good one, a
//! soft IOC.

use std::time::{Duration, Instant};

use testbed::{Client, Network, Relay, SoftIoc, within};

#[test]
fn ten_thousand_unknown_names_delay_others_by_less_than_1_s() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        &(0..10)
            .map(|n| {
                format!(
                    "record(ao, \"$(P)good{n}\") {{ field(VAL, \"7\") field(PINI, \"YES\") }}\n"
                )
            })
            .collect::<String>(),
    );
    let relay = Relay::start(network, &["--not-found-after-ms", "1000"]);
    let mut crowd = Client::connect(relay.address());
    let mut other = Client::connect(relay.address());
    let names: Vec<_> = (0..10_000).map(|n| ioc.name(&format!("none{n}"))).collect();
    assert_eq!(crowd.subscribe(&names), []);
    // All of them have been searched for by the time they are reported as not found.
    let last = names.last().unwrap();
    crowd.wait_state(last, pvwire_schema::types::ConnectionState::NotFound);

    let mut good = (0..10).map(|n| ioc.name(&format!("good{n}")));
    within(Duration::from_secs(1), "a good name", || {
        let name = good.next().unwrap();
        let start = Instant::now();
        other.subscribe_live(&[&name]);
        let took = start.elapsed();
        other.wait_number(&name, 7.0);
        took
    });
}
