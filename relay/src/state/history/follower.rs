//! The sink that passes ticks on, the thread that appends them to the rings, and the handle that reads ranges.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use pvwire_schema::types::PvId;

use super::disk::folder::FolderError;
use super::journal::{DiskState, Journal, RunningJournal};
use super::part::{PastPart, PastWanted, PlaceLost};
use super::range::PastRange;
use super::sequel::Sequel;
use super::store::{Missed, Store, Tick};
use super::{HistoryOptions, Position};
use crate::limits::memory::Owner;
use crate::ops::latency::wall_ns;
use crate::ops::metrics::HistoryReadings;
use crate::ops::shutdown::Indispensable;
use crate::ops::thread_cache::ThreadCache;
use crate::state::registry::Registry;
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// Name of the thread.
const THREAD: &str = "history";

/// Ticks that wait for the thread; further ones are discarded, which is a gap in the past of all PVs.
const MAX_TICKS: usize = 1024;

/// The thread gathers ticks for so long, so that it wakes up seldom.
const GATHER: Duration = Duration::from_millis(100);

/// How often what is too old is removed.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

struct FollowerShared {
    store: Mutex<Store>,
    /// What the thread found last; readers of it never wait for the store.
    size: Mutex<Size>,
    ticks: ArrayQueue<Tick>,
    /// The thread waits until it is woken.
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
    is_ended: AtomicBool,
    lost_ticks: AtomicU64,
    /// Until the thread that writes to the disk starts.
    journal: Mutex<Option<Journal>>,
    /// Set if the past is kept on a disk, too.
    disk: Option<Arc<DiskState>>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Size {
    pvs: usize,
    samples: usize,
    bytes: usize,
    samples_total: u64,
    evicted_total: u64,
}

impl Size {
    fn of(store: &Store) -> Self {
        Self {
            pvs: store.rings(),
            samples: store.samples(),
            bytes: store.bytes(),
            samples_total: store.samples_total,
            evicted_total: store.evicted_total,
        }
    }
}

impl FollowerShared {
    fn new(store: Store, journal: Option<Journal>) -> Self {
        Self {
            size: Mutex::new(Size::of(&store)),
            store: Mutex::new(store),
            ticks: ArrayQueue::new(MAX_TICKS),
            is_parked: AtomicBool::new(false),
            thread: OnceLock::new(),
            is_ended: AtomicBool::new(false),
            lost_ticks: AtomicU64::new(0),
            disk: journal.as_ref().map(|journal| Arc::clone(&journal.state)),
            journal: Mutex::new(journal),
        }
    }

    /// The store with all ticks so far.
    fn up_to_date(&self) -> MutexGuard<'_, Store> {
        // A panic of the thread ends the relay.
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(tick) = self.ticks.pop() {
            store.take(&tick);
        }
        store
    }
}

/// Reads the past of PVs. Clones read the same rings.
#[derive(Clone)]
pub struct History(Arc<FollowerShared>);

impl History {
    /// The past of no PV yet, for [`RunningHistory::start`].
    #[must_use]
    pub fn new(options: HistoryOptions) -> Self {
        Self(Arc::new(FollowerShared::new(Store::new(options), None)))
    }

    /// The same with the past that is in a folder, which gets at most `max_bytes` of what follows.
    ///
    /// With a folder whose disk fails, past updates are kept in memory alone.
    ///
    /// # Errors
    /// When another relay uses the folder, or a file in it is of another version, or no regular one.
    pub fn open(
        options: HistoryOptions,
        folder: &Path,
        max_bytes: u64,
    ) -> Result<Self, FolderError> {
        let mut store = Store::new(options.clone());
        let journal = match Journal::open(folder, max_bytes, &options, &mut store, wall_ns()) {
            Err(error) if !error.is_refusal() => {
                log::error!(
                    "{error}; repair its disk, or make it readable and writable for the relay, and restart the relay. \
                     Until then past updates are kept in memory alone, and no file is removed"
                );
                let mut shared = FollowerShared::new(store, None);
                shared.disk = Some(Arc::new(DiskState::failed()));
                return Ok(Self(Arc::new(shared)));
            }
            opened => opened?,
        };
        Ok(Self(Arc::new(FollowerShared::new(store, Some(journal)))))
    }

