//! The thread that writes to a disk what was added to the rings.
//!
//! It takes from the rings what they have had since its last write, so updates cost nothing more, and what can't be
//! written is taken when it can be. When the segments are much longer than the rings, the rings are written again.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::HistoryOptions;
use super::disk::batch::{Batch, Piece, RingNumbers};
use super::disk::folder::{Folder, FolderError, Found};
use super::store::Store;
use crate::ops::latency::wall_ns;
use crate::ops::shutdown::Indispensable;

/// Name of the thread.
const THREAD: &str = "history-disk";

/// How often what is new is written. It is half of what the end of the relay may cost, because the ticks before it may
/// wait for the thread of the rings.
const WRITE_EVERY: Duration = Duration::from_millis(500);

/// How often what was written is brought to the disk.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How often a disk is tried that can't be written.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// A disk that doesn't answer for so long counts as failing.
const DISK_TIMEOUT: Duration = Duration::from_secs(3);

/// Without anything new, how often it is written that the relay runs, in nanoseconds.
const SEEN_EVERY_NS: i64 = 10_000_000_000;

/// Rings whose lock is taken at once.
const RINGS_AT_ONCE: usize = 256;

/// Bytes after which a batch is written.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes of rings that are written again between two writes of what is new.
const REWRITE_BYTES: u64 = 8 << 20;

/// Segments with fewer bytes are not worth writing the rings again.
const FEW_BYTES: u64 = 16 << 20;

/// A segment is ended after a quarter of the longest time that a PV is kept, and after this many nanoseconds at the earliest.
const SHORTEST_AGE_NS: i64 = 60_000_000_000;

/// What other threads see of the disk.
#[derive(Debug)]
pub(super) struct DiskState {
    started: Instant,
    pub(super) bytes: AtomicU64,
    /// Segments of which a part was damaged at the start.
    pub(super) damaged: AtomicU64,
    fails: AtomicBool,
    /// Milliseconds after `started`, plus one, at which the thread began to write; 0 while it doesn't.
    busy_since: AtomicU64,
}

impl DiskState {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            bytes: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            busy_since: AtomicU64::new(0),
        }
    }

    /// Of a folder that could not be opened.
    pub(super) fn failed() -> Self {
        let state = Self::new();
        state.fails.store(true, Ordering::Release);
        state
    }

    fn millis(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 + 1
    }

    /// Whether the disk can't be written.
    pub(super) fn fails(&self) -> bool {
        let busy = self.busy_since.load(Ordering::Acquire);
        let hangs =
            busy > 0 && u128::from(self.millis().saturating_sub(busy)) > DISK_TIMEOUT.as_millis();
        hangs || self.fails.load(Ordering::Acquire)
    }
}

/// The rings are being written again.
#[derive(Debug)]
struct Rewrite {
    /// The first segment that has them.
    first: u64,
    /// The slot of the next ring.
    slot: usize,
}

/// What the thread works on.
#[derive(Debug)]
pub(super) struct Journal {
    folder: Folder,
    numbers: RingNumbers,
    /// Taken from the rings, and not written.
    pending: VecDeque<Piece>,
    /// Rings with something new.
    queue: Vec<usize>,
    rewrite: Option<Rewrite>,
    /// Bytes of the segments when the rings had been written again.
    rewritten_bytes: u64,
    max_bytes: u64,
    longest_ns: i64,
    seen_ns: i64,
    /// Something was written since the last batch that says that the relay ran.
    is_unseen: bool,
    synced: Instant,
    /// Since when the disk can't be written, and when it was tried last.
    failed_at: Option<Instant>,
    pub(super) state: Arc<DiskState>,
}

