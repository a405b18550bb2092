//! How a client of PVWS asks for PVs and reads their updates.

use serde_json::json;

use crate::wire::masked_text;

/// Path of the door.
const PATH: &str = "/pvws/pv";

/// Beginning of each update.
const UPDATE: &[u8] = br#"{"type":"update","pv":""#;

/// What a text says of a PV.
#[derive(Debug, PartialEq)]
pub(super) struct Update<'a> {
    pub(super) name: &'a [u8],
    /// `None` if it has no number.
    pub(super) value: Option<f64>,
    pub(super) time_ns: i64,
}

/// The handshake of a client of PVWS, which offers no subprotocol.
pub(crate) fn handshake(relay: &str) -> Vec<u8> {
    format!(
        "GET {PATH} HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    .into_bytes()
}

/// The message that subscribes names.
pub(crate) fn subscribe(names: &[&str]) -> Vec<u8> {
    masked_text(
        json!({"type": "subscribe", "pvs": names})
            .to_string()
            .as_bytes(),
    )
}

/// Reads an update. Names have no escaped characters here.
pub(super) fn read_update(text: &[u8]) -> Option<Update<'_>> {
    let rest = text.strip_prefix(UPDATE)?;
    let (name, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    let value = after(rest, b",\"value\":");
    let value = value.and_then(|rest| number(rest)?.parse().ok());
    let whole: i64 = number(after(rest, b",\"seconds\":")?)?.parse().ok()?;
    let nanos: i64 = number(after(rest, b",\"nanos\":")?)?.parse().ok()?;
    Some(Update {
        name,
        value,
        time_ns: whole * 1_000_000_000 + nanos,
    })
}

/// What follows the first place of a key.
fn after<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        rest = &rest[rest.iter().position(|byte| *byte == b',')?..];
        if let Some(found) = rest.strip_prefix(key) {
            return Some(found);
        }
        rest = &rest[1..];
    }
}

/// The text of a number up to the next key or the end.
fn number(text: &[u8]) -> Option<&str> {
    let end = text.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    std::str::from_utf8(&text[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_all_forms_are_read() {
        let update = |value| Update {
            name: b"A:1",
            value,
            time_ns: 2_000_000_005,
        };
        for (text, value) in [
            (
                r#"{"type":"update","pv":"A:1","value":7.0,"seconds":2,"nanos":5}"#,
                Some(7.0),
            ),
            (
                r#"{"type":"update","pv":"A:1","vtype":"VDouble","units":"m,m","severity":"NONE","value":-1.5,"readonly":true,"seconds":2,"nanos":5}"#,
                Some(-1.5),
            ),
            (
                r#"{"type":"update","pv":"A:1","severity":"INVALID","value":"NaN","seconds":2,"nanos":5}"#,
                None,
            ),
            (
                r#"{"type":"update","pv":"A:1","readonly":true,"seconds":2,"nanos":5}"#,
                None,
            ),
        ] {
            assert_eq!(read_update(text.as_bytes()), Some(update(value)), "{text}");
        }
        for other in [
            r#"{"type":"error","message":"no"}"#,
            "",
            r#"{"type":"update","pv":"A"}"#,
        ] {
            assert_eq!(read_update(other.as_bytes()), None, "{other}");
        }
    }
}
