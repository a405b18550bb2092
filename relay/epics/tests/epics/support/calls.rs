//! Counts a thread's calls of Rust's allocator, without those of libca and pvxs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

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
pub(crate) fn of_this_thread() -> u64 {
    CALLS.with(Cell::get)
}

/// Counts updates, and calls to the allocator by the calling thread from one update to the next:
/// all of the way out of one callback and into the next lies in between.
#[derive(Default)]
pub(crate) struct Counter {
    updates: AtomicU64,
    bits: AtomicU64,
    calls_before: AtomicU64,
    calls_between: AtomicU64,
}

impl Counter {
    /// An update; `bits`: of its value, which so is used.
    pub(crate) fn update(&self, bits: u64) {
        self.bits.store(bits, Ordering::Relaxed);
        let calls = of_this_thread();
        let before = self.calls_before.swap(calls, Ordering::Relaxed);
        // The first few come among the events of the connect, which may allocate.
        if self.updates.fetch_add(1, Ordering::Relaxed) >= 3 {
            let between = calls - before;
            self.calls_between.fetch_add(between, Ordering::Relaxed);
        }
    }

    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    /// Calls between the updates, all together.
    pub(crate) fn calls(&self) -> u64 {
        self.calls_between.load(Ordering::Relaxed)
    }
}
