//! The results of programs as cells, with one text for all of them.
//!
//! A cell is a double. A number is stored as it is; everything else is a NaN with its kind in other
//! bits: the tag in bits 46 to 50, 14 bits for a short length, and 32 bits for an offset, an index
//! or a count. JavaScript tells a number by `x === x` and reads the rest as two 32-bit words.

use crate::format::TimeFormat;

/// Bits of every cell that is not a number.
const NAN: u64 = 0x7ff8 << 48;

const TAG_SHIFT: u32 = 46;

/// Lengths from this one on take a separate cell.
const LONG: usize = (1 << 14) - 1;

/// A piece of text ends with the first text that brings it to this many bytes. A substring keeps the
/// whole of its text in a browser's memory, which a host therefore decodes piece by piece.
const PIECE: usize = 4096;

/// What a cell contains. The numbers are those of `ts/store/results.ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cell {
    /// The number NaN.
    NotANumber = 0,
    /// No value.
    Null = 1,
    /// `false`.
    False = 2,
    /// `true`.
    True = 3,
    /// The text at an index of [`CONSTANTS`](super::CONSTANTS).
    Constant = 4,
    /// Text: its length and its offset.
    Text = 5,
    /// The digits of an integer: their length and offset.
    Integer = 6,
    /// A list of texts: as many cells as the count says follow.
    Texts = 7,
    /// The slot's array.
    Array = 8,
    /// The slot's structure, if it is one with fields.
    Structure = 9,
    /// The slot's structure, if it is a list.
    Structures = 10,
    /// The PV's name.
    Id = 11,
    /// An object that can be missing exists; its fields follow.
    Present = 12,
    /// The first elements of the slot's array as doubles; 0 for all.
    Doubles = 13,
    /// An object that is made from the slot's array or structure.
    Apart = 14,
    /// An object: as many keys as the count says follow, each a text, and after it its value.
    Object = 15,
    /// A list: as many values follow.
    List = 16,
    /// Numbers in the module's memory: their type and their address; the next cell is their count.
    Numbers = 17,
}

/// How offsets and lengths of text are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// In bytes.
    #[default]
    Utf8,
    /// In UTF-16 units, as JavaScript counts them.
    Utf16,
}

/// Cells and text of any number of programs.
#[derive(Debug, Default)]
pub struct Results {
    pub(super) cells: Vec<u64>,
    pub(super) text: Vec<u8>,
    units: Units,
    /// Units of text so far.
    length: usize,
    /// Where the text that is being written starts.
    start: usize,
    /// Where each piece of text but the first starts.
    starts: Vec<u32>,
    /// Where the last piece starts.
    piece: usize,
    pub(super) times: TimeFormat,
    /// Objects that are made from an array or a structure are written in place of [`Cell::Apart`].
    pub whole: bool,
    /// Local time's offset from UTC in seconds, at a time in seconds past the POSIX epoch.
    #[cfg(feature = "graphql")]
    pub(crate) offset: Option<fn(i64) -> i32>,
}

impl Results {
    /// No results yet.
    #[must_use]
    pub fn new(units: Units) -> Self {
        Self {
            units,
            ..Self::default()
        }
    }

