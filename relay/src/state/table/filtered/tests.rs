//! What filtered PVs get: values, alarms and losses by each kind of filter.

use pvwire_schema::types::{Array, BlobValue, ConnectionState, Detail, ValueType};

use super::super::Counts;
use super::super::tests::{Bench, CALM, HIHI, PV, update};
use super::*;
use crate::compute::cpu_time;
use crate::ingest::{Event, FilteredLine, Intake, Line};

const FILTERED: PvId = PvId(1);

const TENTH: Filter = Filter {
    min_interval_ms: 100,
    deadband: 0.0,
    every: 0,
    ..Filter::ALL
};

const INTERVAL: Duration = Duration::from_millis(100);

fn open(bench: &Bench, filter: Filter) -> FilteredLine {
    FilteredLine::open(&bench.intake, FILTERED, PV, (filter, None), None)
}

/// The filtered PV's rows of a tick: value, and how many updates were withheld before it.
fn seen(changes: &Changes) -> Vec<(f64, u32)> {
    let rows = changes.rows.iter().filter(|row| row.pv == FILTERED);
    rows.map(|row| match row.value {
        RowValue::Number(number) => (number, row.skips.filter),
        _ => panic!("{row:?}"),
    })
    .collect()
}

/// A connected PV that shows 0.0.
fn connected(bench: &mut Bench) -> Line {
    let line = Line::open(&bench.intake, PV, false);
    line.event(Event::Access {
        read: true,
        write: true,
    });
    line.connected(false);
    line.event(Event::Metadata(Box::default()));
    update(&line, 0.0, CALM);
    bench.tick();
    line
}

#[test]
fn every_value_arrives_or_is_counted_by_the_cause_of_its_loss() {
    let mut bench = Bench::new();
    // A source that counts up by one, faster than the ring can be emptied.
    bench.intake = Arc::new(Intake::with_ring(3));
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    let _filtered = open(
        &bench,
        Filter {
            every: 4,
            ..Filter::default()
        },
    );
    let (mut count, mut squashed) = (0_u32, 0);
    let mut rows = Vec::new();
    let mut counts = Counts::default();
    for burst in [1, 2, 9, 1, 14, 3, 5, 1, 1, 1] {
        for _ in 0..burst {
            count += 1;
            if count % 5 == 0 {
                line.squashed(2);
                (count, squashed) = (count + 2, squashed + 2);
            }
            update(&line, count.into(), CALM);
        }
        let changes = bench.tick();
        counts.taken += changes.counts.taken;
        counts.relay += changes.counts.relay;
        counts.source += changes.counts.source;
        counts.filter += changes.counts.filter;
        rows.extend(changes.rows);
    }
    let of = |pv| rows.iter().filter(move |row| row.pv == pv);
    let lost = |pv, cause: fn(Skips) -> u32| -> u64 {
        of(pv).map(|row| u64::from(cause(row.skips))).sum()
    };
    assert_eq!(counts.taken, of(PV).count() as u64);
    assert_eq!(counts.source, squashed);
    assert!(counts.relay > 10 && counts.filter > 3, "{counts:?}");
    let truth = u64::from(count);
    assert_eq!(counts.taken + counts.relay + counts.source, truth);
    for pv in [PV, FILTERED] {
        let mut last = 0;
        for row in of(pv) {
            let RowValue::Number(value) = row.value else {
                panic!("{row:?}")
            };
            last += 1 + row.skips.total();
            assert_eq!(f64::from(last), value);
        }
    }
    assert_eq!(lost(PV, |skips| skips.relay), counts.relay);
    assert_eq!(lost(PV, |skips| skips.filter), 0);
    assert_eq!(lost(FILTERED, |skips| skips.filter), counts.filter);
}

#[test]
fn filtered_pv_begins_complete_and_follows_its_pv() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, TENTH);
    let changes = bench.tick();
    assert!(changes.is_empty(), "no client can have it before");
    let entry = bench.table.entry(FILTERED).clone();
    assert!(entry.latest.is_some() && entry.metadata.is_some());
    assert_eq!(entry.connection, bench.table.entry(PV).connection);
    assert_eq!(entry.value_tick, changes.tick, "a catch-up includes it");
    line.event(Event::Metadata(Box::new(Metadata {
        units: "mA".into(),
        ..Metadata::default()
    })));
    line.event(Event::Disconnected);
    let changes = bench.tick();
    let told: Vec<_> = changes.connections.iter().map(|(pv, _)| *pv).collect();
    assert_eq!(told, [PV, FILTERED]);
    let told: Vec<_> = changes.metadata.iter().map(|(pv, _)| *pv).collect();
    assert_eq!(told, [PV, FILTERED]);
}

