//! A PV that moves from a live owner to another, or back, shows neither a gap nor an update twice; an owner grants no more
//! than its limit.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pvwire_fleet::ownership::Owners;
use pvwire_fleet::{MemberId, Role};
use pvwire_schema::types::{ConnectionState, Outcome, PvId, Skips};
use testbed::eventually;

use super::{CALM, Clock, Fleet, Lines, Puts, Relay, TestSource};
use crate::access::rule::Rules;
use crate::fleet::interest::Interests;
use crate::fleet::message::{Grant, Granted, Interest};
use crate::fleet::publisher::Orders;
use crate::ingest::{Intake, Line, RowValue};
use crate::state::registry::Registry;

/// An IOC that counts, and serves each monitor the same.
#[derive(Default)]
pub(super) struct Counting {
    pub(super) count: i64,
    lines: Vec<Arc<Line>>,
}

impl Counting {
    /// Sends the next number to the monitors that the relays have.
    pub(super) fn send_next(&mut self, relays: &[&Relay]) {
        let open = relays.iter().filter_map(|relay| relay.line("X"));
        let open: Vec<_> = open.collect();
        for line in &open {
            if !self.lines.iter().any(|known| Arc::ptr_eq(known, line)) {
                Relay::introduce(line);
                self.send(line);
            }
        }
        self.lines = open;
        self.count += 1;
        for line in &self.lines {
            self.send(line);
        }
    }

    fn send(&self, line: &Line) {
        line.update(self.count, RowValue::Number(self.count as f64), CALM);
    }

