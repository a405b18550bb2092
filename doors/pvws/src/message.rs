//! Messages from clients, parsed from JSON.

use std::collections::HashSet;

use pvwire_schema::types::{Array, PutValue, ValueType};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

/// Up to this number a double has every integer.
const EXACT: u64 = 1 << 53;

/// A client's message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Subscribe these names.
    Subscribe(Vec<String>),
    /// End subscriptions.
    Clear(Vec<String>),
    /// List the subscribed names.
    List,
    /// Write a PV.
    Write {
        /// Its name as it was subscribed.
        pv: String,
        /// The value.
        value: Written,
    },
    /// Send a WebSocket ping.
    Ping,
    /// Send this message back unchanged.
    Echo,
    /// Anything else, which PVWS doesn't answer.
    Unknown,
}

/// A value that a client writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// The value to write.
    Value(PutValue),
    /// A list of different types, or an object. It can't be written to any PV.
    Mixed,
    /// It is or has a number that is too large for any PV.
    TooLarge,
}

/// A message to write a value with a number that is beyond a double.
#[derive(Deserialize)]
struct TooLarge {
    #[serde(rename = "type")]
    kind: String,
    pv: Value,
    #[serde(rename = "value")]
    _value: IgnoredAny,
}

/// Reads a message. Text that is not a valid message is `Unknown`.
#[must_use]
pub fn read(text: &str) -> Message {
    let mut fields = match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Message::Unknown,
        // A lone surrogate and a deep list are errors, too.
        Err(error) if error.to_string().starts_with("number out of range") => {
            return too_large(text);
        }
        Err(_) => return Message::Unknown,
    };
    let Some(Value::String(kind)) = fields.get("type") else {
        return Message::Unknown;
    };
    let kind = kind.clone();
    let mut names = || match fields.remove("pvs") {
        Some(Value::Array(names)) => Some(distinct(names.into_iter().filter_map(name))),
        _ => None,
    };
    let message = match &*kind {
        "subscribe" | "monitor" => names().map(Message::Subscribe),
        "clear" => names().map(Message::Clear),
        "list" => Some(Message::List),
        "ping" => Some(Message::Ping),
        "echo" => Some(Message::Echo),
        "write" => fields.remove("pv").and_then(name).and_then(|pv| {
            let value = written(fields.remove("value")?);
            Some(Message::Write { pv, value })
        }),
        _ => None,
    };
    message.unwrap_or(Message::Unknown)
}

/// A write that only a number beyond a double makes invalid; everything else is unknown.
fn too_large(text: &str) -> Message {
    let read: Option<TooLarge> = serde_json::from_str(text).ok();
    let write = read.filter(|read| read.kind == "write");
    let value = Written::TooLarge;
    write
        .and_then(|write| name(write.pv))
        .map_or(Message::Unknown, |pv| Message::Write { pv, value })
}

/// The names in their order, each once.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    names.filter(|name| known.insert(name.clone())).collect()
}

