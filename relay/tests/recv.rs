//! Does libca read by the relay's own `recv`, so that a busy circuit can't wake it for every piece?
//!
//! Topology: a soft IOC, a relay, a client.

use crate::support::{Client, Network, Relay, SoftIoc};

#[test]
fn relay_exports_the_function_that_libca_reads_by() {
    let network = Network::new();
    let ioc = SoftIoc::start(
        network,
        "record(calc, \"$(P)n\") { field(CALC, \"VAL+1\") field(SCAN, \".1 second\") }",
    );
    let relay = Relay::start(network, &[]);
    assert_eq!(relay.metric("pvwire_ca_reads_total"), 0.0);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[ioc.name("n")]);

    assert!(relay.metric("pvwire_ca_reads_total") > 0.0);
}
