//! Tests of the results with a table of two PVs, whose clients come, go, fall behind and catch up.

use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use pvwire_coniql::{Dialect, Protocol, Settings};
use pvwire_schema::types::{Array, BlobValue, Filter, Limits, Metadata, Severity, ValueType};
use serde_json::{Map, Value, json};
use testbed::random::Random;

use super::super::Speech;
use super::super::session::ConiqlSession;
use super::*;
use crate::fanout::door_session::DoorSession;
use crate::fanout::encoding::{Encoding, Encodings};
use crate::fanout::large::{LargeValue, LargeValues};
use crate::ingest::{Event, FilteredLine, Intake, Line, RowValue};
use crate::state::table::LARGE_BYTES;

const FIELDS: [&str; 2] = [
    "value { float base64Array { base64 } } time { seconds } status { quality severity mutable }
     display { units precision choices controlRange { min max } } connection { connected }",
    "status { quality } display { units }",
];

const NAMES: [&str; 2] = ["ca://scalar", "ca://array"];

/// Elements of a value that is large.
const MANY: usize = LARGE_BYTES / 8 + 1;

/// The results of a client, merged as clients do.
type Merged = Map<String, Value>;

/// A client's subscription of one PV with one selection.
struct Subscription {
    form: Form,
    base: usize,
    selection: u32,
    state: State,
}

enum State {
    Ended,
    /// The table will know the form; the relay hasn't answered.
    Asked(PvId, FilteredLine),
    Held {
        pv: PvId,
        _line: FilteredLine,
        merged: Merged,
        /// The tick at which it was last in step, if it is behind.
        since: Option<u64>,
    },
}

struct World {
    intake: Arc<Intake>,
    lines: Vec<Line>,
    table: Table,
    tick: u64,
    documents: Arc<Documents>,
    /// Keeps the selections known.
    _session: ConiqlSession,
    results: Results,
    large: LargeValues,
    encodings: Encodings,
    encoding: Encoding,
    subscriptions: Vec<Subscription>,
    free: Vec<PvId>,
    is_swept: bool,
    is_connected: [bool; 2],
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall_ns: 0,
    }
}

fn merge(frame: &Frame, pv: PvId, merged: &mut Merged) {
    let bytes = frame.slices(0, usize::MAX).map(|slice| slice.to_vec());
    for (of, channel) in pvwire_coniql::Records::new(&bytes.concat()) {
        if of == pv {
            let update: Merged = serde_json::from_slice(channel).unwrap();
            merged.extend(update.into_iter().filter(|(_, part)| !part.is_null()));
        }
    }
}