impl Journal {
    /// Opens a folder, in which at most `max_bytes` are used, and fills the rings with what is in it.
    ///
    /// # Errors
    /// When it can't be used.
    pub(super) fn open(
        path: &Path,
        max_bytes: u64,
        options: &HistoryOptions,
        store: &mut Store,
        now_ns: i64,
    ) -> Result<Self, FolderError> {
        let begun = Instant::now();
        let (folder, Found { restore, damaged }) = Folder::open(path, max_bytes)?;
        store.restore(restore, now_ns);
        log::info!(
            "history_dir: {} past updates of {} PVs are read from {} in {} ms",
            store.samples(),
            store.rings(),
            path.display(),
            begun.elapsed().as_millis()
        );
        let state = DiskState::new();
        state.damaged.store(damaged, Ordering::Relaxed);
        state.bytes.store(folder.bytes(), Ordering::Relaxed);
        // So that a damaged segment is gone after this start.
        let first = (damaged > 0).then(|| folder.next_number());
        let rewrite = first.map(|first| Rewrite { first, slot: 0 });
        let longest_ns = i64::try_from(options.longest().as_nanos()).unwrap_or(i64::MAX);
        Ok(Self {
            folder,
            numbers: RingNumbers::default(),
            pending: VecDeque::new(),
            queue: Vec::new(),
            rewrite,
            rewritten_bytes: 0,
            max_bytes,
            longest_ns,
            seen_ns: 0,
            is_unseen: false,
            synced: Instant::now(),
            failed_at: None,
            state: Arc::new(state),
        })
    }

    /// Writes what is new, unless the disk has failed just now.
    pub(super) fn write(&mut self, store: &Mutex<Store>, now_ns: i64, is_last: bool) {
        if self
            .failed_at
            .is_some_and(|failed| failed.elapsed() < RETRY_EVERY)
            && !is_last
        {
            return;
        }
        let state = Arc::clone(&self.state);
        state.busy_since.store(state.millis(), Ordering::Release);
        let result = self.try_write(store, now_ns, is_last);
        state.busy_since.store(0, Ordering::Release);
        state.fails.store(result.is_err(), Ordering::Release);
        state.bytes.store(self.folder.bytes(), Ordering::Relaxed);
        let path = self.folder.path.display();
        match (&result, self.failed_at) {
            (Err(error), None) => log::error!(
                "history_dir: {path} can't be written: {error}; make room on its disk or repair it. Past updates are \
                 kept in memory meanwhile, and the relay tries again every {} s",
                RETRY_EVERY.as_secs()
            ),
            (Ok(()), Some(_)) => {
                log::warn!(
                    "history_dir: {path} can be written again, and what memory has is written"
                );
            }
            _ => {}
        }
        self.failed_at = result.is_err().then(Instant::now);
        if self.folder.take_unsynced() {
            self.rewrite = Some(Rewrite {
                first: self.folder.next_number(),
                slot: 0,
            });
        }
    }

    fn try_write(&mut self, store: &Mutex<Store>, now_ns: i64, is_last: bool) -> io::Result<()> {
        let written = self.write_all(store, now_ns, is_last);
        // Also when there is no room, because this makes some.
        let bounded = (self.folder).bound(now_ns.saturating_sub(self.longest_ns));
        written.and(bounded)
    }

