//! The tick thread: gathers updates for the length of a tick, takes them into the table and hands
//! the changes to every sink.
//!
//! The time between two ticks follows the number of clients: at least three times as long as one round of writing
//! takes, between two limits. A tick waits for the rest of a scan, and no longer once nothing more comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ingest::Intake;
use crate::ops::latency::wall_ns;
use crate::ops::pulse::Pulse;
use crate::ops::shutdown::Indispensable;
use crate::ops::thread_cache::ThreadCache;
use crate::state::table::{Changes, Now, Table};

/// A tick lasts this many times as long as the slowest shard needs to write to all its clients, so
/// that writing never takes more than a third of a core.
const TICK_PER_ROUND: u32 = 3;

/// A scan has ended when no update comes for so long.
const SCAN_ENDED: Duration = Duration::from_millis(2);

/// Updates that another relay's tick has gathered wait for so long: for the rest of their message, and for the
/// messages of other relays that hold PVs of the same IOC.
const AFTER_GATHERED: Duration = Duration::from_millis(1);

/// How often a sink gets ticks without work unless it says otherwise, see [`TickSink::needs_tick_at`].
const TICK_WITHOUT_WORK: Duration = Duration::from_millis(250);

/// Longest sleep without work: the thread shows that it is alive.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A tick is late when it hands on its changes later than this after its first update arrived.
const LATE: Duration = Duration::from_millis(500);

/// A consumer of ticks: the fan-out to clients, and others such as a history or a publisher to other
/// relays.
///
/// The ticker is given its sinks at start and owns them. All methods are called on the tick thread, for
/// each sink in the order in which they were declared; those that were idle come last. The fan-out is never
/// idle and comes first, so that clients don't wait for the others.
///
/// No method may block: no I/O, no contended lock, no wait for another thread. The time that a sink
/// takes delays the sinks after it and the next tick, so a sink does little here. It copies the few
/// rows that it needs, or puts a clone of the `Arc<Changes>` (no copy of the rows) in a bounded queue
/// that another thread reads.
///
/// When its queue is full, a sink must not wait. It drops the tick, counts that, and remembers the last
/// tick that it handed on. Then it catches up from the [`Table`]: every part of an entry has the tick of
/// its last change, so the newest state after tick *n* is complete, although values between are missing.
/// Only a sink that paces the relay as a whole, which is the fan-out, holds up ticks by
/// [`is_ready`](Self::is_ready).
///
/// Numbers of PVs are reused. A sink that follows a PV holds it in the registry for as long.
pub trait TickSink: Send {
    /// Whether a request that doesn't come through the intake is waiting, so that a tick is needed
    /// without an update. Code that adds such a request calls [`Intake::wake`].
    fn has_work(&self) -> bool {
        false
    }

    /// Whether the sink needs no ticks until it has work again. It is then asked for work only.
    fn is_idle(&self) -> bool {
        false
    }

    /// When it needs a tick although nothing has changed and it has no work, such as for a time-out; `None` if it needs
    /// none. Asked before the thread sleeps.
    fn needs_tick_at(&self, now: Instant) -> Option<Instant> {
        Some(now + TICK_WITHOUT_WORK)
    }

    /// Duration of the last round of writing, by the slowest writer. The longest of all sinks decides
    /// the length of a tick; zero has no influence.
    fn round(&self) -> Duration {
        Duration::ZERO
    }

    /// Time that the last tick took for requests, after it had handed on its changes. The next one comes so much earlier.
    fn took_for_requests(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether the sink can take another tick. While it returns false no tick takes place, for any
    /// sink, and updates wait in the intake. One that gets ready may unpark the thread that asked.
    fn is_ready(&self) -> bool {
        true
    }

    /// Takes the waiting requests out of their queue. Called before the intake is drained, so that the
    /// table knows each PV that a request names.
    fn collect(&mut self) {}

    /// Takes one tick. `changes` holds everything that the tick brought, the same for every sink, also
    /// when that is nothing; `table` is the state after it, and may be read during the call only.
    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, now: Now);
}