impl World {
    /// Two PVs, and of each equal and different subscriptions that no client has yet.
    fn new() -> Self {
        let documents = Arc::new(Documents::new(Dialect::Pvwire));
        let settings = Settings {
            protocol: Protocol::Transport,
            documents: Arc::clone(&documents),
            max_names: 100,
        };
        let mut encodings = Encodings::default();
        let speech = Speech::new(settings.clone());
        let large_skips = Arc::clone(&speech.large_skips);
        let encoding = encodings.add(Box::new(speech));
        let mut session = ConiqlSession::new(settings);
        session.take(session.reader().read(br#"{"type": "connection_init"}"#));
        let mut subscriptions = Vec::new();
        for (base, name) in NAMES.iter().enumerate() {
            for (nth, fields) in [FIELDS[0], FIELDS[0], FIELDS[1]].iter().enumerate() {
                let query =
                    format!("subscription {{ subscribeChannel(id: \"{name}\") {{ {fields} }} }}");
                let message = json!({
                    "type": "subscribe", "id": format!("{base}.{nth}"), "payload": {"query": query},
                });
                session.take(session.reader().read(message.to_string().as_bytes()));
                let form = session.wanted().pop().unwrap().form;
                subscriptions.push(Subscription {
                    selection: parts(&form).unwrap().selection,
                    form,
                    base,
                    state: State::Ended,
                });
            }
        }
        let intake = Intake::new();
        let lines: Vec<_> = (0..2)
            .map(|pv| Line::open(&intake, PvId(pv), true))
            .collect();
        let free = (0..subscriptions.len() as u32).map(|pv| PvId(2 + pv));
        let mut world = Self {
            intake,
            lines,
            table: Table::new(Duration::from_secs(5)),
            tick: 0,
            results: Results::new(Arc::clone(&documents), large_skips),
            large: LargeValues::new(&encodings),
            encodings,
            encoding,
            documents,
            _session: session,
            free: free.collect(),
            subscriptions,
            is_swept: true,
            is_connected: [false; 2],
        };
        for pv in 0..2 {
            world.connect(pv, "V");
            world.value(pv, 1.0, 1, Severity::NoAlarm);
        }
        world
    }

    fn disconnect(&mut self, pv: usize) {
        self.is_connected[pv] = false;
        self.lines[pv].event(Event::Disconnected);
    }

    fn connect(&mut self, pv: usize, units: &str) {
        self.is_connected[pv] = true;
        self.set_rights(pv, true);
        self.lines[pv].connected(false);
        self.describe(pv, units);
    }

    fn set_rights(&self, pv: usize, write: bool) {
        self.lines[pv].event(Event::Access { read: true, write });
    }

    fn describe(&self, pv: usize, units: &str) {
        let metadata = Metadata {
            value_type: ValueType::Float64,
            element_count: if pv == 0 { 1 } else { 0 },
            units: units.to_owned(),
            precision: Some((units.len() % 5) as i16),
            control: Limits {
                low: 0.0,
                high: units.len() as f64,
            },
            epoch: self.lines[pv].epoch(),
            ..Metadata::default()
        };
        self.lines[pv].event(Event::Metadata(Box::new(metadata)));
    }

    /// A value of this many elements, if the PV is the array.
    fn value(&self, pv: usize, value: f64, count: usize, severity: Severity) {
        let array = || {
            BlobValue::Array(Array {
                value_type: ValueType::Float64,
                count: count as u32,
                data: value.to_le_bytes().repeat(count).into(),
            })
        };
        let row = match pv {
            0 => RowValue::Number(value),
            _ => RowValue::Blob(Arc::new(array())),
        };
        let alarm = Alarm {
            severity,
            status: severity as u16,
        };
        self.lines[pv].update(value as i64, row, alarm);
    }

    fn subscribe(&mut self, nth: usize) {
        let subscription = &mut self.subscriptions[nth];
        if let State::Ended = subscription.state {
            let pv = self.free.pop().unwrap();
            let form = Arc::new(subscription.form.clone());
            let base = PvId(subscription.base as u32);
            let filter = (Filter::ALL, Some(form));
            let line = FilteredLine::open(&self.intake, pv, base, filter, None);
            subscription.state = State::Asked(pv, line);
        }
    }

    fn end(&mut self, nth: usize) {
        let state = &mut self.subscriptions[nth].state;
        if let State::Held { pv, .. } = state {
            self.free.push(*pv);
            *state = State::Ended;
        }
    }

    fn fall_behind(&mut self, nth: usize) {
        if let State::Held { since, .. } = &mut self.subscriptions[nth].state {
            since.get_or_insert(self.tick);
        }
    }

    /// One tick. The clients that `answers` and `catches_up` choose get their answers.
    fn tick(&mut self, mut answers: impl FnMut() -> bool, mut catches_up: impl FnMut() -> bool) {
        self.tick += 1;
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let table = &mut self.table;
        (self.intake).drain(|taken| table.apply(&mut changes, now(), taken));
        let mut changes = Arc::new(changes);
        let mut encoders = self.encodings.encoders();
        let large = self.large.of_tick(&self.table, &mut changes);
        let is_held = |it: &Subscription| matches!(it.state, State::Held { .. });
        if self.subscriptions.iter().any(is_held) {
            self.results.begin(&self.table, &changes, now());
        }
        let encoding = self.encoding;
        let mut take_large = |values: &[Arc<LargeValue>], of: PvId, merged: &mut Merged| {
            for value in values.iter().filter(|value| value.pv() == of) {
                let frame = value.frame(false, encoding, &mut encoders, &Counter::default());
                merge(&frame, of, merged);
            }
        };
        for subscription in &mut self.subscriptions {
            if let State::Held {
                pv,
                merged,
                since: None,
                ..
            } = &mut subscription.state
            {
                let set = PvSet::new(vec![*pv]);
                let frame = self.results.update(&changes, None, &set, 0);
                if let Some(frame) = frame {
                    merge(&frame, *pv, merged);
                }
                take_large(&large, *pv, merged);
            }
        }
        for subscription in &mut self.subscriptions {
            let state = std::mem::replace(&mut subscription.state, State::Ended);
            subscription.state = match state {
                State::Asked(pv, line) if answers() => {
                    let reply = Reply::Subscribed {
                        ids: vec![pv],
                        errors: Vec::new(),
                    };
                    let values = (&self.table, &[pv][..]);
                    let kind = FrameKind::Snapshot;
                    let frame = (self.results).reply_with(kind, self.tick, 0, &reply, values);
                    let mut merged = Merged::new();
                    merge(&frame, pv, &mut merged);
                    take_large(&self.large.changed(&self.table, &[pv], 0), pv, &mut merged);
                    State::Held {
                        pv,
                        _line: line,
                        merged,
                        since: None,
                    }
                }
                State::Held {
                    pv,
                    _line,
                    mut merged,
                    since: Some(since),
                } if catches_up() => {
                    let (set, since) = (PvSet::new(vec![pv]), (since, SkipCause::Behind));
                    let frame = self.results.catch_up(&self.table, &set, since, self.tick);
                    merge(&frame, pv, &mut merged);
                    let large = self.large.changed(&self.table, &[pv], since.0);
                    take_large(&large, pv, &mut merged);
                    State::Held {
                        pv,
                        _line,
                        merged,
                        since: None,
                    }
                }
                other => other,
            };
        }
        if std::mem::take(&mut self.is_swept) {
            self.results.sweep(&self.table);
        }
    }

    fn step(&mut self) {
        self.tick(|| true, || true);
    }

    /// The fields in which a client in step differs from the table.
    fn difference(&self, nth: usize) -> Option<String> {
        let subscription = &self.subscriptions[nth];
        let State::Held {
            merged,
            since: None,
            ..
        } = &subscription.state
        else {
            return None;
        };
        let entry = self.table.entry(PvId(subscription.base as u32));
        let state = Snapshot::new(
            NAMES[subscription.base],
            &entry.connection,
            entry.metadata.as_deref(),
        );
        let state = (entry.latest.as_ref()).map_or(state, |latest| valued(state, latest));
        let known = self.documents.selections().find(subscription.selection);
        let mut bytes = Vec::new();
        writer().write(&known.unwrap().selection, &state, &mut bytes);
        let truth: Merged = serde_json::from_slice(&bytes).unwrap();
        // The text of a large value that is lost isn't written again.
        let is_apart = !entry.is_complete() && entry.large().is_some();
        let differs = |(part, truth): (&String, &Value)| {
            let is_told = truth.is_null() || merged.get(part) == Some(truth);
            let seen = merged.get(part);
            let is_right = is_told || (is_apart && part == "value");
            (!is_right).then(|| format!("{part}: {seen:?}, truth: {truth}"))
        };
        let found: Vec<String> = truth.iter().filter_map(differs).collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    #[track_caller]
    fn check(&self, when: &str) {
        for nth in 0..self.subscriptions.len() {
            if let Some(found) = self.difference(nth) {
                panic!("{when}, tick {}, subscription {nth}: {found}", self.tick);
            }
        }
    }

    /// A random event of a PV, or of a client.
    fn happen(&mut self, random: &mut Random) {
        let (pv, nth) = (random.below(2), random.below(self.subscriptions.len()));
        let number = random.below(1000);
        let units = "m".repeat(number % 7);
        let severity = random.pick(&[Severity::NoAlarm, Severity::Major]);
        let count = random.pick(&[1, 3, MANY]);
        match random.below(100) {
            0..30 if self.is_connected[pv] => self.value(pv, number as f64, count, severity),
            30..50 if self.is_connected[pv] => self.describe(pv, &units),
            50..54 if self.is_connected[pv] => self.set_rights(pv, number.is_multiple_of(2)),
            54..58 => self.disconnect(pv),
            58..66 => {
                self.disconnect(pv);
                self.connect(pv, &units);
                self.value(pv, number as f64, count, severity);
            }
            66..82 => self.subscribe(nth),
            82..88 => self.end(nth),
            88..90 => (0..self.subscriptions.len()).for_each(|nth| self.end(nth)),
            90..95 => self.fall_behind(nth),
            95.. => self.is_swept = true,
            _ => {}
        }
    }
}

#[test]
fn clients_that_come_and_go_at_random_are_told_of_every_change() {
    for seed in 0..60 {
        let (mut random, mut world) = (Random(seed), World::new());
        for _ in 0..60 {
            for _ in 0..random.below(4) {
                world.happen(&mut random);
            }
            let [mut answers, mut catch_ups] = [(); 2].map(|()| Random(random.number()));
            world.tick(|| !answers.one_in(3), || catch_ups.one_in(2));
            world.check(&format!("seed {seed}"));
        }
    }
}

#[test]
fn client_that_subscribes_again_at_once_is_told_what_changed_meanwhile() {
    let mut world = World::new();
    // The other keeps the PV open, and the door in use.
    world.subscribe(0);
    world.subscribe(2);
    world.step();
    world.end(0);
    world.describe(0, "mA");
    world.step();
    world.subscribe(0);
    world.step();
    world.check("");
}

#[test]
fn alarm_of_a_large_value_ends_with_the_small_one_after_it() {
    let mut world = World::new();
    world.subscribe(3);
    world.step();
    for (count, severity) in [(MANY, Severity::Major), (1, Severity::NoAlarm)] {
        world.value(1, 2.0, count, severity);
        world.step();
        world.check("");
    }
}

#[test]
fn small_value_may_come_just_before_a_large_one() {
    let mut world = World::new();
    world.subscribe(3);
    world.step();
    world.value(1, 2.0, 1, Severity::NoAlarm);
    world.value(1, 3.0, MANY, Severity::Major);
    world.step();
    world.check("");
    world.value(1, 2.0, 1, Severity::NoAlarm);
    world.step();
    world.check("");
}

#[test]
fn large_value_that_is_lost_keeps_its_alarm() {
    let mut world = World::new();
    world.value(1, 2.0, MANY, Severity::Major);
    world.subscribe(3);
    world.step();
    world.disconnect(1);
    world.step();
    world.check("");
}
