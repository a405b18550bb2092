//! Splits the text of a GraphQL document into tokens.

use crate::select::error::{DocumentError, fill, push_hex};
use crate::select::string_value::{WRONG, escape};
use crate::select::tree::Span;

/// The kind of a token: the byte of its punctuation mark, or one of these.
pub(crate) mod token {
    pub(crate) use crate::select::tree::kind::{BLOCK, FLOAT, INT, STRING};
    /// After the last token, and after an invalid one.
    pub(crate) const END: u8 = 0;
    /// A name or a keyword.
    pub(crate) const NAME: u8 = b'a';
    /// Three dots.
    pub(crate) const SPREAD: u8 = b'.';
}

/// One token and its position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Token {
    pub(crate) kind: u8,
    pub(crate) span: Span,
    /// Hash of a name.
    pub(crate) hash: u32,
}

/// Cuts a document into tokens.
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    at: usize,
    /// The first error. The lexer returns no tokens after it.
    pub(crate) error: Option<DocumentError>,
}

const UNTERMINATED: &str = "Unterminated string.";
const NO_DIGIT: &str = "Invalid number, expected digit but got: %.";

impl<'a> Lexer<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            error: None,
        }
    }

    pub(crate) fn wrong(&mut self, at: usize, template: &str, word: &str) {
        if self.error.is_none() {
            let message = fill(template, &[word]);
            self.error = Some(DocumentError::new(
                &[at as u32],
                "Syntax Error: %",
                &[&message],
            ));
        }
    }

    #[inline(always)]
    fn byte(&self) -> u8 {
        // A document may contain zero bytes, but not where one would be taken for its end.
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

    /// Skips blanks, commas, comments and a byte order mark, which have no meaning.
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

    /// Reports the character at the current position as invalid.
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

/// The bytes that names consist of; most of a document is names.
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
