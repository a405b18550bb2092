//! Tests of the table, from a source's line to the changes of a tick.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    Alarm, BlobValue, ConnectionState, Metadata, Node, PvId, Severity, Skips, ValueType,
};

use super::returning::{METADATA_WAIT, RETURN_WAIT, WITHOUT_METADATA, WITHOUT_VALUE};
use super::{Changes, LARGE_BYTES, Now, Table};
use crate::ingest::{Event, Intake, Line, Notice, RowValue};

pub(super) const PV: PvId = PvId(0);
pub(super) const CALM: Alarm = Alarm {
    severity: Severity::NoAlarm,
    status: 0,
};
pub(super) const HIHI: Alarm = Alarm {
    severity: Severity::Major,
    status: 3,
};
const WAIT: Duration = Duration::from_secs(5);

/// An intake and a table, and the tick between them at the times of the test.
pub(super) struct Bench {
    pub(super) intake: Arc<Intake>,
    pub(super) table: Table,
    pub(super) start: Instant,
    tick: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        let (intake, table) = (Intake::new(), Table::new(WAIT));
        Self {
            intake,
            table,
            start: Instant::now(),
            tick: 0,
        }
    }

    pub(super) fn tick_at(&mut self, after: Duration) -> Changes {
        self.tick += 1;
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let now = Now {
            instant: self.start + after,
            wall_ns: after.as_nanos() as i64,
        };
        self.intake
            .drain(|taken| self.table.apply(&mut changes, now, taken));
        self.table.pass_time(&mut changes, now);
        changes
    }

    pub(super) fn tick(&mut self) -> Changes {
        self.tick_at(Duration::ZERO)
    }
}

pub(super) fn update(line: &Line, value: f64, alarm: Alarm) {
    line.update(0, RowValue::Number(value), alarm);
}

#[test]
fn alarm_comes_only_with_the_row_that_changes_it() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    for (value, alarm) in [(1.0, CALM), (2.0, CALM), (3.0, HIHI), (4.0, HIHI)] {
        update(&line, value, alarm);
    }
    let alarms: Vec<_> = bench.tick().rows.iter().map(|row| row.alarm).collect();
    assert_eq!(alarms, [Some(CALM), None, Some(HIHI), None]);
    assert_eq!(bench.table.entry(PV).alarm_tick, 1);
}

#[test]
fn closed_pvs_give_their_memory_back_with_their_waits() {
    let mut bench = Bench::new();
    let open = |bench: &Bench, number| Line::open(&bench.intake, PvId(number), false);
    let lines: Vec<Line> = (0..5_000).map(|number| open(&bench, number)).collect();
    bench.tick();
    for (number, line) in lines.iter().enumerate().skip(1) {
        let (pv, opening) = (PvId(number as u32), line.opening());
        let event = Event::Closed;
        bench.intake.notify(Notice { pv, opening, event });
    }
    bench.tick();
    let late = &lines[4_000];
    update(late, 1.0, CALM);
    bench.table.shrink();
    assert_eq!(bench.table.entries.len(), 1);
    assert!(bench.table.entries.capacity() < 1_000);
    assert_eq!(bench.table.searching.len(), 1, "the open PV's");
    assert!(bench.table.searching.capacity() < 1_000);
    update(late, 2.0, CALM);
    assert!(bench.tick_at(WAIT).rows.is_empty(), "its PV is closed");
    let line = open(&bench, 4_000);
    line.connected(false);
    update(&line, 3.0, CALM);
    assert_eq!(bench.tick_at(WAIT).rows.len(), 1);
}

#[test]
fn first_value_of_a_connection_is_marked_as_possibly_old() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    let marks = |changes: Changes| -> Vec<bool> {
        let rows = changes.rows.iter();
        rows.map(|row| changes.first_values.contains(&row.pv))
            .collect()
    };
    line.event(Event::Access {
        read: true,
        write: false,
    });
    line.connected(false);
    line.event(Event::Metadata(Box::default()));
    update(&line, 1.0, CALM);
    assert_eq!(marks(bench.tick()), [true]);
    update(&line, 2.0, CALM);
    assert_eq!(marks(bench.tick()), [false]);
    line.event(Event::Disconnected);
    line.event(Event::Access {
        read: true,
        write: false,
    });
    line.connected(false);
    line.event(Event::Metadata(Box::default()));
    update(&line, 2.0, CALM);
    assert_eq!(marks(bench.tick()), [true]);
    update(&line, 3.0, CALM);
    assert_eq!(marks(bench.tick()), [false]);
}

