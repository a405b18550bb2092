//! What an owner grants: PVs that move away and come back, and not more than its limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_fleet::MemberId;

use super::{Fleet, Lines, Puts, TestSource};
use crate::access::rule::Rules;
use crate::fleet::interest::Interests;
use crate::fleet::message::{Grant, Granted, Interest};
use crate::fleet::publisher::Orders;
use crate::ingest::Intake;
use crate::state::registry::Registry;

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
