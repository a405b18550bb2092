//! Values of PVs on the wire as values of formulas and local PVs, and the reverse.

use pvwire_schema::types::{Array, Node, NodeValue, PutValue, ValueType};

use super::value::Value;
use crate::format::push_characters;

/// The largest integer up to which a double represents every integer.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The value of a PV that the wire carries as a number. A PV with labels is an enum.
#[must_use]
pub fn of_number(number: f64, value_type: ValueType, choices: &[String]) -> Value {
    if !choices.is_empty() {
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
    Some(Value::text(&String::from_utf8_lossy(&text)))
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
