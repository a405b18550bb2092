//! What waits: puts while no relay holds the PV, or another than before; messages for which the bus has no room, which come
//! with a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pvwire_fleet::in_process::Hub;
use pvwire_fleet::{Answer, AskError, Bus, Kind, MemberId, Role};
use pvwire_schema::types::{BlobValue, Outcome, PutValue, PvId, ValueType};
use testbed::eventually;

use super::{CALM, Clock, Lines, Puts, Relay, TestSource};
use crate::access::rule::{Identity, Rules};
use crate::fleet::Fleet;
use crate::fleet::command::FleetCommand;
use crate::fleet::operations::Sent;
use crate::fleet::pv::FleetPv;
use crate::ingest::{Intake, Put, RowValue};
use crate::limits::memory::Owner;
use crate::limits::subscriptions::NewNames;
use crate::state::registry::Registry;

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

/// A PV of a relay whose thread is the test.
fn unowned(puts: &Puts) -> (Fleet, Registry, PvId, Arc<FleetPv>) {
    let fleet = Fleet::default();
    let source = TestSource(Lines::default(), Arc::clone(puts));
    let sources = fleet.share(vec![Box::new(source)]);
    let linger = Duration::from_millis(100);
    let registry = Registry::new(Intake::new(), sources, "ca", linger, Rules::default());
    let (owner, mut room) = (Owner::unlimited(), NewNames::ONE);
    let id = registry.acquire(&["X".into()], &Identity::default(), &owner, &mut room);
    let id = id.into_iter().next().unwrap().unwrap();
    let Ok(FleetCommand::Opened(pv)) = fleet.received.try_recv() else {
        panic!("it is opened first");
    };
    (fleet, registry, id, pv)
}

fn number(number: f64) -> Put {
    Put {
        value: PutValue::Number(number),
        wait: false,
        expected: None,
        user: None,
        timeout: Duration::from_secs(20),
        by: None,
    }
}

#[test]
fn put_to_a_pv_that_has_just_come_here_does_not_overtake_an_older_one() {
    let puts = Puts::default();
    let (fleet, registry, id, pv) = unowned(&puts);
    let put = |value| drop(registry.put(id, number(value), Box::new(drop)));
    put(0.0);
    pv.open();
    put(1.0);
    assert!(puts.lock().unwrap().is_empty(), "both wait for the thread");
    for command in fleet.received.try_iter() {
        if let FleetCommand::Put { pv, put, done, .. } = command {
            drop(pv.put(put, done));
        }
    }
    put(2.0);
    assert_eq!(*puts.lock().unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn put_waits_for_the_answer_of_the_relay_that_held_the_pv_before() {
    let (fleet, _registry, _, pv) = unowned(&Puts::default());
    let bus = Arc::new(Hub::new().join(MemberId(1), fleet.inbox()));
    let mut sent = Sent::new(bus, fleet.commands.clone(), fleet.counters());
    let (before, now) = (MemberId(2), MemberId(3));
    for value in [0.0, 1.0] {
        sent.put((before, None), &pv, number(value), Box::new(drop));
    }
    let waits = |sent: &Sent| sent.awaits_other(pv.number, now);
    assert!(waits(&sent) && !sent.awaits_other(pv.number, before));
    sent.answered(1, Err(AskError::TimedOut));
    assert!(waits(&sent), "one of two has its answer");
    sent.lost(before);
    assert!(!waits(&sent));
    let counters = fleet.counters();
    let count =
        |outcome: Outcome| counters.puts[usize::from(outcome.number())].load(Ordering::Relaxed);
    assert_eq!([Outcome::TimedOut, Outcome::Interrupted].map(count), [1, 1]);
}

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
