//! Reads the values of `putChannels`.

use pvwire_schema::types::{PutValue, ValueType};

use super::Pv;
use super::json::{self, Json};
use crate::select::string_value::decode;

/// Why a text is not a value that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// A list with other entries than numbers, strings or booleans.
    MixedList,
    /// A list of integers of more than 64 bits.
    Integers,
    /// A list with a number that no double can hold.
    TooLarge,
    /// An array of an unknown type.
    NumberType(String),
    /// An array whose elements are not base64.
    Base64,
    /// An array that ends within an element.
    Bytes {
        /// Number of bytes.
        bytes: usize,
        /// The type, in capitals.
        number_type: String,
    },
}

impl ValueError {
    /// The error in words. `std::fmt` would take several kilobytes of a browser's module.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::MixedList => "a list to write holds numbers or strings only".to_owned(),
            Self::Integers => "no array of 64-bit integers holds all of them".to_owned(),
            Self::TooLarge => "a number of the list is too large for a 64-bit float".to_owned(),
            Self::NumberType(name) => ["there is no number type ", name].concat(),
            Self::Base64 => "the array is no base64".to_owned(),
            Self::Bytes { bytes, number_type } => [
                &bytes.to_string(),
                " bytes are no whole number of ",
                number_type,
                " elements",
            ]
            .concat(),
        }
    }
}

impl std::fmt::Display for ValueError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text())
    }
}

impl std::error::Error for ValueError {}

/// The value that a text of `putChannels` stands for: `[…]` is a list in JSON,
/// `{"numberType": …, "base64": …}` an array, everything else text. `is_text` says that the PV holds a
/// single string, to which every text is written as it is.
///
/// # Errors
/// When the text is a list or an array that can't be written.
pub fn put_value(text: &str, is_text: bool) -> Result<PutValue, ValueError> {
    read_put_value(text, is_text, parsed)
}

/// A number in decimal digits.
pub(super) fn parsed(digits: &str) -> f64 {
    digits.parse().unwrap_or(f64::NAN)
}

/// Whether a text stands for itself, whatever the PV holds.
pub(super) fn is_literal(text: &str) -> bool {
    matches!(read_put_value(text, false, |_| 0.0), Ok(PutValue::Text(_)))
}

/// See [`put_value`]; `number` reads a number in decimal digits.
pub(super) fn read_put_value(
    text: &str,
    is_text: bool,
    number: fn(&str) -> f64,
) -> Result<PutValue, ValueError> {
    let first = text.as_bytes().first();
    let is_list_or_array = !is_text && matches!(first, Some(b'[' | b'{'));
    match is_list_or_array.then(|| json::read(text)).flatten() {
        Some(Json::List(list)) => read_list(&list, number),
        Some(json) => match (json.field("\"numberType\""), json.field("\"base64\"")) {
            (Some(Json::Text(number_type)), Some(Json::Text(base64))) => {
                read_array(&decode(number_type, false), &decode(base64, false))
            }
            _ => Ok(PutValue::Text(text.to_owned())),
        },
        None => Ok(PutValue::Text(text.to_owned())),
    }
}

/// Whether a PV holds a single string, to which every text is written as it is.
#[must_use]
pub fn takes_text(pv: &impl Pv) -> bool {
    let metadata = pv.metadata();
    metadata.value_type == ValueType::String && metadata.element_count == 1
}

