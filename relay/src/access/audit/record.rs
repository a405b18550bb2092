//! The records of the audit file, as JSON.

use std::time::{Duration, SystemTime};

use pvwire_schema::types::{Array, BlobValue, PutValue};
use serde_json::{Value, json};

use super::chain::{LINK_BYTES, printable, time};
use crate::access::rule::Identity;
use crate::ingest::RowValue;

/// Longest text of a value or of what a client says, in characters; the rest is left out.
const MAX_TEXT: usize = 1000;

/// Longest record that its line, with the link to the one before, has 4,096 bytes for; values are
/// left out of what would be longer.
const MAX_RECORD_BYTES: usize = 4096 - LINK_BYTES;

/// Most bytes of an array that are kept.
const MAX_BYTES: usize = 256;

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// `put`, `call` or `disconnect`.
    pub kind: &'a str,
    /// Number of the attempt, of all that its thread made.
    pub number: (usize, u64),
    /// User and groups.
    pub identity: &'a Identity,
    /// Address that the client connects from.
    pub peer: &'a str,
    /// Origin of its page.
    pub origin: &'a str,
    /// Name of the PV as the client says it; empty where a client is disconnected.
    pub pv: &'a str,
    /// Value before, as far as the relay knows; the client that is disconnected.
    pub old: &'a Value,
    /// Value that it is to have.
    pub new: &'a Value,
    /// Its outcome, or `Begun`.
    pub result: &'a str,
    /// Why.
    pub message: &'a str,
    /// How long it took.
    pub latency: Duration,
}

impl Attempt<'_> {
    /// The record, a JSON object. Nothing that a client says can end it or its line earlier:
    /// whatever isn't printable ASCII is escaped.
    #[must_use]
    pub fn record(&self, now: SystemTime) -> String {
        let record = self.record_with(now, self.old, self.new, MAX_TEXT);
        if record.len() <= MAX_RECORD_BYTES {
            return record;
        }
        let left_out = json!({ "leftOut": "the record would be too long" });
        let record = self.record_with(now, &left_out, &left_out, MAX_TEXT);
        if record.len() <= MAX_RECORD_BYTES {
            return record;
        }
        // Each character may take twelve bytes.
        self.record_with(now, &left_out, &left_out, MAX_RECORD_BYTES / 12 / 5)
    }

    fn record_with(&self, now: SystemTime, old: &Value, new: &Value, most: usize) -> String {
        let cut = |text: &str| text.chars().take(most).collect::<String>();
        printable(&json!({
            "time": time(now),
            "kind": self.kind,
            "attempt": format!("{}-{}", self.number.0, self.number.1),
            "user": self.identity.user.as_deref().map(cut),
            "peer": cut(self.peer),
            "origin": cut(self.origin),
            "pv": cut(self.pv),
            "old": old,
            "new": new,
            "result": self.result,
            "message": cut(self.message),
            "latencyMs": (self.latency.as_secs_f64() * 1e6).round() / 1e3,
        }))
    }
}

fn number(number: f64) -> Value {
    // NaN and the infinities are no JSON numbers.
    serde_json::Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)
}

fn text(text: &str) -> Value {
    text.chars().take(MAX_TEXT).collect::<String>().into()
}

fn texts(list: &[String]) -> Value {
    let some: Vec<_> = list.iter().take(16).map(|one| text(one)).collect();
    json!({ "type": "String", "count": list.len(), "first": some })
}

fn array(array: &Array) -> Value {
    let bytes = array.data.iter().take(MAX_BYTES);
    let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    json!({ "type": format!("{:?}", array.value_type), "count": array.count, "bytes": hex })
}

/// A value that is to be written.
#[must_use]
pub fn new_value(value: &PutValue) -> Value {
    match value {
        PutValue::Number(value) => number(*value),
        PutValue::Int64(value) => (*value).into(),
        PutValue::UInt64(value) => (*value).into(),
        PutValue::Text(value) => text(value),
        PutValue::TextArray(list) => texts(list),
        PutValue::Array(value) => array(value),
    }
}

/// A value that the relay got.
#[must_use]
pub fn old_value(value: &RowValue) -> Value {
    let blob = match value {
        RowValue::Number(value) => return number(*value),
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => blob,
    };
    match blob.as_ref() {
        BlobValue::Text(value) => text(value),
        BlobValue::TextArray(list) => texts(list),
        BlobValue::Int64(value) => (*value).into(),
        BlobValue::UInt64(value) => (*value).into(),
        BlobValue::Array(value) => array(value),
        BlobValue::Structure(_) | BlobValue::StructurePart(_) => json!({ "type": "Structure" }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::chain::link;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_that_a_client_says_forges_a_line_or_a_field(
            user in ".{0,32}", origin in ".{0,32}", pv in ".{0,32}", new in ".{0,32}",
            old in ".{0,32}", message in ".{0,32}",
        ) {
            let identity = Identity { user: Some(user.clone()), groups: Vec::new() };
            let (old_json, new_json) = (text(&old), new_value(&PutValue::Text(new.clone())));
            let attempt = Attempt {
                kind: "put",
                number: (1, 2),
                identity: &identity,
                peer: "127.0.0.1:1",
                origin: &origin,
                pv: &pv,
                old: &old_json,
                new: &new_json,
                result: "NotAllowed",
                message: &message,
                latency: Duration::from_micros(1500),
            };
            let line = attempt.record(UNIX_EPOCH);
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read["user"], &Value::from(user));
            prop_assert_eq!(&read["origin"], &Value::from(origin));
            prop_assert_eq!(&read["pv"], &Value::from(pv));
            prop_assert_eq!(&read["old"], &Value::from(old));
            prop_assert_eq!(&read["new"], &Value::from(new));
            prop_assert_eq!(&read["result"], "NotAllowed");
            prop_assert_eq!(&read["latencyMs"], 1.5);
            prop_assert_eq!(read.as_object().unwrap().len(), 12);
        }
    }

    #[test]
    fn no_line_is_longer_than_4_kb_and_values_are_left_out_first() {
        let identity = Identity {
            user: Some("\u{10ffff}".repeat(256)),
            groups: Vec::new(),
        };
        let (long, huge) = ("\u{10ffff}".repeat(300), "\u{10ffff}".repeat(100_000));
        let arguments: Vec<_> = (0..100).map(|n| (format!("a{n}"), text(&huge))).collect();
        let (old, new) = (
            text("before"),
            Value::Object(arguments.into_iter().collect()),
        );
        for (pv, origin, whole_pv) in [
            ("SR:SET", "", true),
            (&long, "", false),
            (&huge, &huge, false),
        ] {
            let attempt = Attempt {
                kind: "call",
                number: (1, u64::MAX),
                identity: &identity,
                peer: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
                origin,
                pv,
                old: &old,
                new: &new,
                result: "NotAllowed",
                message: if whole_pv { "why" } else { &huge },
                latency: Duration::from_secs(3600),
            };
            let line = link(&attempt.record(UNIX_EPOCH), Some(&"f".repeat(64)));
            assert!(line.len() <= 4096, "{} bytes", line.len());
            let read: Value = serde_json::from_str(&line).unwrap();
            assert!(read["new"]["leftOut"].is_string(), "{read}");
            assert_eq!(read["pv"] == pv, whole_pv);
            assert_eq!(read["result"], "NotAllowed");
        }
    }
}
