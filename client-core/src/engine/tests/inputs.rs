//! Formulas of a page read their inputs from cells, those of the engine from its store.

use pvwire_schema::decode::DetailRow;
use pvwire_schema::types::{
    Alarm as WireAlarm, Array, Connection, ConnectionState, Limits, Metadata, Node, NodeValue,
    PutValue, ValueType,
};

use super::*;
use crate::engine::computed::{input, link};
use crate::formula::reading::{Readings, SELECTION};
use crate::formula::{self, Input, Link, Operand, value, wire};
use crate::select::execute::{ALL_PARTS, Results, SlotPv, Surroundings, Units, execute};
use crate::store::{Store, Text, kind};

fn metadata(value_type: ValueType) -> Metadata {
    Metadata {
        value_type,
        ..Metadata::default()
    }
}

fn array(value_type: ValueType, count: u32, bytes: &[u8]) -> Array {
    Array {
        value_type,
        count,
        data: bytes.to_vec().into(),
    }
}

/// PVs in many states.
struct Pvs {
    store: Store,
    held: Held,
}

impl Pvs {
    fn add(&mut self, name: &str, known: &Metadata) -> Slot {
        let slot = self.store.add(name);
        self.store.set_connection(slot, connected());
        self.store.set_metadata(slot, known);
        // The fraction of a second is nearly one.
        self.store.set_time(slot, 1_753_000_000.0, 999_999_999);
        slot
    }

    fn numbers(&mut self) {
        for (value_type, number) in [
            (ValueType::Float64, 0.1),
            (ValueType::Float64, f64::NAN),
            (ValueType::Float32, -0.0),
            (ValueType::Int32, -7.0),
            (ValueType::UInt64, 9_007_199_254_740_991.0),
            (ValueType::Int8, 0.5),
            (ValueType::Boolean, 1.0),
            (ValueType::Unknown, 3.0),
        ] {
            let slot = self.add("N", &metadata(value_type));
            self.store.set_number(slot, number);
        }
        for choices in [&["Zu", "Offen °"][..], &[]] {
            let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
            let value_type = ValueType::Enum;
            let slot = self.add(
                "E",
                &Metadata {
                    choices,
                    value_type,
                    ..Metadata::default()
                },
            );
            self.store.set_number(slot, 1.0);
        }
        for digits in ["-9223372036854775808", "18446744073709551615"] {
            let slot = self.add("I", &metadata(ValueType::Int64));
            let text = Text::One(digits.to_owned());
            let number = digits.parse().unwrap();
            self.store.set_text(slot, kind::LARGE_INTEGER, text, number);
        }
    }

    fn texts(&mut self) {
        for text in ["", "größer als 10 µm 😀", "plain"] {
            let slot = self.add("T", &metadata(ValueType::String));
            let one = Text::One(text.to_owned());
            self.store.set_text(slot, kind::TEXT, one, f64::NAN);
            let slot = self.add("TT", &metadata(ValueType::String));
            let many = Text::Many(vec![text.to_owned(), "x".to_owned()]);
            self.store.set_text(slot, kind::TEXT_ARRAY, many, f64::NAN);
        }
        // Longer than a short cell can tell.
        let slot = self.add("T", &metadata(ValueType::String));
        let long = Text::One("é".repeat(20_000));
        self.store.set_text(slot, kind::TEXT, long, f64::NAN);
    }

    fn arrays(&mut self) {
        let text = Metadata {
            form: "String".to_owned(),
            ..metadata(ValueType::Int8)
        };
        for (name, known, elements) in [
            ("C", &text, array(ValueType::Int8, 5, "aé\0x".as_bytes())),
            (
                "C.VAL$",
                &metadata(ValueType::UInt8),
                array(ValueType::UInt8, 2, b"ab"),
            ),
            (
                "C",
                &metadata(ValueType::UInt8),
                array(ValueType::UInt8, 2, b"ab"),
            ),
            (
                "W",
                &metadata(ValueType::Int16),
                array(ValueType::Int16, 2, &[1, 0, 255, 255]),
            ),
            (
                "W",
                &metadata(ValueType::Int64),
                array(ValueType::Int64, 1, &[1, 0, 0, 0, 0, 0, 0, 1]),
            ),
            (
                "W",
                &metadata(ValueType::Float64),
                array(ValueType::Float64, 0, &[]),
            ),
        ] {
            let slot = self.add(name, known);
            self.held.set_array(slot, elements);
            self.store.set_opaque(slot, kind::ARRAY);
        }
        let slot = self.add("S", &metadata(ValueType::Structure));
        let value = NodeValue::Structure(Vec::new());
        self.held.set_structure(
            slot,
            Node {
                value,
                ..Node::default()
            },
        );
        self.store.set_opaque(slot, kind::STRUCTURE);
        let slot = self.add("U", &metadata(ValueType::Unknown));
        self.store.set_opaque(slot, kind::UNKNOWN);
    }

