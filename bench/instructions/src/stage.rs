//! The work of the tick thread, and of the fan-out stage alone, for a tick: without doors, and with the doors for
//! clients of PVWS and of Coniql, which have no clients.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pvwire_relay::access::rule::{Identity, Rules};
use pvwire_relay::compute::Pool;
use pvwire_relay::config::Config;
use pvwire_relay::doors::coniql::{Coniql, UnknownSubprotocol};
use pvwire_relay::doors::pvws::Pvws;
use pvwire_relay::doors::pvws::formulas::FormulaInputs;
use pvwire_relay::fanout::control::{ClientId, ControlQueue, ControlRequest};
use pvwire_relay::fanout::distributor::Distributor;
use pvwire_relay::fanout::encoding::{Encoding, Encodings};
use pvwire_relay::fanout::flat;
use pvwire_relay::fanout::output::{FrameSink, Order, TickFrames};
use pvwire_relay::ingest::formula::FormulaSource;
use pvwire_relay::ingest::{Event, Intake, Line, Monitor, OpenError, Queue, RowValue, Source};
use pvwire_relay::limits::memory::Owner;
use pvwire_relay::limits::subscriptions::{NewNames, SubscriptionLimits};
use pvwire_relay::state::registry::Registry;
use pvwire_relay::state::table::{Changes, Now, Table};
use pvwire_relay::state::tick::{TickCounters, TickLimits, TickSink, Ticks};
use pvwire_schema::types::{Alarm, Metadata, Severity, ValueType};

use crate::repeat;

/// Clients of the one group: with more than one, the stage makes their frame.
const CLIENTS: usize = 2;

/// Long enough that no PV is closed.
const LINGER: Duration = Duration::from_secs(3_600);

/// Opens PVs that this program updates.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<Vec<Arc<Line>>>>);

struct Opened(#[expect(dead_code, reason = "the PV is open as long")] Arc<Line>);

impl Monitor for Opened {}

impl Source for ByHand {
    fn scheme(&self) -> &'static str {
        "ca"
    }

    fn open(&self, _name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let line = Arc::new(line);
        if let Ok(mut lines) = self.0.lock() {
            lines.push(Arc::clone(&line));
        }
        Ok(Box::new(Opened(line)))
    }
}

/// A shard without clients.
struct Nowhere;

impl FrameSink for Nowhere {
    fn deliver(&self, _frames: &Arc<TickFrames>, _orders: Vec<Order>) {}

    fn follow(&self, _tick: u64, _orders: Vec<Order>) {}

    fn is_ready(&self) -> bool {
        true
    }

    fn round(&self) -> Duration {
        Duration::ZERO
    }
}

/// The stage's tick in a relay without doors.
pub(crate) fn tick(rows: usize) {
    tick_with(rows, &flat::encodings());
}

/// The stage's tick in a relay with doors.
pub(crate) fn tick_with_doors(rows: usize) {
    tick_with(rows, &with_doors());
}

/// A tick of the thread in a relay without doors.
pub(crate) fn turn(rows: usize) {
    turn_with(rows, &flat::encodings(), Vec::new());
}

/// A tick of the thread in a relay with doors.
pub(crate) fn turn_with_doors(rows: usize) {
    let pool = Pool::start().expect("threads can be started");
    let formulas = FormulaSource::start("ca", pool.handle()).expect("a thread can be started");
    let inputs = Box::new(FormulaInputs::new(formulas.opened()));
    turn_with(rows, &with_doors(), vec![inputs]);
}

/// The encodings of a relay with all doors.
fn with_doors() -> Encodings {
    let (mut encodings, config) = (flat::encodings(), Config::default());
    encodings.add(Box::new(Pvws::new(&config)));
    encodings.add(Box::new(UnknownSubprotocol));
    for format in Coniql::new(&config).formats() {
        encodings.add(Box::new(format));
    }
    encodings
}

/// The stage, and what it takes ticks from.
struct Relay {
    intake: Arc<Intake>,
    source: ByHand,
    stage: Distributor,
}

