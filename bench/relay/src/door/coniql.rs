//! How a client of Coniql asks for PVs and reads their updates. The id of each operation is the PV's place in the
//! client's list.

use crate::peer::{Dialect, Selection, Speaker};
use crate::wire::masked_text;

/// Path of the door.
const PATH: &str = "/ws";

/// Begins each message about an operation.
const BEGIN: &[u8] = b"{\"id\":\"";

/// What follows the id of a result.
const RESULT: &[u8] = br#"","type":"next","payload":{"data":{"subscribeChannel":"#;

/// What a text says.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// The client may subscribe.
    Welcome,
    /// A PV has this value, `None` if it has no number.
    Update {
        place: usize,
        value: Option<f64>,
        time_ns: i64,
    },
}

/// The handshake of a client of Coniql.
pub(crate) fn handshake(relay: &str) -> Vec<u8> {
    let subprotocol = Dialect::Coniql.subprotocol().unwrap_or_default();
    format!(
        "GET {PATH} HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    )
    .into_bytes()
}

/// What a client says before it may subscribe.
pub(super) fn greeting() -> Vec<u8> {
    masked_text(Dialect::Coniql.greeting().unwrap_or_default().as_bytes())
}

/// The messages that subscribe names, the same as those that Coniql is measured with.
pub(super) fn subscribe(names: &[&str], selection: Selection) -> Vec<u8> {
    let speaker = Speaker::new(Dialect::Coniql, selection, names.to_vec());
    let messages = speaker.subscribe();
    messages
        .iter()
        .flat_map(|message| masked_text(message.as_bytes()))
        .collect()
}

/// Reads a message. `None` for a message that isn't expected, for a result with errors, and where the value as text
/// is not the value as a number.
pub(super) fn read(text: &[u8]) -> Option<Said> {
    if text == br#"{"type":"connection_ack"}"# {
        return Some(Said::Welcome);
    }
    let rest = text.strip_prefix(BEGIN)?;
    let (id, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    let place = std::str::from_utf8(id).ok()?.parse().ok()?;
    let result = rest.strip_prefix(RESULT)?;
    let Some(value) = after(result, br#""value":{"float":"#) else {
        return Some(Said::Update {
            place,
            value: None,
            time_ns: 0,
        });
    };
    let (number, rest) = number(value)?;
    if let Some(text) = rest.strip_prefix(b",\"string\":\"") {
        let end = text.iter().position(|byte| *byte == b'"')?;
        let text: f64 = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
        if text != number {
            return None;
        }
    }
    let (seconds, _) = self::number(after(rest, br#""seconds":"#)?)?;
    Some(Said::Update {
        place,
        value: Some(number),
        time_ns: (seconds * 1e9) as i64,
    })
}

/// What follows the first place of a key.
fn after<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(key.len()).position(|here| here == key)?;
    Some(&text[at + key.len()..])
}

/// A number up to the next key or the end, and what follows it.
fn number(text: &[u8]) -> Option<(f64, &[u8])> {
    let end = text.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    let number = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((number, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_forms_are_read() {
        let result = |channel: &str| {
            format!(
                r#"{{"id":"7","type":"next","payload":{{"data":{{"subscribeChannel":{channel}}}}}}}"#
            )
        };
        let update = |value, time_ns| {
            Some(Said::Update {
                place: 7,
                value,
                time_ns,
            })
        };
        for (channel, expected) in [
            (
                r#"{"id":"A","value":{"float":7.0,"string":"7 mm","base64Array":null},"time":{"seconds":2.5}}"#,
                None,
            ),
            (
                r#"{"id":"A","value":{"float":7.0,"string":"7.00","base64Array":null},"time":{"seconds":2.5}}"#,
                update(Some(7.0), 2_500_000_000),
            ),
            (
                r#"{"value":{"float":7},"time":{"seconds":2.5},"status":null}"#,
                update(Some(7.0), 2_500_000_000),
            ),
            (
                r#"{"value":{"float":7.0,"string":"8.0"},"time":{"seconds":2.5}}"#,
                None,
            ),
            (
                r#"{"value":null,"status":{"quality":"INVALID"}}"#,
                update(None, 0),
            ),
            ("null", update(None, 0)),
        ] {
            assert_eq!(read(result(channel).as_bytes()), expected, "{channel}");
        }
        let ack = br#"{"type":"connection_ack"}"#;
        assert_eq!(read(ack), Some(Said::Welcome));
        for other in [
            r#"{"id":"7","type":"error","payload":[{"message":"no"}]}"#,
            r#"{"id":"7","type":"complete"}"#,
            r#"{"id":"7","type":"next","payload":{"data":null,"errors":[{"message":"no"}]}}"#,
            "",
        ] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
