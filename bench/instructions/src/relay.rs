//! The relay's work for every update, and for every client with a private set of PVs.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_relay::fanout::dirty::Dirty;
use pvwire_relay::fanout::flat::FrameMaker;
use pvwire_relay::fanout::set::PvSet;
use pvwire_relay::ingest::{Event, Intake, Line, RowValue};
use pvwire_relay::state::table::{Changes, Now, Table};
use pvwire_schema::types::{Alarm, Metadata, PvId, Severity, SkipCause, ValueType};

use crate::repeat;

/// Number of PVs in a private set.
const SET: usize = 200;

/// Time between two time stamps of one scan of an IOC.
const APART_NS: i64 = 1_500;

/// A relay without sockets: the way of numeric PVs from a source to the table.
struct Relay {
    intake: Arc<Intake>,
    lines: Vec<Line>,
    table: Table,
    tick: u64,
}

impl Relay {
    /// `count` PVs, each connected and with a first value.
    fn new(pvs: usize) -> Self {
        let intake = Intake::new();
        let open = |number| Line::open(&intake, PvId(number as u32), false);
        let mut relay = Self {
            lines: (0..pvs).map(open).collect(),
            intake,
            table: Table::new(Duration::from_secs(5)),
            tick: 0,
        };
        for line in &relay.lines {
            line.connected(false);
            line.event(Event::Metadata(Box::new(Metadata {
                value_type: ValueType::Float64,
                units: "mA".into(),
                precision: Some(3),
                ..Metadata::default()
            })));
        }
        let every: Vec<_> = (0..pvs).collect();
        relay.tick(&every);
        relay
    }

    /// A tick in which these PVs have a new value, in this order.
    fn tick(&mut self, pvs: &[usize]) -> Changes {
        self.tick += 1;
        let calm = Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        };
        let scan_ns = self.tick as i64 * 100_000_000;
        for (place, pv) in pvs.iter().enumerate() {
            let value = RowValue::Number(self.tick as f64);
            self.lines[*pv].update(scan_ns + place as i64 * APART_NS, value, calm);
        }
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let now = Now {
            instant: Instant::now(),
            wall_ns: scan_ns,
        };
        let table = &mut self.table;
        self.intake
            .drain(|taken| table.apply(&mut changes, now, taken));
        changes
    }
}

fn set(pvs: &[usize]) -> PvSet {
    PvSet::new(pvs.iter().map(|pv| PvId(*pv as u32)).collect())
}

/// The numbers below `count` in a fixed pseudo-random order.
fn shuffled(count: usize) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..count).collect();
    let mut state = 1_u64;
    for place in (1..count).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        numbers.swap(place, (state >> 33) as usize % (place + 1));
    }
    numbers
}

/// A tick's frame for a group that has all rows.
pub(crate) fn encode(rows: usize) {
    let every: Vec<_> = (0..rows).collect();
    let (changes, set) = (Relay::new(rows).tick(&every), set(&every));
    let mut maker = FrameMaker::default();
    let frame = maker.update(&changes, &set, 1);
    assert_eq!(frame.map(|frame| frame.rows()), Some(rows as u32));
    repeat(|| maker.update(black_box(&changes), &set, 1));
}

/// A private frame for a set of 200 of 2,000 PVs, of which 400 changed.
pub(crate) fn gather_of_2_000(rows: usize) {
    gather(2_000, rows);
}

/// A private frame for a set of 200 of 10,000 PVs, of which 2,000 changed.
pub(crate) fn gather_of_10_000(rows: usize) {
    gather(10_000, rows);
}

/// A fifth of the PVs changed, and a fifth of those in the client's set.
fn gather(pvs: usize, rows: usize) {
    let order = shuffled(pvs);
    let (changed, quiet) = order.split_at(pvs / SET * rows);
    let mut changed = changed.to_vec();
    let wanted = [&changed[..rows], &quiet[..SET - rows]].concat();
    // An IOC processes its records in the order in which they were loaded.
    changed.sort_unstable();
    let (changes, set) = (Relay::new(pvs).tick(&changed), set(&wanted));
    let dirty = Dirty::new(&changes.rows);
    let mut maker = FrameMaker::default();
    let frame = maker.gather(&changes, Some(&dirty), &set, 1);
    assert_eq!(frame.map(|frame| frame.rows()), Some(rows as u32));
    repeat(|| maker.gather(black_box(&changes), Some(&dirty), &set, 1));
}

/// The frame for a client that was behind while all its PVs had a new value.
pub(crate) fn catch_up(rows: usize) {
    let every: Vec<_> = (0..rows).collect();
    let mut relay = Relay::new(rows);
    let before = relay.tick;
    relay.tick(&every);
    let (mut maker, set) = (FrameMaker::default(), set(&every));
    let frame = maker.catch_up(&relay.table, &set, (before, SkipCause::Behind), relay.tick);
    assert_eq!(frame.rows(), rows as u32);
    repeat(|| {
        maker.catch_up(
            black_box(&relay.table),
            &set,
            (before, SkipCause::Behind),
            relay.tick,
        )
    });
}
