//! The fan-out stage's work for a tick, without a door for clients of PVWS and with one that has no clients.

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pvwire_relay::access::rule::{Identity, Rules};
use pvwire_relay::config::Config;
use pvwire_relay::doors::pvws::Pvws;
use pvwire_relay::fanout::control::{ClientId, ControlQueue, ControlRequest};
use pvwire_relay::fanout::distributor::Distributor;
use pvwire_relay::fanout::encoding::{Encoding, Encodings};
use pvwire_relay::fanout::flat;
use pvwire_relay::fanout::output::{FrameSink, Order, TickFrames};
use pvwire_relay::ingest::{Event, Intake, Line, Monitor, OpenError, Queue, RowValue, Source};
use pvwire_relay::limits::memory::Owner;
use pvwire_relay::limits::subscriptions::{NewNames, SubscriptionLimits};
use pvwire_relay::state::registry::Registry;
use pvwire_relay::state::table::{Changes, Now, Table};
use pvwire_relay::state::tick::TickSink;
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

    fn is_ready(&self) -> bool {
        true
    }

    fn round(&self) -> Duration {
        Duration::ZERO
    }
}

/// A tick of a relay without a door.
pub(crate) fn tick(rows: usize) {
    tick_with(rows, &flat::encodings());
}

/// A tick of a relay with a door.
pub(crate) fn tick_with_door(rows: usize) {
    let mut encodings = flat::encodings();
    encodings.add(Box::new(Pvws::new(&Config::default())));
    tick_with(rows, &encodings);
}

fn tick_with(rows: usize, encodings: &Encodings) {
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
    let mut stage = stage.expect("a thread can be started");
    subscribe(&registry, &control, rows);

    let mut table = Table::new(Duration::from_secs(5));
    let now = Now {
        instant: Instant::now(),
        wall_ns: 0,
    };
    let lines = source.0.lock().map(|lines| lines.clone());
    let lines = lines.expect("no other thread has them");
    for line in &lines {
        line.connected(false);
        line.event(Event::Metadata(Box::new(Metadata {
            value_type: ValueType::Float64,
            ..Metadata::default()
        })));
    }
    let mut changes = Arc::default();
    for tick in 1..=2_u64 {
        let calm = Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        };
        for line in &lines {
            line.update(tick as i64, RowValue::Number(tick as f64), calm);
        }
        let mut of_tick = Changes {
            tick,
            ..Changes::default()
        };
        intake.drain(|taken| table.apply(&mut of_tick, now, taken));
        assert_eq!(of_tick.rows.len(), rows);
        changes = Arc::new(of_tick);
        stage.collect();
        stage.tick(&table, &changes, now);
    }
    repeat(|| stage.tick(black_box(&table), &changes, now));
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
        });
    }
}