#[test]
fn pv_without_an_answer_is_not_found_and_can_connect_later() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    bench.tick();
    assert!(bench.tick_at(WAIT / 2).is_empty());
    let changes = bench.tick_at(WAIT);
    assert_eq!(changes.connections[0].1.state, ConnectionState::NotFound);
    line.connected(false);
    let changes = bench.tick_at(WAIT * 2);
    assert_eq!(changes.connections[0].1.state, ConnectionState::Connected);
    assert_eq!(
        changes.connections[0].1.since_ns,
        (WAIT * 2).as_nanos() as i64
    );
}

#[test]
fn reason_without_a_value_is_shown_until_the_pv_is_connected() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.event(Event::Reason("its server is silent".to_owned()));
    let reason = |bench: &Bench| {
        let metadata = bench.table.entry(PV).metadata.clone();
        metadata.map(|metadata| metadata.missing_field.clone())
    };
    assert_eq!(bench.tick().metadata.len(), 1);
    assert_eq!(reason(&bench).as_deref(), Some("its server is silent"));
    line.event(Event::Reason("its server is silent".to_owned()));
    assert_eq!(bench.tick().metadata.len(), 0);

    line.connected(false);
    bench.tick();
    assert_eq!(reason(&bench).as_deref(), Some(""));
}

#[test]
fn silent_server_is_told_from_a_missing_pv_also_in_what_another_relay_gets() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    bench.tick();
    bench.tick_at(WAIT);
    let connection = |bench: &Bench| bench.table.entry(PV).connection;
    assert_eq!(
        (connection(&bench).state, connection(&bench).heard_ns),
        (ConnectionState::NotFound, 0)
    );
    // The server answers a search only now.
    line.event(Event::Reason("its server is silent".to_owned()));
    let changes = bench.tick_at(WAIT * 2);
    let heard_ns = (WAIT * 2).as_nanos() as i64;
    assert_eq!(changes.connections[0].1.heard_ns, heard_ns);

    let other = PvId(1);
    let mirror = Line::open(&bench.intake, other, false);
    mirror.event(Event::Queued);
    let metadata = bench.table.entry(PV).metadata.as_deref().cloned();
    let metadata = Metadata {
        epoch: mirror.epoch(),
        ..metadata.unwrap()
    };
    mirror.event(Event::Metadata(Box::new(metadata)));
    mirror.event(Event::Mirrored(connection(&bench)));
    bench.tick_at(WAIT * 2);
    for pv in [PV, other] {
        let entry = bench.table.entry(pv);
        assert_eq!(entry.unconnected(), Some("its server is silent"));
        assert_eq!(entry.missing(), None);
    }

    line.event(Event::Reason(String::new()));
    bench.tick_at(WAIT * 2);
    assert_eq!(connection(&bench).heard_ns, 0);
    line.missing("it has no such field".to_owned());
    bench.tick_at(WAIT * 2);
    assert_eq!(connection(&bench).heard_ns, 0);
    mirror.event(Event::Mirrored(connection(&bench)));
    bench.tick_at(WAIT * 2);
    assert!(bench.table.entry(other).missing().is_some());
}

#[test]
fn queued_pv_is_not_said_to_be_missing_before_its_search() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.event(Event::Queued);
    bench.tick();
    assert!(bench.tick_at(WAIT * 2).is_empty());
    line.event(Event::Searched);
    bench.tick_at(WAIT * 2);
    line.event(Event::Searched);
    assert!(bench.tick_at(WAIT * 5 / 2).is_empty());
    let changes = bench.tick_at(WAIT * 3);
    assert_eq!(changes.connections[0].1.state, ConnectionState::NotFound);
    assert_eq!(bench.table.next_deadline(), None);
}

#[test]
fn lost_pv_keeps_its_value_and_has_no_rights() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    line.event(Event::Access {
        read: true,
        write: true,
    });
    line.event(Event::Metadata(Box::default()));
    update(&line, 7.0, HIHI);
    bench.tick();
    line.event(Event::Disconnected);
    bench.tick();
    let entry = bench.table.entry(PV);
    assert_eq!(entry.connection.state, ConnectionState::Disconnected);
    assert!(!entry.connection.write);
    assert_eq!(entry.latest.as_ref().unwrap().value, RowValue::Number(7.0));
}

