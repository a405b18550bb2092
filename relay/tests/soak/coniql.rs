//! The two protocols of Coniql, as its clients in the fault run speak them, and what their merged results must be in every
//! field that the protocol has.

use std::collections::HashMap;

use pvwire_schema::types::{Limits, Severity, ValueType};
use serde_json::{Value, json};
use testbed::{Kept, Told};

use super::door::{Door, Heard, Merged, Speech};
use super::pvws;

/// Every field in which a client differs. `told` is `None` when no IOC answers. `seen` is `None` when the client
/// has no result.
pub(super) fn differences(told: Option<&Told>, seen: Option<&Merged>) -> Vec<String> {
    let mut found = Vec::new();
    match (told, seen) {
        (None, None) => {}
        (Some(_), None) => found.push("no result".to_owned()),
        (Some(told), Some(seen)) if told.read => of_connected(told, seen, &mut found),
        (told, Some(seen)) => of_lost(told, seen, &mut found),
    }
    found
}

/// Compares the fields of an object, as far as `truth` has them.
fn compare(seen: &Merged, part: &str, truth: &Value, found: &mut Vec<String>) {
    let of = &seen.fields.get(part).cloned().unwrap_or_default();
    for (field, truth) in truth.as_object().unwrap() {
        if !is_same(&of[field], truth) {
            let seen = &of[field];
            found.push(format!("{part}.{field}: {seen}, truth: {truth}"));
        }
    }
}

/// JSON has one kind of number.
fn is_same(seen: &Value, truth: &Value) -> bool {
    match (seen, truth) {
        (Value::Number(seen), Value::Number(truth)) => seen.as_f64() == truth.as_f64(),
        (Value::Object(seen), Value::Object(truth)) => {
            let has =
                |(key, truth): (&String, _)| seen.get(key).is_some_and(|it| is_same(it, truth));
            truth.iter().all(has)
        }
        _ => seen == truth,
    }
}

/// A PV that is lost, or that may not be read.
fn of_lost(told: Option<&Told>, seen: &Merged, found: &mut Vec<String>) {
    let mutable = told.is_some_and(|told| told.write);
    let status = json!({"quality": "UNDEFINED", "mutable": mutable});
    compare(seen, "status", &status, found);
    let connection = json!({"connected": told.is_some(), "readable": false});
    compare(seen, "connection", &connection, found);
}

/// The time of a value that has one.
fn of_stamped(told: &Told, seen: &Merged, found: &mut Vec<String>) {
    let seconds = seen.fields.get("time").map(|time| &time["seconds"]);
    let seconds = seconds.and_then(Value::as_f64).unwrap_or_default();
    // A double has some hundred nanoseconds.
    if (seconds - told.time_ns as f64 / 1e9).abs() > 1e-5 {
        let truth = told.time_ns;
        found.push(format!("time.seconds: {seconds}, truth: {truth} ns"));
    }
    let nanoseconds = told.time_ns.rem_euclid(1_000_000_000);
    compare(seen, "time", &json!({ "nanoseconds": nanoseconds }), found);
}

fn of_connected(told: &Told, seen: &Merged, found: &mut Vec<String>) {
    compare(seen, "value", &value(told), found);
    if told.time_ns != 0 {
        of_stamped(told, seen, found);
    }
    let (quality, severity) = match told.alarm.severity {
        Severity::NoAlarm => ("VALID", "NO_ALARM"),
        Severity::Minor => ("WARNING", "MINOR"),
        Severity::Major => ("ALARM", "MAJOR"),
        Severity::Invalid => ("INVALID", "INVALID"),
    };
    let status = json!({"quality": quality, "severity": severity, "mutable": told.write});
    compare(seen, "status", &status, found);
    compare(seen, "display", &display(told), found);
    let connection = json!({"connected": true, "readable": true, "unresponsive": false});
    compare(seen, "connection", &connection, found);
}

fn display(told: &Told) -> Value {
    let metadata = &told.metadata;
    let has_units = !matches!(metadata.value_type, ValueType::Enum | ValueType::String);
    let is_enum = metadata.value_type == ValueType::Enum;
    json!({
        "description": metadata.description,
        "role": if told.write { "RW" } else { "RO" },
        "units": has_units.then_some(&metadata.units),
        "precision": metadata.precision,
        "choices": is_enum.then_some(&metadata.choices),
        "controlRange": range(metadata.control),
        "displayRange": range(metadata.display),
        "alarmRange": range(metadata.alarm),
        "warningRange": range(metadata.warning),
    })
}

/// An absent limit is null, and so is a range without limits.
fn range(Limits { low, high }: Limits) -> Value {
    match (low.is_nan(), high.is_nan()) {
        (true, true) => Value::Null,
        _ => json!({"min": low, "max": high}),
    }
}

fn value(told: &Told) -> Value {
    let value_type = told.metadata.value_type;
    let integer = matches!(
        value_type,
        ValueType::UInt8 | ValueType::Int16 | ValueType::Int32
    );
    match &told.value {
        Kept::Number(number) => json!({
            "float": number,
            "string": element(told, *number),
            "exact": integer.then(|| number.to_string()),
            "stringArray": null,
            "base64Array": null,
        }),
        Kept::Text(text) => json!({
            "float": null, "string": text, "exact": null, "stringArray": null, "base64Array": null,
        }),
        Kept::Texts(texts) => json!({
            "float": null, "exact": null, "stringArray": texts, "base64Array": null,
        }),
        Kept::Array(element_type, data) => {
            let (name, elements) = elements(*element_type, data);
            let texts: Vec<_> = elements.iter().map(|it| element(told, *it)).collect();
            json!({
                "float": null,
                "exact": null,
                "stringArray": texts,
                "base64Array": {"numberType": name, "base64": pvws::text(data)},
            })
        }
        other => panic!("Channel Access has no {other:?}"),
    }
}

