//! Tests of the sink with a line and ticks that the test makes.

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
