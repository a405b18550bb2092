//! JSON of values: like the engine's, with the numbers that JSON doesn't have as strings.

use pvwire_core::format;
use pvwire_core::select::execute::Value;
use pvwire_schema::types::{Array, ValueType};

/// Appends a value as JSON. NaN and infinities are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`; integers of
/// 64 bits are numbers with all their digits.
pub fn push_json(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => to.extend_from_slice(b"null"),
        Value::Boolean(true) => to.extend_from_slice(b"true"),
        Value::Boolean(false) => to.extend_from_slice(b"false"),
        Value::Number(number) => push_number(*number, to),
        Value::Integer(integer) => to.extend_from_slice(integer.to_string().as_bytes()),
        Value::Text(text) => format::push_quoted(text, to),
        Value::Array(array) => push_array(array, to),
        Value::List(list) => push_items(list, (b'[', b']'), to, push_json),
        Value::Object(fields) => push_items(fields, (b'{', b'}'), to, |(key, value), to| {
            format::push_quoted(key, to);
            to.push(b':');
            push_json(value, to);
        }),
    }
}

/// Appends a JSON string.
pub fn push_text(text: &str, to: &mut Vec<u8>) {
    format::push_quoted(text, to);
}

fn push_number(number: f64, to: &mut Vec<u8>) {
    if number.is_finite() {
        // JSON readers lose the sign of a zero.
        format::push_shortest(number + 0.0, false, to);
    } else if number.is_nan() {
        to.extend_from_slice(br#""NaN""#);
    } else if number > 0.0 {
        to.extend_from_slice(br#""Infinity""#);
    } else {
        to.extend_from_slice(br#""-Infinity""#);
    }
}

fn push_array(array: &Array, to: &mut Vec<u8>) {
    let brackets = (b'[', b']');
    let words = array.data.as_chunks::<8>().0;
    match array.value_type {
        ValueType::Int64 => push_items(words, brackets, to, |word, to| {
            format::push_signed(i64::from_le_bytes(*word), to);
        }),
        ValueType::UInt64 => push_items(words, brackets, to, |word, to| {
            format::push_unsigned(u64::from_le_bytes(*word), to);
        }),
        _ => push_items(array.numbers(), brackets, to, push_number),
    }
}

fn push_items<T>(
    items: impl IntoIterator<Item = T>,
    (open, close): (u8, u8),
    to: &mut Vec<u8>,
    push: impl Fn(T, &mut Vec<u8>),
) {
    to.push(open);
    for (nth, item) in items.into_iter().enumerate() {
        if nth > 0 {
            to.push(b',');
        }
        push(item, to);
    }
    to.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn json(value: &Value) -> String {
        let mut text = Vec::new();
        push_json(value, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_that_json_lacks_are_strings_and_integers_exact() {
        let numbers = [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300];
        let list = Value::List(numbers.map(Value::Number).into());
        let text = json(&list);
        assert!(
            text.starts_with(r#"[1.5,"NaN","Infinity","-Infinity",0,1e"#),
            "{text}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read[5], 1e300);
        let words = [u64::MAX, 1 << 63].map(u64::to_le_bytes).concat();
        let array = |value_type| {
            Value::Array(Array {
                value_type,
                count: 2,
                data: Bytes::from(words.clone()),
            })
        };
        assert_eq!(
            json(&array(ValueType::UInt64)),
            "[18446744073709551615,9223372036854775808]"
        );
        assert_eq!(json(&array(ValueType::Int64)), "[-1,-9223372036854775808]");
        assert_eq!(
            json(&Value::Integer(u64::MAX.into())),
            "18446744073709551615"
        );
    }

    #[test]
    fn any_text_and_any_nesting_is_json() {
        let odd = "\"\\\n\u{0}\u{7f}\u{2028}µ";
        let value = Value::Object(vec![
            (odd.to_owned(), Value::Text(odd.to_owned())),
            ("none".to_owned(), Value::Null),
            (
                "list".to_owned(),
                Value::List(vec![Value::Boolean(true), Value::List(Vec::new())]),
            ),
        ]);
        let read: serde_json::Value = serde_json::from_str(&json(&value)).unwrap();
        assert_eq!(
            read,
            serde_json::json!({odd: odd, "none": null, "list": [true, []]})
        );
    }
}