/// A name. The text of a number or boolean is a name, too.
fn name(value: Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn written(value: Value) -> Written {
    Written::Value(match value {
        Value::Number(number) => scalar(&number),
        Value::String(text) => PutValue::Text(text),
        Value::Bool(truth) => PutValue::Text(truth.to_string()),
        Value::Null => PutValue::Text("null".to_owned()),
        Value::Array(elements) => return list(elements),
        Value::Object(_) => return Written::Mixed,
    })
}

fn scalar(number: &Number) -> PutValue {
    match (number.as_i64(), number.as_u64()) {
        _ if is_double(number) => PutValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        (Some(integer), _) => PutValue::Int64(integer),
        (None, Some(integer)) => PutValue::UInt64(integer),
        (None, None) => PutValue::Number(f64::NAN),
    }
}

/// Whether a double stands for a number. An integer of 64 bits whose digits JavaScript would not write for any double
/// keeps them all.
fn is_double(number: &Number) -> bool {
    let magnitude = (number.as_u64()).or_else(|| Some(number.as_i64()?.unsigned_abs()));
    let Some(magnitude) = magnitude.filter(|magnitude| *magnitude > EXACT) else {
        return true;
    };
    let shortest = format!("{:e}", magnitude as f64);
    let digits = shortest
        .split('e')
        .next()
        .unwrap_or_default()
        .replace('.', "");
    magnitude.to_string().trim_end_matches('0') == digits.trim_end_matches('0')
}

fn list(elements: Vec<Value>) -> Written {
    let numbers: Option<Vec<&Number>> = elements.iter().map(Value::as_number).collect();
    if let Some(numbers) = numbers {
        return Written::Value(if numbers.iter().all(|number| is_double(number)) {
            let numbers = numbers.iter().filter_map(|number| number.as_f64());
            let data: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
            PutValue::Array(Array {
                value_type: ValueType::Float64,
                count: elements.len() as u32,
                data: data.into(),
            })
        } else {
            PutValue::TextArray(numbers.iter().map(|number| number.to_string()).collect())
        });
    }
    let text = |element| match element {
        Value::String(text) => Some(text),
        _ => None,
    };
    match elements.into_iter().map(text).collect() {
        Some(texts) => Written::Value(PutValue::TextArray(texts)),
        None => Written::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn messages_are_read() {
        for (text, expected) in [
            (
                r#"{"type":"subscribe","pvs":["a","b"]}"#,
                Message::Subscribe(names(&["a", "b"])),
            ),
            (
                r#"{ "pvs" : ["a"], "type" : "monitor" }"#,
                Message::Subscribe(names(&["a"])),
            ),
            (
                r#"{"type":"clear","pvs":["a"]}"#,
                Message::Clear(names(&["a"])),
            ),
            (r#"{"type":"list"}"#, Message::List),
            (r#"{"type":"ping"}"#, Message::Ping),
            (r#"{"type":"echo","body":"Hello"}"#, Message::Echo),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_pvws_does_not_answer_is_unknown() {
        for text in [
            "",
            "x",
            "5",
            "[]",
            "{}",
            "\"x\"",
            "{\"type\":5}",
            r#"{"type":"nosuch"}"#,
            r#"{"type":"subscribe"}"#,
            r#"{"type":"subscribe","pvs":"a"}"#,
            r#"{"type":"clear","pvs":null}"#,
            r#"{"type":"write"}"#,
            r#"{"type":"write","pv":"a"}"#,
            r#"{"type":"subscribe","pvs":["a""#,
            r#"{"type":"write","pv":"a","value":1e}"#,
            r#"{"type":"echo","pv":"a","value":1e400}"#,
        ] {
            assert_eq!(read(text), Message::Unknown, "{text}");
        }
    }

    #[test]
    fn written_values_have_the_types_that_pvws_gives_them() {
        let text = |text: &str| Written::Value(PutValue::Text(text.to_owned()));
        let array = |numbers: &[f64]| {
            let data: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            Written::Value(PutValue::Array(Array {
                value_type: ValueType::Float64,
                count: numbers.len() as u32,
                data: data.into(),
            }))
        };
        for (json, expected) in [
            ("5", Written::Value(PutValue::Number(5.0))),
            ("-2.5e3", Written::Value(PutValue::Number(-2500.0))),
            ("\"5\"", text("5")),
            ("\"\"", text("")),
            ("true", text("true")),
            ("null", text("null")),
            ("[1,2.5]", array(&[1.0, 2.5])),
            ("[]", array(&[])),
            (
                r#"["a","b"]"#,
                Written::Value(PutValue::TextArray(names(&["a", "b"]))),
            ),
            (r#"["a",5]"#, Written::Mixed),
            ("{}", Written::Mixed),
            // 2^63 as JavaScript writes it, and an integer that it can't write.
            (
                "9223372036854776000",
                Written::Value(PutValue::Number(f64::powi(2.0, 63))),
            ),
            (
                "9007199254740993",
                Written::Value(PutValue::Int64(9_007_199_254_740_993)),
            ),
            (
                "-9223372036854775808",
                Written::Value(PutValue::Int64(i64::MIN)),
            ),
            (
                "18446744073709551615",
                Written::Value(PutValue::UInt64(u64::MAX)),
            ),
            (
                "[0.5,9007199254740993]",
                Written::Value(PutValue::TextArray(names(&["0.5", "9007199254740993"]))),
            ),
            ("1e300", Written::Value(PutValue::Number(1e300))),
            ("1e400", Written::TooLarge),
            ("[1,-1e400]", Written::TooLarge),
        ] {
            let message = read(&format!(r#"{{"type":"write","pv":"a","value":{json}}}"#));
            let pv = "a".to_owned();
            let value = expected;
            assert_eq!(message, Message::Write { pv, value }, "{json}");
        }
    }
}
