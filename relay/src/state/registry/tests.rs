//! Tests of the registry with a source that counts.

use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::Filter;

use super::*;
use crate::access::auth::Peer;
use crate::access::caller::Caller;
use crate::compute::cpu_time;
use crate::ingest::{Monitor, OpenError};
use crate::limits::connections::{CallerLimits, Callers, SharedBudgets};
use crate::limits::requests::RequestLimits;
use crate::limits::subscriptions::MAX_FILTERS;
use crate::limits::subscriptions::NewNameLimits;

#[derive(Default)]
struct Counted {
    opened: AtomicUsize,
    closed: AtomicUsize,
    crowded: AtomicUsize,
}

struct CountedSource(Arc<Counted>);
struct CountedMonitor {
    counted: Arc<Counted>,
    _line: Line,
}

impl Source for CountedSource {
    fn scheme(&self) -> &'static str {
        "ca"
    }
    fn open(&self, _name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        let crowded = usize::from(queue == Queue::Crowd);
        self.0.crowded.fetch_add(crowded, Ordering::Relaxed);
        Ok(Box::new(CountedMonitor {
            counted: Arc::clone(&self.0),
            _line: line,
        }))
    }
}

impl Monitor for CountedMonitor {}
impl Drop for CountedMonitor {
    fn drop(&mut self) {
        self.counted.closed.fetch_add(1, Ordering::Relaxed);
    }
}

const LINGER: Duration = Duration::from_secs(10);

fn registry() -> (Registry, Arc<Counted>) {
    let counted = Arc::new(Counted::default());
    let sources: Vec<Box<dyn Source>> = vec![Box::new(CountedSource(Arc::clone(&counted)))];
    let rules = Rules::default();
    let registry = Registry::new(Intake::new(), sources, "ca", LINGER, rules);
    (registry, counted)
}

fn one(registry: &Registry, name: &str) -> Result<PvId, Refusal> {
    registry
        .acquire(
            &[name.to_owned()],
            &Identity::default(),
            &Owner::unlimited(),
            &mut { NewNames::ONE },
        )
        .remove(0)
}