#[test]
fn last_value_of_a_burst_passes_when_the_interval_is_over() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, TENTH);
    bench.tick();
    for value in [1.0, 2.0, 3.0] {
        update(&line, value, CALM);
    }
    let changes = bench.tick_at(INTERVAL / 2);
    assert_eq!(changes.rows.len(), 3, "those of the PV itself");
    assert_eq!(seen(&changes), []);
    let due = bench.table.next_deadline().unwrap();
    assert_eq!(due, bench.start + INTERVAL);
    let changes = bench.tick_at(INTERVAL);
    assert_eq!(seen(&changes), [(3.0, 2)]);
    assert_eq!((changes.counts.taken, changes.counts.filter), (0, 2));
    assert!(bench.table.next_deadline() > Some(bench.start + INTERVAL));
    update(&line, 4.0, CALM);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 3)), [(4.0, 0)]);
}

#[test]
fn alarm_change_passes_at_once_and_restarts_the_interval() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, TENTH);
    bench.tick();
    update(&line, 1.0, CALM);
    update(&line, 2.0, HIHI);
    assert_eq!(seen(&bench.tick_at(INTERVAL / 2)), [(2.0, 1)]);
    update(&line, 3.0, HIHI);
    assert_eq!(seen(&bench.tick_at(INTERVAL)), []);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 3 / 2)), [(3.0, 0)]);
}

#[test]
fn alarm_message_passes_at_once_and_a_user_tag_does_not() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, TENTH);
    bench.tick();
    let tell = |value, user_tag, message: &str| {
        let message = message.into();
        let detail = Some(Arc::new(Detail { user_tag, message }));
        line.update_with(0, RowValue::Number(value), CALM, detail);
    };
    tell(1.0, 5, "");
    assert_eq!(seen(&bench.tick()), []);
    tell(2.0, 6, "hot");
    let changes = bench.tick();
    assert_eq!(seen(&changes), [(2.0, 1)]);
    let detail = changes.rows.last().unwrap().detail.as_ref().unwrap();
    assert_eq!((detail.user_tag, &*detail.message), (6, "hot"));
}

#[test]
fn deadband_applies_to_numbers_and_not_to_enums() {
    let filter = Filter {
        min_interval_ms: 0,
        deadband: 1.0,
        every: 0,
        ..Filter::ALL
    };
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, filter);
    for value in [0.5, 1.0, 1.5, 2.0, 0.0] {
        update(&line, value, CALM);
    }
    assert_eq!(seen(&bench.tick()), [(1.5, 2), (0.0, 1)]);
    line.event(Event::Metadata(Box::new(Metadata {
        value_type: ValueType::Enum,
        ..Metadata::default()
    })));
    update(&line, 1.0, CALM);
    assert_eq!(seen(&bench.tick()), [(1.0, 0)]);
}

#[test]
fn one_in_n_counts_lost_updates_too() {
    let filter = Filter {
        min_interval_ms: 0,
        deadband: 0.0,
        every: 5,
        ..Filter::ALL
    };
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, filter);
    for value in 1..=7_u8 {
        if value == 3 {
            line.squashed(2);
        }
        update(&line, value.into(), CALM);
    }
    let changes = bench.tick();
    assert_eq!(seen(&changes), [(3.0, 2)]);
    let row = changes.rows.iter().find(|row| row.pv == FILTERED).unwrap();
    assert_eq!((row.skips.source, row.skips.total()), (2, 4));
    assert_eq!((changes.counts.source, changes.counts.filter), (2, 2));
}

#[test]
fn average_of_an_interval_passes_and_an_alarm_has_its_own_value() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    line.event(Event::Metadata(Box::new(Metadata {
        value_type: ValueType::Float64,
        ..Metadata::default()
    })));
    let average = Filter {
        average: true,
        ..TENTH
    };
    let _filtered = open(&bench, average);
    bench.tick();
    for value in [1.0, 2.0, 6.0] {
        update(&line, value, CALM);
    }
    assert_eq!(seen(&bench.tick_at(INTERVAL / 2)), []);
    assert_eq!(seen(&bench.tick_at(INTERVAL)), [(3.0, 2)]);
    update(&line, 4.0, CALM);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 3 / 2)), []);
    update(&line, 9.0, HIHI);
    let changes = bench.tick_at(INTERVAL * 3 / 2);
    assert_eq!(seen(&changes), [(9.0, 1)], "4.0 has no part in it");
    update(&line, 5.0, HIHI);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 2)), []);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 3)), [(5.0, 0)]);
    update(&line, 7.0, HIHI);
    update(&line, 8.0, HIHI);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 3)), []);
    line.event(Event::Disconnected);
    let last = bench.tick_at(INTERVAL * 3);
    assert_eq!(seen(&last).last(), Some(&(8.0, 1)), "the last known value");
}

