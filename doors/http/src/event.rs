//! Server-sent events of a stream.

use crate::json::push_text;

/// A comment, which keeps the connection open through proxies. No empty line follows, because that would end a
/// block: some clients take a block without data for an event.
pub const KEEP_ALIVE: &[u8] = b":\n";

/// Begins the first block of every stream: how long a browser waits before it connects again, in milliseconds.
pub const BEGIN: &[u8] = b"retry: 2000\n";

/// Appends the event of a change; `json` has no line breaks.
pub fn push_change(json: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(b"data: ");
    to.extend_from_slice(json);
    to.extend_from_slice(b"\n\n");
}

/// Appends an event that counts the updates that were left out before the next one.
pub fn push_skipped(count: u64, to: &mut Vec<u8>) {
    let event = format!("event: skipped\ndata: {{\"count\":{count}}}\n\n");
    to.extend_from_slice(event.as_bytes());
}

/// Appends the last event: why the stream ends.
pub fn push_end(code: u16, reason: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("event: end\ndata: {{\"code\":{code},\"reason\":").as_bytes());
    push_text(reason, to);
    to.extend_from_slice(b"}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_data_and_ends_with_an_empty_line() {
        let mut text = BEGIN.to_vec();
        push_skipped(3, &mut text);
        push_change(br#"{"value":1}"#, &mut text);
        text.extend_from_slice(KEEP_ALIVE);
        push_end(1012, "line\nbreak", &mut text);
        let expected = "retry: 2000\nevent: skipped\ndata: {\"count\":3}\n\ndata: {\"value\":1}\n\n:\n\
                        event: end\ndata: {\"code\":1012,\"reason\":\"line\\nbreak\"}\n\n";
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, expected);
        for block in text.split_terminator("\n\n") {
            assert!(block.contains("data: "), "{block}");
        }
    }
}