    /// The past of a PV after a time, up to another one, in nanoseconds past the POSIX epoch. `name` is the PV's name
    /// with its source, as [`Registry::shared_key`] returns it. `None` if nothing is kept of it. Who may read it is
    /// the caller's to decide.
    #[must_use]
    pub fn range(&self, name: &str, from_ns: i64, to_ns: i64) -> Option<PastRange> {
        let store = self.0.up_to_date();
        let (view, position) = store.view(name)?;
        let tick = store.tick;
        drop(store);
        Some(PastRange::new(view, (from_ns, to_ns), tick, position))
    }

    /// A part of the past of a PV, for another relay. `name` as of [`Self::range`]; `None` if nothing is kept of it.
    ///
    /// # Errors
    /// When the place at which it begins is not kept any more.
    pub fn part(&self, name: &str, wanted: PastWanted) -> Result<Option<PastPart>, PlaceLost> {
        let Some((view, _)) = self.0.up_to_date().view(name) else {
            return wanted.at.map_or(Ok(None), |_| Err(PlaceLost));
        };
        PastPart::read(view, wanted).map(Some)
    }

    /// What is kept of a PV after one of its updates. `name` as of [`Self::range`]; `None` if nothing is kept of it. Who
    /// may read it is the caller's to decide.
    #[must_use]
    pub fn sequel(&self, name: &str, after: Position) -> Option<Sequel> {
        self.0.up_to_date().sequel(name, after)
    }

    /// Numbers for metrics, at most about a second old. Doesn't wait for the thread.
    #[must_use]
    pub fn readings(&self) -> HistoryReadings {
        let disk = self.0.disk.as_ref();
        let size = *self.0.size.lock().unwrap_or_else(PoisonError::into_inner);
        HistoryReadings {
            pvs: size.pvs as u64,
            samples: size.samples as u64,
            bytes: size.bytes as u64,
            samples_total: size.samples_total,
            evicted_total: size.evicted_total,
            lost_ticks_total: self.0.lost_ticks.load(Ordering::Relaxed),
            disk_bytes: disk.map_or(0, |disk| disk.bytes.load(Ordering::Relaxed)),
            disk_failing: disk.is_some_and(|disk| disk.fails()),
            disk_damaged: disk.map_or(0, |disk| disk.damaged.load(Ordering::Relaxed)),
        }
    }
}

/// The sink of the ticker.
pub struct HistorySink {
    shared: Arc<FollowerShared>,
    /// Set since a tick was discarded.
    missed: Option<Missed>,
    /// The last tick that was passed on.
    last: u64,
}

impl TickSink for HistorySink {
    fn needs_tick_at(&self, _: Instant) -> Option<Instant> {
        None
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, now: Now) {
        if changes.is_empty() && changes.lifecycles.is_empty() {
            return;
        }
        if let Some(missed) = &mut self.missed {
            if self.shared.ticks.is_full() {
                missed.lifecycles.extend(changes.lifecycles.iter().cloned());
                self.shared.lost_ticks.fetch_add(1, Ordering::Relaxed);
                return;
            }
            catch_up(missed, table, self.last);
        }
        let tick = Tick {
            changes: Arc::clone(changes),
            now_ns: now.wall_ns,
            missed: self.missed.take(),
        };
        match self.shared.ticks.push(tick) {
            Ok(()) => self.last = changes.tick,
            Err(_) => {
                self.shared.lost_ticks.fetch_add(1, Ordering::Relaxed);
                self.missed = Some(Missed {
                    since_ns: now.wall_ns,
                    lifecycles: changes.lifecycles.clone(),
                    ..Missed::default()
                });
            }
        }
        if self.shared.is_parked.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.shared.thread.get()
        {
            thread.unpark();
        }
    }
}

/// Adds what the ticks after `last` have changed besides values.
fn catch_up(missed: &mut Missed, table: &Table, last: u64) {
    for index in 0.. {
        let pv = PvId(index);
        let Some(entry) = table.get(pv) else { break };
        if entry.connection_tick > last {
            missed.connections.push((pv, entry.connection));
        }
        if entry.metadata_tick > last {
            let is_without_value = !entry.reason().is_empty();
            missed.without_value.push((pv, is_without_value));
        }
        if entry.value_tick > last
            && let Some(latest) = &entry.latest
        {
            let position = Position {
                epoch: entry.epoch(),
                sequence: latest.sequence,
            };
            missed.positions.push((pv, position));
        }
        if entry.alarm_tick > last
            && let Some(latest) = &entry.latest
        {
            missed.alarms.push((pv, latest.alarm));
        }
    }
}

/// The running thread, and the one that writes to the disk. Dropping it ends them.
pub struct RunningHistory {
    shared: Arc<FollowerShared>,
    /// Set if the past is kept on a disk, too.
    journal: Option<RunningJournal>,
    thread: Option<JoinHandle<()>>,
}

