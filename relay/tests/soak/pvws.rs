//! The protocol of PVWS, as its clients in the fault run speak it, base64 as the doors' messages have it, and what merged
//! updates must be as far as the protocol tells it.

use pvwire_schema::types::{Limits, Severity, ValueType};
use serde_json::{Value, json};
use testbed::{Kept, Told};

use super::door::{Door, Heard, Merged, Speech};

/// What a client must show of a value: its class, and the keys with their values.
struct Shown {
    /// `None` for values that come as the text of a Java object, without class and severity.
    vtype: Option<&'static str>,
    values: Vec<(&'static str, Expected)>,
}

enum Expected {
    Number(f64),
    Text(String),
    /// The text of a Java object has more after this.
    Begins(String),
    Bytes(Vec<u8>),
}

impl Expected {
    fn is(&self, seen: &Value) -> bool {
        match self {
            Self::Number(number) if number.is_finite() => seen.as_f64() == Some(*number),
            Self::Number(_) => seen == "NaN",
            Self::Text(text) => seen.as_str() == Some(text),
            Self::Begins(begin) => seen.as_str().is_some_and(|seen| seen.starts_with(begin)),
            Self::Bytes(bytes) => seen.as_str() == Some(&text(bytes)),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::Begins(begin) => format!("{begin:?}…"),
            Self::Bytes(bytes) => text(bytes),
        }
    }
}

/// Every field in which a client differs. `told` is `None` when no IOC answers. `seen` is `None` when the client
/// has no update.
pub(super) fn differences(told: Option<&Told>, seen: Option<&Merged>) -> Vec<String> {
    match told.filter(|told| told.read) {
        Some(told) => seen.map_or_else(
            || vec!["no update".to_owned()],
            |seen| {
                let mut found = Vec::new();
                of_connected(told, seen, &mut found);
                found
            },
        ),
        None => seen.map_or_else(Vec::new, of_lost),
    }
}

/// A PV that is lost, or that may not be read, has no value.
fn of_lost(seen: &Merged) -> Vec<String> {
    if seen.value_keys.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let is_lost = |key: &String| {
        let lost = if key.starts_with("b64") { "" } else { "NaN" };
        seen.fields[key] == lost
    };
    if !seen.value_keys.iter().all(is_lost) {
        found.push(format!("a value, truth: no IOC answers: {:?}", seen.fields));
    }
    let severity = seen.fields.get("severity");
    if severity.is_some_and(|severity| severity != "INVALID") && has_class(seen) {
        found.push(format!("severity {severity:?}, truth: no IOC answers"));
    }
    found
}

/// Whether its last value had a class: the texts of Java objects have none, and no severity.
fn has_class(seen: &Merged) -> bool {
    let text = seen.fields.get("text").and_then(Value::as_str);
    let is_object = |text: &str| {
        ["VStringArray[", "VEnumArray["]
            .iter()
            .any(|class| text.starts_with(class))
    };
    !text.is_some_and(is_object)
}

fn of_connected(told: &Told, seen: &Merged, found: &mut Vec<String>) {
    let shown = shown(told);
    let mut check = |key: &str, expected: &str, is_right: bool| {
        if !is_right {
            let seen = seen.fields.get(key);
            found.push(format!("{key}: {seen:?}, truth: {expected}"));
        }
    };
    for (key, expected) in &shown.values {
        let is_right = seen.value(key).is_some_and(|seen| expected.is(seen));
        check(key, &expected.text(), is_right);
    }
    let readonly = !told.write;
    check(
        "readonly",
        &readonly.to_string(),
        seen.fields.get("readonly") == Some(&Value::Bool(readonly)),
    );
    // PVWS has the start of the EPICS epoch for a record that was never processed.
    let time_ns = match told.time_ns {
        0 => 631_152_000_000_000_000,
        time_ns => time_ns,
    };
    for (key, expected) in [
        ("seconds", time_ns.div_euclid(1_000_000_000)),
        ("nanos", time_ns.rem_euclid(1_000_000_000)),
    ] {
        let is_right = seen.fields.get(key).and_then(Value::as_i64) == Some(expected);
        check(key, &expected.to_string(), is_right);
    }
    let Some(vtype) = shown.vtype else {
        return;
    };
    let severity = match told.alarm.severity {
        Severity::NoAlarm => "NONE",
        Severity::Minor => "MINOR",
        Severity::Major => "MAJOR",
        Severity::Invalid => "INVALID",
    };
    for (key, expected) in [("vtype", vtype), ("severity", severity)] {
        let is_right = seen.fields.get(key).is_some_and(|seen| seen == expected);
        check(key, expected, is_right);
    }
    match vtype {
        "VEnum" => {
            let labels = Value::from(told.metadata.choices.clone());
            let is_right = seen.fields.get("labels") == Some(&labels);
            check("labels", &labels.to_string(), is_right);
        }
        "VString" => {}
        _ => display(told, vtype, seen, &mut check),
    }
}

fn display(told: &Told, vtype: &str, seen: &Merged, check: &mut impl FnMut(&str, &str, bool)) {
    let metadata = &told.metadata;
    let units = seen.fields.get("units").and_then(Value::as_str);
    check("units", &metadata.units, units == Some(&metadata.units));
    let has_digits = ["VDouble", "VFloat"]
        .iter()
        .any(|has| vtype.starts_with(has));
    let precision = metadata.precision.or_else(|| (!has_digits).then_some(0));
    if let Some(precision) = precision.filter(|digits| *digits >= 0) {
        let is_right =
            seen.fields.get("precision").and_then(Value::as_i64) == Some(precision.into());
        check("precision", &precision.to_string(), is_right);
    }
    for (keys, limits) in [
        (["min", "max"], metadata.display),
        (["warn_low", "warn_high"], metadata.warning),
        (["alarm_low", "alarm_high"], metadata.alarm),
    ] {
        for (key, limit) in keys.into_iter().zip(range(limits)) {
            let is_right = seen
                .fields
                .get(key)
                .is_some_and(|seen| is_limit(seen, limit));
            check(key, &limit.to_string(), is_right);
        }
    }
}

/// Limits as PVWS sends them: a single missing one is infinite, and those in the wrong order are swapped.
fn range(limits: Limits) -> [f64; 2] {
    let Limits { low, high } = limits;
    match (low.is_nan(), high.is_nan()) {
        (true, false) => [f64::NEG_INFINITY, high],
        (false, true) => [low, f64::INFINITY],
        _ if low > high => [high, low],
        _ => [low, high],
    }
}

fn is_limit(seen: &Value, limit: f64) -> bool {
    if limit.is_nan() {
        seen == "NaN"
    } else if limit.is_infinite() {
        seen == if limit > 0.0 { "Infinity" } else { "-Infinity" }
    } else {
        seen.as_f64() == Some(limit)
    }
}

/// Class and values of what the IOC has.
fn shown(told: &Told) -> Shown {
    let of = |vtype, values| Shown {
        vtype: Some(vtype),
        values,
    };
    let number = |vtype, number| of(vtype, vec![("value", Expected::Number(number))]);
    let bytes = |vtype, key, bytes: &[u8]| of(vtype, vec![(key, Expected::Bytes(bytes.to_vec()))]);
    let object = |class: &str, elements: &[String]| Shown {
        vtype: None,
        values: vec![(
            "text",
            Expected::Begins(format!(
                "{class}[[{}], size [{}], ",
                elements.join(", "),
                elements.len()
            )),
        )],
    };
    let choices = &told.metadata.choices;
    match &told.value {
        Kept::Number(value) => match told.metadata.value_type {
            ValueType::Float64 => number("VDouble", *value),
            ValueType::Float32 => number("VFloat", *value),
            ValueType::UInt8 => number("VByte", f64::from(*value as u8 as i8)),
            ValueType::Int16 => number("VShort", *value),
            ValueType::Int32 => number("VInt", *value),
            ValueType::Enum => match choices.get(*value as usize) {
                Some(label) => {
                    let text = Expected::Text(label.clone());
                    of(
                        "VEnum",
                        vec![("value", Expected::Number(*value)), ("text", text)],
                    )
                }
                None => number("VShort", *value),
            },
            other => panic!("Channel Access has no {other:?}"),
        },
        Kept::Text(text) => of("VString", vec![("text", Expected::Text(text.clone()))]),
        Kept::Texts(texts) => object("VStringArray", texts),
        Kept::Array(element, data) => match element {
            ValueType::UInt8 => bytes("VByteArray", "b64byt", data),
            ValueType::Int16 => bytes("VShortArray", "b64srt", data),
            ValueType::Int32 => bytes("VIntArray", "b64int", data),
            ValueType::Float32 => bytes("VFloatArray", "b64flt", data),
            ValueType::Float64 => bytes("VDoubleArray", "b64dbl", data),
            ValueType::Enum => {
                let indices = data
                    .chunks_exact(2)
                    .map(|two| u16::from_le_bytes([two[0], two[1]]));
                let label = |index: u16| match choices.get(usize::from(index)) {
                    Some(label) => label.clone(),
                    None => index.to_string(),
                };
                object("VEnumArray", &indices.map(label).collect::<Vec<_>>())
            }
            other => panic!("Channel Access has no array of {other:?}"),
        },
        other => panic!("Channel Access has no {other:?}"),
    }
}

/// PVWS's door.
pub(super) static PVWS: Door = Door {
    server: "PVWS",
    path: "/pvws/pv",
    subprotocol: None,
    speech: || Box::new(Pvws),
    differences,
};

struct Pvws;

fn message(kind: &str, names: &[String]) -> Vec<String> {
    vec![json!({"type": kind, "pvs": names}).to_string()]
}

impl Speech for Pvws {
    fn subscribe(&mut self, names: &[String]) -> Vec<String> {
        message("subscribe", names)
    }

    fn end(&mut self, names: &[String]) -> Vec<String> {
        message("clear", names)
    }

    fn take(&mut self, text: &str) -> Heard {
        let message: Value = serde_json::from_str(text).expect("each message is JSON");
        let Value::Object(fields) = message else {
            panic!("not an object: {text}");
        };
        match fields["type"].as_str() {
            Some("update") => Heard::Update(fields["pv"].as_str().unwrap().to_owned(), fields),
            Some("error") => Heard::Refused,
            _ => panic!("not asked for: {text}"),
        }
    }
}

/// Base64 of the standard alphabet with padding (RFC 4648, section 4).
pub(super) fn text(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { digit.into() } else { '=' });
        }
    }
    text
}
