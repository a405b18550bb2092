//! The hash chain of audit lines, and how they spell texts and times.
//!
//! Each line ends with `prev`, the SHA-256 of the whole line before it, the line's end included:
//! `sed -n 5p FILE | sha256sum` is the `prev` of line 6. A new file goes on from the last line of
//! the old one. So a line that is changed, removed or added later doesn't fit the lines next to it.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// What `link` adds to a record, with the end of the line.
pub(super) const LINK_BYTES: usize = r#","prev":"""#.len() + 64 + 1;

/// SHA-256 of a line with its end, in hexadecimal digits.
pub(super) fn hash(line: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, line).as_ref() {
        // Writing to a text can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The line of a record, which is a JSON object, behind a line with this hash.
pub(super) fn link(record: &str, before: Option<&str>) -> String {
    let members = record.strip_suffix('}').unwrap_or(record);
    match before {
        Some(hash) => format!("{members},\"prev\":\"{hash}\"}}\n"),
        None => format!("{members},\"prev\":null}}\n"),
    }
}

/// A line about the audit file itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// This is the first line of a file; its `prev` is the last line of the file before.
    Begin,
    /// The line before was cut off; the hash is that of the last whole line, if there is one.
    Cut(Option<String>),
    /// This number of records could not be written.
    Lost(u64),
}

impl Note {
    /// The record, without its link.
    pub(super) fn record(&self, now: SystemTime) -> String {
        let mut record = match self {
            Self::Begin => json!({ "kind": "begin", "message": "a new file" }),
            Self::Cut(whole) => json!({
                "kind": "cut",
                "message": "the line before was cut off while it was written",
                "whole": whole,
            }),
            Self::Lost(count) => json!({
                "kind": "lost",
                "message": "records could not be written",
                "count": count,
            }),
        };
        record["time"] = Value::from(time(now));
        printable(&record)
    }
}

/// JSON in printable ASCII.
pub(super) fn printable(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        if matches!(c, ' '..='~') {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text += &format!("\\u{unit:04x}");
        }
    }
    text
}

/// RFC 3339 in UTC with milliseconds.
pub(super) fn time(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_is_in_rfc_3339_with_milliseconds() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:01.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(time(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        let millis = UNIX_EPOCH + Duration::from_micros(1_798_761_599_004_999);
        assert_eq!(time(millis), "2026-12-31T23:59:59.004Z");
    }
}