    fn alarms(&mut self) {
        for (severity, status, message) in [
            (Severity::NoAlarm, 0, "fine"),
            (Severity::Minor, 4, ""),
            (Severity::Major, 3, "zu heiß: 120 °C"),
            (Severity::Invalid, 99, ""),
            (Severity::Invalid, 107, "server"),
        ] {
            let slot = self.add("A", &metadata(ValueType::Float64));
            self.store.set_number(slot, 1.0);
            self.store
                .set_alarm(slot, Some(WireAlarm { severity, status }));
            let detail = DetailRow {
                row: 0,
                user_tag: 0,
                message,
            };
            self.store
                .set_detail(slot, (!message.is_empty()).then_some(detail));
        }
        for name in ["NOT_SENT", "=not_sent"] {
            let slot = self.add(name, &metadata(ValueType::Float64));
            self.store.set_number(slot, 1.0);
            self.store.set_alarm(slot, None);
        }
        for (name, alarm) in [
            ("loc://undefined", formula::Alarm::UNDEFINED),
            ("=undefined", formula::Alarm::UNDEFINED),
            ("=not_sent_either", formula::Alarm::NOT_SENT),
        ] {
            let slot = self.add(name, &metadata(ValueType::Float64));
            let mut operand = Operand::new(value::Value::Number(1.0));
            operand.alarm = alarm;
            let shown = wire::shown(&operand, false);
            (self.store).show(slot, &PutValue::Number(1.0), &shown, "", &[]);
        }
        let display = Limits {
            low: -1.0,
            high: f64::NAN,
        };
        let slot = self.add(
            "L",
            &Metadata {
                display,
                ..metadata(ValueType::Float64)
            },
        );
        self.store.set_number(slot, 1.0);
        self.store.set_time(slot, 0.0, 0);
    }

    fn connections(&mut self) {
        for state in [
            ConnectionState::Connecting,
            ConnectionState::NotFound,
            ConnectionState::Disconnected,
        ] {
            let slot = self.add("G", &metadata(ValueType::Float64));
            self.store.set_number(slot, 1.0);
            self.store.set_connection(
                slot,
                Connection {
                    state,
                    ..connected()
                },
            );
        }
        let slot = self.add("H", &metadata(ValueType::Float64));
        self.store.set_number(slot, 1.0);
        let heard_ns = 1_753_000_001_000_000_000;
        self.store.set_connection(
            slot,
            Connection {
                heard_ns,
                ..connected()
            },
        );
        let slot = self.add("R", &metadata(ValueType::Float64));
        self.store.refuse(slot, "keine PV: ö");
        self.add("NONE", &metadata(ValueType::Float64));
        self.store.add("NEW");
    }
}

#[test]
fn inputs_from_cells_are_those_from_the_store() {
    let mut pvs = Pvs {
        store: Store::new(),
        held: Held::new(),
    };
    pvs.numbers();
    pvs.texts();
    pvs.arrays();
    pvs.alarms();
    pvs.connections();
    let Pvs { store, held } = &pvs;
    let program = select::program(SELECTION).unwrap();
    let mut results = Results::new(Units::Utf16);
    let slots = 0..store.len() as Slot;
    for slot in slots.clone() {
        let pv = SlotPv::new(store, slot, Surroundings::default());
        execute(&program, &pv, ALL_PARTS, &mut results);
    }

    let mut readings = Readings::new(results.cells(), results.text());
    for slot in slots {
        let name = store.name(slot);
        let view = View::new(name, store, slot, held, f64::NAN);
        let reading = readings.next(held.array(slot).cloned(), name.ends_with('$'));
        // NaN is not equal to itself.
        let shown = |input: &Input| format!("{input:?}");
        assert_eq!(shown(&reading.input), shown(&input(&view)), "{name} {slot}");
        let expected = match link(&view) {
            Link::Connected { is_silent, since } => Link::Connected {
                is_silent,
                since: since.map(|_| "1970-01-01T00:00:00.005Z".to_owned()),
            },
            Link::Gone => Link::Gone,
            Link::Refused(reason) => Link::Refused(reason),
        };
        assert_eq!(reading.link, expected, "{name} {slot}");
    }
}

