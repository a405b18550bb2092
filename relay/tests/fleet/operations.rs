//! Structures, calls, large puts and puts on a condition over the bus.
//!
//! Topology: one NATS server, one ingest relay and one edge, a p4p server or a soft IOC, a client of the edge.

use pvwire_schema::limits::MAX_REQUEST_BYTES;
use pvwire_schema::types::{
    Array, Expected, Outcome, PutRequest, PutValue, Reply, RequestBody, ValueType,
};

use super::relay;
use crate::pva_structures::{check_procedure, check_structures, check_values};
use crate::users::put;
use testbed::{Client, Kept, NatsServer, Network, Relay, SoftIoc};

/// An edge and the relay that holds its PVs.
fn fleet(nats: &NatsServer, network: Network, flags: &[&str]) -> Vec<Relay> {
    ["edge", "ingest"]
        .map(|role| relay(network, nats, role, flags))
        .into()
}

#[test]
fn structures_and_calls_over_the_bus_are_what_an_independent_client_sees() {
    let nats = NatsServer::start();
    let over_the_bus = |network: Network, flags: &[&str]| {
        let site = format!("--site=n{}", network.pva_port());
        fleet(&nats, network, &[flags, &[&site]].concat())
    };
    check_structures(&over_the_bus);
    check_values(&over_the_bus);
    check_procedure(&over_the_bus);
}

#[test]
fn large_and_guarded_puts_over_the_bus_do_what_they_say() {
    let (network, nats) = (Network::new(), NatsServer::start());
    let ioc = SoftIoc::start(
        network,
        r#"
        record(waveform, "$(P)large") { field(FTVL, "UCHAR") field(NELM, "2000000") }
        record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
        "#,
    );
    let relays = fleet(&nats, network, &["--enable-put", "--allow-put=*"]);
    let names = ioc.names(["large", "ao"]);
    let [large, ao] = names.each_ref().map(String::as_str);
    let mut client = Client::connect(relays[0].address());
    client.subscribe_live(&[large, ao]);
    // As long as a request may be: with its head it is longer than a message of NATS.
    let elements: Vec<u8> = (0..MAX_REQUEST_BYTES - 300)
        .map(|at| (at / 7) as u8)
        .collect();
    let value = PutValue::Array(Array {
        value_type: ValueType::UInt8,
        count: elements.len() as u32,
        data: elements.clone().into(),
    });
    assert_eq!(
        put(&mut client, large, value),
        (Outcome::Done, String::new())
    );
    let whole = Kept::Array(ValueType::UInt8, elements);
    client.wait_pv(large, "all elements", |pv| pv.is(&whole));

    let mut other = Client::connect(relays[0].address());
    other.subscribe_live(&[ao]);
    let seen = |client: &Client| Expected {
        sequence: client.pv(ao).sequence,
        epoch: client.pv(ao).metadata.as_ref().unwrap().epoch,
    };
    let (first, second) = (seen(&client), seen(&other));
    let guarded = |client: &mut Client, value: f64, expected: Expected| {
        let put = RequestBody::Put(PutRequest {
            name: ao.to_owned(),
            value: PutValue::Number(value),
            wait: true,
            timeout_ms: 20_000,
            expected: Some(expected),
        });
        match client.ask(put).0 {
            Reply::PutDone { outcome, .. } => outcome,
            reply => panic!("{reply:?}"),
        }
    };
    assert_eq!(guarded(&mut client, 2.0, first), Outcome::Done);
    assert_eq!(guarded(&mut other, 3.0, second), Outcome::Changed);
    other.wait_number(ao, 2.0);
    let now = seen(&other);
    assert_eq!(guarded(&mut other, 4.0, now), Outcome::Done);
    client.wait_number(ao, 4.0);
    assert_eq!(client.pv(ao).numbers(), [1.0, 2.0, 4.0]);
}
