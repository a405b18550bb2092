//! Formats of JSON and times in the audit file.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::Value;

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
