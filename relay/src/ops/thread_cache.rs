//! Free memory that the allocator keeps for each thread. It can't be returned to the system before the thread gives it
//! back: its blocks lie between those that were freed, and keep their pages.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// How often the threads were asked to give back what they keep.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Wakes the tasks that give back what their threads keep.
static ASKED_TASKS: Notify = Notify::const_new();

/// Asks all threads that have a [`ThreadCache`], or run [`give_back_when_asked`]; the calling one gives it back at once.
pub fn ask_all() {
    ASKED.fetch_add(1, Ordering::Relaxed);
    ASKED_TASKS.notify_waiters();
    pvwire_epics::give_back_thread_cache();
}

/// For a thread of tasks: gives back what the allocator keeps for it, each time that is asked for.
pub async fn give_back_when_asked() {
    loop {
        ASKED_TASKS.notified().await;
        pvwire_epics::give_back_thread_cache();
    }
}

/// What the allocator keeps for the thread that owns this.
#[derive(Debug)]
pub struct ThreadCache {
    /// The last request that the thread met.
    met: u64,
}

impl ThreadCache {
    /// That of a thread which starts.
    #[must_use]
    pub fn new() -> Self {
        Self {
            met: ASKED.load(Ordering::Relaxed),
        }
    }

    /// Gives it back, when the thread has nothing more to do.
    pub fn give_back(&mut self) {
        self.met = ASKED.load(Ordering::Relaxed);
        pvwire_epics::give_back_thread_cache();
    }

    /// Gives it back if that was asked for since the last call, which takes about a tenth of a millisecond.
    pub fn give_back_if_asked(&mut self) {
        if self.met != ASKED.load(Ordering::Relaxed) {
            self.give_back();
        }
    }
}

impl Default for ThreadCache {
    fn default() -> Self {
        Self::new()
    }
}
