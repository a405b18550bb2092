//! Target `http`: a path below `/pv/`, and behind a zero byte the body of a put.

use std::time::Duration;

use pvwire_http::{Form, PREFIX, put_body, route};

pub(crate) const SEEDS: &[&str] = &[
    "/pv/SR:CURRENT\0{\"value\":1.5,\"wait\":false,\"timeout_ms\":100}",
    "/pv/pva:%2F%2FX%2Fa/stream\0{\"value\":[1,-2,9007199254740993]}",
    "/pv/ca://X.VAL\0{\"value\":[\"a\",\"\\u00b5\"]}",
];

pub(crate) const WORDS: &[&str] = &[
    "/pv/",
    "/stream",
    "%2F",
    "%",
    "=",
    "loc://",
    "\0",
    "{\"value\":",
    ",\"wait\":true",
    ",\"timeout_ms\":",
    "18446744073709551615",
    "-9223372036854775808",
    "1e999",
    "\"NaN\"",
    "[",
    "]",
    "}",
    "null",
];

/// A name that was understood comes through a second time as it was, whatever it contains.
pub(crate) fn run(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let path = String::from_utf8_lossy(parts.next().unwrap_or_default());
    if let Some(Ok(first)) = route(&path) {
        let encoded: String = (first.name.bytes())
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let again = route(&format!("{PREFIX}{encoded}"));
        let again = again.and_then(Result::ok).expect("the same name");
        assert_eq!((again.name, again.form), (first.name, Form::Json));
    }
    let _ = put_body(parts.next().unwrap_or_default(), Duration::from_secs(1));
}
