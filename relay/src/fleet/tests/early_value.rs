//! A value that comes before the metadata of its PV.

use pvwire_fleet::Role;
use pvwire_schema::types::Metadata;
use testbed::eventually;

use super::{CALM, Clock, Relay, Seen};
use crate::ingest::{Event, RowValue};

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
