//! When is what has come in handed on, and how often?
//!
//! One thread gathers updates for the length of a tick, takes them into the table and hands the
//! table and the changes to the stage behind it. The tick is as short as the clients' number
//! allows: three times as long as one round of writing takes, between two bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ingest::Intake;
use crate::ops::latency::wall_ns;
use crate::ops::pulse::Pulse;
use crate::ops::shutdown::Indispensable;
use crate::state::table::{Changes, Now, Table};

/// A tick lasts this many times as long as the slowest shard needs to write to all its clients, so
/// that writing never takes more than a third of a core.
const TICK_PER_ROUND: u32 = 3;

/// Longest sleep without work; bounds how late a linger or a time-out is noticed.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// A tick that hands on later than this after its first update came is late.
const LATE: Duration = Duration::from_millis(500);

/// The stage that hands on what a tick brought. The tick thread calls it.
pub trait TickSink: Send {
    /// Whether requests wait that don't come through the intake.
    fn has_work(&self) -> bool;

    /// Time that the last round of writing took, by the slowest of the writers.
    fn round(&self) -> Duration;

    /// Whether the writers have taken what they were given, so that a tick is of use.
    fn is_ready(&self) -> bool;

    /// Takes out the requests that wait. Called before the intake is drained, so that the table
    /// knows each PV that a request names.
    fn collect(&mut self);

    /// One tick is done: `changes` are what it brought, `table` is what is known after it.
    fn tick(&mut self, table: &Table, changes: Changes, now: Now);
}

/// Bounds of the tick's length.
#[derive(Clone, Copy, Debug)]
pub struct TickLimits {
    /// With few clients.
    pub shortest: Duration,
    /// With many; beyond it the writers' own pace decides.
    pub longest: Duration,
}

/// Numbers of the tick thread, for metrics and the status page.
#[derive(Debug, Default)]
pub struct TickCounters {
    /// Ticks that had something to hand on.
    pub ticks: AtomicU64,
    /// Updates taken in.
    pub updates: AtomicU64,
    /// Updates that were lost on the way in, because more came than the ring holds.
    pub lost_by_relay: AtomicU64,
    /// Updates that a source put into others, as far as it says so.
    pub lost_by_source: AtomicU64,
    /// Updates withheld from views.
    pub withheld: AtomicU64,
    /// Updates of a PV, type or count that was no more.
    pub stale: AtomicU64,
    /// Ticks that were late.
    pub late: AtomicU64,
    /// Present length of a tick.
    pub length_micros: AtomicU64,
    /// Turned with each tick, whether it has something to hand on or not.
    pub pulse: Pulse,
}

/// The running tick thread.
pub struct Ticker {
    stop: Arc<AtomicBool>,
    intake: Arc<Intake>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        intake: Arc<Intake>,
        table: Table,
        sink: impl TickSink + 'static,
        limits: TickLimits,
        counters: Arc<TickCounters>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let run = Run {
            stop: Arc::clone(&stop),
            intake: Arc::clone(&intake),
            table,
            sink,
            limits,
            counters,
            tick: 0,
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
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}

struct Run<S> {
    stop: Arc<AtomicBool>,
    intake: Arc<Intake>,
    table: Table,
    sink: S,
    limits: TickLimits,
    counters: Arc<TickCounters>,
    tick: u64,
}

impl<S: TickSink> Run<S> {
    fn run(mut self) {
        let _alive = Indispensable("tick");
        while !self.stop.load(Ordering::Acquire) {
            self.sleep_until_work();
            let begun = Instant::now();
            self.counters.pulse.turned(begun);
            // The first update of a burst waits for the others of its scan.
            thread::sleep(self.length());
            while !self.sink.is_ready() && !self.stop.load(Ordering::Acquire) {
                thread::sleep(self.limits.shortest);
            }
            self.one_tick();
            let is_late = begun.elapsed() > LATE;
            (self.counters.late).fetch_add(u64::from(is_late), Ordering::Relaxed);
        }
    }

    fn length(&self) -> Duration {
        let TickLimits { shortest, longest } = self.limits;
        let length = (self.sink.round() * TICK_PER_ROUND).clamp(shortest, longest);
        self.counters
            .length_micros
            .store(length.as_micros() as u64, Ordering::Relaxed);
        length
    }

    fn sleep_until_work(&self) {
        self.intake.announce_sleep();
        let deadline = self
            .table
            .next_deadline()
            .unwrap_or_else(|| Instant::now() + LONGEST_SLEEP);
        let idle = self.intake.is_empty() && !self.sink.has_work();
        if idle && !self.stop.load(Ordering::Acquire) {
            let sleep = deadline.saturating_duration_since(Instant::now());
            thread::park_timeout(sleep.min(LONGEST_SLEEP));
        }
        self.intake.awake();
    }

    fn one_tick(&mut self) {
        self.tick += 1;
        let now = Now {
            instant: Instant::now(),
            wall_ns: wall_ns(),
        };
        self.sink.collect();
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
            (&counters.withheld, counts.filter),
        ] {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        counters
            .stale
            .store(table.stale_rows_total(), Ordering::Relaxed);
        self.sink.tick(table, changes, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Line, RowValue};
    use pvwire_schema::types::{Alarm, PvId, Severity};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A stage that is ready when the test says so, and tells the test what it is asked and given.
    struct Stage {
        ready: Arc<AtomicBool>,
        asked: Sender<()>,
        given: Sender<usize>,
    }

    impl TickSink for Stage {
        fn has_work(&self) -> bool {
            false
        }
        fn round(&self) -> Duration {
            Duration::ZERO
        }
        fn is_ready(&self) -> bool {
            let _ = self.asked.send(());
            self.ready.load(Ordering::Acquire)
        }
        fn collect(&mut self) {}
        fn tick(&mut self, _: &Table, changes: Changes, _: Now) {
            let _ = self.given.send(changes.rows.len());
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    fn next<T>(from: &Receiver<T>) -> T {
        from.recv_timeout(PATIENCE).unwrap()
    }

    #[test]
    fn ticks_wait_for_shards_that_have_not_done_the_last_ones() {
        let (asked, questions) = channel();
        let (given, ticks) = channel();
        let ready = Arc::new(AtomicBool::new(false));
        let stage = Stage {
            ready: Arc::clone(&ready),
            asked,
            given,
        };
        let intake = Intake::new();
        let shortest = Duration::from_millis(1);
        let limits = TickLimits {
            shortest,
            longest: shortest,
        };
        let table = Table::new(PATIENCE);
        let ticker = Ticker::start(Arc::clone(&intake), table, stage, limits, Arc::default());
        let line = Line::open(&intake, PvId(0), false);
        let calm = Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        };
        for n in 1..=3 {
            next(&questions);
            line.update(n, RowValue::Number(0.0), calm);
        }
        assert!(ticks.try_recv().is_err(), "the stage wasn't ready");
        ready.store(true, Ordering::Release);
        let mut rows = 0;
        while rows < 3 {
            rows += next(&ticks);
        }
        assert_eq!(rows, 3, "nothing is lost by waiting");
        drop(ticker);
    }
}