#[test]
fn unresponsive_pv_says_when_its_server_was_last_heard() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    update(&line, 7.0, CALM);
    bench.tick_at(Duration::from_nanos(5));
    line.event(Event::Unresponsive { heard_ns: 9 });
    let changes = bench.tick_at(Duration::from_nanos(20));
    let told = |changes: &Changes| {
        (
            changes.connections[0].1.state,
            changes.connections[0].1.heard_ns,
        )
    };
    assert_eq!(told(&changes), (ConnectionState::Connected, 9));
    assert_eq!(
        changes.connections[0].1.since_ns, 5,
        "the state is as old as before"
    );
    line.event(Event::Responsive);
    let changes = bench.tick_at(Duration::from_nanos(30));
    assert_eq!(told(&changes), (ConnectionState::Connected, 0));

    line.event(Event::Heard(35));
    line.event(Event::Disconnected);
    let changes = bench.tick_at(Duration::from_nanos(40));
    assert_eq!(told(&changes), (ConnectionState::Disconnected, 35));
    line.event(Event::Unresponsive { heard_ns: 36 });
    line.event(Event::Responsive);
    assert!(bench.tick().is_empty(), "it is lost already");
}

#[test]
fn part_of_a_structure_comes_only_after_the_whole() {
    let whole = Arc::new(BlobValue::Structure(Node::default()));
    let part = Arc::new(BlobValue::StructurePart(Node::default()));
    let row = || RowValue::Structure {
        whole: Arc::clone(&whole),
        part: Arc::clone(&part),
    };
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    line.update(0, row(), CALM);
    line.update(1, row(), CALM);
    let values: Vec<_> = bench.tick().rows.into_iter().map(|row| row.value).collect();
    assert_eq!(values, [RowValue::Blob(Arc::clone(&whole)), row()]);
    let latest = bench.table.entry(PV).latest.clone().unwrap();
    assert_eq!(latest.value, RowValue::Blob(whole));
}

#[test]
fn updates_after_a_large_one_in_a_tick_keep_their_order() {
    let array = |bytes: usize| {
        let array = BlobValue::array(ValueType::UInt8, bytes as u32, vec![1; bytes]);
        RowValue::Blob(Arc::new(array))
    };
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    for (n, bytes) in [3, LARGE_BYTES + 1, 4].into_iter().enumerate() {
        line.update(n as i64, array(bytes), if n == 1 { HIHI } else { CALM });
    }
    let changes = bench.tick();
    assert_eq!((changes.updates(), changes.rows.len()), (3, 1));
    assert_eq!(changes.rows[0].value, array(3));
    let told: Vec<_> = (changes.large.iter())
        .map(|row| (row.latest.sequence, row.latest.alarm))
        .collect();
    assert_eq!(told, [(2, HIHI), (3, CALM)], "with the alarm of each");
    assert!(bench.table.entry(PV).large().is_none(), "it is small again");

    line.update(3, array(5), CALM);
    let changes = bench.tick();
    assert_eq!((changes.rows.len(), changes.large.len()), (1, 0));
    assert_eq!(changes.rows[0].alarm, None);
    assert_eq!(changes.rows[0].skips, Skips::NONE);
}

#[test]
fn returned_pv_is_connected_only_with_new_value_and_metadata() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    let told = || line.event(Event::Metadata(Box::default()));
    let rights = || {
        line.event(Event::Access {
            read: true,
            write: true,
        });
    };
    let state = |bench: &Bench| bench.table.entry(PV).connection.state;
    rights();
    line.connected(false);
    told();
    update(&line, 7.0, CALM);
    bench.tick();
    assert_eq!(state(&bench), ConnectionState::Connected);

    line.event(Event::Disconnected);
    rights();
    line.connected(false);
    bench.tick();
    assert_eq!(state(&bench), ConnectionState::Disconnected, "7 is old");
    update(&line, 8.0, CALM);
    bench.tick();
    assert_eq!(
        state(&bench),
        ConnectionState::Disconnected,
        "its unit may be old"
    );
    told();
    let changes = bench.tick();
    assert_eq!(state(&bench), ConnectionState::Connected);
    assert!(changes.connections[0].1.write);

    line.event(Event::Disconnected);
    rights();
    line.connected(false);
    bench.tick();
    assert!(bench.table.next_deadline().is_some());
    told();
    bench.tick_at(RETURN_WAIT);
    assert_eq!(state(&bench), ConnectionState::Disconnected, "8 is old");
}

