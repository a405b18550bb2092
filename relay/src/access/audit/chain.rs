//! The hash chain of audit lines.
//!
//! Each line ends with `prev`, the SHA-256 of the whole line before it, the line's end included:
//! `sed -n 5p FILE | sha256sum` is the `prev` of line 6. A new file goes on from the last line of
//! the old one. So a line that is changed, removed or added later doesn't fit the lines next to it.

use std::fmt::Write as _;
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::text::{printable, time};

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
