//! Checks and reads flatbuffers from untrusted bytes.
//!
//! One loop checks every table of a message by its description, where flatc generates code for each
//! of them: that would be a third of what a browser loads. The reads after it are checked too, and
//! give the default where the bytes are other than the description says.

/// Bytes before the elements of a vector: how many there are.
const COUNT_BYTES: usize = 4;

/// What a field of a table holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// A number of the given size in bytes.
    Number(usize),
    /// A string.
    Text,
    /// A vector of strings.
    Texts,
    /// A vector of numbers or structs.
    Vector {
        /// Bytes of an element.
        bytes: usize,
        /// What its place is a multiple of.
        align: usize,
    },
    /// Another table.
    Table(&'static Layout),
    /// A vector of tables.
    Tables(&'static Layout),
    /// One of these tables, counted from 1 by the field before.
    Union(&'static [&'static Layout]),
}

/// The fields of a table by their id in the schema. Those behind the last one are passed over.
#[derive(Debug)]
pub(super) struct Layout(pub(super) &'static [Field]);

/// How much of a message may be checked: the same bytes may be named more than once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Tables.
    pub(super) tables: usize,
    /// Bytes of tables, vectors and strings together.
    pub(super) bytes: usize,
    /// Tables in tables.
    pub(super) depth: usize,
}

/// The root table of a message in which everything that `layout` describes lies where it may, or
/// else the place where it doesn't.
pub(super) fn checked<'a>(
    bytes: &'a [u8],
    layout: &Layout,
    budget: Budget,
) -> Result<Table<'a>, usize> {
    let mut checker = Checker {
        bytes,
        budget,
        at: 0,
    };
    let root = checker.target(0).map(|at| Table { bytes, at });
    root.filter(|root| checker.table(root.at, layout).is_some())
        .ok_or(checker.at)
}

struct Checker<'a> {
    bytes: &'a [u8],
    budget: Budget,
    /// What is being checked.
    at: usize,
}

impl<'a> Checker<'a> {
    fn table(&mut self, at: usize, layout: &Layout) -> Option<()> {
        self.budget.tables = self.budget.tables.checked_sub(1)?;
        self.budget.depth = self.budget.depth.checked_sub(1)?;
        let back = word(self.span(at, 4, 4)?) as u32 as i32;
        let vtable = usize::try_from(at as i64 - i64::from(back)).ok()?;
        let header = word(self.span(vtable, 4, 2)?) as usize;
        let (vtable_bytes, table_bytes) = (header & 0xffff, header >> 16);
        let slots = self.span(vtable, vtable_bytes, 2)?.get(4..)?;
        self.span(at, table_bytes, 4)?;
        if !vtable_bytes.is_multiple_of(2) {
            return None;
        }
        let mut union = 0;
        for (slot, field) in slots.chunks_exact(2).zip(layout.0) {
            let offset = word(slot) as usize;
            if offset == 0 {
                union = 0;
                continue;
            }
            let bytes = match field {
                Field::Number(bytes) => *bytes,
                _ => 4,
            };
            if offset + bytes > table_bytes || !(at + offset).is_multiple_of(bytes) {
                return None;
            }
            let place = at + offset;
            union = self.field(place, *field, union)?;
        }
        self.budget.depth += 1;
        Some(())
    }

    /// Checks what a field holds. Takes and gives the number that says which table a union is.
    fn field(&mut self, place: usize, field: Field, union: usize) -> Option<usize> {
        self.at = place;
        if let Field::Number(bytes) = field {
            let number = self.bytes.get(place..place + bytes)?;
            return Some(if bytes == 1 { word(number) as usize } else { 0 });
        }
        let at = self.target(place)?;
        match field {
            Field::Text => self.text(at)?,
            Field::Vector { bytes, align } => drop(self.vector(at, bytes, align)?),
            Field::Table(layout) => self.table(at, layout)?,
            Field::Union(layouts) => {
                if let Some(layout) = union.checked_sub(1).and_then(|at| layouts.get(at)) {
                    self.table(at, layout)?;
                }
            }
            Field::Texts | Field::Tables(_) | Field::Number(_) => {
                for entry in 0..self.vector(at, 4, 4)?.len() / 4 {
                    let target = self.target(at + COUNT_BYTES + 4 * entry)?;
                    match field {
                        Field::Tables(layout) => self.table(target, layout)?,
                        _ => self.text(target)?,
                    }
                }
            }
        }
        Some(0)
    }

    fn text(&mut self, at: usize) -> Option<()> {
        str::from_utf8(self.vector(at, 1, 1)?).ok().map(drop)
    }