/// The reason of the PV.
fn reason(bench: &Bench) -> String {
    bench.table.entry(PV).reason().to_owned()
}

#[test]
fn pv_that_returned_without_a_value_is_not_connected_with_its_old_one() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    let state = |bench: &Bench| bench.table.entry(PV).connection.state;
    connect_readable(&line);
    line.event(choices(&line));
    update(&line, 1.0, HIHI);
    bench.tick();
    assert_eq!(state(&bench), ConnectionState::Connected);
    // The IOC stops as soon as the PV has returned, with metadata and without.
    for has_metadata in [true, false] {
        line.event(Event::Disconnected);
        connect_readable(&line);
        if has_metadata {
            line.event(choices(&line));
        }
        bench.tick();
        let expected = if has_metadata {
            WITHOUT_VALUE
        } else {
            WITHOUT_METADATA
        };
        for wait in [RETURN_WAIT, METADATA_WAIT, METADATA_WAIT * 100] {
            let changes = bench.tick_at(wait);
            assert!(changes.connections.is_empty(), "{changes:?}");
            assert_eq!(state(&bench), ConnectionState::Disconnected);
            assert_eq!(reason(&bench), expected);
        }
        assert_eq!(bench.table.next_deadline(), None);
        line.event(Event::Disconnected);
        bench.tick();
        assert_eq!(reason(&bench), "", "its server isn't connected");
        connect_readable(&line);
        if has_metadata {
            line.event(choices(&line));
        }
        for wait in [Duration::ZERO, RETURN_WAIT, METADATA_WAIT] {
            bench.tick_at(wait);
        }
        // An equal value shows that it is current.
        update(&line, 1.0, HIHI);
        let changes = bench.tick_at(METADATA_WAIT);
        assert_eq!(values(&changes), [1.0]);
        assert_eq!(changes.first_values, [PV]);
        assert_eq!(state(&bench), ConnectionState::Connected);
        assert_eq!(
            reason(&bench),
            if has_metadata { "" } else { WITHOUT_METADATA }
        );
    }
}

#[test]
fn returned_pv_without_a_value_says_what_it_still_waits_for() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    line.event(choices(&line));
    update(&line, 1.0, CALM);
    bench.tick();
    line.event(Event::Disconnected);
    connect_readable(&line);
    bench.tick();
    bench.tick_at(RETURN_WAIT);
    bench.tick_at(METADATA_WAIT);
    assert_eq!(reason(&bench), WITHOUT_METADATA);
    line.event(choices(&line));
    bench.tick_at(METADATA_WAIT);
    assert_eq!(reason(&bench), WITHOUT_VALUE);
    // A server that can't send the value is connected, and says why.
    line.refused("too large".to_owned());
    bench.tick_at(METADATA_WAIT);
    let entry = bench.table.entry(PV);
    assert_eq!(entry.connection.state, ConnectionState::Connected);
    assert!(entry.latest.is_none());
    assert_eq!(entry.refusal(), Some("too large"));
}

#[test]
fn server_that_hangs_while_a_value_is_awaited_remains_unresponsive() {
    let heard_ns = |bench: &Bench| bench.table.entry(PV).connection.heard_ns;
    let silent = 500_000_000;
    // A first connection without metadata, with and without a value, and a later one.
    for (has_value, is_later) in [(false, false), (true, false), (true, true)] {
        let mut bench = Bench::new();
        let line = Line::open(&bench.intake, PV, false);
        if is_later {
            connect_readable(&line);
            line.event(choices(&line));
            update(&line, 0.0, CALM);
            bench.tick();
            line.event(Event::Disconnected);
        }
        connect_readable(&line);
        if has_value {
            update(&line, 1.0, CALM);
        }
        bench.tick();
        line.event(Event::Unresponsive { heard_ns: silent });
        bench.tick_at(RETURN_WAIT);
        bench.tick_at(METADATA_WAIT);
        let entry = bench.table.entry(PV);
        assert_eq!(entry.connection.state, ConnectionState::Connected);
        let value = entry.latest.as_ref().map(|latest| &latest.value);
        assert_eq!(value, has_value.then_some(&RowValue::Number(1.0)));
        assert_eq!(heard_ns(&bench), silent, "{has_value} {is_later}");
        assert_eq!(entry.heard_ns, silent, "the row came earlier");
        line.event(Event::Responsive);
        bench.tick_at(METADATA_WAIT);
        assert_eq!(heard_ns(&bench), 0);
    }
}