    fn write_all(&mut self, store: &Mutex<Store>, now_ns: i64, is_last: bool) -> io::Result<()> {
        self.write_new(store, now_ns, is_last)?;
        if is_last {
            return self.folder.sync();
        }
        self.write_again(store, now_ns)?;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.synced = Instant::now();
            self.folder.sync()?;
        }
        let age_ns = (self.longest_ns / 4).max(SHORTEST_AGE_NS);
        self.folder.end_full(now_ns, age_ns)
    }

    /// Writes what the rings have had since the last time.
    fn write_new(&mut self, store: &Mutex<Store>, now_ns: i64, is_last: bool) -> io::Result<()> {
        self.write_pending(now_ns)?;
        let has_rings = {
            let mut store = lock(store);
            self.queue.extend(store.take_queue());
            store.rings() > 0
        };
        while !self.queue.is_empty() {
            let rest = self.queue.len().saturating_sub(RINGS_AT_ONCE);
            self.pending
                .extend(lock(store).take_new(&self.queue[rest..]));
            self.queue.truncate(rest);
            if self.pending.len() >= RINGS_AT_ONCE {
                self.write_pending(now_ns)?;
            }
        }
        self.write_pending(now_ns)?;
        let is_late = now_ns.saturating_sub(self.seen_ns) >= SEEN_EVERY_NS;
        if has_rings && (is_last || is_late || self.is_unseen) {
            let batch = self.batch(now_ns);
            self.append(&batch)?;
            (self.is_unseen, self.seen_ns) = (false, now_ns);
        }
        Ok(())
    }

    /// Writes some of the rings again, if the segments are twice as long as the rings were.
    fn write_again(&mut self, store: &Mutex<Store>, now_ns: i64) -> io::Result<()> {
        if self.rewrite.is_none() && self.is_long() {
            self.folder.end()?;
            let first = self.folder.next_number();
            self.rewrite = Some(Rewrite { first, slot: 0 });
        }
        let before = self.folder.bytes();
        while let Some(rewrite) = &mut self.rewrite
            && self.folder.bytes().saturating_sub(before) < REWRITE_BYTES
        {
            let (slot, first) = (rewrite.slot, rewrite.first);
            let whole = {
                let mut store = lock(store);
                (slot < store.slots()).then(|| store.take_whole(slot))
            };
            let Some(whole) = whole else {
                self.write_pending(now_ns)?;
                self.folder.sync()?;
                self.folder.remove_before(first)?;
                (self.rewrite, self.rewritten_bytes) = (None, self.folder.bytes());
                break;
            };
            rewrite.slot += 1;
            self.pending.extend(whole);
            if self.pending.len() >= RINGS_AT_ONCE {
                self.write_pending(now_ns)?;
            }
        }
        Ok(())
    }

    /// Whether the rings are worth writing again.
    fn is_long(&self) -> bool {
        let (bytes, rewritten) = (self.folder.bytes(), self.rewritten_bytes);
        let long = (2 * rewritten + FEW_BYTES).min(self.max_bytes / 2);
        bytes > long && bytes.saturating_sub(rewritten) > rewritten / 2
    }

    fn write_pending(&mut self, now_ns: i64) -> io::Result<()> {
        while !self.pending.is_empty() {
            let (mut batch, mut count) = (self.batch(now_ns), 0);
            for piece in &self.pending {
                batch.add(&mut self.numbers, piece);
                count += 1;
                if batch.bytes.len() >= BATCH_BYTES {
                    break;
                }
            }
            self.is_unseen = true;
            self.append(&batch)?;
            self.pending.drain(..count);
        }
        Ok(())
    }

    /// An empty batch. A segment that begins with it has named no ring.
    fn batch(&mut self, now_ns: i64) -> Batch {
        if self.folder.is_between() {
            self.numbers = RingNumbers::default();
        }
        Batch::new(now_ns)
    }

    fn append(&mut self, batch: &Batch) -> io::Result<()> {
        self.folder.append(&batch.bytes, batch.now_ns)
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // A panic of a thread that takes it ends the relay.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running thread.
#[derive(Debug)]
pub(super) struct RunningJournal {
    thread: Thread,
    is_ended: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl RunningJournal {
    /// Starts the thread, which writes what `store` gives.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub(super) fn start<T>(
        mut journal: Journal,
        shared: Arc<T>,
        store: fn(&T) -> &Mutex<Store>,
    ) -> io::Result<Self>
    where
        T: Send + Sync + 'static,
    {
        let (end, ended): (SyncSender<()>, _) = sync_channel(1);
        let is_ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_ended);
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let _alive = Indispensable(THREAD);
            while !is_over.load(Ordering::Acquire) {
                journal.write(store(&shared), wall_ns(), false);
                thread::park_timeout(WRITE_EVERY);
            }
            journal.write(store(&shared), wall_ns(), true);
            // The other end has gone if the disk took too long.
            let _ = end.send(());
        })?;
        Ok(Self {
            thread: thread.thread().clone(),
            is_ended,
            ended,
        })
    }

    /// Writes the rest and ends the thread. Waits for a disk that hangs at most for [`DISK_TIMEOUT`].
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.thread.unpark();
        if self.ended.recv_timeout(DISK_TIMEOUT).is_err() {
            log::error!(
                "history_dir: no answer from its disk for {} s: past updates of the last second may be missing there",
                DISK_TIMEOUT.as_secs()
            );
        }
    }
}
