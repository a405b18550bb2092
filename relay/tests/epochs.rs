//! A client learns that a PV has a new type before it gets the first value of that type.
//!
//! Topology: none; a line of a source, the table and the ticks between them, step by step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_relay::ingest::{Event, Intake, Line, RowValue};
use pvwire_relay::state::table::{Changes, Now, Table};
use pvwire_schema::types::{Alarm, Metadata, PvId, Severity, ValueType};

const PV: PvId = PvId(0);

struct Stage {
    intake: Arc<Intake>,
    table: Table,
    tick: u64,
}

impl Stage {
    fn tick(&mut self) -> Changes {
        self.tick += 1;
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let now = Now {
            instant: Instant::now(),
            wall_ns: 0,
        };
        let table = &mut self.table;
        self.intake
            .drain(|taken| table.apply(&mut changes, now, taken));
        changes
    }
}

fn update(line: &Line, number: f64) {
    let alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };
    line.update(1, RowValue::Number(number), alarm);
}

fn metadata(line: &Line, value_type: ValueType) {
    line.event(Event::Metadata(Box::new(Metadata {
        value_type,
        element_count: 1,
        epoch: line.epoch(),
        ..Metadata::default()
    })));
}

/// libca's two subscriptions answer one after the other, so a tick may end between value and
/// metadata. A client discards its value when the epoch changes: an earlier value of the new epoch
/// would be discarded too, for good if it doesn't change.
/// epoch that came before would be forgotten too, for good if it doesn't change.
#[test]
fn value_of_a_new_epoch_never_comes_before_its_metadata() {
    let intake = Intake::new();
    let line = Line::open(&intake, PV, false);
    let mut stage = Stage {
        intake,
        table: Table::new(Duration::from_secs(5)),
        tick: 0,
    };
    line.connected(false);
    metadata(&line, ValueType::Float64);
    update(&line, 1.0);
    stage.tick();
    line.event(Event::Disconnected);
    stage.tick();

    line.connected(true);
    update(&line, 2.0);
    let first = stage.tick();
    metadata(&line, ValueType::Enum);
    let second = stage.tick();

    let mut epoch = None;
    for changes in [first, second] {
        if let Some((_, metadata)) = changes.metadata.first() {
            epoch = Some(metadata.epoch);
        }
        if !changes.rows.is_empty() {
            assert_eq!(epoch, Some(line.epoch()), "a value without its epoch");
        }
    }
    assert_eq!(epoch, Some(line.epoch()));
    let entry = stage.table.entry(PV);
    assert_eq!(entry.latest.as_ref().unwrap().value, RowValue::Number(2.0));
    assert_eq!(entry.metadata.as_ref().unwrap().value_type, ValueType::Enum);
}
