//! What an edge opens and what it shows: values before their metadata, and updates that the owner didn't get.

use std::sync::Arc;

use pvwire_fleet::Role;
use pvwire_schema::types::{BlobValue, Metadata, Skips, ValueType};
use testbed::eventually;

use super::{CALM, Clock, Relay, Seen};
use crate::ingest::{Event, RowValue};

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

#[test]
fn value_that_comes_before_its_metadata_stays() {
    let clock = Clock::start();
    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let there = edge.open("X");
    eventually("the owner opens it", || owner.line("X").is_some());
    let line = owner.line("X").unwrap();
    line.connected(false);
    line.update(5, RowValue::Number(1.5), CALM);
    eventually("the value", || edge.seen(there).time_ns() == Some(5));
    line.event(Event::Metadata(Box::new(Metadata {
        units: "mA".into(),
        epoch: line.epoch(),
        ..Metadata::default()
    })));
    let units = |seen: &Seen| {
        seen.metadata
            .as_ref()
            .map(|metadata| metadata.units.clone())
    };
    eventually("the metadata", || {
        units(&edge.seen(there)).as_deref() == Some("mA")
    });
    assert_eq!(edge.seen(there).time_ns(), Some(5));
}

#[test]
fn updates_left_out_at_the_owner_have_their_cause_at_an_edge() {
    let clock = Clock::start();
    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let (here, there) = (owner.open("X"), edge.open("X"));
    let line = owner.connect("X");
    let update = |at: (u32, u32), value: RowValue| {
        line.update_at(at, i64::from(at.0), value, CALM, None);
        eventually("the update", || {
            edge.seen(there).time_ns() == Some(i64::from(at.0))
        });
    };
    let large = || {
        let large = BlobValue::array(ValueType::UInt8, 50_000, vec![1; 50_000]);
        RowValue::Blob(Arc::new(large))
    };
    update((1, 0), RowValue::Number(1.0));
    update((6, 3), RowValue::Number(6.0));
    update((9, 2), large());
    update((11, 0), large());
    let skips = |relay: &Relay, pv| relay.watched.lock().unwrap().skips[&pv];
    let expected = Skips {
        source: 3 + 2,
        relay: 1 + 1,
        ..Skips::NONE
    };
    assert_eq!(skips(&owner, here), expected);
    assert_eq!(skips(&edge, there), expected);
}
