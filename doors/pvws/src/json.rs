//! JSON strings as PVWS writes them: only what JSON requires is escaped.

/// Appends a string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
    {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04X}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quotes_backslashes_and_control_characters_are_escaped() {
        let mut out = Vec::new();
        string(
            &mut out,
            "a/b \"c\" \\ \u{8}\t\n\u{c}\r\u{1f}\0 µm é \u{10ffff}",
        );
        let expected = "\"a/b \\\"c\\\" \\\\ \\b\\t\\n\\f\\r\\u001F\\u0000 µm é \u{10ffff}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest::proptest! {
        #[test]
        fn every_string_is_read_back(text: String) {
            let mut out = Vec::new();
            string(&mut out, &text);
            let read: String = serde_json::from_slice(&out).unwrap();
            proptest::prop_assert_eq!(read, text);
        }
    }
}
