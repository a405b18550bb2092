//! Tests of relays in one process, over a bus whose messages the tests delay, cut and lose.
//!
//! Topology: two relays from the intake to the table, an in-process bus, and a source whose PVs the test feeds.

mod edges;
mod moves;
mod pinned_messages;
mod versions;
mod waiting_puts;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvwire_fleet::in_process::Hub;
use pvwire_fleet::members::About;
use pvwire_fleet::ownership::Owners;
use pvwire_fleet::{MemberId, Role};
use pvwire_schema::types::{
    Alarm, BlobValue, Connection, ConnectionState, Detail, Expected, Metadata, Node, NodeValue,
    Outcome, PutValue, PvId, Severity, SkipCause, Skips, ValueType,
};
use testbed::eventually;

use self::versions::Version;
use self::waiting_puts::Queued;
use super::{Fleet, FleetPast, Planes, RunningFleet};
use crate::access::rule::{Identity, Rules};
use crate::config::{Access, Hosts, RuleText};
use crate::fanout::control::{ClientId, ControlQueue};
use crate::fanout::flat;
use crate::ingest::{
    Event, Intake, Line, Monitor, OpDone, OpEnd, OpTicket, OpenError, Put, Queue, RowValue, Source,
};
use crate::limits::memory::{Memory, MemoryLimits, Owner};
use crate::limits::subscriptions::NewNames;
use crate::state::registry::Registry;
use crate::state::table::{Changes, Latest, Now, Table};
use crate::state::tick::{TickLimits, TickSink, Ticker};

const CALM: Alarm = Alarm {
    severity: Severity::NoAlarm,
    status: 0,
};

const MAJOR: Alarm = Alarm {
    severity: Severity::Major,
    status: 3,
};

type Lines = Arc<Mutex<HashMap<String, Arc<Line>>>>;

/// Numbers that were put, in order.
type Puts = Arc<Mutex<Vec<f64>>>;

/// PVs that the test feeds. Puts are answered with what they put.
struct TestSource(Lines, Puts);

struct TestMonitor(Lines, Puts, String);

impl Source for TestSource {
    fn scheme(&self) -> &'static str {
        "ca"
    }

    fn open(&self, name: &str, line: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let line = Arc::new(line);
        self.0.lock().unwrap().insert(name.to_owned(), line);
        let (lines, puts) = (Arc::clone(&self.0), Arc::clone(&self.1));
        Ok(Box::new(TestMonitor(lines, puts, name.to_owned())))
    }
}

impl Monitor for TestMonitor {
    fn put(&self, put: Put, done: OpDone) -> OpTicket {
        let newest = self.0.lock().unwrap()[&self.2].newest();
        if let PutValue::Number(number) = put.value {
            self.1.lock().unwrap().push(number);
        }
        let end = if put.expected.is_some_and(|expected| expected != newest) {
            OpEnd::failed(Outcome::Changed, "changed")
        } else {
            OpEnd {
                message: format!("{:?} by {:?}", put.value, put.user),
                ..OpEnd::DONE
            }
        };
        done(end);
        OpTicket::ended()
    }
}

impl Drop for TestMonitor {
    fn drop(&mut self) {
        self.0.lock().unwrap().remove(&self.2);
    }
}

/// What a client of a relay would see of a PV.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    connection: Option<Connection>,
    metadata: Option<Metadata>,
    latest: Option<(RowValue, i64, Alarm, Option<Detail>)>,
    expected: Option<Expected>,
}

impl Seen {
    fn state(&self) -> Option<ConnectionState> {
        self.connection.map(|connection| connection.state)
    }

    fn time_ns(&self) -> Option<i64> {
        self.latest.as_ref().map(|latest| latest.1)
    }

    /// Without what each relay numbers for itself.
    fn shown(&self) -> Self {
        let metadata = self.metadata.clone().map(|metadata| Metadata {
            epoch: 0,
            ..metadata
        });
        Self {
            metadata,
            expected: None,
            ..self.clone()
        }
    }
}

