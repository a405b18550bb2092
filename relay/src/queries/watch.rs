//! A sink of the ticker that reports each change of the PVs that questions read and streams follow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::{ArrayQueue, SegQueue};
use pvwire_schema::types::{
    Connection, ConnectionState, Metadata, PvId, SkipCause, Skips, ValueType,
};
use tokio::sync::Notify;

use crate::fanout::set::PvSet;
use crate::ingest::Intake;
use crate::ops::metrics::Metrics;
use crate::state::batch::PvValue;
use crate::state::table::{Changes, Entry, Latest, Now, Table};
use crate::state::tick::TickSink;

/// How often readers that are gone are forgotten while no update comes.
const READERS_EVERY: Duration = Duration::from_millis(250);

/// Most new readers of a tick: further ones wait for the next, so that they don't hold up the updates of other clients.
const NEW_PER_TICK: usize = 4_000;

/// Numbers of updates that were left out, by the numbers of their causes.
pub type SkipCounts = [u64; SkipCause::ALL.len()];

/// What is known of a PV after a tick.
#[derive(Clone, Debug)]
pub struct PvState {
    /// Connection and access rights.
    pub connection: Connection,
    /// How to draw it; `None` until the first connection.
    pub metadata: Option<Arc<Metadata>>,
    /// Value, time and alarm; `None` until the first update.
    pub latest: Option<Latest>,
    /// Whether its source, which sends the description separately, has sent it or has none.
    pub is_described: bool,
    /// Whether its server is known not to send a value. The metadata have the reason.
    pub is_refused: bool,
    /// Whether its server is connected and has no such PV. The metadata have the reason.
    pub is_missing: bool,
    /// Updates that have reached the relay's table since it is followed.
    pub updates: u64,
    /// Updates that were left out since then.
    pub skips: SkipCounts,
    /// Updates of this tick.
    in_tick: u64,
}

impl PvState {
    /// Whether its value and metadata are current.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_connected() && self.latest.is_some() && self.has_type()
    }

    /// Whether it is known what can be read of it now.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_denied = self.is_connected() && !self.connection.read;
        self.is_complete() || is_denied || self.is_refused
    }

    /// The reason why its server sends no value; empty without one.
    #[must_use]
    pub fn reason(&self) -> &str {
        let metadata = self.metadata.as_deref();
        metadata.map_or("", |metadata| &metadata.missing_field)
    }

    /// The value with its metadata, if they are current.
    #[must_use]
    pub fn into_value(self) -> Option<PvValue> {
        if !self.is_complete() {
            return None;
        }
        Some(PvValue {
            metadata: self.metadata?,
            latest: self.latest?,
            connection: self.connection,
        })
    }

    fn is_connected(&self) -> bool {
        self.connection.state == ConnectionState::Connected
    }

    fn has_type(&self) -> bool {
        let metadata = self.metadata.as_deref();
        metadata.is_some_and(|metadata| metadata.value_type != ValueType::Unknown)
    }
}

/// A PV that a reader follows, with the states that the reader has not taken yet.
///
/// When the queue is full, its oldest state is dropped and counted: a reader that is behind gets the newest ones.
#[derive(Debug)]
pub(super) struct Watch {
    pv: PvId,
    states: ArrayQueue<PvState>,
    changed: Notify,
}

impl Watch {
    /// A reader that takes up to `waiting` states late. One that keeps the newest state only loses none.
    pub(super) fn new(pv: PvId, waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            pv,
            states: ArrayQueue::new(waiting),
            changed: Notify::new(),
        })
    }

    /// Takes the oldest state that waits.
    pub(super) fn take(&self) -> Option<PvState> {
        self.states.pop()
    }

    /// Waits for the next state.
    pub(super) async fn next(&self) -> PvState {
        loop {
            if let Some(state) = self.take() {
                return state;
            }
            self.changed.notified().await;
        }
    }

    /// Adds a state; returns how many updates were dropped for it.
    fn push(&self, state: PvState, is_large: bool) -> u64 {
        let keeps_newest = self.states.capacity() == 1;
        let mut dropped = 0;
        while self.states.is_full() || (is_large && !self.states.is_empty()) {
            let Some(oldest) = self.states.pop() else {
                break;
            };
            dropped += oldest.in_tick;
        }
        // There is room: the reader only takes states.
        let _ = self.states.push(state);
        self.changed.notify_one();
        if keeps_newest { 0 } else { dropped }
    }
}