#[test]
fn alarm_that_is_not_sent_hides_none_through_nested_formulas() {
    let mut engine = Engine::new();
    let names = ["=UNSENT + M", "=`=UNSENT * 2` + M", "=`=UNSENT * 2`"];
    let names = names.map(str::to_owned);
    let pvs = engine.open(&names, Filter::ALL, at(0.0));
    let undefined = engine.open(["=`=loc://never * 2` + M"], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    let [(request, RequestBody::Subscribe { names, .. })] = &sent(&mut engine, 0.0)[..] else {
        panic!("one request")
    };
    let ids: Vec<_> = (1..=names.len() as u32).map(PvId).collect();
    let reply = Reply::Subscribed {
        ids: ids.clone(),
        errors: Vec::new(),
    };
    let major = WireAlarm {
        severity: Severity::Major,
        status: 3,
    };
    let bytes = frame(FrameKind::Snapshot, 10, 0, |e| {
        e.reply(*request, &reply);
        for id in &ids {
            e.connection(*id, connected());
        }
        for (id, name) in ids.iter().zip(names) {
            let alarm = if name == "M" { major } else { WireAlarm::NONE };
            let marks = RowMarks {
                sequence: 1,
                alarm: Some(alarm),
                ..RowMarks::default()
            };
            e.number(*id, 1_000_000_000, 1.0, marks);
        }
    });
    engine.receive(bytes, at(0.0)).unwrap();
    engine.changes();
    let alarm = |pv: Pv| {
        let view = engine.read(pv).unwrap();
        view.alarm().map(|alarm| (alarm.severity, alarm.status))
    };
    for pv in &pvs[..2] {
        assert_eq!(alarm(*pv), Some((Severity::Major, 3)), "{pv:?}");
    }
    assert_eq!(alarm(pvs[2]), None);
    assert_eq!(
        alarm(undefined[0]),
        None,
        "a value that was never set is worse"
    );
}

/// The value of `` =`NAME` `` when the PV has this array.
fn of_formula(name: &str, form: &str, array: Array) -> (bool, String) {
    let mut engine = Engine::new();
    let pvs = engine.open([format!("=`{name}`")], Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    let reply = Reply::Subscribed {
        ids: vec![PvId(1)],
        errors: Vec::new(),
    };
    let metadata = Metadata {
        value_type: array.value_type,
        form: form.to_owned(),
        ..Metadata::default()
    };
    let value = BlobValue::Array(array);
    let bytes = frame(FrameKind::Snapshot, 10, 0, |e| {
        e.reply(1, &reply);
        e.metadata(PvId(1), &metadata);
        e.connection(PvId(1), connected());
        e.blob(PvId(1), 1, &value, RowMarks::default());
    });
    engine.receive(bytes, at(0.0)).unwrap();
    engine.changes();
    match engine.read(pvs[0]).unwrap().value().unwrap() {
        Value::Text(text) => (true, text.to_owned()),
        Value::Array(array) => (false, format!("{:?}", array.numbers())),
        other => panic!("{other:?}"),
    }
}

fn characters(value_type: ValueType, bytes: &[u8]) -> Array {
    Array {
        value_type,
        count: bytes.len() as u32,
        data: bytes.to_vec().into(),
    }
}

#[test]
fn only_characters_of_long_strings_are_a_text() {
    let text = |text: &str| (true, text.to_owned());
    let hi = || characters(ValueType::Int8, b"hi\0x");
    assert_eq!(of_formula("A.NAME$", "", hi()), text("hi"));
    let latin_1 = characters(ValueType::UInt8, b"\xb0C");
    assert_eq!(of_formula("A", "String", latin_1), text("°C"));
    let numbers = (false, "[104.0, 105.0, 0.0, 120.0]".to_owned());
    assert_eq!(of_formula("A", "", hi()), numbers);

    let data: Vec<u8> = [104.0_f64, 0.5].map(f64::to_le_bytes).concat();
    let doubles = || Array {
        value_type: ValueType::Float64,
        count: 2,
        data: data.clone().into(),
    };
    let numbers = (false, "[104.0, 0.5]".to_owned());
    assert_eq!(of_formula("A.VAL$", "", doubles()), numbers);
    assert_eq!(of_formula("A", "String", doubles()), numbers);
}
