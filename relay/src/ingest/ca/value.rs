//! Values of Channel Access as values of the relay, and back.

use bytes::Bytes;
use pvwire_epics::ca::{self, Held, NativeType};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Limits, Node, NodeValue, PutValue, Severity, ValueType,
};

/// Number of the alarm conditions of Channel Access.
const CONDITIONS: u16 = 22;

/// The condition "undefined".
const UDF: u16 = 17;

pub(super) fn alarm_of(update: &ca::Update<'_>) -> Alarm {
    Alarm {
        severity: u8::try_from(update.severity).map_or(Severity::Invalid, Severity::from_number),
        // A status beyond the conditions of Channel Access has no name.
        status: if update.status < CONDITIONS {
            update.status
        } else {
            UDF
        },
    }
}

/// The text in an array of characters, up to its NUL.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    ca::text(&bytes[..end.unwrap_or(bytes.len())])
}

/// What a channel holds after a put of `value`.
pub(super) fn held_value(held: Held, value: &ca::PutValue) -> Node {
    let array = array_value(ca::Array {
        element: held.element,
        count: held.count,
        bytes: &held.bytes,
    });
    let value = match array {
        BlobValue::TextArray(mut texts) if held.scalar => {
            NodeValue::Text(texts.pop().unwrap_or_default())
        }
        BlobValue::TextArray(texts) => NodeValue::TextArray(texts),
        BlobValue::Array(array) if held.scalar => {
            let number = array.numbers().first().copied();
            NodeValue::Number(array.value_type, number.unwrap_or(f64::NAN))
        }
        // A text that was put to an array of characters is returned as a text.
        BlobValue::Array(_)
            if held.element == NativeType::Char && matches!(value, ca::PutValue::Text(_)) =>
        {
            NodeValue::Text(text_of(&held.bytes))
        }
        BlobValue::Array(array) => NodeValue::Array(array),
        _ => NodeValue::Empty,
    };
    Node {
        value,
        ..Node::default()
    }
}

pub(super) fn array_value(array: ca::Array<'_>) -> BlobValue {
    if array.element == NativeType::String {
        // Each has 40 bytes, and ends with a NUL unless it fills them.
        let texts = array
            .bytes
            .chunks(40)
            .take(array.count as usize)
            .map(|bytes| {
                let end = bytes
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(bytes.len());
                ca::text(&bytes[..end])
            });
        return BlobValue::TextArray(texts.collect());
    }
    let data = Bytes::copy_from_slice(array.bytes);
    BlobValue::array(value_type(array.element), array.count, data)
}

pub(super) fn value_type(native: NativeType) -> ValueType {
    match native {
        NativeType::String => ValueType::String,
        NativeType::Short => ValueType::Int16,
        NativeType::Float => ValueType::Float32,
        NativeType::Enum => ValueType::Enum,
        NativeType::Char => ValueType::UInt8,
        NativeType::Long => ValueType::Int32,
        NativeType::Double => ValueType::Float64,
    }
}

pub(super) fn limits(limits: ca::Limits) -> Limits {
    Limits {
        low: limits.low,
        high: limits.high,
    }
}

/// An integer that no double holds exactly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0} is more than Channel Access can carry exactly; write it by pva://")]
pub(super) struct Inexact(i128);

/// A put to `ACKS` or `ACKT`, as an IOC takes it: by the channel of the record, because these fields themselves can't be
/// written. `None` for other values and fields.
pub(super) fn acknowledgement(field: &str, value: &ca::PutValue) -> Option<ca::PutValue> {
    let index = |labels: &[&str]| {
        let number = match value {
            ca::PutValue::Number(number) => Some(*number),
            ca::PutValue::Text(text) => match labels.iter().position(|label| label == text) {
                Some(index) => Some(index as f64),
                None => text.trim().parse().ok(),
            },
            _ => None,
        };
        let number = number.filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
        (number < labels.len() as f64).then_some(number as u16)
    };
    match field {
        "ACKS" => index(&["NO_ALARM", "MINOR", "MAJOR", "INVALID"]).map(ca::PutValue::Acknowledged),
        "ACKT" => index(&["NO", "YES"]).map(|index| ca::PutValue::AcknowledgeGone(index == 1)),
        _ => None,
    }
}

/// A value for Channel Access, in which every number is a double.
pub(super) fn put_value(value: PutValue) -> Result<ca::PutValue, Inexact> {
    let exact = |integer: i128| {
        let number = integer as f64;
        if number as i128 == integer {
            Ok(number)
        } else {
            Err(Inexact(integer))
        }
    };
    Ok(match value {
        PutValue::Number(number) => ca::PutValue::Number(number),
        PutValue::Int64(integer) => ca::PutValue::Number(exact(integer.into())?),
        PutValue::UInt64(integer) => ca::PutValue::Number(exact(integer.into())?),
        PutValue::Text(text) => ca::PutValue::Text(text),
        PutValue::TextArray(texts) => ca::PutValue::Texts(texts),
        PutValue::Array(array) => ca::PutValue::Numbers(match array.value_type {
            ValueType::Int64 => integers(&array, |word| i64::from_le_bytes(word).into())
                .map(exact)
                .collect::<Result<_, _>>()?,
            ValueType::UInt64 => integers(&array, |word| u64::from_le_bytes(word).into())
                .map(exact)
                .collect::<Result<_, _>>()?,
            _ => array.numbers(),
        }),
    })
}

fn integers(array: &Array, read: fn([u8; 8]) -> i128) -> impl Iterator<Item = i128> + '_ {
    let words = array.data.chunks_exact(8);
    words.map(move |word| read(word.try_into().expect("chunks of eight")))
}