#[test]
fn reopened_monitor_that_sends_no_row_again_remains_connected() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    line.event(choices(&line));
    update(&line, 1.0, CALM);
    bench.tick();
    connect_readable(&line);
    line.event(choices(&line));
    bench.tick();
    bench.tick_at(RETURN_WAIT);
    let entry = bench.table.entry(PV);
    assert_eq!(entry.connection.state, ConnectionState::Connected);
    assert_eq!(entry.reason(), "");
}

#[test]
fn returned_pv_that_cannot_be_read_is_connected_at_once() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    update(&line, 7.0, CALM);
    line.event(Event::Disconnected);
    line.connected(false);
    bench.tick();
    assert_eq!(
        bench.table.entry(PV).connection.state,
        ConnectionState::Connected
    );
}

#[test]
fn value_of_the_old_type_is_discarded_when_the_type_changes() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    update(&line, 7.0, CALM);
    bench.tick();
    update(&line, 8.0, CALM);
    line.event(Event::Disconnected);
    line.connected(true);
    let changes = bench.tick();
    assert!(changes.rows.is_empty(), "8.0 is of the old type");
    assert!(bench.table.entry(PV).latest.is_none());
    assert_eq!(bench.table.stale_rows_total(), 1);
}

#[test]
fn late_events_of_the_previous_pv_of_a_number_are_ignored() {
    let mut bench = Bench::new();
    let old = Line::open(&bench.intake, PV, false);
    let new = Line::open(&bench.intake, PV, false);
    old.connected(false);
    update(&old, 1.0, CALM);
    new.connected(false);
    update(&new, 2.0, CALM);
    let changes = bench.tick();
    assert_eq!(changes.rows.len(), 1);
    assert_eq!(changes.rows[0].value, RowValue::Number(2.0));
}

#[test]
fn equal_metadata_is_no_change() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    let metadata = Box::new(Metadata {
        units: "mA".into(),
        ..Metadata::default()
    });
    line.event(Event::Metadata(metadata.clone()));
    assert_eq!(bench.tick().metadata.len(), 1);
    line.event(Event::Metadata(metadata));
    assert!(bench.tick().is_empty());
}

#[test]
fn number_after_another_form_in_one_tick_travels_behind_it() {
    let blob = |blob| RowValue::Blob(Arc::new(blob));
    let large = blob(BlobValue::Int64((1 << 53) + 1));
    let small = RowValue::Number;
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    line.connected(false);
    // The updates of a tick, and how many of them travel in its frame.
    for (values, together) in [
        (vec![small(1.0), large.clone(), large.clone()], 3),
        (vec![large.clone(), small(10.0)], 1),
        (
            vec![
                small(9.0),
                large.clone(),
                small(10.0),
                large.clone(),
                small(11.0),
            ],
            2,
        ),
        (vec![small(12.0), small(13.0)], 2),
        (
            vec![blob(BlobValue::Text("x".into())), small(10.0), small(11.0)],
            1,
        ),
        (vec![small(12.0), blob(BlobValue::TextArray(Vec::new()))], 2),
    ] {
        for value in &values {
            line.update(0, value.clone(), CALM);
        }
        let changes = bench.tick();
        let rows = changes.rows.iter().map(|row| row.value.clone());
        let separate = changes.large.iter().map(|row| row.latest.value.clone());
        assert_eq!(changes.rows.len(), together, "{values:?}");
        assert_eq!(rows.chain(separate).collect::<Vec<_>>(), values);
        let rows = changes.rows.iter().map(|row| &row.value);
        let mut after_blob = rows.skip_while(|value| matches!(value, RowValue::Number(_)));
        assert!(after_blob.all(|value| !matches!(value, RowValue::Number(_))));
    }
}

/// Connects a PV that may be read.
fn connect_readable(line: &Line) {
    line.event(Event::Access {
        read: true,
        write: false,
    });
    line.connected(false);
    line.event(Event::Shape(Box::new(Metadata {
        value_type: ValueType::Enum,
        element_count: 1,
        epoch: line.epoch(),
        ..Metadata::default()
    })));
}

