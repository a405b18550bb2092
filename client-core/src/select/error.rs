//! Errors of a GraphQL document and their locations, in the shape that GraphQL prescribes.

use std::fmt;

/// The first error of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionError {
    /// What is wrong and what was expected.
    pub message: String,
    /// Line of the error, from 1.
    pub line: u32,
    /// Column of the error, from 1, in UTF-16 units.
    pub column: u32,
}

impl SelectionError {
    pub(crate) fn of(error: &DocumentError, text: &str) -> Self {
        let place = error.places.first().copied().unwrap_or(0);
        let (line, column) = location(text, place);
        Self {
            message: error.message.clone(),
            line,
            column,
        }
    }
}

impl fmt::Display for SelectionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            message,
            line,
            column,
        } = self;
        write!(out, "{message} (line {line}, column {column})")
    }
}

impl std::error::Error for SelectionError {}

/// One error of the `errors` of a GraphQL response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentError {
    /// The error message, in the words of GraphQL's reference implementation.
    pub(crate) message: String,
    /// Byte offsets of the affected places in the document.
    pub(crate) places: Vec<u32>,
}

impl DocumentError {
    #[inline(never)]
    pub(crate) fn new(places: &[u32], template: &str, words: &[&str]) -> Self {
        Self {
            message: fill(template, words),
            places: places.to_vec(),
        }
    }
}

/// Replaces each `%` of a template by a word. `core::fmt` would take as much space as all the
/// messages.
pub(crate) fn fill(template: &str, words: &[&str]) -> String {
    let mut text = String::new();
    let mut words = words.iter();
    for c in template.chars() {
        if c == '%' {
            text.push_str(words.next().copied().unwrap_or_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// Line and column of a byte offset, both starting at 1; columns in UTF-16 units, as in JavaScript.
pub(crate) fn location(text: &str, place: u32) -> (u32, u32) {
    let mut cursor = Cursor::START;
    text.bytes()
        .take(place as usize)
        .for_each(|byte| cursor.pass(byte));
    (cursor.line, cursor.column)
}

/// A place in a text.
#[derive(Clone, Copy)]
struct Cursor {
    line: u32,
    column: u32,
    /// The byte before it.
    last: u8,
}

impl Cursor {
    const START: Self = Self {
        line: 1,
        column: 1,
        last: 0,
    };

    fn pass(&mut self, byte: u8) {
        if byte == b'\n' || byte == b'\r' {
            if self.last != b'\r' || byte == b'\r' {
                self.line += 1;
            }
            self.column = 1;
        } else {
            // A character is counted at its first byte; a character of four bytes counts as two.
            self.column += u32::from(byte & 0xc0 != 0x80) + u32::from(byte >= 0xf0);
        }
        self.last = byte;
    }
}

/// The locations of many places in a text: each is found from the nearest mark before it.
pub(crate) struct Locations<'a> {
    text: &'a [u8],
    marks: Vec<Cursor>,
}

impl<'a> Locations<'a> {
    /// Distance of the marks, in bytes.
    const DISTANCE: usize = 256;

    pub(crate) fn new(text: &'a str) -> Self {
        let text = text.as_bytes();
        let mut cursor = Cursor::START;
        let mut marks = vec![cursor];
        for piece in text.chunks(Self::DISTANCE) {
            piece.iter().for_each(|byte| cursor.pass(*byte));
            marks.push(cursor);
        }
        Self { text, marks }
    }

    /// Line and column of a byte offset, as [`location`] has them.
    pub(crate) fn of(&self, place: u32) -> (u32, u32) {
        let place = (place as usize).min(self.text.len());
        let mark = place / Self::DISTANCE;
        let mut cursor = self.marks.get(mark).copied().unwrap_or(Cursor::START);
        let passed = self.text.get(mark * Self::DISTANCE..place);
        for byte in passed.unwrap_or_default() {
            cursor.pass(*byte);
        }
        (cursor.line, cursor.column)
    }
}

/// Maximum number of errors of a document that are reported.
pub(crate) const MAX_ERRORS: usize = 100;

/// Maximum number of locations of an error that are reported.
const MAX_PLACES: usize = 100;

/// A list of errors as JSON.
pub(crate) fn push_all(errors: &[DocumentError], text: &str, json: &mut String) {
    let locations = Locations::new(text);
    let mut between = "[";
    for error in errors {
        json.push_str(between);
        between = ",";
        json.push_str("{\"message\":");
        push_quoted(&error.message, json);
        let mut open = ",\"locations\":[";
        for place in error.places.iter().take(MAX_PLACES) {
            let (line, column) = locations.of(*place);
            json.push_str(open);
            json.push_str("{\"line\":");
            push_number(line, json);
            json.push_str(",\"column\":");
            push_number(column, json);
            json.push('}');
            open = ",";
        }
        json.push_str(if error.places.is_empty() { "}" } else { "]}" });
    }
    json.push(']');
}

pub(crate) fn push_number(number: u32, to: &mut String) {
    if number > 9 {
        push_number(number / 10, to);
    }
    to.push(char::from(b'0' + (number % 10) as u8));
}

/// Four hexadecimal digits or more.
pub(crate) fn push_hex(number: u32, to: &mut String) {
    let mut place = 32;
    while place > 0 {
        place -= 4;
        if place < 16 || number >> place > 0 {
            let digit = (number >> place & 15) as u8;
            to.push(char::from(
                digit + if digit < 10 { b'0' } else { b'A' - 10 },
            ));
        }
    }
}

/// A string in the notation that JSON and GraphQL share.
pub(crate) fn push_quoted(text: &str, to: &mut String) {
    to.push('"');
    for c in text.chars() {
        let short = match c {
            '"' | '\\' => c,
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\0'..='\x1f' | '\x7f'..='\u{9f}' => 'u',
            _ => {
                to.push(c);
                continue;
            }
        };
        to.push('\\');
        to.push(short);
        if short == 'u' {
            push_hex(c as u32, to);
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_by_marks_are_those_that_are_counted_from_the_start() {
        let text = "a\r\nbä\n\r😀c ".repeat(100);
        let locations = Locations::new(&text);
        for place in 0..text.len() as u32 + 3 {
            assert_eq!(locations.of(place), location(&text, place), "{place}");
        }
    }
}
