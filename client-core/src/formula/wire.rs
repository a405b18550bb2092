//! Values of PVs on the wire as values of formulas and local PVs, and the reverse.

use pvwire_schema::types::{self, Array, Node, NodeValue, PutValue, ValueType};

use super::Operand;
use super::value::{Severity, Value};
use crate::format::{push_characters, push_shortest};
use crate::store::Shown;

/// The largest integer up to which a double represents every integer.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The value of a PV that the wire carries as a number. A PV with labels is an enum.
#[must_use]
pub fn of_number(number: f64, value_type: ValueType, choices: &[String]) -> Value {
    if value_type == ValueType::Enum || !choices.is_empty() {
        return Value::Enum {
            index: number as i32,
            labels: choices.into(),
        };
    }
    match value_type {
        ValueType::Boolean => Value::Boolean(number != 0.0),
        ValueType::Int8
        | ValueType::UInt8
        | ValueType::Int16
        | ValueType::UInt16
        | ValueType::Int32
        | ValueType::UInt32
        | ValueType::Int64
        | ValueType::UInt64
            if number.fract() == 0.0 =>
        {
            Value::Integer(number as i64)
        }
        _ => Value::Number(number),
    }
}

/// The value of an integer of 64 bits; a double where formulas have no such integer.
#[must_use]
pub fn of_integer(integer: i128) -> Value {
    i64::try_from(integer).map_or(Value::Number(integer as f64), Value::Integer)
}

/// The value of an array; a text if it `is_text` and has characters.
#[must_use]
pub fn of_array(array: &Array, is_text: bool) -> Value {
    let text = is_text.then(|| characters(array)).flatten();
    text.unwrap_or_else(|| Value::Numbers(array.numbers().into()))
}

/// The text in an array of characters; `None` if it is another array.
fn characters(array: &Array) -> Option<Value> {
    if !matches!(array.value_type, ValueType::Int8 | ValueType::UInt8) {
        return None;
    }
    let mut text = Vec::new();
    push_characters(&array.data, &mut text);
    str::from_utf8(&text).ok().map(Value::text)
}

/// A written value as a value of local PVs.
#[must_use]
pub fn of_put(value: &PutValue) -> Value {
    match value {
        PutValue::Number(number) => {
            // The text of an integer is "3", that of a double is "3.0".
            let is_integer = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64;
            if is_integer && (*number != 0.0 || number.is_sign_positive()) {
                Value::Integer(*number as i64)
            } else {
                Value::Number(*number)
            }
        }
        PutValue::Int64(integer) => Value::Integer(*integer),
        PutValue::UInt64(integer) => of_integer((*integer).into()),
        PutValue::Text(text) => Value::text(text),
        PutValue::TextArray(texts) => Value::Texts(texts.as_slice().into()),
        PutValue::Array(array) => Value::Numbers(array.numbers().into()),
    }
}

/// How the store shows a formula's value, or that of a local PV, which is writable.
#[must_use]
pub fn shown(operand: &Operand, writable: bool) -> Shown {
    let mut precision = None;
    let value_type = match &operand.value {
        Value::Number(number) => {
            precision = writable.then(|| digits_of(*number));
            ValueType::Float64
        }
        Value::Integer(_) => ValueType::Int64,
        Value::Boolean(_) => ValueType::Boolean,
        Value::Text(_) | Value::Texts(_) => ValueType::String,
        Value::Enum { .. } => ValueType::Enum,
        Value::Numbers(_) => ValueType::Float64,
        Value::Table(_) => ValueType::Structure,
    };
    let severity = operand.alarm.severity;
    Shown {
        value_type,
        precision,
        severity: (severity != Severity::Undefined)
            .then(|| types::Severity::from_number(severity as u8)),
        status: operand.alarm.status,
        seconds: operand.time.seconds as f64,
        nanoseconds: operand.time.nanoseconds,
        writable,
    }
}

/// Decimal places of the shortest text that reads back as the same number.
fn digits_of(number: f64) -> i16 {
    let mut text = Vec::new();
    push_shortest(number, false, &mut text);
    let point = text.iter().position(|byte| *byte == b'.');
    let places = point.map_or(0, |point| text.len() - point - 1);
    // A text with an exponent has no fixed decimal places.
    let plain = text.iter().all(|byte| *byte != b'e');
    if plain { places as i16 } else { 0 }
}

/// An array of doubles.
#[must_use]
pub fn doubles(numbers: &[f64]) -> Array {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    Array {
        value_type: ValueType::Float64,
        count: numbers.len() as u32,
        data: bytes.collect::<Vec<_>>().into(),
    }
}

/// A table without rows.
#[must_use]
pub fn table(labels: &[String]) -> Node {
    let field = |name: &str, value| Node {
        name: name.to_owned(),
        value,
        ..Node::default()
    };
    let empty = |label: &String| field(label, NodeValue::TextArray(Vec::new()));
    let columns = labels.iter().map(empty).collect();
    Node {
        name: String::new(),
        type_id: "epics:nt/NTTable:1.0".to_owned(),
        value: NodeValue::Structure(vec![
            field("labels", NodeValue::TextArray(labels.to_vec())),
            field("value", NodeValue::Structure(columns)),
        ]),
    }
}
