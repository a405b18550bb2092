//! What are the words of a GraphQL document, and what do its strings say?

use crate::mistake::{Mistake, fill, push_hex};
use crate::tree::Span;

/// What a token is: the byte of its punctuation mark, or one of these.
pub(crate) mod token {
    pub(crate) use crate::tree::kind::{BLOCK, FLOAT, INT, STRING};
    /// After the last token, and after one that is wrong.
    pub(crate) const END: u8 = 0;
    /// A name or a keyword.
    pub(crate) const NAME: u8 = b'a';
    /// Three dots.
    pub(crate) const SPREAD: u8 = b'.';
}

/// One token and where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Token {
    pub(crate) kind: u8,
    pub(crate) span: Span,
    /// Of a name.
    pub(crate) hash: u32,
}

/// Cuts a document into tokens.
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    at: usize,
    /// The first thing that is wrong. Nothing comes after it.
    pub(crate) mistake: Option<Mistake>,
}

const UNTERMINATED: &str = "Unterminated string.";
const NO_DIGIT: &str = "Invalid number, expected digit but got: %.";

impl<'a> Lexer<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            mistake: None,
        }
    }

    pub(crate) fn wrong(&mut self, at: usize, template: &str, word: &str) {
        if self.mistake.is_none() {
            let message = fill(template, &[word]);
            self.mistake = Some(Mistake::new(&[at as u32], "Syntax Error: %", &[&message]));
        }
    }

    #[inline(always)]
    fn byte(&self) -> u8 {
        // A document may hold zero bytes, but nowhere where one would be taken for its end.
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn takes(&mut self, word: &[u8]) -> bool {
        let end = self.at + word.len();
        let fits = self.text.as_bytes().get(self.at..end) == Some(word);
        if fits {
            self.at = end;
        }
        fits
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Token {
        self.skip_ignored();
        let start = self.at;
        let byte = self.byte();
        let mut hash = 0_u32;
        let kind = match byte {
            0 if self.is_at_end() => token::END,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => {
                let mut end = start;
                for byte in self.text.as_bytes().get(start..).unwrap_or_default() {
                    if !is_name(*byte) {
                        break;
                    }
                    hash = hash.wrapping_mul(31).wrapping_add(u32::from(*byte));
                    end += 1;
                }
                self.at = end;
                token::NAME
            }
            b'!' | b'$' | b'&' | b'(' | b')' | b':' | b'=' | b'@' | b'[' | b']' | b'{' | b'|'
            | b'}' => {
                self.at += 1;
                byte
            }
            b'.' if self.takes(b"...") => token::SPREAD,
            b'0'..=b'9' | b'-' => self.number(),
            b'"' => self.string(),
            b'\'' => {
                let message = "Unexpected single quote character ('), did you mean to use a double quote (\")?";
                self.wrong(start, message, "");
                token::END
            }
            _ => {
                self.wrong_character("Unexpected character: %.");
                token::END
            }
        };
        Token {
            kind,
            span: Span {
                start: start as u32,
                end: self.at as u32,
            },
            hash,
        }
    }

    /// Blanks, commas, comments and a byte order mark mean nothing.
    fn skip_ignored(&mut self) {
        let mut comment = false;
        loop {
            match self.byte() {
                b'\n' | b'\r' => comment = false,
                b' ' | b'\t' | b',' => {}
                b'#' => comment = true,
                0xef if self.takes("\u{feff}".as_bytes()) => continue,
                _ if !comment || self.is_at_end() => return,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn number(&mut self) -> u8 {
        let mut kind = token::INT;
        self.takes(b"-");
        if self.takes(b"0") {
            if self.byte().is_ascii_digit() {
                self.wrong_character("Invalid number, unexpected digit after 0: %.");
            }
        } else {
            self.digits();
        }
        if self.takes(b".") {
            kind = token::FLOAT;
            self.digits();
        }
        if self.takes(b"e") || self.takes(b"E") {
            kind = token::FLOAT;
            let _ = self.takes(b"+") || self.takes(b"-");
            self.digits();
        }
        if self.byte() == b'.' || is_name(self.byte()) {
            self.wrong_character(NO_DIGIT);
        }
        kind
    }

    fn digits(&mut self) {
        if !self.byte().is_ascii_digit() {
            self.wrong_character(NO_DIGIT);
        }
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
    }

    fn string(&mut self) -> u8 {
        if self.takes(b"\"\"\"") {
            while !self.takes(b"\"\"\"") {
                if self.is_at_end() {
                    self.wrong(self.at, UNTERMINATED, "");
                    break;
                }
                if !self.takes(b"\\\"\"\"") {
                    self.at += 1;
                }
            }
            return token::BLOCK;
        }
        self.at += 1;
        while !self.takes(b"\"") {
            if self.is_at_end() || matches!(self.byte(), b'\n' | b'\r') {
                self.wrong(self.at, UNTERMINATED, "");
                break;
            }
            let mut length = 1;
            if self.byte() == b'\\' {
                let (c, taken) = escape(self.text.as_bytes(), self.at);
                if c == WRONG {
                    self.wrong_escape(taken);
                    break;
                }
                length = taken;
            }
            self.at += length;
        }
        token::STRING
    }

    fn wrong_escape(&mut self, length: usize) {
        let mut shown = String::new();
        let rest = self.text.get(self.at..).unwrap_or_default();
        for c in rest.chars().take(length) {
            shown.push(c);
        }
        let template = if length > 2 {
            "Invalid Unicode escape sequence: \"%\"."
        } else {
            "Invalid character escape sequence: \"%\"."
        };
        self.wrong(self.at, template, &shown);
    }

    /// Says that the character here is wrong.
    fn wrong_character(&mut self, template: &str) {
        let mut shown = String::new();
        let rest = self.text.get(self.at..).unwrap_or_default();
        match rest.chars().next() {
            None => shown.push_str("<EOF>"),
            Some('"') => shown.push_str("'\"'"),
            Some(c @ ' '..='~') => {
                shown.push('"');
                shown.push(c);
                shown.push('"');
            }
            Some(c) => {
                shown.push_str("U+");
                push_hex(c as u32, &mut shown);
            }
        }
        self.wrong(self.at, template, &shown);
    }
}

/// Which bytes names are made of: most of a document is names.
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

#[inline(always)]
fn is_name(byte: u8) -> bool {
    NAME[usize::from(byte)]
}

/// Stands for no character: Unicode says that no text holds it.
const WRONG: char = '\u{10ffff}';

/// The character that the escape sequence at a place stands for, and the sequence's length; or
/// [`WRONG`] and how many characters of it to show.
fn escape(text: &[u8], at: usize) -> (char, usize) {
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
    // Characters beyond 16 bits may be written as two halves.
    if code >> 10 == 0xd8 >> 2 && byte(6) == b'\\' && byte(7) == b'u' {
        let low = four(8).unwrap_or(0);
        if low >> 10 == 0xdc >> 2 {
            code = 0x1_0000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
            size = 12;
        }
    }
    (char::from_u32(code).unwrap_or(WRONG), size)
}

/// What a string token says; it was checked when it was cut out.
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

/// A block string's lines without what indents all of them and without blank lines around.
fn decode_block(raw: &str) -> String {
    // First where the text begins and ends, and what indents all lines but the first; then the text.
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

/// The characters of a text with line feeds for all ends of lines.
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
