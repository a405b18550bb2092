//! Messages from clients, parsed from JSON.

use std::collections::HashSet;

use pvwire_schema::types::{Array, PutValue, ValueType};
use serde_json::Value;

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
}

/// Reads a message. Text that is not a valid message is `Unknown`.
#[must_use]
pub fn read(text: &str) -> Message {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return Message::Unknown;
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
        Value::Number(number) => PutValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => PutValue::Text(text),
        Value::Bool(truth) => PutValue::Text(truth.to_string()),
        Value::Null => PutValue::Text("null".to_owned()),
        Value::Array(elements) => return list(elements),
        Value::Object(_) => return Written::Mixed,
    })
}

fn list(elements: Vec<Value>) -> Written {
    if elements.iter().all(Value::is_number) {
        let numbers = elements.iter().filter_map(Value::as_f64);
        let data: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        return Written::Value(PutValue::Array(Array {
            value_type: ValueType::Float64,
            count: elements.len() as u32,
            data: data.into(),
        }));
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
        ] {
            let message = read(&format!(r#"{{"type":"write","pv":"a","value":{json}}}"#));
            let pv = "a".to_owned();
            let value = expected;
            assert_eq!(message, Message::Write { pv, value }, "{json}");
        }
    }
}