fn read_list(list: &[Json<'_>], number: fn(&str) -> f64) -> Result<PutValue, ValueError> {
    let mut texts = Vec::new();
    let mut data = Vec::new();
    let (mut flags, mut is_exact, mut is_integer) = (0, true, true);
    for entry in list {
        let value = match entry {
            Json::Text(text) => {
                texts.push(decode(text, false));
                continue;
            }
            Json::Boolean(value) => {
                flags += 1;
                f64::from(u8::from(*value))
            }
            Json::Number(digits) => {
                is_integer &= integer(digits).0;
                let value = number(digits);
                if value.is_infinite() {
                    return Err(ValueError::TooLarge);
                }
                value
            }
            _ => return Err(ValueError::MixedList),
        };
        is_exact &= value.abs() < 9_007_199_254_740_992.0;
        data.extend_from_slice(&value.to_le_bytes());
    }
    if !texts.is_empty() && texts.len() == list.len() {
        return Ok(PutValue::TextArray(texts));
    }
    if !texts.is_empty() || (flags > 0 && flags != list.len()) {
        return Err(ValueError::MixedList);
    }
    if is_exact || !is_integer {
        return Ok(array(ValueType::Float64, list.len(), data));
    }
    // Integers that a double can't hold are read digit by digit.
    let (mut signed, mut unsigned) = (true, true);
    data.clear();
    for entry in list {
        if let Json::Number(digits) = entry {
            let (_, is_negative, size) = integer(digits);
            let size = size.ok_or(ValueError::Integers)?;
            signed &= size <= i64::MAX as u64 || (is_negative && size == 1 << 63);
            unsigned &= !is_negative || size == 0;
            let word = if is_negative {
                size.wrapping_neg()
            } else {
                size
            };
            data.extend_from_slice(&word.to_le_bytes());
        }
    }
    match (signed, unsigned) {
        (true, _) => Ok(array(ValueType::Int64, list.len(), data)),
        (_, true) => Ok(array(ValueType::UInt64, list.len(), data)),
        _ => Err(ValueError::Integers),
    }
}

/// Whether a number is an integer, whether it is negative, and its size if 64 bits hold it.
fn integer(digits: &str) -> (bool, bool, Option<u64>) {
    let (is_negative, digits) = match digits.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut size = Some(0_u64);
    for digit in digits {
        if !digit.is_ascii_digit() {
            return (false, is_negative, None);
        }
        let times_ten = size.and_then(|size| size.checked_mul(10));
        size = times_ten.and_then(|size| size.checked_add(u64::from(digit - b'0')));
    }
    (true, is_negative, size)
}

fn array(value_type: ValueType, count: usize, data: Vec<u8>) -> PutValue {
    PutValue::Array(pvwire_schema::types::Array {
        value_type,
        count: count as u32,
        data: data.into(),
    })
}

fn read_array(number_type: &str, base64: &str) -> Result<PutValue, ValueError> {
    let upper = number_type.to_ascii_uppercase();
    let value_type = match upper.as_str() {
        "INT8" => ValueType::Int8,
        "UINT8" => ValueType::UInt8,
        "INT16" => ValueType::Int16,
        "UINT16" => ValueType::UInt16,
        "INT32" => ValueType::Int32,
        "UINT32" => ValueType::UInt32,
        "INT64" => ValueType::Int64,
        "UINT64" => ValueType::UInt64,
        "FLOAT32" => ValueType::Float32,
        "FLOAT64" => ValueType::Float64,
        _ => return Err(ValueError::NumberType(number_type.to_owned())),
    };
    let data = from_base64(base64).ok_or(ValueError::Base64)?;
    let size = value_type.element_bytes().unwrap_or(1);
    if !data.len().is_multiple_of(size) {
        return Err(ValueError::Bytes {
            bytes: data.len(),
            number_type: upper,
        });
    }
    Ok(array(value_type, data.len() / size, data))
}

/// The bytes of base64 as browsers read it: white space is ignored, and padding may be missing.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r');
    let mut digits: Vec<u8> = text.bytes().filter(|byte| !is_space(byte)).collect();
    if digits.len().is_multiple_of(4) {
        for _ in 0..2 {
            digits.pop_if(|last| *last == b'=');
        }
    }
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let mut word = 0_u32;
        for digit in chunk {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(word.to_be_bytes().get(1..chunk.len())?);
    }
    Some(bytes)
}