#[test]
fn average_of_n_updates_ignores_what_is_no_number() {
    let filter = Filter {
        every: 4,
        average: true,
        ..Filter::ALL
    };
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    line.event(Event::Metadata(Box::new(Metadata {
        value_type: ValueType::Int32,
        ..Metadata::default()
    })));
    let _filtered = open(&bench, filter);
    bench.tick();
    for value in 1..=8_u8 {
        update(&line, value.into(), CALM);
    }
    // 2.5 and 6.5, rounded because the PV is an integer.
    assert_eq!(seen(&bench.tick()), [(3.0, 3), (7.0, 3)]);
    line.event(Event::Metadata(Box::new(Metadata {
        value_type: ValueType::Enum,
        ..Metadata::default()
    })));
    for value in [1.0, 0.0, 0.0, 2.0] {
        update(&line, value, CALM);
    }
    assert_eq!(seen(&bench.tick()), [(2.0, 3)], "an index has no mean");
}

#[test]
fn held_update_passes_before_a_disconnection() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, TENTH);
    update(&line, 1.0, CALM);
    assert_eq!(seen(&bench.tick()), []);
    line.event(Event::Disconnected);
    assert_eq!(seen(&bench.tick()), [(1.0, 0)]);
    line.event(Event::Access {
        read: true,
        write: true,
    });
    line.connected(false);
    line.event(Event::Metadata(Box::default()));
    update(&line, 2.0, CALM);
    let changes = bench.tick();
    assert_eq!(seen(&changes), [(2.0, 0)]);
    assert_eq!(changes.connections.len(), 2);
}

#[test]
fn held_value_of_an_old_type_is_discarded_with_the_type() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let _filtered = open(&bench, TENTH);
    update(&line, 1.0, CALM);
    bench.tick();
    line.event(Event::Disconnected);
    line.connected(true);
    let changes = bench.tick();
    assert_eq!(seen(&changes), [], "1.0 is of the old type");
    assert!(bench.table.entry(FILTERED).latest.is_none());
    update(&line, 5.0, CALM);
    assert_eq!(seen(&bench.tick()), [(5.0, 0)], "the first of the new type");
    assert_eq!(bench.tick_at(INTERVAL).rows.len(), 0);
}

#[test]
fn closed_filtered_pv_gets_nothing_and_its_number_is_reused() {
    let mut bench = Bench::new();
    let line = connected(&mut bench);
    let filtered = open(&bench, TENTH);
    bench.tick();
    update(&line, 1.0, CALM);
    bench.tick();
    drop(filtered);
    let other = Line::open(&bench.intake, FILTERED, false);
    other.connected(false);
    update(&other, 7.0, CALM);
    update(&line, 2.0, CALM);
    line.event(Event::Disconnected);
    assert_eq!(seen(&bench.tick()), [(7.0, 0)]);
    assert_eq!(seen(&bench.tick_at(INTERVAL * 2)), []);
    let state = bench.table.entry(FILTERED).connection.state;
    assert_eq!(state, ConnectionState::Connected);
}

#[test]
fn large_arrays_are_reduced_in_a_share_of_the_ticks_time_and_the_newest_is_shown() {
    const UPDATES: u32 = 100;
    let interval = Duration::from_millis(10);
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    line.event(Event::Metadata(Box::default()));
    let filter = Filter {
        points: 100,
        ..Filter::ALL
    };
    let _filtered = open(&bench, filter);
    let array = |n: u8| {
        let array = Array {
            value_type: ValueType::UInt8,
            count: 1 << 20,
            data: vec![n; 1 << 20].into(),
        };
        RowValue::Blob(Arc::new(BlobValue::Array(array)))
    };
    let mut shown = None;
    let mut took = Duration::ZERO;
    for n in 0..2 * UPDATES {
        if n < UPDATES {
            line.update(i64::from(n) + 1, array(n as u8), CALM);
        }
        let begun = cpu_time();
        let changes = bench.tick_at(interval * n);
        took += cpu_time() - begun;
        let rows = changes.rows.iter().filter(|row| row.pv == FILTERED);
        shown = rows.map(|row| row.value.clone()).next_back().or(shown);
    }
    // A fifth, and what is saved for arrays that come together.
    assert!(took < interval * UPDATES / 2, "{took:?}");
    let Some(RowValue::Blob(blob)) = shown else {
        panic!("{shown:?}");
    };
    let BlobValue::Array(Array { count, data, .. }) = &*blob else {
        panic!("{blob:?}");
    };
    assert_eq!((*count, data[0]), (100, UPDATES as u8 - 1));
}
