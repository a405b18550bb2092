//! WebSocket messages as bytes, and what a client sends.

use pvwire_schema::{LZ4_SUBPROTOCOL, SUBPROTOCOL};

/// The request for a WebSocket, with packed columns on request.
pub(crate) fn handshake(relay: &str, lz4: bool) -> Vec<u8> {
    let subprotocol = if lz4 { LZ4_SUBPROTOCOL } else { SUBPROTOCOL };
    format!(
        "GET /ws HTTP/1.1\r\nHost: {relay}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    )
    .into_bytes()
}

/// Length of the answer to the handshake, once it is whole.
pub(crate) fn answer_at(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}

/// Lengths of header and payload of the message that begins here, if the header is whole.
pub(crate) fn message_at(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes.get(1)? & 0x7f {
        126 => Some((
            4,
            u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?) as usize,
        )),
        127 => Some((
            10,
            u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize,
        )),
        short => Some((2, short.into())),
    }
}

/// A client's binary message. The mask is zero: it only has to be there.
pub(crate) fn masked(payload: &[u8]) -> Vec<u8> {
    message(0x82, payload)
}

/// A client's text message.
pub(crate) fn masked_text(payload: &[u8]) -> Vec<u8> {
    message(0x81, payload)
}

fn message(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![first];
    match payload.len() {
        length @ 0..=125 => message.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            message.push(0x80 | 126);
            message.extend((length as u16).to_be_bytes());
        }
        length => {
            message.push(0x80 | 127);
            message.extend((length as u64).to_be_bytes());
        }
    }
    message.extend([0; 4]);
    message.extend(payload);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_found_by_its_header_however_long_it_is() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let message = masked(&vec![7; length]);
            let (header, payload) = message_at(&message).unwrap();
            // A client's message has four bytes of mask that a relay's has not.
            assert_eq!((header + 4 + payload, payload), (message.len(), length));
            assert_eq!(message_at(&message[..header - 1]), None, "{length}");
        }
    }

    #[test]
    fn answer_to_the_handshake_ends_with_an_empty_line() {
        assert_eq!(answer_at(b"HTTP/1.1 101 x\r\nA: b\r\n"), None);
        assert_eq!(answer_at(b"HTTP/1.1 101 x\r\n\r\n\x82\x01"), Some(18));
    }
}
