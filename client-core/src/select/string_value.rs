//! Decodes escapes and block strings of string tokens.

/// Stands for an invalid character: Unicode reserves it as a noncharacter.
pub(crate) const WRONG: char = '\u{10ffff}';

/// The character that the escape sequence at an index stands for, and the sequence's length; or
/// [`WRONG`] and the number of characters to show.
pub(crate) fn escape(text: &[u8], at: usize) -> (char, usize) {
    let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
    let simple = match byte(1) {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(&byte),
        c @ (b'"' | b'\\' | b'/') => char::from(c),
        _ => WRONG,
    };
    (simple, 2)
}

fn unicode_escape(byte: &dyn Fn(usize) -> u8) -> (char, usize) {
    let digit = |at: usize| char::from(byte(at)).to_digit(16);
    let four = |from: usize| {
        let mut code = 0;
        for at in from..from + 4 {
            code = code << 4 | digit(at)?;
        }
        Some(code)
    };
    if byte(2) == b'{' {
        let mut code = 0_u32;
        let mut size = 3;
        while size < 12 {
            let found = digit(size);
            size += 1;
            match found {
                Some(found) if code < 1 << 27 => code = code << 4 | found,
                _ if byte(size - 1) == b'}' && size > 4 => {
                    return (char::from_u32(code).unwrap_or(WRONG), size);
                }
                _ => break,
            }
        }
        return (WRONG, size);
    }
    let mut code = four(2).unwrap_or(0xd800);
    let mut size = 6;
    // Characters beyond 16 bits may be written as two surrogates.
    if code >> 10 == 0xd8 >> 2 && byte(6) == b'\\' && byte(7) == b'u' {
        let low = four(8).unwrap_or(0);
        if low >> 10 == 0xdc >> 2 {
            code = 0x1_0000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
            size = 12;
        }
    }
    (char::from_u32(code).unwrap_or(WRONG), size)
}

/// The content of a string token, which the lexer has validated.
pub(crate) fn decode(token: &str, block: bool) -> String {
    if block {
        return decode_block(token.get(3..token.len() - 3).unwrap_or_default());
    }
    let mut decoded = String::new();
    let mut until = 1;
    for (at, c) in token.char_indices() {
        if at < until || at + 1 == token.len() {
            continue;
        }
        if c == '\\' {
            let (c, length) = escape(token.as_bytes(), at);
            decoded.push(c);
            until = at + length;
        } else {
            decoded.push(c);
        }
    }
    decoded
}

/// The lines of a block string, without common indentation and without blank lines at the start and
/// end.
fn decode_block(raw: &str) -> String {
    // First finds where the text begins and ends and the common indentation of all lines but the
    // first, then builds the text.
    let mut common = usize::MAX;
    let mut indent = 0;
    let (mut line, mut first, mut last) = (0, usize::MAX, 0);
    let mut blank = true;
    for c in lines(raw) {
        if c == '\n' {
            (line, indent, blank) = (line + 1, 0, true);
        } else if blank && (c == ' ' || c == '\t') {
            indent += 1;
        } else if blank {
            blank = false;
            first = first.min(line);
            last = line;
            if line > 0 {
                common = common.min(indent);
            }
        }
    }
    let mut decoded = String::new();
    let (mut line, mut column) = (0, 0);
    let mut quotes = 0;
    for c in lines(raw) {
        if c == '\n' {
            (line, column) = (line + 1, 0);
            if line > first && line <= last {
                decoded.push('\n');
            }
            continue;
        }
        column += 1;
        if line < first || line > last || (line > 0 && column <= common) {
            continue;
        }
        decoded.push(c);
        // `\"""` stands for three quotation marks.
        quotes = match c {
            '\\' => 1,
            '"' if quotes > 0 => quotes + 1,
            _ => 0,
        };
        if quotes == 4 {
            for _ in 0..4 {
                decoded.pop();
            }
            decoded.push_str("\"\"\"");
            quotes = 0;
        }
    }
    decoded
}

/// The characters of a text, with every line ending replaced by a line feed.
fn lines(raw: &str) -> impl Iterator<Item = char> {
    let mut last = '\0';
    raw.chars().filter_map(move |c| {
        let second = last == '\r' && c == '\n';
        last = c;
        (!second).then_some(if c == '\r' { '\n' } else { c })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_say_what_their_escapes_stand_for() {
        for (token, value) in [
            (r#""""#, ""),
            (r#""a\"b\\\/\n\u00fc""#, "a\"b\\/\nü"),
            (r#""\uD83D\uDE00\u{1F600}ü""#, "😀😀ü"),
        ] {
            assert_eq!(decode(token, false), value, "{token}");
        }
        for (token, value) in [
            ("\"\"\"\"\"\"", ""),
            ("\"\"\"  a\"\"\"", "  a"),
            ("\"\"\"\n    a\n      b\n\n    c\n  \"\"\"", "a\n  b\n\nc"),
            ("\"\"\"a\r\n  b\rc \\\"\"\" \"\"\"", "a\n  b\nc \"\"\" "),
        ] {
            assert_eq!(decode(token, true), value, "{token}");
        }
    }
}
