//! Tests of slots, values and connection states.

use pvwire_schema::types::{Alarm, ConnectionState, Metadata, PvId, Severity, ValueType};

use super::*;

fn slots(store: &Store, id: u32) -> Vec<Slot> {
    let known = |slot: Slot| (slot != NO_SLOT).then_some(slot);
    let after = |slot: &Slot| known(store.after(*slot));
    let mut slots: Vec<_> = std::iter::successors(known(store.first(PvId(id))), after).collect();
    slots.sort_unstable();
    slots
}

#[test]
fn one_id_leads_to_every_slot_of_its_pv() {
    let mut store = Store::new();
    let (a, b, c) = (store.add("X"), store.add("ca://X"), store.add("Y"));
    for slot in [a, b] {
        store.bind(slot, PvId(7));
    }
    store.bind(c, PvId(u32::MAX - 1));

    assert_eq!(slots(&store, 7), [a, b]);
    store.unbind(a);
    assert_eq!(slots(&store, 7), [b]);
    store.bind(a, PvId(u32::MAX - 1));
    assert_eq!(slots(&store, u32::MAX - 1), [a, c]);
    store.remove(c);
    assert_eq!(slots(&store, u32::MAX - 1), [a]);
    assert_eq!(slots(&store, 8), [0_u32; 0]);
}

#[test]
fn an_equal_value_touches_nothing() {
    let mut store = Store::new();
    let slot = store.add("X");
    store.set_number(slot, 1.0);
    store.set_time(slot, -1.0, 999_999_999);
    store.clear_dirty();

    store.set_number(slot, 1.0);
    store.set_time(slot, -1.0, 999_999_999);
    assert_eq!(store.dirty(), [0_u32; 0]);
    assert_eq!(
        (store.pvs[0].seconds, store.pvs[0].nanoseconds),
        (-1.0, 999_999_999)
    );

    store.set_number(slot, -0.0);
    store.set_number(slot, 0.0);
    assert_eq!(store.pvs[0].parts, part::VALUE);
    assert_eq!(store.dirty(), [slot], "listed once, however often touched");
}

#[test]
fn not_a_number_is_a_value_that_can_stay_the_same() {
    let mut store = Store::new();
    let slot = store.add("X");
    store.set_number(slot, f64::NAN);
    store.clear_dirty();
    store.set_number(slot, f64::NAN);
    assert_eq!(store.dirty(), [0_u32; 0]);
}

#[test]
fn a_pv_that_comes_back_with_another_type_shows_no_value_of_the_old_one() {
    let mut store = Store::new();
    let slot = store.add("X");
    let mut metadata = Metadata {
        value_type: ValueType::Float64,
        ..Default::default()
    };
    store.set_metadata(slot, &metadata);
    store.set_number(slot, 2.0);
    store.set_alarm(
        slot,
        Some(Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        }),
    );
    store.count(slot, 9);

    metadata.units = "mm".into();
    store.set_metadata(slot, &metadata);
    assert_eq!(store.pvs[0].kind, kind::NUMBER, "new units keep the value");

    metadata.value_type = ValueType::Enum;
    store.set_metadata(slot, &metadata);
    assert_eq!(store.pvs[0].kind, kind::NONE);
    assert_eq!(store.pvs[0].severity, SEVERITY_UNKNOWN);
    assert_eq!(store.pvs[0].sequence, 0);

    store.set_number(slot, 1.0);
    metadata.epoch = 1;
    store.set_metadata(slot, &metadata);
    assert_eq!(store.pvs[0].kind, kind::NONE, "another epoch is enough");
}

#[test]
fn losing_the_relay_marks_every_pv_and_keeps_its_value() {
    let mut store = Store::new();
    let slot = store.add("X");
    store.bind(slot, PvId(1));
    store.set_number(slot, 5.0);
    store.clear_dirty();

    store.pvs[0].state = ConnectionState::Connected.number();
    let gone = store.add("GONE");
    store.pvs[gone as usize].heard_ms = 500.0;
    store.relay_lost(1000.0, 900.0);
    assert_eq!(store.pvs[0].state, state::RELAY_LOST);
    assert_eq!(store.pvs[0].heard_ms, 900.0);
    assert_eq!(store.pvs[gone as usize].heard_ms, 500.0);
    assert_eq!(store.pvs[0].value, 5.0);
    assert_eq!(store.pvs[0].parts, part::CONNECTION);
    assert_eq!(
        slots(&store, 1),
        [0_u32; 0],
        "ids of the lost relay lead nowhere"
    );
    let late = store.add("Y");
    assert_eq!(store.pvs[late as usize].state, state::RELAY_LOST);
}

#[test]
fn a_slot_that_is_used_again_knows_nothing_of_the_pv_before() {
    let mut store = Store::new();
    let slot = store.add("X");
    store.set_text(slot, kind::TEXT, Text::One("old".into()), 0.0);
    store.set_metadata(slot, &Metadata::default());
    store.refuse(slot, "no");
    store.remove(slot);

    assert_eq!(store.add("Y"), slot);
    assert_eq!(store.pvs[0].kind, kind::NONE);
    assert_eq!(store.metadata_version[0], 0);
    assert_eq!((store.reason(slot), store.text(slot)), ("", &Text::None));
}