/// Limits of the length of a tick.
#[derive(Clone, Copy, Debug)]
pub struct TickLimits {
    /// With few clients.
    pub shortest: Duration,
    /// With many. If writing takes longer than this, ticks wait for the writers.
    pub longest: Duration,
}

/// Counters of the tick thread, for metrics and the status page.
#[derive(Debug, Default)]
pub struct TickCounters {
    /// Ticks with at least one change.
    pub ticks: AtomicU64,
    /// Updates taken from sources.
    pub updates: AtomicU64,
    /// Updates discarded because the ring of the intake was full.
    pub lost_by_relay: AtomicU64,
    /// Updates squashed by a source, as far as it says so.
    pub lost_by_source: AtomicU64,
    /// Updates lost between relays.
    pub lost_on_bus: AtomicU64,
    /// Updates withheld by filters.
    pub withheld: AtomicU64,
    /// Updates discarded because their PV was closed or had changed type or element count.
    pub stale: AtomicU64,
    /// Ticks that were late.
    pub late: AtomicU64,
    /// Current length of a tick.
    pub length_micros: AtomicU64,
    /// Turned by each tick, with or without changes.
    pub pulse: Pulse,
}

/// The running tick thread.
pub struct Ticker {
    stop: Arc<AtomicBool>,
    intake: Arc<Intake>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts the thread. `sinks` are called in this order; see [`TickSink`].
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(
        intake: Arc<Intake>,
        table: Table,
        sinks: Vec<Box<dyn TickSink>>,
        limits: TickLimits,
        counters: Arc<TickCounters>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let run = Run {
            stop: Arc::clone(&stop),
            ticks: Ticks::new(Arc::clone(&intake), table, sinks, counters),
            limits,
        };
        let thread = thread::Builder::new()
            .name("tick".into())
            .spawn(move || run.run())?;
        Ok(Self {
            stop,
            intake,
            thread: Some(thread),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.intake.wake();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

struct Run {
    stop: Arc<AtomicBool>,
    ticks: Ticks,
    limits: TickLimits,
}

impl Run {
    fn run(mut self) {
        let _alive = Indispensable("tick");
        let mut last = Instant::now();
        let mut cache = ThreadCache::new();
        while !self.stop.load(Ordering::Acquire) {
            let has_work = self.sleep_until_work();
            let begun = Instant::now();
            self.ticks.counters.pulse.turned(begun);
            let length = self.ticks.length(self.limits);
            if !has_work {
                // Nothing waits for more of its scan.
            } else if self.ticks.intake.take_gathered() {
                thread::sleep(rest_of_tick(length, begun.duration_since(last)));
            } else {
                self.await_scan(length, begun, last);
                // Those that came meanwhile have waited as long.
                self.ticks.intake.take_gathered();
            }
            while !self.ticks.is_ready() && !self.stop.load(Ordering::Acquire) {
                // A sink that gets ready wakes it.
                thread::park_timeout(self.limits.shortest);
            }
            last = Instant::now();
            let now = Now {
                instant: last,
                wall_ns: wall_ns(),
            };
            self.ticks.tick(now);
            cache.give_back_if_asked();
            let is_late = begun.elapsed() > LATE;
            (self.ticks.counters.late).fetch_add(u64::from(is_late), Ordering::Relaxed);
        }
    }

    /// Lets the first update of a scan, which came when the tick was `begun`, wait for the others: until no more come,
    /// and for a tick's length at most. Ticks don't begin closer than that to each other.
    fn await_scan(&self, length: Duration, begun: Instant, last: Instant) {
        // It may have come while requests were carried out.
        let came_earlier = |wait: Duration| wait - self.ticks.took_for_requests().min(wait / 2);
        let shortest = came_earlier(self.limits.shortest);
        let longest = came_earlier(length);
        let not_before = length.saturating_sub(begun.duration_since(last));
        let wait = shortest.max(not_before).min(longest);
        thread::sleep(wait);
        let mut came = self.ticks.intake.waiting();
        while begun.elapsed() + SCAN_ENDED < longest {
            thread::sleep(SCAN_ENDED);
            let before = std::mem::replace(&mut came, self.ticks.intake.waiting());
            if came == before {
                break;
            }
        }
    }

    /// Sleeps until there is work or a tick is due without it; returns whether there is work.
    fn sleep_until_work(&mut self) -> bool {
        let mut has_work = self.ticks.announce_sleep();
        if !has_work && !self.stop.load(Ordering::Acquire) {
            thread::park_timeout(self.ticks.longest_sleep(Instant::now()));
            has_work = self.ticks.has_work();
        }
        self.ticks.intake.awake();
        has_work
    }
}

/// How long updates wait that were gathered before they came: ticks are never closer than `length`, so that writing
/// takes no more of a core than it does without a fleet.
fn rest_of_tick(length: Duration, since_last: Duration) -> Duration {
    let rest = length.saturating_sub(since_last);
    rest.max(AFTER_GATHERED.min(length))
}

/// How often the memory of closed PVs is freed.
const SHRINK_EVERY: Duration = Duration::from_secs(1);

/// The work of the tick thread, without the thread.
pub struct Ticks {
    intake: Arc<Intake>,
    table: Table,
    sinks: Vec<Box<dyn TickSink>>,
    /// Sinks that are idle.
    asleep: Vec<Box<dyn TickSink>>,
    counters: Arc<TickCounters>,
    tick: u64,
    shrinks_at: Instant,
}

impl Ticks {
    /// The work for these sinks, which are called in this order.
    #[must_use]
    pub fn new(
        intake: Arc<Intake>,
        table: Table,
        sinks: Vec<Box<dyn TickSink>>,
        counters: Arc<TickCounters>,
    ) -> Self {
        let (asleep, sinks) = sinks.into_iter().partition(|sink| sink.is_idle());
        Self {
            intake,
            table,
            sinks,
            asleep,
            counters,
            tick: 0,
            shrinks_at: Instant::now(),
        }
    }

    fn took_for_requests(&self) -> Duration {
        self.sinks.iter().map(|sink| sink.took_for_requests()).sum()
    }

    fn is_ready(&self) -> bool {
        self.sinks.iter().all(|sink| sink.is_ready())
    }

    /// Announces that the thread sleeps, unless this returns that there is work.
    pub fn announce_sleep(&mut self) -> bool {
        self.intake.announce_sleep();
        if self.asleep.iter().any(|sink| sink.has_work()) {
            let awake = self.asleep.extract_if(.., |sink| sink.has_work());
            self.sinks.extend(awake);
        }
        self.has_work()
    }

    fn has_work(&self) -> bool {
        !self.intake.is_empty() || self.sinks.iter().any(|sink| sink.has_work())
    }

    /// How long the thread may sleep if no work comes.
    fn longest_sleep(&self, now: Instant) -> Duration {
        let of_sinks = self.sinks.iter().map(|sink| sink.needs_tick_at(now));
        let all = of_sinks.chain([self.table.next_deadline()]).flatten();
        let next = all.min().map(|at| at.saturating_duration_since(now));
        next.map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP))
    }

    /// Length of the next tick.
    pub fn length(&self, limits: TickLimits) -> Duration {
        let TickLimits { shortest, longest } = limits;
        let rounds = self.sinks.iter().map(|sink| sink.round());
        let round = rounds.max().unwrap_or_default();
        let length = (round * TICK_PER_ROUND).clamp(shortest, longest);
        self.counters
            .length_micros
            .store(length.as_micros() as u64, Ordering::Relaxed);
        length
    }

    /// One tick.
    pub fn tick(&mut self, now: Now) {
        self.tick += 1;
        for sink in &mut self.sinks {
            sink.collect();
        }
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let table = &mut self.table;
        self.intake
            .drain(|taken| table.apply(&mut changes, now, taken));
        table.pass_time(&mut changes, now);
        let (counters, counts) = (&self.counters, changes.counts);
        counters
            .ticks
            .fetch_add(u64::from(!changes.is_empty()), Ordering::Relaxed);
        counters.updates.fetch_add(counts.taken, Ordering::Relaxed);
        for (counter, count) in [
            (&counters.lost_by_relay, counts.relay),
            (&counters.lost_by_source, counts.source),
            (&counters.lost_on_bus, counts.bus),
            (&counters.withheld, counts.filter),
        ] {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        counters
            .stale
            .store(table.stale_rows_total(), Ordering::Relaxed);
        let changes = Arc::new(changes);
        for sink in &mut self.sinks {
            sink.tick(table, &changes, now);
        }
        if now.instant >= self.shrinks_at {
            self.shrinks_at = now.instant + SHRINK_EVERY;
            table.shrink();
        }
        if self.sinks.iter().any(|sink| sink.is_idle()) {
            let idle = self.sinks.extract_if(.., |sink| sink.is_idle());
            self.asleep.extend(idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Event, Line, RowValue};
    use pvwire_schema::types::{Alarm, ConnectionState, Metadata, PvId, Severity};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A sink that is ready when the test says so, and reports each question and tick to the test.
    struct Paced {
        ready: Arc<AtomicBool>,
        asked: Sender<()>,
        given: Sender<Arc<Changes>>,
    }

    impl TickSink for Paced {
        fn is_ready(&self) -> bool {
            let _ = self.asked.send(());
            self.ready.load(Ordering::Acquire)
        }
        fn tick(&mut self, _: &Table, changes: &Arc<Changes>, _: Now) {
            let _ = self.given.send(Arc::clone(changes));
        }
    }

    #[test]
    fn gathered_updates_wait_only_to_keep_ticks_apart() {
        let millis = Duration::from_millis;
        let rest = |length, since| rest_of_tick(millis(length), millis(since)).as_millis();
        assert_eq!([rest(5, 90), rest(5, 2), rest(100, 30)], [1, 3, 70]);
        assert_eq!(rest_of_tick(Duration::ZERO, Duration::ZERO), Duration::ZERO);
    }

    /// A sink that counts the changes of all ticks, and nothing else.
    #[derive(Default)]
    struct ChangeCounter {
        ticks: Arc<AtomicU64>,
        changes: Arc<AtomicU64>,
    }

    impl TickSink for ChangeCounter {
        fn tick(&mut self, _: &Table, changes: &Arc<Changes>, _: Now) {
            let brought = changes.updates() + changes.connections.len() + changes.metadata.len();
            self.changes.fetch_add(brought as u64, Ordering::Relaxed);
            self.ticks.fetch_add(1, Ordering::Release);
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    const CALM: Alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };

    fn next<T>(from: &Receiver<T>) -> T {
        from.recv_timeout(PATIENCE).unwrap()
    }

    fn start(intake: &Arc<Intake>, sinks: Vec<Box<dyn TickSink>>) -> Ticker {
        let shortest = Duration::from_millis(1);
        let limits = TickLimits {
            shortest,
            longest: shortest,
        };
        let table = Table::new(PATIENCE);
        Ticker::start(Arc::clone(intake), table, sinks, limits, Arc::default()).unwrap()
    }

    #[test]
    fn ticks_wait_for_shards_that_have_not_done_the_last_ones() {
        let (asked, questions) = channel();
        let (given, ticks) = channel();
        let ready = Arc::new(AtomicBool::new(false));
        let sink = Paced {
            ready: Arc::clone(&ready),
            asked,
            given,
        };
        let intake = Intake::new();
        let ticker = start(&intake, vec![Box::new(sink)]);
        let line = Line::open(&intake, PvId(0), false);
        for n in 1..=3 {
            next(&questions);
            line.update(n, RowValue::Number(0.0), CALM);
        }
        assert!(ticks.try_recv().is_err(), "the sink wasn't ready");
        ready.store(true, Ordering::Release);
        let mut rows = 0;
        while rows < 3 {
            rows += next(&ticks).rows.len();
        }
        assert_eq!(rows, 3, "nothing is lost by waiting");
        drop(ticker);
    }

    /// A sink that is idle while nothing is ordered, and takes one order per tick.
    struct Occasional(Arc<AtomicU64>, Arc<AtomicU64>);

    impl TickSink for Occasional {
        fn has_work(&self) -> bool {
            self.0.load(Ordering::Acquire) > 0
        }
        fn is_idle(&self) -> bool {
            !self.has_work()
        }
        fn tick(&mut self, _: &Table, _: &Arc<Changes>, _: Now) {
            self.0.fetch_sub(1, Ordering::AcqRel);
            self.1.fetch_add(1, Ordering::Release);
        }
    }

    #[test]
    fn idle_sink_gets_ticks_only_while_it_has_work() {
        let (ordered, done) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let occasional = Occasional(Arc::clone(&ordered), Arc::clone(&done));
        let sinks: Vec<Box<dyn TickSink>> =
            vec![Box::new(ChangeCounter::default()), Box::new(occasional)];
        let table = Table::new(PATIENCE);
        let mut ticks = Ticks::new(Intake::new(), table, sinks, Arc::default());
        let now = Now {
            instant: Instant::now(),
            wall_ns: 0,
        };
        let mut turn = |orders: u64| {
            ordered.fetch_add(orders, Ordering::AcqRel);
            let has_work = ticks.announce_sleep();
            ticks.tick(now);
            (has_work, done.load(Ordering::Acquire))
        };
        let turns = [0, 2, 0, 0, 1, 0].map(&mut turn);
        let (yes, no) = (true, false);
        let expected = [(no, 0), (yes, 1), (yes, 2), (no, 2), (yes, 3), (no, 3)];
        assert_eq!(turns, expected);
    }

    #[test]
    fn every_sink_gets_the_same_changes_of_every_tick() {
        let (asked, _questions) = channel();
        let (given, ticks) = channel();
        let first = Paced {
            ready: Arc::new(AtomicBool::new(true)),
            asked,
            given,
        };
        let counter = ChangeCounter::default();
        let (counted_ticks, counted) = (Arc::clone(&counter.ticks), Arc::clone(&counter.changes));
        let intake = Intake::new();
        let ticker = start(&intake, vec![Box::new(first), Box::new(counter)]);
        let line = Line::open(&intake, PvId(0), false);
        line.connected(false);
        line.event(Event::Metadata(Box::new(Metadata {
            units: "mA".into(),
            ..Metadata::default()
        })));
        let (mut seen, mut rows, mut states, mut units) = (0, 0, Vec::new(), Vec::new());
        for n in 1..=20 {
            line.update(n, RowValue::Number(n as f64), CALM);
            if n == 20 {
                line.event(Event::Disconnected);
            }
            while rows < n as usize || (n == 20 && states.len() < 2) {
                let changes = next(&ticks);
                seen += 1;
                rows += changes.updates();
                states.extend(
                    changes
                        .connections
                        .iter()
                        .map(|(_, connection)| connection.state),
                );
                units.extend(changes.metadata.iter().map(|(_, of)| of.units.clone()));
            }
        }
        // Ends the thread after the sinks have had the same ticks.
        drop(ticker);
        seen += ticks.try_iter().count() as u64;
        let (gone, there) = (ConnectionState::Disconnected, ConnectionState::Connected);
        assert_eq!(
            (rows, states, units),
            (20, vec![there, gone], vec!["mA".to_owned()])
        );
        assert_eq!(counted_ticks.load(Ordering::Acquire), seen);
        assert_eq!(counted.load(Ordering::Relaxed), 20 + 2 + 1);
    }
}
