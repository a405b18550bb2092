//! A bus that has no room for large messages: what it refuses comes with a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pvwire_fleet::{Answer, Bus, Kind, MemberId, Role};
use pvwire_schema::types::{BlobValue, ValueType};
use testbed::eventually;

use super::{CALM, Clock, Relay};
use crate::ingest::RowValue;

/// A bus whose queue has no room for large messages while it is full.
pub(super) struct Queued {
    pub(super) bus: Box<dyn Bus>,
    pub(super) is_full: Arc<AtomicBool>,
    pub(super) refused: Arc<AtomicUsize>,
}

impl Bus for Queued {
    fn announce(&self, presence: Bytes) {
        self.bus.announce(presence);
    }

    fn ask(&self, to: MemberId, kind: Kind, body: Bytes, timeout: Duration, answer: Answer) {
        self.bus.ask(to, kind, body, timeout, answer);
    }

    fn publish(&self, shard: u16, message: &[Bytes]) -> bool {
        let bytes: usize = message.iter().map(Bytes::len).sum();
        if bytes > 100_000 && self.is_full.load(Ordering::Relaxed) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.bus.publish(shard, message)
    }

    fn follow(&self, owner: MemberId, shard: u16, on: bool) {
        self.bus.follow(owner, shard, on);
    }

    fn rename(&self, me: MemberId) {
        self.bus.rename(me);
    }
}

#[test]
fn large_value_that_the_bus_had_no_room_for_comes_with_a_snapshot() {
    let clock = Clock::start();
    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let there = edge.open("X");
    let line = owner.connect("X");
    let update = |time_ns: i64| {
        let large = BlobValue::array(ValueType::UInt8, 500_000, vec![time_ns as u8; 500_000]);
        line.update(time_ns, RowValue::Blob(Arc::new(large)), CALM);
    };
    update(1);
    eventually("the first", || edge.seen(there).time_ns() == Some(1));
    owner.is_full.store(true, Ordering::Relaxed);
    update(2);
    update(3);
    eventually("both are refused", || {
        owner.refused.load(Ordering::Relaxed) >= 2
    });
    assert_eq!(edge.seen(there).time_ns(), Some(1));
    owner.is_full.store(false, Ordering::Relaxed);
    eventually("the newest", || edge.seen(there).time_ns() == Some(3));
    let skips = edge.watched.lock().unwrap().skips[&there];
    assert_eq!((skips.bus, skips.total()), (1, 1));
}
