use pvwire_schema::types::{Alarm, Array, BlobValue, Limits, Severity, ValueType};

use super::*;
use crate::vtype::Value;

mod classes;
mod values;

const CALM: Alarm = Alarm {
    severity: Severity::NoAlarm,
    status: 0,
};

const HIGH: Alarm = Alarm {
    severity: Severity::Minor,
    status: 4,
};

/// 2024-02-29T23:59:59.5Z.
const TIME_NS: i64 = 1_709_251_199_500_000_000;

const TIME: &str = r#""seconds":1709251199,"nanos":500000000}"#;

fn metadata(value_type: ValueType) -> Metadata {
    Metadata {
        value_type,
        element_count: 1,
        units: "mm".to_owned(),
        precision: (value_type == ValueType::Float64).then_some(3),
        display: Limits {
            low: 0.0,
            high: 10.0,
        },
        warning: Limits {
            low: 0.0,
            high: 0.0,
        },
        ..Metadata::default()
    }
}

/// An enum with one label.
fn labelled() -> Metadata {
    Metadata {
        choices: vec!["off".to_owned()],
        ..metadata(ValueType::Enum)
    }
}

/// A text, and an array of numbers.
fn text_and_numbers() -> (BlobValue, BlobValue) {
    let text = BlobValue::Text("a".to_owned());
    (text, array(ValueType::Int16, &[1, 0]))
}

fn sample(value: Value<'_>) -> Sample<'_> {
    Sample {
        value,
        alarm: CALM,
        message: "",
        time_ns: TIME_NS,
    }
}

fn state<'a>(metadata: &'a Metadata, value: Value<'a>) -> State<'a> {
    State {
        is_connected: true,
        is_absent: false,
        is_unreadable: false,
        readonly: false,
        metadata: Some(metadata),
        latest: Some(sample(value)),
        now_ns: TIME_NS,
    }
}

const SEARCHED: State<'_> = State {
    is_connected: false,
    is_absent: false,
    is_unreadable: false,
    readonly: true,
    metadata: None,
    latest: None,
    now_ns: TIME_NS,
};

/// The texts in a sequence of messages.
fn texts(mut bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0], 0x81);
        let (length, rest) = match bytes[1] {
            126 => (
                usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
                &bytes[4..],
            ),
            length => (usize::from(length), &bytes[2..]),
        };
        let (text, rest) = rest.split_at(length);
        let text = String::from_utf8(text.to_vec()).unwrap();
        let read: serde_json::Result<serde_json::Value> = serde_json::from_str(&text);
        assert!(read.is_ok(), "{text}");
        texts.push(text);
        bytes = rest;
    }
    texts
}

fn newcomer(dialect: Dialect, state: &State<'_>) -> Vec<String> {
    let mut out = Vec::new();
    Life::new("X", dialect, state).newcomer(&mut out, state, false);
    texts(&out)
}

fn array(value_type: ValueType, data: &[u8]) -> BlobValue {
    let size = value_type.element_bytes().unwrap();
    BlobValue::Array(Array {
        value_type,
        count: (data.len() / size) as u32,
        data: data.to_vec().into(),
    })
}

fn row(life: &mut Life, metadata: &Metadata, sample: &Sample<'_>) -> String {
    let mut out = Vec::new();
    life.row(&mut out, metadata, sample);
    texts(&out).pop().unwrap()
}

fn refresh(life: &mut Life, state: &State<'_>, came_back: bool, has_new: bool) -> Vec<String> {
    let mut out = Vec::new();
    life.refresh(&mut out, state, came_back, has_new, false);
    texts(&out)
}

