//! Stores values that are more than one number: texts, arrays, structures and long integers.

use pvwire_schema::decode::BlobView;
use pvwire_schema::types::ValueType;

use crate::store::{Slot, Store, Text, kind};

/// A received array or structure and its location in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRow {
    /// The slot that it belongs to.
    pub slot: Slot,
    /// Where the elements, or the structure's table, start, in bytes from the start of the message.
    pub offset: u32,
    /// Number of elements. For a structure 1, or 0 if it holds only the changed fields.
    pub count: u32,
    /// Element type, as the wire's number.
    pub value_type: u32,
}

/// Stores the value of one row; the elements of an array stay in the message.
pub(super) fn set_blob(
    store: &mut Store,
    arrays: &mut Vec<ArrayRow>,
    slot: Slot,
    row: &BlobView<'_>,
) {
    let value_type = row.value_type;
    if value_type == ValueType::String {
        let mut texts = row.text().map(str::to_owned);
        if row.array {
            store.set_text(
                slot,
                kind::TEXT_ARRAY,
                Text::Many(texts.collect()),
                f64::NAN,
            );
        } else {
            let text = Text::One(texts.next().unwrap_or_default());
            store.set_text(slot, kind::TEXT, text, f64::NAN);
        }
        return;
    }
    if let Some(structure) = row.structure {
        store.set_opaque(slot, kind::STRUCTURE);
        arrays.push(ArrayRow {
            slot,
            offset: structure.position() as u32,
            count: u32::from(!row.partial),
            value_type: u32::from(ValueType::Structure.number()),
        });
        return;
    }
    let Some(element_bytes) = value_type.element_bytes() else {
        return store.set_opaque(slot, kind::UNKNOWN);
    };
    if row.array {
        store.set_opaque(slot, kind::ARRAY);
        arrays.push(ArrayRow {
            slot,
            offset: row.data_offset as u32,
            count: (row.data.len() / element_bytes) as u32,
            value_type: u32::from(value_type.number()),
        });
        return;
    }
    match scalar(value_type, row.data) {
        Some(Scalar::Number(number)) => store.set_number(slot, number),
        Some(Scalar::Integer(digits, nearest)) => {
            store.set_text(slot, kind::LARGE_INTEGER, Text::One(digits), nearest);
        }
        None => store.set_opaque(slot, kind::UNKNOWN),
    }
}

enum Scalar {
    Number(f64),
    /// Its digits, and the nearest double.
    Integer(String, f64),
}

/// The first element, little-endian; `None` if the array is empty.
fn scalar(value_type: ValueType, data: &[u8]) -> Option<Scalar> {
    let mut bytes = [0_u8; 8];
    let length = value_type.element_bytes()?;
    bytes[..length].copy_from_slice(data.get(..length)?);
    let raw = u64::from_le_bytes(bytes);
    Some(match value_type {
        ValueType::Float64 => Scalar::Number(f64::from_bits(raw)),
        ValueType::Float32 => Scalar::Number(f64::from(f32::from_bits(raw as u32))),
        ValueType::Int8 => Scalar::Number(f64::from(raw as i8)),
        ValueType::Int16 => Scalar::Number(f64::from(raw as i16)),
        ValueType::Int32 => Scalar::Number(f64::from(raw as i32)),
        ValueType::Int64 => Scalar::Integer((raw as i64).to_string(), raw as i64 as f64),
        ValueType::UInt64 => Scalar::Integer(raw.to_string(), raw as f64),
        _ => Scalar::Number(raw as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Session;
    use super::super::fixtures::{ALL, frame, golden};
    use super::*;
    use pvwire_schema::types::{FrameKind, PvId, Reply};

    #[test]
    fn arrays_stay_in_the_message() {
        let mut session = Session::new();
        let names: Vec<Slot> = (0..5).map(|n| session.live.add(&n.to_string())).collect();
        session.subscribe(&names, ALL);
        let ids = (20..25).map(PvId).collect();
        let reply = Reply::Subscribed {
            ids,
            errors: Vec::new(),
        };
        session
            .apply(&frame(FrameKind::Snapshot, 14, 0, |e| e.reply(1, &reply)))
            .unwrap();
        let bytes = golden("arrays");
        session.apply(&bytes).unwrap();

        let counts: Vec<_> = session.arrays.iter().map(|row| row.count).collect();
        assert_eq!(counts, [3, 5, 1, 0]);
        let first = session.arrays[0].offset as usize;
        assert_eq!(bytes[first..first + 8], 1.5_f64.to_le_bytes());
        assert_eq!(
            session.live.text(names[4]),
            &Text::Many(vec!["one".into(), String::new(), "drei".into()])
        );
    }

    #[test]
    fn an_integer_that_no_double_holds_keeps_its_digits() {
        let Some(Scalar::Integer(digits, nearest)) =
            scalar(ValueType::Int64, &9_007_199_254_740_993_i64.to_le_bytes())
        else {
            panic!("not an integer");
        };
        assert_eq!(
            (digits.as_str(), nearest),
            ("9007199254740993", 9_007_199_254_740_992.0)
        );
    }
}