#[derive(Debug, Default)]
struct Watched {
    seen: BTreeMap<PvId, Seen>,
    skips: BTreeMap<PvId, Skips>,
    rows: BTreeMap<PvId, Vec<f64>>,
    states: BTreeMap<PvId, Vec<ConnectionState>>,
}

/// A sink that keeps what a client would see.
struct Watch(Arc<Mutex<Watched>>);

fn of(latest: &Latest) -> (RowValue, i64, Alarm, Option<Detail>) {
    let detail = latest.detail.as_deref().cloned();
    (latest.value.clone(), latest.time_ns, latest.alarm, detail)
}

impl TickSink for Watch {
    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, _: Now) {
        let mut watched = self.0.lock().unwrap();
        for row in &changes.rows {
            if let RowValue::Number(number) = row.value {
                watched.rows.entry(row.pv).or_default().push(number);
            }
        }
        let large = changes.large.iter().map(|row| (row.pv, row.skips));
        let small = changes.rows.iter().map(|row| (row.pv, row.skips));
        for (pv, before) in small.chain(large) {
            let skips = watched.skips.entry(pv).or_default();
            skips.bus += before.bus;
            skips.source += before.source;
            skips.relay += before.relay;
        }
        for (pv, connection) in &changes.connections {
            let states = watched.states.entry(*pv).or_default();
            states.push(connection.state);
        }
        for pv in (0..8).map(PvId) {
            if let Some(entry) = table.get(pv) {
                let seen = Seen {
                    connection: Some(entry.connection),
                    metadata: entry.metadata.as_deref().cloned(),
                    latest: entry.latest.as_ref().map(of),
                    expected: entry.latest.as_ref().map(|latest| Expected {
                        sequence: latest.sequence,
                        epoch: entry.epoch(),
                    }),
                };
                watched.seen.insert(pv, seen);
            }
        }
    }
}

struct Relay {
    id: MemberId,
    registry: Arc<Registry>,
    lines: Lines,
    puts: Puts,
    watched: Arc<Mutex<Watched>>,
    is_full: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    _ticker: Ticker,
    fleet: RunningFleet,
    past: FleetPast,
}

impl Relay {
    fn start(hub: &Arc<Hub>, id: u64, role: Role) -> Self {
        Self::start_as(hub, id, role, None)
    }

    /// Starts a relay of another version.
    fn start_as(hub: &Arc<Hub>, id: u64, role: Role, version: Option<Version>) -> Self {
        let (fleet, intake) = (Fleet::default(), Intake::new());
        let (lines, puts) = (Lines::default(), Puts::default());
        let source = TestSource(Arc::clone(&lines), Arc::clone(&puts));
        let sources = fleet.share(vec![Box::new(source)]);
        let linger = Duration::from_millis(100);
        let registry = Registry::new(Arc::clone(&intake), sources, "ca", linger, Rules::default())
            .shared(true);
        let registry = Arc::new(registry);
        let id = MemberId(id);
        let (is_full, refused) = (Arc::default(), Arc::default());
        let bus = Arc::new(Queued {
            bus: match version {
                None => Box::new(hub.join(id, fleet.inbox())),
                Some(version) => version.join(hub, id, fleet.inbox()),
            },
            is_full: Arc::clone(&is_full),
            refused: Arc::clone(&refused),
        });
        let control = ControlQueue::new(Arc::clone(&intake));
        let about = About {
            id,
            name: id.to_string(),
            role,
            url: None,
            program: String::new(),
        };
        let planes = Planes {
            intake: Arc::clone(&intake),
            registry: Arc::clone(&registry),
            control,
            audit: None,
            memory: Memory::new(MemoryLimits::NONE),
            client: ClientId {
                shard: 0,
                index: 0,
                generation: 0,
                encoding: flat::encodings().all()[0],
            },
            peers: Arc::default(),
            clients: Box::new(|| 0),
            max_unresolved: 10_000,
            hosts: Hosts::default(),
            history: None,
        };
        let past = fleet.past();
        let (running, publisher) = fleet.start(about, bus, planes).unwrap();
        let watched = Arc::default();
        let shortest = Duration::from_millis(1);
        let ticker = Ticker::start(
            intake,
            Table::new(Duration::from_secs(5)),
            vec![Box::new(Watch(Arc::clone(&watched))), Box::new(publisher)],
            TickLimits {
                shortest,
                longest: shortest,
            },
            Arc::default(),
        );
        Self {
            id,
            registry,
            lines,
            puts,
            watched,
            is_full,
            refused,
            _ticker: ticker.unwrap(),
            fleet: running,
            past,
        }
    }