#[test]
fn client_after_a_pause_without_any_sees_each_change_of_severity() {
    let metadata = metadata(ValueType::Float64);
    let calm = state(&metadata, Value::Number(1.0));
    let mut life = Life::new("X", Dialect::Ca, &calm);
    let mut minor = calm;
    minor.latest = Some(Sample {
        alarm: HIGH,
        ..sample(Value::Number(1.0))
    });
    let mut out = Vec::new();
    life.newcomer(&mut out, &minor, false);
    assert!(texts(&out)[0].contains(r#""severity":"MINOR""#));
    let back = row(&mut life, &metadata, &sample(Value::Number(1.0)));
    assert!(back.contains(r#""severity":"NONE""#), "{back}");
}

#[test]
fn class_that_changed_in_a_pause_is_the_one_that_is_lost() {
    let (text, numbers) = text_and_numbers();
    let before = metadata(ValueType::Int16);
    let mut life = Life::new("X", Dialect::Ca, &state(&before, Value::Blob(&numbers)));
    let after = metadata(ValueType::String);
    let shown = state(&after, Value::Blob(&text));
    life.newcomer(&mut Vec::new(), &shown, false);
    let mut out = Vec::new();
    let lost = State {
        is_connected: false,
        ..shown
    };
    life.catch_up(&mut out, &lost, true, false);
    assert!(
        texts(&out)[0].contains(r#""value":"NaN""#),
        "{:?}",
        texts(&out)
    );
}

#[test]
fn update_has_value_and_time_and_a_severity_that_changed() {
    let metadata = metadata(ValueType::Float64);
    let calm = sample(Value::Number(1.0));
    let mut life = Life::new("X", Dialect::Ca, &state(&metadata, Value::Number(0.0)));
    let plain = format!(r#"{{"type":"update","pv":"X","value":1.0,{TIME}"#);
    assert_eq!(row(&mut life, &metadata, &calm), plain);
    let high = Sample {
        alarm: HIGH,
        ..calm
    };
    let minor = format!(r#"{{"type":"update","pv":"X","severity":"MINOR","value":1.0,{TIME}"#);
    assert_eq!(row(&mut life, &metadata, &high), minor);
    assert_eq!(row(&mut life, &metadata, &high), plain);
}

#[test]
fn severity_of_enums_texts_and_arrays_is_updated_too() {
    let (text, numbers) = text_and_numbers();
    let labels = labelled();
    for (metadata, value) in [
        (labels, Value::Number(0.0)),
        (metadata(ValueType::String), Value::Blob(&text)),
        (metadata(ValueType::Int16), Value::Blob(&numbers)),
    ] {
        let mut life = Life::new("X", Dialect::Ca, &state(&metadata, value));
        let alarm = HIGH;
        let update = row(
            &mut life,
            &metadata,
            &Sample {
                alarm,
                ..sample(value)
            },
        );
        assert!(
            update.contains(r#""pv":"X","severity":"MINOR","#),
            "{update}"
        );
    }
}

#[test]
fn lost_connection_is_told_by_what_each_class_can_say() {
    let (text, numbers) = text_and_numbers();
    let labels = labelled();
    let texts = BlobValue::TextArray(vec!["a".to_owned()]);
    let nan = r#""severity":"INVALID","value":"NaN""#;
    for (metadata, value, expected) in [
        (metadata(ValueType::Float64), Value::Number(0.0), nan),
        (labels, Value::Number(0.0), nan),
        (metadata(ValueType::String), Value::Blob(&text), nan),
        (
            metadata(ValueType::Int16),
            Value::Blob(&numbers),
            r#""severity":"INVALID","b64srt":"""#,
        ),
        (
            metadata(ValueType::String),
            Value::Blob(&texts),
            r#""value":"NaN""#,
        ),
    ] {
        let there = state(&metadata, value);
        let mut life = Life::new("X", Dialect::Ca, &there);
        let gone = State {
            is_connected: false,
            ..there
        };
        let message = format!(r#"{{"type":"update","pv":"X",{expected},{TIME}"#);
        assert_eq!(refresh(&mut life, &gone, false, false), [message]);
        assert!(refresh(&mut life, &gone, false, false).is_empty());
        // The PV is back: clients get everything again, like a new client.
        let back = refresh(&mut life, &there, false, true);
        assert_eq!(back, newcomer(Dialect::Ca, &there));
    }
}

#[test]
fn connection_that_came_back_within_a_tick_is_told_as_new() {
    let metadata = metadata(ValueType::Float64);
    let there = state(&metadata, Value::Number(0.0));
    let mut life = Life::new("X", Dialect::Ca, &there);
    assert_eq!(
        refresh(&mut life, &there, true, true),
        newcomer(Dialect::Ca, &there)
    );
}

#[test]
fn pv_that_is_absent_has_one_message_without_a_value() {
    let mut life = Life::new("X", Dialect::Ca, &SEARCHED);
    assert!(newcomer(Dialect::Ca, &SEARCHED).is_empty());
    let lost = State {
        is_absent: true,
        ..SEARCHED
    };
    let message = format!(r#"{{"type":"update","pv":"X","readonly":true,{TIME}"#);
    for told in [
        refresh(&mut life, &lost, false, false),
        newcomer(Dialect::Ca, &lost),
    ] {
        assert_eq!(told, std::slice::from_ref(&message));
    }
    assert!(refresh(&mut life, &lost, false, false).is_empty());
}

#[test]
fn changed_metadata_comes_with_a_value_and_unchanged_not_at_all() {
    let before = metadata(ValueType::Float64);
    let there = state(&before, Value::Number(0.0));
    let mut life = Life::new("X", Dialect::Ca, &there);
    assert!(refresh(&mut life, &there, false, false).is_empty());
    let after = Metadata {
        units: "m".to_owned(),
        ..before
    };
    let changed = refresh(&mut life, &state(&after, Value::Number(0.0)), false, false);
    assert_eq!(changed.len(), 1);
    let begin = r#"{"type":"update","pv":"X","vtype":"VDouble","units":"m","#;
    assert!(changed[0].starts_with(begin), "{}", changed[0]);
    assert!(
        changed[0].contains(r#""value":0.0,"seconds":"#),
        "{}",
        changed[0]
    );
}

#[test]
fn changed_right_to_write_comes_with_the_value() {
    let metadata = metadata(ValueType::Float64);
    let mut there = state(&metadata, Value::Number(0.0));
    let mut life = Life::new("X", Dialect::Ca, &there);
    there.readonly = true;
    let message = format!(r#"{{"type":"update","pv":"X","value":0.0,"readonly":true,{TIME}"#);
    assert_eq!(refresh(&mut life, &there, false, false), [message]);
}

#[test]
fn class_that_changes_brings_its_metadata() {
    let (text, numbers) = text_and_numbers();
    let shorts = metadata(ValueType::Int16);
    let mut life = Life::new("X", Dialect::Ca, &state(&shorts, Value::Number(0.0)));
    let array = row(&mut life, &shorts, &sample(Value::Blob(&numbers)));
    assert!(array.contains(r#""vtype":"VShortArray""#), "{array}");
    let again = row(&mut life, &shorts, &sample(Value::Number(0.0)));
    assert!(again.contains(r#""vtype":"VShort""#), "{again}");
    assert!(again.contains(r#""value":0,"text":"0","#), "{again}");
    let text = row(&mut life, &shorts, &sample(Value::Blob(&text)));
    assert!(text.contains(r#""vtype":"VString""#), "{text}");
}

#[test]
fn index_without_a_label_stays_an_enum_and_has_a_text() {
    let labels = labelled();
    let mut life = Life::new("X", Dialect::Ca, &state(&labels, Value::Number(0.0)));
    for (index, text) in [(1.0, "1"), (65_535.0, "65535"), (-1.0, "-1")] {
        let beyond = row(&mut life, &labels, &sample(Value::Number(index)));
        let expected = format!(
            r#""value":{text},"text":"Invalid index : {text} must be within the label range [off]","#
        );
        assert!(beyond.contains(&expected), "{beyond}");
        assert!(!beyond.contains("vtype"), "the same class: {beyond}");
    }
}

#[test]
fn client_that_was_behind_is_told_the_severity_in_any_case() {
    let metadata = metadata(ValueType::Float64);
    let there = state(&metadata, Value::Number(0.0));
    let mut life = Life::new("X", Dialect::Ca, &there);
    let mut told = |state: &State<'_>, needs_all| {
        let mut out = Vec::new();
        life.catch_up(&mut out, state, needs_all, false);
        texts(&out).join("")
    };
    let value = format!(r#"{{"type":"update","pv":"X","severity":"NONE","value":0.0,{TIME}"#);
    assert_eq!(told(&there, false), value);
    assert!(told(&there, true).contains(r#""vtype":"VDouble","#));
    let gone = State {
        is_connected: false,
        ..there
    };
    assert!(told(&gone, true).contains(r#""severity":"INVALID","value":"NaN""#));
}

#[test]
fn right_to_write_that_changes_while_no_value_may_be_read_is_told() {
    let metadata = metadata(ValueType::Float64);
    let there = state(&metadata, Value::Number(0.0));
    let mut life = Life::new("X", Dialect::Ca, &there);
    let hidden = State {
        is_connected: false,
        is_unreadable: true,
        latest: None,
        ..there
    };
    let told = refresh(&mut life, &hidden, false, false);
    assert!(told[0].contains(r#""value":"NaN","seconds""#), "{told:?}");
    for readonly in [true, false] {
        let hidden = State { readonly, ..hidden };
        let told = refresh(&mut life, &hidden, false, false);
        let expected = format!(r#""value":"NaN","readonly":{readonly},{TIME}"#);
        assert!(
            told.len() == 1 && told[0].ends_with(&expected),
            "{told:?} instead of {expected}"
        );
        assert!(refresh(&mut life, &hidden, false, false).is_empty());
    }
    // Both rights may be taken at once.
    refresh(&mut life, &there, false, true);
    let neither = State {
        readonly: true,
        ..hidden
    };
    let told = refresh(&mut life, &neither, false, false);
    assert!(
        told[0].contains(r#""value":"NaN","readonly":true"#),
        "{told:?}"
    );
    // A lost connection is no change of a right.
    refresh(&mut life, &there, false, true);
    let lost = State {
        readonly: true,
        is_unreadable: false,
        is_absent: true,
        ..hidden
    };
    let told = refresh(&mut life, &lost, false, false);
    assert!(!told[0].contains("readonly"), "{told:?}");
}

#[test]
fn client_from_another_form_is_told_its_right_while_no_value_may_be_read() {
    let metadata = metadata(ValueType::Float64);
    let there = state(&metadata, Value::Number(0.0));
    let before = Life::new("X", Dialect::Ca, &there);
    let hidden = State {
        is_connected: false,
        is_unreadable: true,
        readonly: true,
        latest: None,
        ..there
    };
    let first = |received: Option<Received>| {
        let mut life = Life::new("X", Dialect::Ca, &hidden);
        received.into_iter().for_each(|known| life.inherit(known));
        let mut out = Vec::new();
        life.newcomer(&mut out, &hidden, false);
        texts(&out)
    };
    let expected = format!(r#"{{"type":"update","pv":"X","value":"NaN","readonly":true,{TIME}"#);
    assert_eq!(first(Some(before.received())), [expected]);
    assert!(first(None).is_empty());
}