fn choices(line: &Line) -> Event {
    Event::Metadata(Box::new(Metadata {
        value_type: ValueType::Enum,
        choices: vec!["Closed".to_owned(), "Open".to_owned()],
        epoch: line.epoch(),
        ..Metadata::default()
    }))
}

fn values(changes: &Changes) -> Vec<f64> {
    let number = |value: &RowValue| match value {
        RowValue::Number(number) => *number,
        other => panic!("{other:?}"),
    };
    changes.rows.iter().map(|row| number(&row.value)).collect()
}

#[test]
fn values_before_the_metadata_wait_for_them_in_order() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    update(&line, 0.0, CALM);
    update(&line, 1.0, HIHI);
    let changes = bench.tick();
    assert!(changes.rows.is_empty() && bench.table.entry(PV).latest.is_none());
    assert!(!bench.table.entry(PV).is_complete());
    line.event(choices(&line));
    let changes = bench.tick();
    assert_eq!(values(&changes), [0.0, 1.0]);
    assert!(changes.rows.iter().all(|row| row.skips == Skips::NONE));
    assert!(bench.table.entry(PV).is_complete());
    update(&line, 0.0, CALM);
    assert_eq!(values(&bench.tick()), [0.0]);
    // The same after a reconnect.
    line.event(Event::Disconnected);
    connect_readable(&line);
    update(&line, 1.0, CALM);
    let changes = bench.tick();
    assert!(changes.rows.is_empty());
    let state = bench.table.entry(PV).connection.state;
    assert_eq!(state, ConnectionState::Disconnected);
    line.event(choices(&line));
    assert_eq!(values(&bench.tick()), [1.0]);
    assert!(bench.table.entry(PV).is_complete());
}

#[test]
fn many_values_before_the_metadata_are_bounded_and_counted() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    for number in 0..1_000 {
        update(&line, f64::from(number), CALM);
    }
    bench.tick();
    line.event(choices(&line));
    let changes = bench.tick();
    let shown = values(&changes);
    assert!(shown.len() < 100 && shown.last() == Some(&999.0));
    let skipped: u32 = changes.rows.iter().map(|row| row.skips.relay).sum();
    assert_eq!(shown.len() + skipped as usize, 1_000);
}

#[test]
fn value_of_a_server_that_sends_no_metadata_comes_late_with_its_type_and_a_reason() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    update(&line, 1.0, CALM);
    assert!(bench.tick().rows.is_empty());
    assert_eq!(bench.table.next_deadline(), Some(bench.start + RETURN_WAIT));
    let reason = |bench: &Bench| {
        let metadata = bench.table.entry(PV).metadata.clone();
        metadata.map(|metadata| metadata.missing_field.clone())
    };
    let changes = bench.tick_at(RETURN_WAIT);
    assert_eq!(changes.rows.len(), 0);
    assert_eq!(reason(&bench).as_deref(), Some(WITHOUT_METADATA));
    assert!(
        bench.table.entry(PV).latest.is_none(),
        "its label isn't known"
    );
    assert_eq!(
        bench.table.next_deadline(),
        Some(bench.start + METADATA_WAIT)
    );
    let changes = bench.tick_at(METADATA_WAIT);
    assert_eq!(values(&changes), [1.0]);
    assert_eq!(changes.metadata[0].1.value_type, ValueType::Enum);
    assert!(bench.table.entry(PV).is_complete());
    assert_eq!(reason(&bench).as_deref(), Some(WITHOUT_METADATA));
    line.event(choices(&line));
    bench.tick_at(METADATA_WAIT);
    assert_eq!(reason(&bench).as_deref(), Some(""));
}

#[test]
fn value_waits_for_metadata_that_comes_after_a_second() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    bench.tick();
    assert!(bench.tick_at(RETURN_WAIT).rows.is_empty());
    update(&line, 1.0, CALM);
    let later = RETURN_WAIT * 3 / 2;
    assert!(bench.tick_at(later).rows.is_empty());
    line.event(choices(&line));
    let changes = bench.tick_at(later);
    assert_eq!(values(&changes), [1.0]);
    let metadata = bench.table.entry(PV).metadata.clone().expect("metadata");
    assert_eq!(metadata.missing_field, "");
    assert!(!metadata.choices.is_empty());
}