    /// Goes on until one relay alone has a monitor, and for a while.
    pub(super) fn until_at(&mut self, relays: &[&Relay], owner: &Relay) {
        eventually("the owner alone monitors it", || {
            self.send_next(relays);
            let mut open = relays.iter().filter(|relay| relay.line("X").is_some());
            open.next().is_some_and(|it| it.id == owner.id) && open.next().is_none()
        });
        for _ in 0..20 {
            self.send_next(relays);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a relay has shown each number from `since` on once.
    pub(super) fn is_shown_by(&self, relay: &Relay, pv: PvId, since: i64) {
        let last = self.count as f64;
        let rows = || relay.watched.lock().unwrap().rows[&pv].clone();
        eventually("the last number", || rows().last() == Some(&last));
        let rows = rows();
        let each_once = rows.windows(2).all(|pair| pair[1] == pair[0] + 1.0);
        assert!(each_once && rows[0] <= since as f64, "{since} {rows:?}");
        let skips = relay.watched.lock().unwrap().skips[&pv];
        assert_eq!(skips, Skips::NONE);
        let states = relay.watched.lock().unwrap().states[&pv].clone();
        let is_lost = states.contains(&ConnectionState::Disconnected);
        assert!(!is_lost, "{states:?}");
    }
}

#[test]
fn pv_moves_to_a_relay_that_joins_and_from_one_that_drains_without_a_gap() {
    let clock = Clock::start();
    let first = Relay::start(&clock.hub, 1, Role::Both);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let wins = |id: &u64| {
        let members = [MemberId(1), MemberId(*id)];
        Owners::new(members, 1).owner("ca://X") == Some(MemberId(*id))
    };
    let (here, there) = (first.open("X"), edge.open("X"));
    let mut ioc = Counting::default();
    ioc.until_at(&[&first], &first);
    for (relay, pv) in [(&first, here), (&edge, there)] {
        eventually("a number", || {
            ioc.send_next(&[&first]);
            relay.watched.lock().unwrap().rows.contains_key(&pv)
        });
    }
    let since = ioc.count;
    let second = Relay::start(&clock.hub, (3..).find(wins).unwrap(), Role::Both);
    let relays = [&first, &second];
    ioc.until_at(&relays, &second);
    for (relay, pv) in [(&first, here), (&edge, there)] {
        ioc.is_shown_by(relay, pv, since);
    }

    // A put on the condition that nothing has changed works on.
    let seen = edge.seen(there).expected;
    let end = edge.put(there, seen);
    eventually("an outcome", || end.lock().unwrap().is_some());
    let end = end.lock().unwrap().take().unwrap();
    assert_eq!(end.outcome, Outcome::NotAllowed, "{end:?}");

    second.fleet.drain();
    ioc.until_at(&relays, &first);
    eventually("it is handed over", || second.fleet.is_handed_over());
    for (relay, pv) in [(&first, here), (&edge, there)] {
        ioc.is_shown_by(relay, pv, since);
    }
}

const ME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);
const EDGE: MemberId = MemberId(3);

fn interests() -> Interests {
    let intake = Intake::new();
    let source = TestSource(Lines::default(), Puts::default());
    let sources = Fleet::default().share(vec![Box::new(source)]);
    let linger = Duration::from_secs(1);
    let registry = Registry::new(Arc::clone(&intake), sources, "ca", linger, Rules::default());
    Interests::new(
        ME,
        Arc::new(registry.shared(true)),
        Orders::new(&intake),
        (10_000, Arc::default()),
    )
}

#[test]
fn pv_that_comes_back_to_its_owner_is_published_on() {
    let mut interests = interests();
    let begun = Instant::now();
    let at = |secs| begun + Duration::from_secs(secs);
    let ask = |interests: &mut Interests, interest: &Interest, secs| {
        interests.requested(EDGE, interest, &|_| Some(ME), at(secs))
    };
    let add = Interest {
        add: vec!["ca://X".into()],
        ..Interest::default()
    };
    let granted = ask(&mut interests, &add, 0);
    let Granted { pvs, held: 1 } = granted else {
        panic!("it is granted: {granted:?}");
    };
    let [Grant::Held(pv)] = pvs[..] else {
        panic!("it is held: {pvs:?}");
    };

    interests.keep_owned(&|_| Some(OTHER), at(1));
    let dropped = Interest {
        drop: vec![pv],
        ..Interest::default()
    };
    assert_eq!(ask(&mut interests, &dropped, 2).held, 0);
    interests.keep_owned(&|_| Some(ME), at(3));
    assert_eq!(ask(&mut interests, &add, 3).held, 1);
    // Longer than a relay follows a PV that has moved.
    for secs in 4..20 {
        interests.expire(at(secs));
        let renewed = ask(&mut interests, &Interest::default(), secs);
        assert_eq!(renewed.held, 1, "after {secs} s");
    }
}

#[test]
fn pvs_beyond_the_limit_of_one_relay_are_refused_until_it_gives_some_up() {
    let mut interests = interests();
    interests.most_pvs = 2;
    let mut ask = |from, add: &[&str], drop: &[u32]| {
        let interest = Interest {
            add: add.iter().map(|name| format!("ca://{name}")).collect(),
            drop: drop.to_vec(),
            ..Interest::default()
        };
        interests.requested(from, &interest, &|_| Some(ME), Instant::now())
    };
    let Granted { pvs, held: 2 } = ask(EDGE, &["A", "B", "C"], &[]) else {
        panic!("two are granted");
    };
    let [Grant::Held(first), Grant::Held(_), Grant::Refused(why)] = &pvs[..] else {
        panic!("two are granted: {pvs:?}");
    };
    assert!(why.contains("at most 2 PVs"), "{why}");
    let of_other = ask(OTHER, &["C"], &[]);
    assert_eq!(of_other.held, 1, "each relay has its own limit");
    let later = ask(EDGE, &["C"], &[*first]);
    assert!(matches!(later.pvs[..], [Grant::Held(_)]), "{later:?}");
}

#[test]
fn interest_of_a_lost_relay_does_not_count() {
    let mut interests = interests();
    let add = Interest {
        add: vec!["ca://X".into()],
        ..Interest::default()
    };
    interests.requested(EDGE, &add, &|_| Some(ME), Instant::now());
    assert!(interests.are_live(|relay| relay == EDGE));
    assert!(!interests.are_live(|relay| relay == OTHER));
}