    fn open(&self, name: &str) -> PvId {
        let (owner, mut room) = (Owner::unlimited(), NewNames::ONE);
        let identity = Identity::default();
        let acquired = (self.registry).acquire(&[name.to_owned()], &identity, &owner, &mut room);
        acquired.into_iter().next().unwrap().unwrap()
    }

    fn seen(&self, pv: PvId) -> Seen {
        let watched = self.watched.lock().unwrap();
        watched.seen.get(&pv).cloned().unwrap_or_default()
    }

    fn line(&self, name: &str) -> Option<Arc<Line>> {
        self.lines.lock().unwrap().get(name).cloned()
    }

    /// Waits until this relay has opened a PV, and connects it.
    fn connect(&self, name: &str) -> Arc<Line> {
        eventually("the owner opens it", || self.line(name).is_some());
        let line = self.line(name).unwrap();
        Self::introduce(&line);
        line
    }

    /// Connects a PV.
    fn introduce(line: &Line) {
        let (read, write) = (true, true);
        line.event(Event::Access { read, write });
        line.connected(false);
        line.event(Event::Metadata(Box::new(Metadata {
            value_type: ValueType::Float64,
            units: "mA".into(),
            epoch: line.epoch(),
            ..Metadata::default()
        })));
    }

    fn put(&self, pv: PvId, expected: Option<Expected>) -> Arc<Mutex<Option<OpEnd>>> {
        self.put_number(pv, 7.0, expected).0
    }

    fn put_number(
        &self,
        pv: PvId,
        number: f64,
        expected: Option<Expected>,
    ) -> (Arc<Mutex<Option<OpEnd>>>, OpTicket) {
        let end = Arc::<Mutex<Option<OpEnd>>>::default();
        let result = Arc::clone(&end);
        let put = Put {
            value: PutValue::Number(number),
            wait: false,
            expected,
            user: Some("ana".into()),
            timeout: Duration::from_secs(20),
            by: None,
        };
        let done = Box::new(move |end| *result.lock().unwrap() = Some(end));
        let ticket = self.registry.put(pv, put, done);
        (end, ticket)
    }

    /// Lets ana put all PVs.
    fn allow_puts(&self) {
        let allow = RuleText {
            users: vec!["ana".into()],
            pvs: vec!["*".into()],
            allow: vec![Access::Put],
            ..RuleText::default()
        };
        (self.registry).set_rules(Rules::new(true, &[allow]).unwrap());
    }
}

