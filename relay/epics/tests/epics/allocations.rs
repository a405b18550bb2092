//! A scalar update costs no allocation on its way from libca or pvxs to the sink.
//!
//! Topology: one IOC, one client. Calls of Rust's allocator are counted: the allocations of libca are C's, those of pvxs
//! C++'s, and don't come here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_epics::{ca, pva};

use crate::support::{Server, eventually, in_own_process, prefix};

impl ca::ChannelEvents for Counter {
    fn connected(&self, _: ca::ChannelInfo) {}
    fn disconnected(&self) {}
    fn access_rights(&self, _: ca::AccessRights) {}
    fn metadata(&self, _: ca::Metadata) {}

    fn update(&self, update: ca::Update<'_>) {
        self.update(match update.value {
            ca::Value::Number(number) => number.to_bits(),
            ca::Value::Text(text) => text.len() as u64,
            ca::Value::Array(array) => array.count.into(),
        });
    }
}

impl pva::PvaEvents for Counter {
    fn connected(&self, _: pva::TypeInfo) {}
    fn disconnected(&self) {}
    fn metadata(&self, _: pva::Metadata) {}
    fn failed(&self, _: &str) {}

    fn update(&self, update: pva::Update<'_>) {
        self.update(match update.value {
            pva::Value::Number(number) => number.to_bits(),
            pva::Value::Int64(number) => number as u64,
            pva::Value::Text(text) => text.len() as u64,
            _ => 0,
        });
    }
}

/// Opens a counter's channel for each record, and checks what each counted.
fn check<C>(records: &[&str], open: impl Fn(&str, Arc<Counter>) -> C) {
    let opened: Vec<_> = (records.iter())
        .map(|record| {
            let counter = Arc::new(Counter::default());
            let channel = open(record, Arc::clone(&counter));
            (counter, channel)
        })
        .collect();
    eventually("enough updates of all", || {
        opened.iter().all(|(counter, _)| counter.updates() >= 15)
    });
    for (counter, _) in &opened {
        assert_eq!(counter.calls(), 0);
    }
    // The counter counts: this thread has made the names above.
    assert!(of_this_thread() > 0);
}

#[test]
fn scalar_update_of_ca_allocates_nothing_on_its_way_to_the_sink() {
    in_own_process!(
        "scalar_update_of_ca_allocates_nothing_on_its_way_to_the_sink",
        || {
            let database = br#"
                record(calc, "$(P)number") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
                record(longin, "$(P)integer") { field(INP, "$(P)number CP") }
                record(calcout, "$(P)alarm") {
                    field(CALC, "VAL?0:1") field(SCAN, ".1 second")
                    field(HIGH, "1") field(HSV, "MINOR")
                }
                record(stringin, "$(P)text") { field(INP, "$(P)number CP") }
            "#;
            let prefix = prefix();
            let _ioc = Server::soft_ioc(&prefix, database);
            let client = ca::Client::start().unwrap();
            check(
                &["number", "integer", "alarm", "text"],
                |record, counter| client.open(&format!("{prefix}{record}"), counter).unwrap(),
            );
        },
    );
}

#[test]
fn scalar_update_of_pva_allocates_nothing_on_its_way_to_the_sink() {
    in_own_process!(
        "scalar_update_of_pva_allocates_nothing_on_its_way_to_the_sink",
        || {
            let database = r#"
                record(calc, "$(P)number") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
                record(int64in, "$(P)integer") { field(INP, "$(P)number CP") }
                record(calcout, "$(P)alarm") {
                    field(CALC, "VAL?0:1") field(SCAN, ".1 second")
                    field(HIGH, "1") field(HSV, "MINOR")
                }
                record(bi, "$(P)choice") {
                    field(INP, "$(P)alarm CP") field(ZNAM, "off") field(ONAM, "on")
                }
                record(stringin, "$(P)text") { field(INP, "$(P)number CP") }
            "#;
            let prefix = prefix();
            let _ioc = Server::ioc(&prefix, database);
            let client = pva::Client::start().unwrap();
            let records = ["number", "integer", "alarm", "choice", "text"];
            check(&records, |record, counter| {
                client.open(&format!("{prefix}{record}"), counter).unwrap()
            });
        },
    );
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: what the caller promises is what `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above; the place came from `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Calls by this thread.
fn of_this_thread() -> u64 {
    CALLS.with(Cell::get)
}

/// Counts updates, and calls to the allocator by the calling thread from one update to the next:
/// all of the way out of one callback and into the next lies in between.
#[derive(Default)]
struct Counter {
    updates: AtomicU64,
    bits: AtomicU64,
    calls_before: AtomicU64,
    calls_between: AtomicU64,
}

impl Counter {
    /// An update; `bits`: of its value, which so is used.
    fn update(&self, bits: u64) {
        self.bits.store(bits, Ordering::Relaxed);
        let calls = of_this_thread();
        let before = self.calls_before.swap(calls, Ordering::Relaxed);
        // The first few come among the events of the connect, which may allocate.
        if self.updates.fetch_add(1, Ordering::Relaxed) >= 3 {
            let between = calls - before;
            self.calls_between.fetch_add(between, Ordering::Relaxed);
        }
    }

    fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    /// Calls between the updates, all together.
    fn calls(&self) -> u64 {
        self.calls_between.load(Ordering::Relaxed)
    }
}
