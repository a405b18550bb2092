//! Updates that an owner didn't get have the same causes at the other relays.

use std::sync::Arc;

use pvwire_fleet::Role;
use pvwire_schema::types::{BlobValue, Skips, ValueType};
use testbed::eventually;

use super::{CALM, Clock, Relay};
use crate::ingest::RowValue;

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