/// A number as text: with the record's precision, or the label of a choice.
fn element(told: &Told, number: f64) -> String {
    let metadata = &told.metadata;
    if metadata.value_type == ValueType::Enum
        && let Some(label) = metadata.choices.get(number as usize)
    {
        return label.clone();
    }
    if number.is_nan() {
        return "nan".to_owned();
    }
    match metadata.precision {
        Some(digits) => format!("{number:.*}", usize::from(digits.unsigned_abs())),
        None => number.to_string(),
    }
}

/// The type's name, and the elements.
fn elements(value_type: ValueType, data: &[u8]) -> (&'static str, Vec<f64>) {
    fn all<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let (elements, rest) = data.as_chunks();
        assert!(rest.is_empty());
        elements.iter().map(|bytes| number(*bytes)).collect()
    }
    match value_type {
        ValueType::UInt8 => ("UINT8", all(data, |[byte]| byte.into())),
        ValueType::Int16 => ("INT16", all(data, |it| i16::from_le_bytes(it).into())),
        ValueType::Enum => ("UINT16", all(data, |it| u16::from_le_bytes(it).into())),
        ValueType::Int32 => ("INT32", all(data, |it| i32::from_le_bytes(it).into())),
        ValueType::Float32 => ("FLOAT32", all(data, |it| f32::from_le_bytes(it).into())),
        ValueType::Float64 => ("FLOAT64", all(data, f64::from_le_bytes)),
        other => panic!("Channel Access has no array of {other:?}"),
    }
}

/// Coniql's door with the subprotocol of graphql-ws.
pub(super) static CONIQL: Door = Door {
    server: "Coniql",
    path: "/ws",
    subprotocol: Some("graphql-transport-ws"),
    speech: || Box::new(Coniql::new(&NEW)),
    differences,
};

/// The same door with the subprotocol of subscriptions-transport-ws.
pub(super) static LEGACY: Door = Door {
    server: "Coniql (legacy)",
    path: "/ws",
    subprotocol: Some("graphql-ws"),
    speech: || Box::new(Coniql::new(&OLD)),
    differences,
};

/// The types of messages.
struct Words {
    start: &'static str,
    stop: &'static str,
    result: &'static str,
}

static NEW: Words = Words {
    start: "subscribe",
    stop: "complete",
    result: "next",
};

static OLD: Words = Words {
    start: "start",
    stop: "stop",
    result: "data",
};

/// Every field that Channel Access has something for.
const DOCUMENT: &str = "subscription ($id: ID!) { subscribeChannel(id: $id) {
    id
    value { float string exact stringArray base64Array { numberType base64 } }
    time { seconds nanoseconds }
    status { quality severity mutable }
    display {
        description role units precision choices
        controlRange { min max } displayRange { min max } alarmRange { min max } warningRange { min max }
    }
    connection { connected readable unresponsive }
} }";

struct Coniql {
    words: &'static Words,
    /// The name of each operation's PV, by the operation's id.
    names: HashMap<String, String>,
    last: u64,
}

impl Coniql {
    fn new(words: &'static Words) -> Self {
        Self {
            words,
            names: HashMap::new(),
            last: 0,
        }
    }
}

impl Speech for Coniql {
    fn begin(&mut self) -> Vec<String> {
        vec![json!({"type": "connection_init"}).to_string()]
    }

    fn subscribe(&mut self, names: &[String]) -> Vec<String> {
        let mut messages = Vec::new();
        for name in names {
            if self.names.values().any(|subscribed| subscribed == name) {
                continue;
            }
            self.last += 1;
            let id = self.last.to_string();
            let payload = json!({"query": DOCUMENT, "variables": {"id": name}});
            let message = json!({"type": self.words.start, "id": id, "payload": payload});
            messages.push(message.to_string());
            self.names.insert(id, name.clone());
        }
        messages
    }

    fn end(&mut self, names: &[String]) -> Vec<String> {
        let ended = self.names.extract_if(|_, name| names.contains(name));
        let stop = self.words.stop;
        let message = |(id, _)| json!({"type": stop, "id": id}).to_string();
        ended.map(message).collect()
    }

    fn take(&mut self, text: &str) -> Heard {
        let mut message: Value = serde_json::from_str(text).expect("each message is JSON");
        let kind = message["type"].as_str().unwrap();
        if ["connection_ack", "ka"].contains(&kind) {
            return Heard::Nothing;
        }
        let (is_result, is_error) = (kind == self.words.result, kind == "error");
        assert!(is_result || is_error, "not asked for: {text}");
        let id = message["id"].as_str().unwrap().to_owned();
        if is_error {
            self.names.remove(&id);
            return Heard::Refused;
        }
        // A result may have been under way when its operation was ended.
        let Some(name) = self.names.get(&id) else {
            return Heard::Nothing;
        };
        let channel = message["payload"]["data"]["subscribeChannel"].take();
        let Value::Object(parts) = channel else {
            panic!("no channel: {text}");
        };
        let full = format!("ca://{}", name.trim_start_matches("ca://"));
        assert_eq!(parts["id"], full, "{text}");
        // Null says that a part did not change.
        let changed = parts.into_iter().filter(|(_, part)| !part.is_null());
        Heard::Update(name.clone(), changed.collect())
    }
}