    fn vector(&mut self, at: usize, bytes: usize, align: usize) -> Option<&'a [u8]> {
        let count = word(self.span(at, COUNT_BYTES, 4)?) as usize;
        self.span(at + COUNT_BYTES, count.checked_mul(bytes)?, align)
    }

    /// Where the offset at `place` leads.
    fn target(&self, place: usize) -> Option<usize> {
        place.checked_add(word(self.bytes.get(place..place + 4)?) as usize)
    }

    /// Bytes that were not checked more often than the budget allows.
    fn span(&mut self, at: usize, length: usize, align: usize) -> Option<&'a [u8]> {
        self.at = at;
        self.budget.bytes = self.budget.bytes.checked_sub(length)?;
        let span = self.bytes.get(at..at.checked_add(length)?)?;
        at.is_multiple_of(align).then_some(span)
    }
}

/// One, two, four or eight bytes, little-endian; 0 if there are none.
fn word(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// One table of a message that was checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// The table at `at` of a message that was checked.
    pub(super) const fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Where it stands in the message.
    pub(super) fn position(self) -> usize {
        self.at
    }

    /// `length` bytes at `at`; none when they are not all there.
    fn span(self, at: usize, length: usize) -> &'a [u8] {
        let end = at.saturating_add(length);
        self.bytes.get(at..end).unwrap_or_default()
    }

    /// Where a field stands.
    fn place(self, field: u16) -> Option<usize> {
        let back = word(self.span(self.at, 4)) as u32 as i32;
        let vtable = usize::try_from(self.at as i64 - i64::from(back)).ok()?;
        let there = usize::from(field) < word(self.span(vtable, 2)) as usize;
        let offset = word(self.span(vtable + usize::from(field), 2)) as usize;
        (there && offset != 0).then_some(self.at + offset)
    }

    /// Where the offset in a field leads.
    fn target(self, field: u16) -> Option<usize> {
        let place = self.place(field)?;
        Some(place + word(self.span(place, 4)) as usize)
    }

    fn number(self, field: u16, bytes: usize) -> Option<u64> {
        self.place(field).map(|place| word(self.span(place, bytes)))
    }

    pub(super) fn u8(self, field: u16) -> u8 {
        self.number(field, 1).unwrap_or(0) as u8
    }

    pub(super) fn bool(self, field: u16) -> bool {
        self.u8(field) != 0
    }

    pub(super) fn i16(self, field: u16, default: i16) -> i16 {
        self.number(field, 2)
            .map_or(default, |number| number as i16)
    }

    pub(super) fn u32(self, field: u16) -> u32 {
        self.number(field, 4).unwrap_or(0) as u32
    }

    pub(super) fn u64(self, field: u16) -> u64 {
        self.number(field, 8).unwrap_or(0)
    }

    pub(super) fn f64(self, field: u16, default: f64) -> f64 {
        self.number(field, 8).map_or(default, f64::from_bits)
    }

    pub(super) fn table(self, field: u16) -> Option<Self> {
        let at = self.target(field)?;
        Some(Self { at, ..self })
    }

    /// The elements of a vector, as they lie in the message.
    pub(super) fn vector(self, field: u16, bytes: usize) -> &'a [u8] {
        self.target(field)
            .map_or(&[], |at| self.elements(at, bytes))
    }

    fn elements(self, at: usize, bytes: usize) -> &'a [u8] {
        let count = word(self.span(at, COUNT_BYTES)) as usize;
        self.span(at + COUNT_BYTES, count.saturating_mul(bytes))
    }

    fn text_at(self, at: usize) -> &'a str {
        str::from_utf8(self.elements(at, 1)).unwrap_or_default()
    }

    /// A string; empty if the field is missing.
    pub(super) fn text(self, field: u16) -> &'a str {
        self.target(field).map_or("", |at| self.text_at(at))
    }

    /// How many strings or tables a vector has.
    pub(super) fn count(self, field: u16) -> usize {
        self.vector(field, 4).len() / 4
    }

    fn targets(self, field: u16) -> impl Iterator<Item = usize> + use<'a> {
        let start = self.target(field).map_or(0, |at| at + COUNT_BYTES);
        let offsets = self.vector(field, 4).chunks_exact(4).enumerate();
        offsets.map(move |(entry, offset)| start + 4 * entry + word(offset) as usize)
    }

    /// The strings of a vector.
    pub(super) fn texts(self, field: u16) -> impl Iterator<Item = &'a str> + use<'a> {
        self.targets(field).map(move |at| self.text_at(at))
    }

    /// The tables of a vector.
    pub(super) fn tables(self, field: u16) -> impl Iterator<Item = Self> + use<'a> {
        self.targets(field).map(move |at| Self { at, ..self })
    }
}