/// New readers on their way to the tick thread.
#[derive(Debug)]
pub struct WatchQueue {
    new: SegQueue<Arc<Watch>>,
    intake: Arc<Intake>,
}

impl WatchQueue {
    /// An empty queue; each reader wakes the tick thread.
    #[must_use]
    pub fn new(intake: Arc<Intake>) -> Arc<Self> {
        let new = SegQueue::new();
        Arc::new(Self { new, intake })
    }

    /// Adds a reader, which holds its PV in the registry. Its caller's limits bound the number of readers.
    pub(super) fn push(&self, watch: Arc<Watch>) {
        self.new.push(watch);
        self.intake.wake();
    }
}

/// A reader as the tick thread knows it.
#[derive(Debug)]
struct Reader {
    watch: Arc<Watch>,
    updates: u64,
    skips: SkipCounts,
    /// Updates of the present tick.
    in_tick: u64,
    /// Set in the last state; `None` before the first.
    was_described: Option<bool>,
}

impl Reader {
    /// Reports the state of the PV if it has changed in this tick.
    fn report(&mut self, entry: &Entry, has_changed: bool, metrics: &Metrics) {
        let is_described = entry.is_described();
        let in_tick = std::mem::take(&mut self.in_tick);
        if !has_changed && self.was_described == Some(is_described) {
            return;
        }
        self.was_described = Some(is_described);
        let state = PvState {
            connection: entry.connection,
            metadata: entry.metadata.clone(),
            latest: entry.latest.clone(),
            is_described,
            is_missing: entry.missing().is_some(),
            is_refused: entry.missing().or_else(|| entry.refusal()).is_some(),
            updates: self.updates,
            skips: self.skips,
            in_tick,
        };
        let dropped = self.watch.push(state, entry.large().is_some());
        if dropped > 0 {
            self.skips[usize::from(SkipCause::Behind.number())] += dropped;
            metrics.skipped(SkipCause::Behind, dropped);
        }
    }

    fn count(&mut self, skips: Skips) {
        self.updates += 1;
        self.in_tick += 1;
        for (cause, count) in skips.by_cause() {
            self.skips[usize::from(cause.number())] += u64::from(count);
        }
    }
}

/// The sink.
#[derive(Debug)]
pub struct Watches {
    queue: Arc<WatchQueue>,
    metrics: Arc<Metrics>,
    readers: HashMap<PvId, Readers>,
    /// The PVs of `readers`.
    pvs: PvSet,
    /// When readers that are gone were last looked for among those of all PVs.
    swept: Instant,
}

/// The readers of one PV. A tick visits them when the PV has changed, and not when others have: a document may wait for
/// thousands of values.
#[derive(Debug, Default)]
struct Readers {
    all: Vec<Reader>,
    /// Some of them have had no state.
    has_new: bool,
    /// Whether the PV had its description when they were visited last.
    was_described: bool,
}

impl Readers {
    fn forget_gone(&mut self) {
        (self.all).retain(|reader| Arc::strong_count(&reader.watch) > 1);
    }
}

impl Watches {
    /// The sink for the readers of `queue`.
    #[must_use]
    pub fn new(queue: Arc<WatchQueue>, metrics: Arc<Metrics>) -> Self {
        Self {
            queue,
            metrics,
            readers: HashMap::new(),
            pvs: PvSet::default(),
            swept: Instant::now(),
        }
    }

