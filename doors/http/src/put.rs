//! The body of a put, and the answer to it.

use std::time::Duration;

use bytes::Bytes;
use pvwire_core::select::execute;
use pvwire_schema::types::{Array, Node, Outcome, PutValue, ValueType};
use serde_json::{Map, Number, Value};

use crate::json::{push_json, push_text};

/// The longest time that a put may wait for completion.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest integer up to which doubles have every integer.
const EXACT: u64 = 1 << 53;

/// What a body asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct PutBody {
    /// The value to write.
    pub value: PutValue,
    /// Whether the answer waits until the IOC has processed the record.
    pub wait: bool,
    /// Whether a value outside the control limits of the PV is refused.
    pub check_limits: bool,
    /// How long to wait.
    pub timeout: Duration,
}

/// A body that is no put.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PutBodyError {
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// It is not an object with a value.
    #[error("the body has no value: expected {{\"value\": …}}")]
    NoValue,
    /// A member is unknown.
    #[error("{0:?} is unknown: expected value, wait, check_limits or timeout_ms")]
    UnknownMember(String),
    /// `wait` or `check_limits` is neither true nor false.
    #[error("{0} is neither true nor false")]
    NotBoolean(&'static str),
    /// `timeout_ms` is out of range.
    #[error("timeout_ms is not an integer from 1 to {}", MAX_TIMEOUT.as_millis())]
    BadTimeout,
    /// The value can't be written.
    #[error(
        "value is {0}: expected a number, a string, a boolean, or an array of numbers or of strings"
    )]
    BadValue(&'static str),
}

/// Reads the body of a put. Without `wait` it waits for completion; without `timeout_ms`, for `timeout`.
///
/// # Errors
/// When the body is not `{"value": …}`.
pub fn put_body(body: &[u8], timeout: Duration) -> Result<PutBody, PutBodyError> {
    let read: Value = serde_json::from_slice(body).map_err(PutBodyError::NotJson)?;
    let Value::Object(mut members) = read else {
        return Err(PutBodyError::NoValue);
    };
    let value = members.remove("value").ok_or(PutBodyError::NoValue)?;
    let mut boolean = |name, default| match members.remove(name) {
        None => Ok(default),
        Some(Value::Bool(value)) => Ok(value),
        Some(_) => Err(PutBodyError::NotBoolean(name)),
    };
    let wait = boolean("wait", true)?;
    let check_limits = boolean("check_limits", false)?;
    let timeout = timeout_of(&mut members)?.unwrap_or(timeout);
    if let Some(name) = members.keys().next() {
        return Err(PutBodyError::UnknownMember(name.clone()));
    }
    let value = value_of(value)?;
    Ok(PutBody {
        value,
        wait,
        check_limits,
        timeout,
    })
}

fn timeout_of(members: &mut Map<String, Value>) -> Result<Option<Duration>, PutBodyError> {
    let Some(given) = members.remove("timeout_ms") else {
        return Ok(None);
    };
    let given = given.as_u64().map(Duration::from_millis);
    let given = given.filter(|given| !given.is_zero() && *given <= MAX_TIMEOUT);
    given.map(Some).ok_or(PutBodyError::BadTimeout)
}

fn value_of(value: Value) -> Result<PutValue, PutBodyError> {
    Ok(match value {
        Value::Null => return Err(PutBodyError::BadValue("null")),
        Value::Object(_) => return Err(PutBodyError::BadValue("an object")),
        Value::Bool(value) => PutValue::Number(f64::from(u8::from(value))),
        Value::String(text) => PutValue::Text(text),
        Value::Number(number) => scalar(&number),
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => {
            let texts = items.into_iter().filter_map(|item| match item {
                Value::String(text) => Some(text),
                _ => None,
            });
            PutValue::TextArray(texts.collect())
        }
        Value::Array(items) => array(&items)?,
    })
}