/// A bus whose time passes.
struct Clock {
    hub: Arc<Hub>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    fn start() -> Self {
        let (hub, ends) = (Hub::new(), Arc::new(AtomicBool::new(false)));
        let (clock, ended) = (Arc::clone(&hub), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            let mut last = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(2));
                let now = Instant::now();
                clock.advance(now - last);
                last = now;
            }
        });
        Self {
            hub,
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn text(name: &str, text: &str) -> Node {
    Node {
        name: name.into(),
        value: NodeValue::Text(text.into()),
        ..Node::default()
    }
}

fn structure(fields: Vec<Node>) -> Node {
    Node {
        type_id: "thing".into(),
        value: NodeValue::Structure(fields),
        ..Node::default()
    }
}

#[test]
fn edge_shows_whatever_the_owner_shows() {
    let clock = Clock::start();
    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let there = edge.open("X");
    let line = owner.connect("X");
    line.update(5, RowValue::Number(1.5), MAJOR);
    let here = owner.open("ca://X");
    let equal = |what: &str, is_new: &dyn Fn(&Seen) -> bool| {
        eventually(what, || {
            let (owner, edge) = (owner.seen(here), edge.seen(there));
            is_new(&owner) && owner.shown() == edge.shown()
        });
    };
    let since = |time_ns: i64| move |seen: &Seen| seen.time_ns() == Some(time_ns);
    equal("the first value", &since(5));
    assert_eq!(edge.seen(there).state(), Some(ConnectionState::Connected));
    assert!(edge.line("X").is_none(), "one monitor");

    let detail = Arc::new(Detail {
        user_tag: 9,
        message: "too high".into(),
    });
    line.update_with(6, RowValue::Number(2.5), MAJOR, Some(detail));
    equal("user tag and alarm message", &since(6));
    for n in 0..100 {
        line.update(10 + n, RowValue::Number(n as f64), CALM);
    }
    equal("a burst", &since(109));
    let all: Vec<f64> = [1.5, 2.5]
        .into_iter()
        .chain((0..100).map(f64::from))
        .collect();
    assert_eq!(edge.watched.lock().unwrap().rows[&there], all);
    let (read, write) = (true, false);
    line.event(Event::Access { read, write });
    equal("rights", &|seen| {
        seen.connection.is_some_and(|connection| !connection.write)
    });
    line.event(Event::Unresponsive { heard_ns: 77 });
    equal("the time of the last sign of life", &|seen| {
        (seen.connection).is_some_and(|connection| connection.heard_ns != 0)
    });
    line.event(Event::Responsive);

    let large = BlobValue::array(ValueType::UInt8, 500_000, vec![7; 500_000]);
    line.update(200, RowValue::Blob(Arc::new(large)), CALM);
    equal("a large array", &since(200));
    let late = owner.open("Y");
    let line_y = owner.connect("Y");
    let large = BlobValue::array(ValueType::UInt8, 100_000, vec![3; 100_000]);
    line_y.update(1, RowValue::Blob(Arc::new(large)), CALM);
    eventually("the owner has it", || owner.seen(late).latest.is_some());
    let late_there = edge.open("Y");
    eventually("a large value before the first interest", || {
        owner.seen(late).shown() == edge.seen(late_there).shown()
    });

    line.connected(true);
    line.event(Event::Metadata(Box::new(Metadata {
        value_type: ValueType::Structure,
        type_id: "thing".into(),
        epoch: line.epoch(),
        ..Metadata::default()
    })));
    let whole = structure(vec![text("a", "1"), text("b", "2")]);
    let blob = Arc::new(BlobValue::Structure(whole));
    line.update(300, RowValue::Blob(blob), CALM);
    equal("another type", &since(300));
    let whole = Arc::new(BlobValue::Structure(structure(vec![
        text("a", "1"),
        text("b", "3"),
    ])));
    let part = Arc::new(BlobValue::StructurePart(structure(vec![text("b", "3")])));
    line.update(301, RowValue::Structure { whole, part }, CALM);
    equal("a part of a structure", &since(301));
    line.event(Event::Heard(55));
    line.event(Event::Disconnected);
    equal("a lost IOC", &|seen| {
        seen.state() == Some(ConnectionState::Disconnected)
    });
    let skips = edge.watched.lock().unwrap().skips[&there];
    assert_eq!(skips, Skips::NONE);
}

#[test]
fn lost_message_costs_a_snapshot_and_is_counted() {
    let clock = Clock::start();
    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let there = edge.open("X");
    let line = owner.connect("X");
    line.update(1, RowValue::Number(0.0), CALM);
    let value = |number: f64| {
        eventually("the value", || {
            let latest = edge.seen(there).latest;
            latest.is_some_and(|latest| latest.0 == RowValue::Number(number))
        });
    };
    value(0.0);
    // Announcements may be lost, too; the ones after them come.
    clock.hub.cut(owner.id, edge.id, true);
    for n in 1..=10 {
        line.update(n, RowValue::Number(n as f64), MAJOR);
    }
    let here = owner.open("X");
    eventually("the owner has it", || {
        let latest = owner.seen(here).latest;
        latest.is_some_and(|latest| latest.0 == RowValue::Number(10.0))
    });
    clock.hub.cut(owner.id, edge.id, false);
    value(10.0);
    let skips = edge.watched.lock().unwrap().skips[&there];
    assert_eq!((skips.bus, skips.total()), (9, 9));
    assert_eq!(SkipCause::Bus.number(), 6);
    line.update(20, RowValue::Number(20.0), CALM);
    value(20.0);
    assert_eq!(edge.seen(there).state(), Some(ConnectionState::Connected));
}

#[test]
fn lost_owner_disconnects_its_pvs_until_another_holds_them() {
    let clock = Clock::start();
    let relays = [1, 2].map(|id| Relay::start(&clock.hub, id, Role::Ingest));
    let edge = Relay::start(&clock.hub, 3, Role::Edge);
    let there = edge.open("X");
    // If the edge knows the other earlier, the PV moves.
    let owner = Owners::new(relays.each_ref().map(|relay| relay.id), 1).owner("ca://X");
    let (owner, other) = if owner == Some(relays[0].id) {
        (&relays[0], &relays[1])
    } else {
        (&relays[1], &relays[0])
    };
    owner.connect("X").update(1, RowValue::Number(1.0), CALM);
    let state = |state| eventually("its state", || edge.seen(there).state() == Some(state));
    state(ConnectionState::Connected);
    eventually("one monitor", || other.line("X").is_none());
    let waiting = edge.put(there, None);
    eventually("a put is answered", || waiting.lock().unwrap().is_some());

    clock.hub.kill(owner.id);
    state(ConnectionState::Disconnected);
    let latest = edge.seen(there).latest.unwrap();
    assert_eq!(latest.0, RowValue::Number(1.0), "the value stays");
    let line = other.connect("X");
    line.update(2, RowValue::Number(2.0), CALM);
    state(ConnectionState::Connected);
    eventually("its value", || {
        let latest = edge.seen(there).latest;
        latest.is_some_and(|latest| latest.0 == RowValue::Number(2.0))
    });

    clock.hub.connect(edge.id, false);
    state(ConnectionState::Disconnected);
    clock.hub.connect(edge.id, true);
    state(ConnectionState::Connected);
    let skips = edge.watched.lock().unwrap().skips[&there];
    assert_eq!(skips, Skips::NONE);
}

#[test]
fn put_reaches_the_owner_by_its_rules_and_its_condition() {
    let clock = Clock::start();
    let owner = Relay::start(&clock.hub, 1, Role::Ingest);
    let edge = Relay::start(&clock.hub, 2, Role::Edge);
    let there = edge.open("X");
    let line = owner.connect("X");
    line.update(1, RowValue::Number(1.0), CALM);
    line.update(2, RowValue::Number(2.0), CALM);
    eventually("the value", || {
        let latest = edge.seen(there).latest;
        latest.is_some_and(|latest| latest.0 == RowValue::Number(2.0))
    });
    let outcome = |expected| {
        let end = edge.put(there, expected);
        eventually("an outcome", || end.lock().unwrap().is_some());
        end.lock().unwrap().take().unwrap()
    };
    let refused = outcome(None);
    assert_eq!(refused.outcome, Outcome::NotAllowed);
    assert!(refused.message.contains("\"ana\" may not"), "{refused:?}");

    owner.allow_puts();
    let done = outcome(None);
    assert_eq!(done.message, "Number(7.0) by Some(\"ana\")");
    let seen = edge.seen(there).expected;
    assert_eq!(outcome(seen).outcome, Outcome::Done);
    let before = seen.map(|seen| Expected {
        sequence: seen.sequence - 1,
        ..seen
    });
    assert_eq!(outcome(before).outcome, Outcome::Changed);
    let never = seen.map(|seen| Expected {
        epoch: seen.epoch + 100,
        ..seen
    });
    assert_eq!(outcome(never).outcome, Outcome::Changed);
}