impl RunningHistory {
    /// Starts the thread; its sink belongs to the ticker. PVs that the options name are monitored from now on.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(history: &History, registry: Arc<Registry>) -> io::Result<(Self, HistorySink)> {
        let shared = Arc::clone(&history.0);
        let named = shared.up_to_date().names();
        let follower = Follower {
            shared: Arc::clone(&shared),
            registry,
            owner: Owner::unlimited(),
            held: HashMap::new(),
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let _alive = Indispensable(THREAD);
            follower.run(&named);
        })?;
        let _ = shared.thread.set(thread.thread().clone());
        let journal = shared
            .journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let journal = journal.map(|journal| {
            let of: fn(&FollowerShared) -> &Mutex<Store> = |shared| &shared.store;
            RunningJournal::start(journal, Arc::clone(&shared), of)
        });
        let sink = HistorySink {
            shared: Arc::clone(&shared),
            missed: None,
            last: 0,
        };
        let running = Self {
            shared: Arc::clone(&shared),
            journal: journal.transpose()?,
            thread: Some(thread),
        };
        Ok((running, sink))
    }
}

impl Drop for RunningHistory {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
        if let Some(journal) = &self.journal {
            drop(self.shared.up_to_date());
            journal.end();
        }
    }
}

/// The work of the thread.
struct Follower {
    shared: Arc<FollowerShared>,
    registry: Arc<Registry>,
    /// The relay itself pays for the PVs that it holds.
    owner: Arc<Owner>,
    /// PVs that stay monitored because of a pattern.
    held: HashMap<Arc<str>, PvId>,
}

impl Follower {
    fn run(mut self, named: &[String]) {
        for name in named {
            // Held for as long as the relay runs, also while no server has it.
            if let Err(refusal) = self.acquire(name) {
                log::warn!("history: {name} can't be monitored: {refusal}");
            }
        }
        let mut swept = Instant::now();
        let mut cache = ThreadCache::new();
        while !self.shared.is_ended.load(Ordering::Acquire) {
            cache.give_back_if_asked();
            let mut store = self.shared.up_to_date();
            let to_hold = std::mem::take(&mut store.to_hold);
            let mut lost = Vec::new();
            if swept.elapsed() >= SWEEP_EVERY {
                swept = Instant::now();
                let now_ns = wall_ns();
                store.expire(now_ns);
                if !self.held.is_empty() {
                    lost = store.lost_for_long(now_ns);
                }
            }
            let size = Size::of(&store);
            drop(store);
            *(self.shared.size.lock()).unwrap_or_else(PoisonError::into_inner) = size;
            self.hold(to_hold);
            let released = lost.iter().filter_map(|name| self.held.remove(name));
            let released: Vec<_> = released.collect();
            self.registry.release_own(&released, Instant::now());
            self.wait(size.pvs == 0 && self.held.is_empty());
        }
    }

    fn acquire(&self, name: &str) -> Result<PvId, crate::state::registry::Refusal> {
        self.registry.acquire_own(name, &self.owner)
    }

    /// Keeps PVs monitored that have connected.
    fn hold(&mut self, names: Vec<Arc<str>>) {
        for name in names {
            if !self.held.contains_key(&name)
                && let Ok(pv) = self.acquire(&name)
            {
                self.held.insert(name, pv);
            }
        }
    }

    /// Waits for ticks, and then for further ones. `is_idle`: nothing grows too old meanwhile.
    fn wait(&self, is_idle: bool) {
        self.shared.is_parked.store(true, Ordering::SeqCst);
        // The queue is read after the sink can see that this thread waits, or neither would wake it.
        fence(Ordering::SeqCst);
        if self.shared.ticks.is_empty() && !self.shared.is_ended.load(Ordering::Acquire) {
            match is_idle {
                true => thread::park(),
                false => thread::park_timeout(SWEEP_EVERY),
            }
        }
        self.shared.is_parked.store(false, Ordering::Release);
        if !self.shared.is_ended.load(Ordering::Acquire) {
            thread::sleep(GATHER);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn metrics_do_not_wait_for_the_thread_that_keeps_the_past() {
        let history = History::new(HistoryOptions::new(&[], 1));
        let busy = history.0.up_to_date();
        let (sender, read) = channel();
        let metrics = history.clone();
        thread::spawn(move || sender.send(metrics.readings()));
        let readings = read.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(busy);
        assert_eq!((readings.pvs, readings.samples), (0, 0));
    }
}
