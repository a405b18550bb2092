//! The order in which a relay opens the PVs that waited for an owner.

use pvwire_fleet::Role;
use testbed::eventually;

use super::{Clock, Relay};

#[test]
fn pvs_that_waited_for_an_owner_are_opened_as_clients_asked_for_them() {
    let clock = Clock::start();
    let relay = Relay::start(&clock.hub, 1, Role::Ingest);
    let names: Vec<String> = (0..64).map(|number| format!("X{number}")).collect();
    for name in &names {
        relay.open(name);
    }
    let line = |name: &String| relay.line(name);
    eventually("all are open", || {
        names.iter().all(|name| line(name).is_some())
    });
    let openings: Vec<u32> = (names.iter().filter_map(line))
        .map(|line| line.opening())
        .collect();
    assert!(openings.is_sorted(), "{openings:?}");
}