#[test]
fn one_monitor_serves_every_client_and_both_spellings() {
    let (registry, counted) = registry();
    let first = one(&registry, "TEMP").unwrap();
    assert_eq!(one(&registry, "ca://TEMP"), Ok(first));
    assert_eq!(counted.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn monitor_closes_a_linger_after_the_last_client_left() {
    let (registry, counted) = registry();
    let id = one(&registry, "TEMP").unwrap();
    let left = Instant::now();
    registry.release([id], left);
    assert_eq!(registry.sweep(left + LINGER / 2).0, 0);
    assert_eq!(registry.sweep(left + LINGER).0, 1);
    assert_eq!(counted.closed.load(Ordering::Relaxed), 1);
    assert_eq!(registry.monitors(), 0);
}

#[test]
fn client_that_returns_within_the_linger_finds_the_monitor_open() {
    let (registry, counted) = registry();
    let id = one(&registry, "TEMP").unwrap();
    let left = Instant::now();
    registry.release([id], left);
    assert_eq!(one(&registry, "TEMP"), Ok(id));
    registry.release([id], left + LINGER / 2);
    assert_eq!(
        registry.sweep(left + LINGER).0,
        0,
        "the second linger isn't over"
    );
    assert_eq!(registry.sweep(left + LINGER * 2).0, 1);
    assert_eq!(counted.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn closed_pvs_give_their_memory_back_and_open_ones_keep_their_numbers() {
    let (registry, _) = registry();
    let open = |number: usize| one(&registry, &format!("PV{number}")).unwrap();
    let numbers: Vec<PvId> = (0..5_000).map(open).collect();
    let kept = &numbers[7..8];
    let closed = numbers.iter().filter(|id| !kept.contains(id)).copied();
    let left = Instant::now();
    registry.release(closed, left);
    // Not all at once: a tick waits for it.
    let (first, is_more) = registry.sweep(left + LINGER);
    assert!(
        is_more && first <= CLOSED_AT_ONCE.max(numbers.len() / 32),
        "{first}"
    );
    while registry.sweep(left + LINGER).1 {}
    let slots = registry.lock().slots.capacity();
    assert!(slots < 1_000, "{slots} slots for one PV");
    assert_eq!(open(7), kept[0]);
    let again: std::collections::HashSet<PvId> = (0..5_000).map(open).collect();
    assert_eq!(again.len(), 5_000, "each has a number for itself");
}

fn filtered_by(registry: &Registry, every: u32, rates: &SharedBudgets) -> Result<PvId, Refusal> {
    let filter = Filter {
        every,
        ..Filter::default()
    };
    let names = ["TEMP".to_owned()];
    let caller = Caller::new(Peer::default(), Owner::unlimited(), rates.clone());
    registry
        .acquire_filtered(&names, Some(filter), &caller, &mut { NewNames::ONE })
        .remove(0)
}

fn filtered(registry: &Registry, every: u32) -> Result<PvId, Refusal> {
    filtered_by(registry, every, &SharedBudgets::default())
}

/// Clients from several addresses, with the same number from each.
fn callers(addresses: usize, from_each: usize) -> Vec<SharedBudgets> {
    let callers = Callers::new(CallerLimits {
        connections: 0,
        per_address: 0,
        arrivals_per_s: 0,
        new_names: NewNameLimits {
            per_s: 1,
            at_once: 1,
        },
        requests: RequestLimits {
            requests_per_s: 1,
            puts_per_s: 1,
            names_at_once: 1,
        },
    });
    let all = (0..addresses * from_each).map(|n| {
        let from = [192, 0, 2, (n / from_each) as u8].into();
        let stay = callers.enter(Some(from), Instant::now()).unwrap();
        stay.caller()
    });
    all.collect()
}

#[test]
fn one_monitor_serves_all_filters_and_equal_ones_share_a_number() {
    let (registry, counted) = registry();
    let base = one(&registry, "TEMP").unwrap();
    let pv = filtered(&registry, 2).unwrap();
    assert_ne!(pv, base);
    assert_eq!(filtered(&registry, 2), Ok(pv));
    assert_ne!(filtered(&registry, 3), Ok(pv));
    assert_eq!(counted.opened.load(Ordering::Relaxed), 1);
    assert_eq!(registry.monitors(), 1);
    assert_eq!(registry.list("", 9), [("ca://TEMP".into(), base, 4)]);
}

#[test]
fn pv_that_the_relay_keeps_for_itself_has_no_client_and_stays_open() {
    let (registry, _) = registry();
    let owner = Owner::unlimited();
    let pv = registry.acquire_own("TEMP", &owner).unwrap();
    let holders = || registry.list("", 9).remove(0).2;
    assert_eq!(holders(), 0);
    assert_eq!(one(&registry, "TEMP"), Ok(pv));
    let through = filtered(&registry, 2).unwrap();
    assert_eq!(holders(), 2);
    let left = Instant::now();
    registry.release([pv, through], left);
    assert_eq!(holders(), 0);
    assert_eq!(registry.sweep(left + LINGER).0, 0);
    registry.release_own(&[pv], left);
    assert_eq!(registry.sweep(left + LINGER).0, 1);
    assert_eq!(registry.list("", 9), []);
    // The number is another PV's now.
    assert_eq!(one(&registry, "OTHER"), Ok(pv));
    assert_eq!(holders(), 1);
}

#[test]
fn list_of_few_pvs_is_not_the_order_of_all() {
    const PVS: usize = 50_000;
    let (registry, _) = registry();
    // PVs with consecutive numbers are far apart by name.
    let names = (0..PVS).map(|n| format!("SR:{:05}", n * 7_919 % PVS));
    let names: Vec<_> = names.collect();
    let mut room = NewNames {
        fresh: PVS,
        new: PVS,
    };
    let held = registry.acquire(&names, &Identity::default(), &Owner::unlimited(), &mut room);
    let first = registry.list("", 3);
    for (n, (name, pv, holders)) in first.into_iter().enumerate() {
        assert_eq!(&*name, format!("ca://SR:{n:05}"));
        let at = names.iter().position(|it| name.ends_with(it)).unwrap();
        assert_eq!((held[at].as_ref(), holders), (Ok(&pv), 1));
    }
    assert_eq!(registry.list("", PVS + 1).len(), PVS);
    let took = |limit| {
        let begun = cpu_time();
        assert!(registry.list("", limit).len() <= limit);
        cpu_time() - begun
    };
    // Other programs slow some tries down.
    let least = |limit| (0..5).map(|_| took(limit)).min().unwrap();
    assert!(least(0) < Duration::from_millis(1), "nothing is wanted");
    let (few, all) = (least(500), least(PVS));
    assert!(4 * few < all, "{few:?} of {all:?}");
}

#[test]
fn filtered_pv_closes_with_its_last_client_and_the_pv_lingers() {
    let (registry, _) = registry();
    let pv = filtered(&registry, 2).unwrap();
    assert_eq!(filtered(&registry, 2), Ok(pv));
    let left = Instant::now();
    registry.release([pv], left);
    assert_eq!(
        registry.sweep(left + LINGER).0,
        0,
        "a client still holds it"
    );
    registry.release([pv], left + LINGER);
    assert_eq!(registry.sweep(left + LINGER).0, 0);
    assert_eq!(registry.sweep(left + LINGER * 2).0, 1);
    assert_eq!(registry.list("", 9), []);
    // Both numbers are reused.
    let ids = ["A", "B"].map(|name| one(&registry, name).unwrap().index());
    assert_eq!(ids.iter().max(), Some(&1));
}

#[test]
fn one_filter_too_many_is_refused_and_holds_nothing() {
    let (registry, _) = registry();
    let clients = callers(5, MAX_FILTERS / 4);
    let pvs: Vec<_> = (2..)
        .zip(&clients[..MAX_FILTERS])
        .map(|(every, client)| filtered_by(&registry, every, client).unwrap())
        .collect();
    for _ in 0..2 {
        let refusal = filtered_by(&registry, 1000, &clients[MAX_FILTERS]).unwrap_err();
        assert_eq!(refusal.problem, NameProblem::TooManyFilters);
        let start = "this PV has 32 different filters already";
        assert!(refusal.message.starts_with(start), "{}", refusal.message);
    }
    assert_eq!(
        filtered(&registry, 2),
        Ok(pvs[0]),
        "a known filter is not a new one"
    );
    let left = Instant::now();
    registry.release(pvs.iter().copied().chain([pvs[0]]), left);
    assert_eq!(registry.sweep(left + LINGER).0, 1);
}

#[test]
fn one_client_or_address_cannot_use_all_filters_of_a_pv() {
    let (registry, _) = registry();
    let clients = callers(3, 3);
    let mut every = 1;
    let mut add = |client: &SharedBudgets| {
        every += 1;
        let added = filtered_by(&registry, every, client);
        added.map_err(|refusal| refusal.message)
    };
    let own: Vec<_> = (0..8).map(|_| add(&clients[0]).unwrap()).collect();
    let message = add(&clients[0]).unwrap_err();
    assert!(
        message.starts_with("your connection has added 8"),
        "{message}"
    );
    // An existing filter can be shared by any client.
    assert_eq!(filtered_by(&registry, 2, &clients[0]), Ok(own[0]));
    assert!((0..8).all(|_| add(&clients[1]).is_ok()));
    let message = add(&clients[2]).unwrap_err();
    let start = "connections of your address or user have added 16";
    assert!(message.starts_with(start), "{message}");
    assert!(add(&clients[3]).is_ok(), "of another address");
    let left = Instant::now();
    registry.release(own.iter().copied().chain([own[0]]), left);
    assert!(
        add(&clients[0]).is_ok() && add(&clients[2]).is_ok(),
        "released"
    );
}

#[test]
fn new_names_beyond_the_allowance_queue_with_the_crowd() {
    let (registry, counted) = registry();
    let names: Vec<_> = (0..5).map(|n| format!("PV{n}")).collect();
    let mut room = NewNames { fresh: 3, new: 9 };
    let mut acquire = |names: &[String]| {
        registry.acquire(names, &Identity::default(), &Owner::unlimited(), &mut room);
        let opened = counted.opened.load(Ordering::Relaxed);
        (room.fresh, opened, counted.crowded.load(Ordering::Relaxed))
    };
    assert_eq!(acquire(&names[..2]), (1, 2, 0));
    assert_eq!(acquire(&names[..4]), (1, 4, 2), "too many at once");
    assert_eq!(acquire(&names), (0, 5, 2), "one that is new");
}

#[test]
fn invalid_names_are_refused_with_a_reason() {
    let (registry, _) = registry();
    for (name, problem, message) in [
        ("", NameProblem::BadName, "a PV name can't be empty"),
        ("A B", NameProblem::BadName, "a PV name can't hold ' '"),
        (
            "tango://X",
            NameProblem::NoSuchSource,
            "no source \"tango\"; this relay has: ca",
        ),
    ] {
        let refusal = one(&registry, name).unwrap_err();
        assert_eq!(
            (refusal.problem, refusal.message.as_str()),
            (problem, message)
        );
    }
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    assert_eq!(
        one(&registry, &long).unwrap_err().problem,
        NameProblem::BadName
    );
}