/// Integers that a double doesn't have keep all their digits.
fn scalar(number: &Number) -> PutValue {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) if integer.unsigned_abs() > EXACT => PutValue::Int64(integer),
        (None, Some(integer)) => PutValue::UInt64(integer),
        _ => PutValue::Number(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// An array of doubles, or of integers if a double doesn't have one of them, or of texts if no type has all.
fn array(items: &[Value]) -> Result<PutValue, PutBodyError> {
    let numbers: Option<Vec<&Number>> = (items.iter())
        .map(|item| match item {
            Value::Number(number) => Some(number),
            _ => None,
        })
        .collect();
    let numbers = numbers.ok_or(PutBodyError::BadValue(
        "an array with something else than numbers or strings",
    ))?;
    let forms: Vec<PutValue> = numbers.iter().map(|number| scalar(number)).collect();
    let signed: Option<Vec<i64>> = numbers.iter().map(|number| number.as_i64()).collect();
    let unsigned: Option<Vec<u64>> = numbers.iter().map(|number| number.as_u64()).collect();
    let is_large = |form: &PutValue| !matches!(form, PutValue::Number(_));
    let (value_type, words): (_, Vec<[u8; 8]>) = match (signed, unsigned) {
        (Some(signed), _) if forms.iter().any(is_large) => (
            ValueType::Int64,
            signed.into_iter().map(i64::to_le_bytes).collect(),
        ),
        (_, Some(unsigned)) if forms.iter().any(is_large) => (
            ValueType::UInt64,
            unsigned.into_iter().map(u64::to_le_bytes).collect(),
        ),
        _ if forms.iter().any(is_large) => {
            let texts = numbers.iter().map(|number| number.to_string());
            return Ok(PutValue::TextArray(texts.collect()));
        }
        _ => {
            let doubles = numbers
                .iter()
                .map(|number| number.as_f64().unwrap_or(f64::NAN));
            (ValueType::Float64, doubles.map(f64::to_le_bytes).collect())
        }
    };
    Ok(PutValue::Array(Array {
        value_type,
        count: words.len() as u32,
        data: Bytes::from(words.concat()),
    }))
}

/// The end of a put: the status of the answer, and its body.
#[must_use]
pub fn put_answer(outcome: Outcome, message: &str, readback: Option<&Node>) -> (u16, Vec<u8>) {
    let mut text = Vec::new();
    if outcome != Outcome::Done {
        text.extend_from_slice(br#"{"ok":false,"code":"#);
        push_text(outcome.code(), &mut text);
        text.extend_from_slice(br#","mayBeWritten":"#);
        text.extend_from_slice(outcome.may_be_done().to_string().as_bytes());
        text.extend_from_slice(br#","error":"#);
        push_text(message, &mut text);
        text.extend_from_slice(b"}\n");
        return (status_of(outcome), text);
    }
    text.extend_from_slice(br#"{"ok":true"#);
    if let Some(readback) = readback {
        text.extend_from_slice(br#","readback":"#);
        push_json(&execute::Value::of(readback), &mut text);
    }
    if !message.is_empty() {
        text.extend_from_slice(br#","message":"#);
        push_text(message, &mut text);
    }
    text.extend_from_slice(b"}\n");
    (200, text)
}

/// The status of the answer to a failed put.
fn status_of(outcome: Outcome) -> u16 {
    match outcome {
        Outcome::Done => 500,
        Outcome::NotAllowed | Outcome::NoAccess => 403,
        Outcome::BadValue | Outcome::NotSupported => 422,
        Outcome::NotConnected => 503,
        Outcome::Changed | Outcome::Withheld => 409,
        Outcome::Unknown | Outcome::Failed | Outcome::Interrupted => 502,
        Outcome::TimedOut => 504,
        Outcome::BadName => 400,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn value(body: &str) -> Result<PutValue, PutBodyError> {
        put_body(body.as_bytes(), SECOND).map(|read| read.value)
    }

    fn words(value_type: ValueType, words: &[[u8; 8]]) -> PutValue {
        PutValue::Array(Array {
            value_type,
            count: words.len() as u32,
            data: words.concat().into(),
        })
    }

    #[test]
    fn values_keep_their_digits() {
        let doubles = |list: &[f64]| {
            let list: Vec<_> = list.iter().map(|number| number.to_le_bytes()).collect();
            words(ValueType::Float64, &list)
        };
        for (json, expected) in [
            ("1.5", PutValue::Number(1.5)),
            ("-3", PutValue::Number(-3.0)),
            (
                "9007199254740992",
                PutValue::Number(9_007_199_254_740_992.0),
            ),
            ("9007199254740993", PutValue::Int64(9_007_199_254_740_993)),
            ("-9223372036854775808", PutValue::Int64(i64::MIN)),
            ("18446744073709551615", PutValue::UInt64(u64::MAX)),
            ("true", PutValue::Number(1.0)),
            (r#""on""#, PutValue::Text("on".to_owned())),
            ("[]", doubles(&[])),
            ("[1,2.5]", doubles(&[1.0, 2.5])),
            (
                r#"["a","b"]"#,
                PutValue::TextArray(vec!["a".into(), "b".into()]),
            ),
            (
                "[-1,9007199254740993]",
                words(
                    ValueType::Int64,
                    &[
                        (-1_i64).to_le_bytes(),
                        9_007_199_254_740_993_i64.to_le_bytes(),
                    ],
                ),
            ),
            (
                "[18446744073709551615]",
                words(ValueType::UInt64, &[u64::MAX.to_le_bytes()]),
            ),
            // No array type has both of these.
            (
                "[0.5,9007199254740993]",
                PutValue::TextArray(vec!["0.5".into(), "9007199254740993".into()]),
            ),
            (
                "[-1,18446744073709551615]",
                PutValue::TextArray(vec!["-1".into(), "18446744073709551615".into()]),
            ),
        ] {
            let body = format!(r#"{{"value":{json}}}"#);
            assert_eq!(value(&body).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn body_that_is_no_put_says_what_was_expected() {
        for (body, expected) in [
            ("", "not JSON"),
            ("5", "expected {\"value\": …}"),
            ("{}", "expected {\"value\": …}"),
            (r#"{"value":null}"#, "null"),
            (r#"{"value":{}}"#, "an object"),
            (r#"{"value":[1,"a"]}"#, "something else"),
            (r#"{"value":[[1]]}"#, "something else"),
            (r#"{"value":1,"wait":1}"#, "wait"),
            (r#"{"value":1,"timeout_ms":0}"#, "timeout_ms"),
            (r#"{"value":1,"timeout_ms":60001}"#, "timeout_ms"),
            (r#"{"value":1,"x":1}"#, "\"x\" is unknown"),
        ] {
            let error = value(body).unwrap_err().to_string();
            assert!(error.contains(expected), "{body}: {error}");
        }
        let read = put_body(br#"{"value":1,"wait":false,"timeout_ms":5}"#, SECOND).unwrap();
        assert!(!read.wait && read.timeout == Duration::from_millis(5));
        let read = put_body(br#"{"value":1}"#, SECOND).unwrap();
        assert!(read.wait && read.timeout == SECOND);
    }

    #[test]
    fn codes_of_failed_puts_are_those_of_the_openapi_document() {
        let document = include_str!("../../../docs/reference/openapi.json");
        let document: Value = serde_json::from_str(document).unwrap();
        let codes = &document["components"]["schemas"]["PutFailure"]["properties"]["code"]["enum"];
        let codes: Vec<_> = codes
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for number in 0..=12 {
            let outcome = Outcome::from_number(number);
            let (code, status) = (outcome.code(), status_of(outcome));
            assert!(outcome == Outcome::Done || codes.contains(&code), "{code}");
            let responses = &document["paths"]["/pv/{name}"]["put"]["responses"];
            assert!(responses.get(status.to_string()).is_some(), "{status}");
        }
    }

    #[test]
    fn answer_names_the_outcome_and_who_must_act() {
        let failed = |outcome| put_answer(outcome, "the rule \"x\"", None);
        let (status, text) = failed(Outcome::NotAllowed);
        let read: Value = serde_json::from_slice(&text).unwrap();
        let expected = serde_json::json!({
            "ok": false, "code": "NOT_ALLOWED", "mayBeWritten": false, "error": "the rule \"x\"",
        });
        assert_eq!((status, read), (403, expected));
        let (status, text) = failed(Outcome::TimedOut);
        let read: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((status, &read["mayBeWritten"]), (504, &Value::Bool(true)));
        assert_eq!(
            put_answer(Outcome::Done, "", None),
            (200, b"{\"ok\":true}\n".to_vec())
        );
    }
}
