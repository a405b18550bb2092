//! WebSocket text messages (RFC 6455, section 5.2), unmasked as servers send them.

/// First byte of a text message that is one frame.
const TEXT: u8 = 0x81;

/// Appends a text message with its header to `out`.
pub fn text_message(out: &mut Vec<u8>, text: &[u8]) {
    out.push(TEXT);
    match text.len() {
        length @ ..=125 => out.push(length as u8),
        length @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_takes_one_three_or_nine_bytes() {
        for (length, header) in [
            (0, vec![TEXT, 0]),
            (125, vec![TEXT, 125]),
            (126, vec![TEXT, 126, 0, 126]),
            (65_535, vec![TEXT, 126, 255, 255]),
            (65_536, vec![TEXT, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            text_message(&mut out, &vec![b'x'; length]);
            assert_eq!(out[..header.len()], header, "{length}");
            assert_eq!(out.len(), header.len() + length);
        }
    }
}
