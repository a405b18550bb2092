//! Reads files of golden messages: by name the bytes of each message, and what a reader decodes from them.

use serde_json::{Map, Value};

/// A file's messages by name.
pub(crate) fn messages(file: &str) -> Map<String, Value> {
    serde_json::from_str(file).expect("JSON of golden messages")
}

/// The bytes of a message, which the file has as hexadecimal digits.
pub(crate) fn bytes_of(message: &Value) -> Vec<u8> {
    let lines = message["bytes"].as_array().expect("lines of digits");
    let digits: String = lines.iter().filter_map(Value::as_str).collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits"))
        .collect()
}