    /// Removes all results and keeps the memory.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
        self.starts.clear();
        self.length = 0;
        self.start = 0;
        self.piece = 0;
    }

    /// The cells.
    #[must_use]
    pub fn cells(&self) -> &[u64] {
        &self.cells
    }

    /// The text of all results, in UTF-8.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The bytes at which the text can be cut into pieces, each a few kilobytes unless a single text is
    /// longer. No text is in two pieces.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    #[inline]
    pub(super) fn push(&mut self, cell: Cell, short: usize, word: usize) {
        let tag = (cell as u64) << TAG_SHIFT;
        self.cells
            .push(NAN | tag | (short as u64) << 32 | word as u64 & 0xffff_ffff);
    }

    #[inline]
    pub(super) fn mark(&mut self, cell: Cell) {
        self.push(cell, 0, 0);
    }

    #[inline]
    pub(super) fn counted(&mut self, cell: Cell, word: u32) {
        self.push(cell, 0, word as usize);
    }

    #[inline]
    pub(super) fn number(&mut self, number: f64) {
        self.cells.push(if number.is_nan() {
            NAN
        } else {
            number.to_bits()
        });
    }

    #[inline]
    pub(super) fn number_or_null(&mut self, number: f64) {
        if number.is_nan() {
            self.mark(Cell::Null);
        } else {
            self.number(number);
        }
    }

    #[inline]
    pub(super) fn boolean(&mut self, value: bool) {
        self.mark(if value { Cell::True } else { Cell::False });
    }

    #[inline]
    pub(super) fn text_of(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
        self.end(Cell::Text);
    }

    /// Ends the text that was appended since the last call.
    pub(super) fn end(&mut self, cell: Cell) {
        let written = self.text.get(self.start..).unwrap_or_default();
        let length = if self.units == Units::Utf8 {
            written.len()
        } else {
            written.iter().map(|byte| utf16_units(*byte)).sum()
        };
        self.end_of(cell, length);
    }

    /// The same for text that is ASCII.
    #[inline]
    pub(super) fn end_ascii(&mut self) {
        self.end_of(Cell::Text, self.text.len() - self.start);
    }

    /// Ends a text of this length.
    #[inline]
    fn end_of(&mut self, cell: Cell, length: usize) {
        self.start = self.text.len();
        self.push(cell, length.min(LONG), self.length);
        if length >= LONG {
            self.number(length as f64);
        }
        self.length += length;
        if self.start - self.piece >= PIECE {
            self.piece = self.start;
            self.starts.push(self.start as u32);
        }
    }
}

/// The UTF-16 units of the character that starts with this byte of UTF-8.
fn utf16_units(byte: u8) -> usize {
    match byte {
        0x80..0xc0 => 0,
        0xf0.. => 2,
        _ => 1,
    }
}

/// Reads cells one after another.
pub(crate) struct Cells<'a> {
    cells: &'a [u64],
    text: &'a [u8],
    at: usize,
    /// Where the last text ended, in UTF-16 units and in bytes, if offsets count these units.
    end: Option<(usize, usize)>,
}

/// A cell with its content.
pub(crate) enum Content<'a> {
    Number(f64),
    Text(&'a str),
    Integer(&'a str),
    Other(Cell, u32),
}

const TAGS: [Cell; 15] = [
    Cell::NotANumber,
    Cell::Null,
    Cell::False,
    Cell::True,
    Cell::Constant,
    Cell::Text,
    Cell::Integer,
    Cell::Texts,
    Cell::Array,
    Cell::Structure,
    Cell::Structures,
    Cell::Id,
    Cell::Present,
    Cell::Doubles,
    Cell::Apart,
];

impl<'a> Cells<'a> {
    pub(super) fn new(results: &'a Results, at: usize) -> Self {
        Self {
            cells: &results.cells,
            text: &results.text,
            at,
            end: None,
        }
    }

    /// Reads cells with [`Units::Utf16`], all of them in order.
    pub(crate) fn in_order(cells: &'a [u64], text: &'a [u8]) -> Self {
        Self {
            cells,
            text,
            at: 0,
            end: (!text.is_ascii()).then_some((0, 0)),
        }
    }

    fn cell(&mut self) -> u64 {
        let cell = self.cells.get(self.at).copied().unwrap_or(NAN);
        self.at += 1;
        cell
    }

    /// The byte of a place in the text, which is not before the last one.
    fn byte(&mut self, place: usize) -> usize {
        let Some((unit, byte)) = &mut self.end else {
            return place;
        };
        while let Some(next) = self.text.get(*byte)
            && (*unit < place || utf16_units(*next) == 0)
        {
            *unit += utf16_units(*next);
            *byte += 1;
        }
        *byte
    }

    pub(crate) fn next(&mut self) -> Content<'a> {
        let cell = self.cell();
        let number = f64::from_bits(cell);
        if !number.is_nan() {
            return Content::Number(number);
        }
        let tag = (cell >> TAG_SHIFT) as usize & 31;
        let word = cell as u32;
        match TAGS.get(tag).copied().unwrap_or(Cell::Null) {
            Cell::NotANumber => Content::Number(f64::NAN),
            kind @ (Cell::Text | Cell::Integer) => {
                let mut length = (cell >> 32) as usize & LONG;
                if length == LONG {
                    length = f64::from_bits(self.cell()) as usize;
                }
                let start = self.byte(word as usize);
                let end = self.byte((word as usize).saturating_add(length));
                let bytes = self.text.get(start..end);
                let text = str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
                if kind == Cell::Text {
                    Content::Text(text)
                } else {
                    Content::Integer(text)
                }
            }
            kind => Content::Other(kind, word),
        }
    }
}