#[test]
fn metadata_that_came_late_without_a_value_is_not_called_missing() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    let reason = |bench: &Bench| {
        let metadata = bench.table.entry(PV).metadata.clone();
        metadata.map(|metadata| metadata.missing_field.clone())
    };
    connect_readable(&line);
    bench.tick();
    bench.tick_at(RETURN_WAIT);
    assert_eq!(reason(&bench).as_deref(), Some(WITHOUT_METADATA));
    line.event(choices(&line));
    bench.tick_at(RETURN_WAIT * 2);
    bench.tick_at(METADATA_WAIT);
    assert_eq!(reason(&bench).as_deref(), Some(""));
}

#[test]
fn disconnected_pv_is_not_said_to_be_connected_without_labels() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    update(&line, 1.0, CALM);
    bench.tick();
    bench.tick_at(METADATA_WAIT);
    line.event(Event::Disconnected);
    bench.tick_at(METADATA_WAIT);
    let metadata = bench.table.entry(PV).metadata.clone();
    assert_eq!(metadata.unwrap().missing_field, "");
}

#[test]
fn value_that_the_server_cannot_send_is_gone_with_a_reason_until_it_comes() {
    let mut bench = Bench::new();
    let line = Line::open(&bench.intake, PV, false);
    connect_readable(&line);
    line.event(choices(&line));
    update(&line, 1.0, CALM);
    bench.tick();
    let epoch = bench.table.entry(PV).epoch();
    update(&line, 0.0, CALM);
    line.refused("too large".to_owned());
    let changes = bench.tick();
    assert!(changes.rows.is_empty(), "that was before");
    let entry = bench.table.entry(PV);
    assert_eq!(entry.refusal(), Some("too large"));
    assert!(entry.latest.is_none() && entry.epoch() != epoch);
    assert_eq!(entry.connection.state, ConnectionState::Connected);
    // Clients are told once, and metadata don't end it.
    line.refused("too large".to_owned());
    assert!(bench.tick().metadata.is_empty());
    line.event(choices(&line));
    bench.tick();
    assert_eq!(bench.table.entry(PV).refusal(), Some("too large"));
    update(&line, 1.0, CALM);
    let changes = bench.tick();
    assert_eq!(values(&changes), [1.0]);
    let known = &changes.metadata[0].1;
    assert_eq!((known.missing_field.as_str(), known.choices.len()), ("", 2));
    assert_eq!(bench.table.entry(PV).refusal(), None);
}

#[test]
fn value_that_the_server_of_another_relay_cannot_send_is_known_here_too() {
    let mut bench = Bench::new();
    let (owner, other) = (Line::open(&bench.intake, PV, false), PvId(1));
    connect_readable(&owner);
    owner.event(choices(&owner));
    update(&owner, 1.0, CALM);
    let mirror = Line::open(&bench.intake, other, false).succeed();
    // As a feed passes on what the owner shows.
    let pass = |bench: &mut Bench| {
        bench.tick();
        let entry = bench.table.entry(PV);
        let metadata = Metadata {
            epoch: mirror.epoch(),
            ..entry.metadata.as_deref().cloned().unwrap()
        };
        mirror.event(Event::Metadata(Box::new(metadata)));
        if let Some(RowValue::Number(value)) = entry.latest.as_ref().map(|latest| &latest.value) {
            update(&mirror, *value, CALM);
        }
        mirror.event(Event::Mirrored(entry.connection));
        bench.tick();
        let [of_owner, here] = [PV, other].map(|pv| bench.table.entry(pv));
        assert_eq!(here.refusal(), of_owner.refusal());
        here.refusal().map(ToOwned::to_owned)
    };
    assert_eq!(pass(&mut bench), None);
    owner.refused("too large".to_owned());
    mirror.withdraw();
    assert_eq!(pass(&mut bench).as_deref(), Some("too large"));
    owner.refused("much too large".to_owned());
    assert_eq!(pass(&mut bench).as_deref(), Some("much too large"));
    update(&owner, 0.0, CALM);
    assert_eq!(pass(&mut bench), None);
    assert!(bench.table.entry(other).is_complete());
    // A value that may still come isn't refused.
    mirror.withdraw();
    let known = Metadata {
        epoch: mirror.epoch(),
        missing_field: WITHOUT_METADATA.to_owned(),
        ..Metadata::default()
    };
    mirror.event(Event::Metadata(Box::new(known)));
    bench.tick();
    let here = bench.table.entry(other);
    assert_eq!(
        (here.refusal(), here.awaited()),
        (None, Some(WITHOUT_METADATA))
    );
}