impl Relay {
    /// With two clients that have subscribed `rows` PVs.
    fn new(rows: usize, encodings: &Encodings) -> Self {
        let intake = Intake::new();
        let source = ByHand::default();
        let sources: Vec<Box<dyn Source>> = vec![Box::new(source.clone())];
        let registry = Registry::new(Arc::clone(&intake), sources, "ca", LINGER, Rules::default());
        let registry = Arc::new(registry);
        let control = ControlQueue::new(Arc::clone(&intake));
        let limits = SubscriptionLimits {
            subscriptions: rows,
            unresolved: rows,
            load: 1,
        };
        let shards: Vec<Box<dyn FrameSink>> = vec![Box::new(Nowhere)];
        let stage = Distributor::new(
            Arc::clone(&control),
            Arc::clone(&registry),
            shards,
            limits,
            encodings,
        );
        subscribe(&registry, &control, rows);
        let lines = source.lines();
        for line in &lines {
            line.connected(false);
            line.event(Event::Metadata(Box::new(Metadata {
                value_type: ValueType::Float64,
                ..Metadata::default()
            })));
        }
        Self {
            intake,
            source,
            stage: stage.expect("a thread can be started"),
        }
    }
}

impl ByHand {
    fn lines(&self) -> Vec<Arc<Line>> {
        let lines = self.0.lock().map(|lines| lines.clone());
        lines.expect("no other thread has them")
    }

    /// Updates each PV.
    fn update(&self, tick: u64) {
        let calm = Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        };
        for line in self.0.lock().iter().flat_map(|lines| lines.iter()) {
            line.update(tick as i64, RowValue::Number(tick as f64), calm);
        }
    }
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall_ns: 0,
    }
}

fn tick_with(rows: usize, encodings: &Encodings) {
    let relay = Relay::new(rows, encodings);
    let (mut stage, mut table) = (relay.stage, Table::new(Duration::from_secs(5)));
    let now = now();
    let mut changes = Arc::default();
    for tick in 1..=2_u64 {
        relay.source.update(tick);
        let mut of_tick = Changes {
            tick,
            ..Changes::default()
        };
        let intake = &relay.intake;
        intake.drain(|taken| table.apply(&mut of_tick, now, taken));
        assert_eq!(of_tick.rows.len(), rows);
        changes = Arc::new(of_tick);
        stage.collect();
        stage.tick(&table, &changes, now);
    }
    repeat(|| stage.tick(black_box(&table), &changes, now));
}

/// The thread's work for a tick with an update of each PV, from the update on.
fn turn_with(rows: usize, encodings: &Encodings, others: Vec<Box<dyn TickSink>>) {
    let relay = Relay::new(rows, encodings);
    let mut sinks: Vec<Box<dyn TickSink>> = vec![Box::new(relay.stage)];
    sinks.extend(others);
    let table = Table::new(Duration::from_secs(5));
    let counters = Arc::new(TickCounters::default());
    let mut ticks = Ticks::new(relay.intake, table, sinks, Arc::clone(&counters));
    let (now, source) = (now(), relay.source);
    let limits = TickLimits {
        shortest: Duration::from_millis(5),
        longest: Duration::from_millis(100),
    };
    let mut number = 0;
    repeat(|| {
        number += 1;
        source.update(number);
        let has_work = ticks.announce_sleep();
        let length = ticks.length(limits);
        ticks.tick(now);
        (has_work, length)
    });
    let taken = counters.updates.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(taken, number * rows as u64);
}

/// Two clients subscribe all PVs.
fn subscribe(registry: &Registry, control: &ControlQueue, pvs: usize) {
    let names: Vec<_> = (0..pvs).map(|number| format!("PV:{number}")).collect();
    for index in 0..CLIENTS {
        let mut room = NewNames {
            fresh: pvs,
            new: pvs,
        };
        let acquired =
            registry.acquire(&names, &Identity::default(), &Owner::unlimited(), &mut room);
        let client = ClientId {
            shard: 0,
            index,
            generation: 1,
            encoding: Encoding::default(),
        };
        control.push(ControlRequest::Subscribe {
            client,
            request: 1,
            ids: acquired.into_iter().flatten().collect(),
            errors: Vec::new(),
            owner: Owner::unlimited(),
        });
    }
}
