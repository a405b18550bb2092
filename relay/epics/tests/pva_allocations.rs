//! Does a scalar update cost an allocation on its way from pvxs to the sink?
//!
//! Topology: one IOC, one client in a process of its own whose allocator counts. The allocations of
//! pvxs are C++'s and don't come here.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[allow(dead_code, reason = "the other tests of pvAccess use the rest of it")]
mod support_pva;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_epics::pva::{Client, Metadata, PvaEvents, TypeInfo, Update, Value};

use support_pva::{Server, eventually, in_own_process, prefix};

thread_local! {
    /// Calls to the allocator by this thread.
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

/// Counts updates, and calls to the allocator by the calling thread from one update to the next:
/// all of the way out of one callback and into the next lies in between.
#[derive(Default)]
struct Counter {
    updates: AtomicU64,
    bits: AtomicU64,
    calls_before: AtomicU64,
    calls_between: AtomicU64,
}

impl PvaEvents for Counter {
    fn connected(&self, _: TypeInfo) {}
    fn disconnected(&self) {}
    fn metadata(&self, _: Metadata) {}
    fn failed(&self, _: &str) {}

    fn update(&self, update: Update<'_>) {
        let bits = match update.value {
            Value::Number(number) => number.to_bits(),
            Value::Int64(number) => number as u64,
            Value::Text(text) => text.len() as u64,
            _ => 0,
        };
        self.bits.store(bits, Ordering::Relaxed);
        let calls = CALLS.with(Cell::get);
        let before = self.calls_before.swap(calls, Ordering::Relaxed);
        // The first few come among the events of the connect, which may allocate.
        if self.updates.fetch_add(1, Ordering::Relaxed) >= 3 {
            let between = calls - before;
            self.calls_between.fetch_add(between, Ordering::Relaxed);
        }
    }
}

#[test]
fn scalar_update_allocates_nothing_on_its_way_to_the_sink() {
    in_own_process(
        "scalar_update_allocates_nothing_on_its_way_to_the_sink",
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
            let client = Client::start().unwrap();
            let opened: Vec<_> = ["number", "integer", "alarm", "choice", "text"]
                .map(|record| {
                    let counter = Arc::new(Counter::default());
                    let monitor = client.open(&format!("{prefix}{record}"), counter.clone());
                    (counter, monitor.unwrap())
                })
                .into();

            eventually("enough updates of all", || {
                let enough = |counter: &Counter| counter.updates.load(Ordering::Relaxed) >= 15;
                opened.iter().all(|(counter, _)| enough(counter))
            });

            for (counter, _) in &opened {
                assert_eq!(counter.calls_between.load(Ordering::Relaxed), 0);
            }
            // The counter counts: this thread has made the names above.
            assert!(CALLS.with(Cell::get) > 0);
        },
    );
}
