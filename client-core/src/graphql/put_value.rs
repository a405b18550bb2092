//! Reads the values of `putChannels`.

use pvwire_schema::types::{PutValue, ValueType};
use serde_json::Value as Json;

use super::Pv;

/// Why a text is not a value that can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A list with other entries than numbers, strings or booleans.
    #[error("a list to write holds numbers or strings only")]
    MixedList,
    /// A list of integers of more than 64 bits.
    #[error("no array of 64-bit integers holds all of them")]
    Integers,
    /// An array of an unknown type.
    #[error("there is no number type {0}")]
    NumberType(String),
    /// An array whose elements are not base64.
    #[error("the array is no base64")]
    Base64,
    /// An array that ends within an element.
    #[error("{bytes} bytes are no whole number of {number_type} elements")]
    Bytes {
        /// Number of bytes.
        bytes: usize,
        /// The type, in capitals.
        number_type: String,
    },
}

/// The value that a text of `putChannels` stands for: `[…]` is a list in JSON,
/// `{"numberType": …, "base64": …}` an array, everything else text. `is_text` says that the PV holds a
/// single string, to which every text is written as it is.
///
/// # Errors
/// When the text is a list or an array that can't be written.
pub fn put_value(text: &str, is_text: bool) -> Result<PutValue, ValueError> {
    let literal = || Ok(PutValue::Text(text.to_owned()));
    if is_text || !text.starts_with(['[', '{']) {
        return literal();
    }
    match serde_json::from_str(text) {
        Ok(Json::Array(list)) => read_list(&list, text),
        Ok(Json::Object(fields)) => match (fields.get("numberType"), fields.get("base64")) {
            (Some(Json::String(number_type)), Some(Json::String(base64))) => {
                read_array(number_type, base64)
            }
            _ => literal(),
        },
        _ => literal(),
    }
}

/// Whether a PV holds a single string, to which every text is written as it is.
#[must_use]
pub fn takes_text(pv: &impl Pv) -> bool {
    let metadata = pv.metadata();
    metadata.value_type == ValueType::String && metadata.element_count == 1
}

fn read_list(list: &[Json], text: &str) -> Result<PutValue, ValueError> {
    if !list.is_empty() && list.iter().all(Json::is_string) {
        let texts = list.iter().filter_map(Json::as_str).map(str::to_owned);
        return Ok(PutValue::TextArray(texts.collect()));
    }
    if list.iter().all(Json::is_boolean) {
        let numbers = list
            .iter()
            .map(|entry| f64::from(u8::from(entry == &Json::Bool(true))));
        return Ok(doubles(numbers.collect()));
    }
    if !list.iter().all(Json::is_number) {
        return Err(ValueError::MixedList);
    }
    let numbers: Vec<f64> = list.iter().filter_map(Json::as_f64).collect();
    // Integers that a double can't hold are read digit by digit.
    let is_safe = |number: &f64| number.abs() < 9_007_199_254_740_992.0;
    let inner = text.trim_end().trim_matches(['[', ']']);
    let entries: Vec<&str> = inner.split(',').map(str::trim).collect();
    if numbers.iter().all(is_safe) || !entries.iter().all(|entry| is_integer(entry)) {
        return Ok(doubles(numbers));
    }
    let count = entries.len();
    let signed = entries
        .iter()
        .map(|entry| entry.parse().map(i64::to_le_bytes));
    if let Ok(words) = signed.collect::<Result<Vec<_>, _>>() {
        return Ok(array(ValueType::Int64, count, words.concat()));
    }
    let unsigned = entries
        .iter()
        .map(|entry| entry.parse().map(u64::to_le_bytes));
    match unsigned.collect::<Result<Vec<_>, _>>() {
        Ok(words) => Ok(array(ValueType::UInt64, count, words.concat())),
        Err(_) => Err(ValueError::Integers),
    }
}

fn is_integer(entry: &str) -> bool {
    let digits = entry.strip_prefix('-').unwrap_or(entry);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn doubles(numbers: Vec<f64>) -> PutValue {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    array(ValueType::Float64, numbers.len(), bytes.collect())
}

fn array(value_type: ValueType, count: usize, data: Vec<u8>) -> PutValue {
    PutValue::Array(pvwire_schema::types::Array {
        value_type,
        count: count as u32,
        data: data.into(),
    })
}

fn read_array(number_type: &str, base64: &str) -> Result<PutValue, ValueError> {
    let upper = number_type.to_uppercase();
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
