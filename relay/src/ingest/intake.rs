//! The intake: brings updates from the libraries' callback threads to the tick thread without
//! blocking.
//!
//! Values go through a bounded ring, so that every update reaches a client that is in step. When
//! the ring is full, the newest value of each PV waits in a table instead, and the gap in its
//! sequence says how many were left out. Everything else (connection, access rights, metadata) is
//! rare and never lost, and has a separate queue.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use crossbeam_queue::{ArrayQueue, SegQueue};
use pvwire_schema::types::PvId;

use super::row::{Notice, Row};
use crate::ops::latency::AgeCounter;

/// Default limit of the bytes of values in the ring: more than a tick brings.
const RING_BYTES: usize = 256 << 20;

/// Capacity of the ring in rows: half a second of 100,000 updates/s, 5 MiB.
const RING_ROWS: usize = 1 << 16;

/// What `drain` passes on.
#[derive(Clone, Debug)]
pub enum Taken {
    /// An event of a PV.
    Notice(Notice),
    /// An update of a PV.
    Row(Row),
}

/// Takes what all sources receive, until the tick thread drains it.
#[derive(Debug)]
pub struct Intake {
    ring: ArrayQueue<Row>,
    /// Bytes of the values put into the ring since it was last drained.
    ring_bytes: AtomicUsize,
    max_ring_bytes: usize,
    overflow: Mutex<HashMap<PvId, Row>>,
    overflowed: AtomicBool,
    notices: SegQueue<Notice>,
    /// Updates that another relay has gathered are on their way.
    gathered: AtomicBool,
    sleeping: AtomicBool,
    sleeper: OnceLock<Thread>,
    numbers: AtomicU32,
    pub(super) array_bytes: ArrayBytes,
    pub(super) ages: AgeCounter,
}

/// Bytes of array elements, by how they were taken from the library.
#[derive(Debug, Default)]
pub struct ArrayBytes {
    pub(super) copied: AtomicU64,
    pub(super) shared: AtomicU64,
}

impl ArrayBytes {
    /// Copied in the callback, because the library reuses its buffer.
    pub fn copied_total(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Left where the library put them, and shared with it.
    pub fn shared_total(&self) -> u64 {
        self.shared.load(Ordering::Relaxed)
    }
}

impl Intake {
    /// An empty intake.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::bounded(RING_BYTES)
    }

    /// An empty intake whose ring holds values of at most `max_ring_bytes`. Beyond that the newest
    /// value of each PV waits in the table.
    #[must_use]
    pub fn bounded(max_ring_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_ring_bytes,
            ..Self::with_ring(RING_ROWS)
        })
    }

    pub(crate) fn with_ring(rows: usize) -> Self {
        Self {
            ring: ArrayQueue::new(rows),
            ring_bytes: AtomicUsize::new(0),
            max_ring_bytes: RING_BYTES,
            overflow: Mutex::default(),
            overflowed: AtomicBool::new(false),
            notices: SegQueue::new(),
            gathered: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            sleeper: OnceLock::new(),
            numbers: AtomicU32::new(1),
            array_bytes: ArrayBytes::default(),
            ages: AgeCounter::default(),
        }
    }

    /// Bytes of arrays, copied and shared.
    pub fn array_bytes(&self) -> &ArrayBytes {
        &self.array_bytes
    }

    /// Ages of updates on receipt.
    pub fn ages(&self) -> &AgeCounter {
        &self.ages
    }

    /// A number that is unique in the process, for openings and epochs.
    pub(super) fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a row whose value has this many bytes, for the next tick.
    #[inline]
    pub(super) fn push(&self, row: Row, bytes: usize) {
        let row = if bytes > 0 && !self.takes_bytes(bytes) {
            Err(row)
        } else {
            self.ring.push(row)
        };
        if let Err(mut row) = row {
            let mut waiting = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.entry(row.pv) {
                Entry::Vacant(place) => {
                    place.insert(row);
                }
                Entry::Occupied(mut place) => {
                    row.squashed = row.squashed.saturating_add(place.get().squashed);
                    place.insert(row);
                }
            }
            self.overflowed.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Whether the ring may hold a value of this many bytes more.
    #[inline(never)]
    fn takes_bytes(&self, bytes: usize) -> bool {
        let before = self.ring_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A single value fits, however large it is.
        before == 0 || before.saturating_add(bytes) <= self.max_ring_bytes
    }

    /// Adds an event of a PV.
    pub fn notify(&self, notice: Notice) {
        self.notices.push(notice);
        self.wake();
    }

    /// The updates that are pushed next were gathered by a tick of another relay, so that the tick thread need not
    /// wait for the rest of their scan.
    pub fn begin_gathered(&self) {
        self.gathered.store(true, Ordering::Relaxed);
    }

    /// Whether such updates have begun since the last call.
    pub fn take_gathered(&self) -> bool {
        self.gathered.swap(false, Ordering::Relaxed)
    }

    /// Wakes the tick thread if it sleeps.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.swap(false, Ordering::AcqRel)
            && let Some(sleeper) = self.sleeper.get()
        {
            sleeper.unpark();
        }
    }

    /// Announces that the calling thread is about to park, so that `wake` wakes it. The caller must
    /// check for work between this and parking.
    pub fn announce_sleep(&self) {
        self.sleeper.get_or_init(std::thread::current);
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Revokes `announce_sleep`.
    pub fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Whether nothing waits for the tick thread.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.notices.is_empty() && !self.overflowed.load(Ordering::Acquire)
    }

    /// Number of updates that wait in the ring.
    pub fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Passes on everything that waits: each event before all rows that came after it.
    pub fn drain(&self, mut take: impl FnMut(Taken)) {
        // A row in the ring came after the earlier events of its PV, which are therefore in their
        // queue by now. A row that comes later waits for the next call.
        self.ring_bytes.store(0, Ordering::Relaxed);
        let rows = self.ring.len();
        while let Some(notice) = self.notices.pop() {
            take(Taken::Notice(notice));
        }
        for _ in 0..rows {
            let Some(row) = self.ring.pop() else { break };
            take(Taken::Row(row));
        }
        if self.overflowed.swap(false, Ordering::AcqRel) {
            let waiting =
                mem::take(&mut *self.overflow.lock().unwrap_or_else(PoisonError::into_inner));
            waiting.into_values().for_each(|row| take(Taken::Row(row)));
        }
    }
}
