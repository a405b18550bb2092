//! Puts while no relay holds the PV.

use std::sync::Arc;

use pvwire_fleet::Role;
use testbed::eventually;

use super::{Clock, Relay};

#[test]
fn puts_that_wait_for_an_owner_keep_their_order() {
    let clock = Clock::start();
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let there = edge.open("X");
    let given_up = edge.put_number(there, -1.0, None);
    let first = edge.put_number(there, 0.0, None).0;
    assert!(given_up.1.cancel(), "nothing was sent");
    eventually("the given up put is forgotten", || {
        Arc::strong_count(&given_up.0) == 1
    });
    assert_eq!(*first.lock().unwrap(), None, "it waits");

    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    owner.allow_puts();
    let mut puts = vec![first];
    eventually("an outcome", || {
        puts.push(edge.put_number(there, puts.len() as f64, None).0);
        puts[0].lock().unwrap().is_some()
    });
    eventually("the others", || {
        puts.iter().all(|end| end.lock().unwrap().is_some())
    });
    let done = owner.puts.lock().unwrap().clone();
    let expected: Vec<f64> = (0..puts.len()).map(|number| number as f64).collect();
    assert_eq!(done, expected);
}