    fn count(&mut self, pv: PvId, skips: Skips) {
        if self.pvs.contains(pv)
            && let Some(readers) = self.readers.get_mut(&pv)
        {
            for reader in &mut readers.all {
                reader.count(skips);
            }
        }
    }
}

impl TickSink for Watches {
    fn has_work(&self) -> bool {
        !self.queue.new.is_empty()
    }

    fn needs_tick_at(&self, now: Instant) -> Option<Instant> {
        (!self.readers.is_empty()).then(|| now + READERS_EVERY)
    }

    fn collect(&mut self) {
        let now = Instant::now();
        let is_due = now.saturating_duration_since(self.swept) >= READERS_EVERY;
        let mut are_others = false;
        if is_due && !self.readers.is_empty() {
            self.swept = now;
            self.readers.retain(|_, readers| {
                readers.forget_gone();
                are_others |= readers.all.is_empty();
                !readers.all.is_empty()
            });
        }
        let new = std::iter::from_fn(|| self.queue.new.pop());
        for watch in new.take(NEW_PER_TICK) {
            let reader = Reader {
                updates: 0,
                skips: SkipCounts::default(),
                in_tick: 0,
                was_described: None,
                watch,
            };
            let of_pv = self.readers.entry(reader.watch.pv).or_insert_with(|| {
                are_others = true;
                Readers::default()
            });
            of_pv.has_new = true;
            of_pv.all.push(reader);
        }
        if are_others {
            self.pvs = PvSet::new(self.readers.keys().copied().collect());
        }
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, _now: Now) {
        if self.readers.is_empty() {
            return;
        }
        for row in &changes.rows {
            self.count(row.pv, row.skips);
        }
        for row in &changes.large {
            self.count(row.pv, row.skips);
        }
        for (pv, readers) in &mut self.readers {
            let Some(entry) = table.get(*pv) else {
                continue;
            };
            let (has_changed, is_described) =
                (entry.changed_in(changes.tick), entry.is_described());
            if !has_changed && !readers.has_new && is_described == readers.was_described {
                continue;
            }
            (readers.has_new, readers.was_described) = (false, is_described);
            readers.forget_gone();
            for reader in &mut readers.all {
                reader.report(entry, has_changed, &self.metrics);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pvwire_schema::types::{Alarm, Severity, SkipCause};

    use super::*;
    use crate::compute::cpu_time;
    use crate::ingest::{Line, RowValue};
    use crate::state::tick::Ticks;

    const CALM: Alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };

    struct World {
        queue: Arc<WatchQueue>,
        line: Line,
        ticks: Ticks,
        metrics: Arc<Metrics>,
        updates: u32,
    }

    impl World {
        fn new() -> Self {
            let intake = Intake::new();
            let queue = WatchQueue::new(Arc::clone(&intake));
            let metrics = Arc::new(Metrics::default());
            let sink = Watches::new(Arc::clone(&queue), Arc::clone(&metrics));
            let line = Line::open(&intake, PvId(0), false);
            let table = Table::new(Duration::from_secs(5));
            let ticks = Ticks::new(intake, table, vec![Box::new(sink)], Arc::default());
            let mut world = Self {
                queue,
                line,
                ticks,
                metrics,
                updates: 0,
            };
            world.line.connected(false);
            world
                .line
                .event(crate::ingest::Event::Metadata(Box::new(Metadata {
                    value_type: ValueType::Float64,
                    ..Metadata::default()
                })));
            world.tick(1);
            world
        }

        fn follow(&self, waiting: usize) -> Arc<Watch> {
            let watch = Watch::new(PvId(0), waiting);
            self.queue.push(Arc::clone(&watch));
            watch
        }

        /// A tick with this number of updates, whose values count them.
        fn tick(&mut self, updates: u32) {
            for _ in 0..updates {
                self.updates += 1;
                let value = RowValue::Number(f64::from(self.updates));
                self.line.update(i64::from(self.updates), value, CALM);
            }
            self.ticks.announce_sleep();
            self.ticks.tick(Now {
                instant: Instant::now(),
                wall_ns: 0,
            });
        }
    }

    fn number(state: &PvState) -> f64 {
        match state.latest.as_ref().map(|latest| &latest.value) {
            Some(RowValue::Number(number)) => *number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reader_gets_the_present_state_and_each_change() {
        let mut world = World::new();
        let watch = world.follow(4);
        world.tick(0);
        let first = watch.take().expect("the present state");
        assert!(first.is_complete());
        assert_eq!((number(&first), first.updates), (1.0, 0));
        world.tick(0);
        assert!(watch.take().is_none(), "nothing has changed");
        world.tick(3);
        let next = watch.take().unwrap();
        assert_eq!((number(&next), next.updates), (4.0, 3));
        world.line.event(crate::ingest::Event::Disconnected);
        world.tick(0);
        let last = watch.take().unwrap();
        assert!(!last.is_complete() && last.into_value().is_none());
    }

    #[test]
    fn reader_that_is_behind_gets_the_newest_states_and_the_count_of_the_others() {
        let mut world = World::new();
        let (watch, newest) = (world.follow(2), world.follow(1));
        for _ in 0..5 {
            world.tick(2);
        }
        let behind = usize::from(SkipCause::Behind.number());
        let states: Vec<_> = std::iter::from_fn(|| watch.take()).collect();
        let numbers: Vec<_> = states.iter().map(number).collect();
        assert_eq!(numbers, [9.0, 11.0]);
        // The last state was made before its own push dropped an older one.
        assert_eq!(states[1].skips[behind], 4);
        assert_eq!(world.metrics.skipped_total(SkipCause::Behind), 6);
        assert_eq!(states[1].updates, 10);
        let last = newest.take().unwrap();
        assert_eq!((number(&last), last.skips[behind]), (11.0, 0));
        assert!(newest.take().is_none());
        world.tick(1);
        assert_eq!(watch.take().unwrap().skips[behind], 6);
    }

    #[test]
    fn tick_takes_a_bounded_number_of_new_readers_and_the_next_ones_take_the_rest() {
        let mut world = World::new();
        let watches: Vec<_> = (0..2 * NEW_PER_TICK + 1).map(|_| world.follow(1)).collect();
        let mut first_states = || {
            world.tick(0);
            watches.iter().filter_map(|watch| watch.take()).count()
        };
        let counts = [first_states(), first_states(), first_states()];
        assert_eq!(counts, [NEW_PER_TICK, NEW_PER_TICK, 1]);
    }

    #[test]
    fn reader_that_is_gone_gets_no_states() {
        let mut world = World::new();
        let watch = world.follow(1);
        world.tick(1);
        let states = Arc::downgrade(&watch);
        drop(watch);
        world.tick(1);
        assert!(states.upgrade().is_none(), "the sink has forgotten it");
    }

    #[test]
    fn readers_that_wait_cost_a_tick_nothing() {
        const READERS: usize = 100_000;
        let mut world = World::new();
        let watches: Vec<_> = (0..READERS).map(|_| world.follow(1)).collect();
        for _ in 0..READERS / NEW_PER_TICK {
            world.tick(0);
        }
        assert!(watches.iter().all(|watch| watch.take().is_some()));
        let cost = |world: &mut World, updates| {
            let begun = cpu_time();
            world.tick(updates);
            cpu_time() - begun
        };
        // Some ticks look for readers that are gone, and other programs slow some down.
        let least = |world: &mut World, updates| (0..9).map(|_| cost(world, updates)).min();
        let (idle, busy) = (least(&mut world, 0), least(&mut world, 1));
        assert!(idle.map(|idle| idle * 20) < busy, "{idle:?} {busy:?}");
    }
}
