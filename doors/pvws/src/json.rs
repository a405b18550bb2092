//! JSON as PVWS writes it: strings, in which only what JSON requires is escaped, and numeric arrays in base64, little-endian,
//! under a key that names the width of the elements.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pvwire_schema::types::{Array, ValueType};

use crate::name::Dialect;

/// Appends a string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
    {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04X}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The type in which the elements are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Byte,
    Short,
    Int,
    Float,
    Double,
}

impl Width {
    pub(crate) const ALL: [Self; 5] = [
        Self::Byte,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
    ];

    /// The class of an array and the width of its elements; `None` for arrays that PVWS sends as text.
    ///
    /// Arrays with integers that don't fit into 32 bits are written as doubles; PVWS would truncate them.
    pub(crate) fn of(array: &Array, dialect: Dialect) -> Option<(&'static str, Self)> {
        Some(match array.value_type {
            ValueType::Float64 => ("VDoubleArray", Self::Double),
            ValueType::Float32 => ("VFloatArray", Self::Float),
            ValueType::Int16 => ("VShortArray", Self::Short),
            ValueType::Int8 => ("VByteArray", Self::Byte),
            ValueType::UInt8 if dialect == Dialect::Ca => ("VByteArray", Self::Byte),
            ValueType::UInt8 => ("VUByteArray", Self::Int),
            ValueType::UInt16 => ("VUShortArray", Self::Int),
            ValueType::Int32 => ("VIntArray", Self::Int),
            ValueType::UInt32 | ValueType::Int64 | ValueType::UInt64 => {
                if integers(array).all(|element| i32::try_from(element).is_ok()) {
                    (class(array.value_type), Self::Int)
                } else {
                    ("VDoubleArray", Self::Double)
                }
            }
            _ => return None,
        })
    }

    /// The key of the value.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Byte => "b64byt",
            Self::Short => "b64srt",
            Self::Int => "b64int",
            Self::Float => "b64flt",
            Self::Double => "b64dbl",
        }
    }
}

fn class(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::UInt32 => "VUIntArray",
        ValueType::Int64 => "VLongArray",
        _ => "VULongArray",
    }
}

/// The elements of an array of integers.
pub(crate) fn integers(array: &Array) -> Box<dyn Iterator<Item = i128> + '_> {
    fn read<'a, const N: usize, T: Into<i128> + 'a>(
        data: &'a [u8],
        one: fn([u8; N]) -> T,
    ) -> Box<dyn Iterator<Item = i128> + 'a> {
        let elements = data.as_chunks::<N>().0;
        Box::new(elements.iter().map(move |element| one(*element).into()))
    }
    let data = &array.data[..];
    match array.value_type {
        ValueType::Int8 => read(data, i8::from_le_bytes),
        ValueType::UInt8 => read(data, u8::from_le_bytes),
        ValueType::Int16 => read(data, i16::from_le_bytes),
        ValueType::UInt16 => read(data, u16::from_le_bytes),
        ValueType::Int32 => read(data, i32::from_le_bytes),
        ValueType::UInt32 => read(data, u32::from_le_bytes),
        ValueType::Int64 => read(data, i64::from_le_bytes),
        ValueType::UInt64 => read(data, u64::from_le_bytes),
        _ => Box::new(std::iter::empty()),
    }
}

/// Appends the elements as a quoted base64 string.
pub(crate) fn base64(out: &mut Vec<u8>, array: &Array, width: Width) {
    let is_as_it_is = match width {
        Width::Byte | Width::Short | Width::Float => true,
        Width::Int => array.value_type == ValueType::Int32,
        Width::Double => array.value_type == ValueType::Float64,
    };
    if is_as_it_is {
        return encoded(out, &array.data);
    }
    let bytes: Vec<u8> = match width {
        Width::Double => integers(array)
            .flat_map(|element| (element as f64).to_le_bytes())
            .collect(),
        _ => integers(array)
            .flat_map(|element| (element as i32).to_le_bytes())
            .collect(),
    };
    encoded(out, &bytes);
}

fn encoded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let begin = out.len();
    let length = base64::encoded_len(bytes.len(), true).expect("a value fits into memory");
    out.resize(begin + length, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[begin..]);
    written.expect("the room was measured");
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quotes_backslashes_and_control_characters_are_escaped() {
        let mut out = Vec::new();
        string(
            &mut out,
            "a/b \"c\" \\ \u{8}\t\n\u{c}\r\u{1f}\0 µm é \u{10ffff}",
        );
        let expected = "\"a/b \\\"c\\\" \\\\ \\b\\t\\n\\f\\r\\u001F\\u0000 µm é \u{10ffff}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest::proptest! {
        #[test]
        fn every_string_is_read_back(text: String) {
            let mut out = Vec::new();
            string(&mut out, &text);
            let read: String = serde_json::from_slice(&out).unwrap();
            proptest::prop_assert_eq!(read, text);
        }
    }
}
