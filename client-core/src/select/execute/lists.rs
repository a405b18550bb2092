//! Reads values of several elements: arrays, lists of texts, and text in arrays of characters.

use pvwire_schema::types::{Metadata, ValueType};

use super::elements::Elements;
use super::results::{Cell, Results};
use crate::format;

/// Maximum number of array elements shown in text.
const SHOWN: usize = 10;

/// The first `length` texts; 0 for all.
pub(super) fn texts(list: &[String], length: u32, to: &mut Results) {
    let count = limited(list.len(), length);
    to.counted(Cell::Texts, count as u32);
    for text in list.iter().take(count) {
        to.text_of(text);
    }
}

pub(super) fn limited(count: usize, length: u32) -> usize {
    match length as usize {
        0 => count,
        length => count.min(length),
    }
}

/// The label of an enum's index.
pub(super) fn choice(metadata: &Metadata, value: f64) -> Option<&str> {
    if metadata.value_type != ValueType::Enum {
        return None;
    }
    let index = value as usize;
    let is_index = index as f64 == value;
    metadata
        .choices
        .get(index)
        .filter(|_| is_index)
        .map(String::as_str)
}

/// One element of an array, little-endian.
#[derive(Clone, Copy)]
pub(super) enum Element {
    Number(f64),
    Signed(i64),
    Unsigned(u64),
}

#[cfg(feature = "graphql")]
impl Element {
    /// The nearest double.
    pub(super) fn as_number(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Signed(integer) => integer as f64,
            Self::Unsigned(integer) => integer as f64,
        }
    }
}

fn element(value_type: ValueType, bytes: &[u8]) -> Element {
    let mut word = [0_u8; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    let raw = u64::from_le_bytes(word);
    Element::Number(match value_type {
        ValueType::Float64 => f64::from_bits(raw),
        ValueType::Float32 => f32::from_bits(raw as u32).into(),
        ValueType::Int8 => (raw as i8).into(),
        ValueType::Int16 => (raw as i16).into(),
        ValueType::Int32 => (raw as i32).into(),
        ValueType::Int64 => return Element::Signed(raw as i64),
        ValueType::UInt64 => return Element::Unsigned(raw),
        _ => raw as f64,
    })
}

/// Number of the elements at hand.
#[cfg(feature = "graphql")]
pub(super) fn count(elements: &Elements<'_>) -> usize {
    elements.bytes.len() / size_of(elements.value_type)
}

/// The elements of an array.
pub(super) fn elements(value_type: ValueType, bytes: &[u8]) -> impl Iterator<Item = Element> {
    let chunks = bytes.chunks_exact(size_of(value_type));
    chunks.map(move |bytes| element(value_type, bytes))
}

fn push_element(value_type: ValueType, bytes: &[u8], metadata: &Metadata, to: &mut Vec<u8>) {
    match element(value_type, bytes) {
        Element::Number(number) => {
            format::push_number(number, metadata.precision, metadata.value_type, to);
        }
        Element::Signed(integer) => format::push_signed(integer, to),
        Element::Unsigned(integer) => format::push_unsigned(integer, to),
    }
}

/// Number of bytes of an element; JavaScript shows elements of unknown size as bytes.
fn size_of(value_type: ValueType) -> usize {
    value_type.element_bytes().unwrap_or(1)
}

/// Each element as an operator reads it.
pub(super) fn elements_as_texts(
    elements: Option<Elements<'_>>,
    metadata: &Metadata,
    length: u32,
    to: &mut Results,
) {
    let (value_type, bytes) =
        elements.map_or((ValueType::UInt8, &[][..]), |it| (it.value_type, it.bytes));
    let size = size_of(value_type);
    let count = limited(bytes.len() / size, length);
    to.counted(Cell::Texts, count as u32);
    for bytes in bytes.chunks_exact(size).take(count) {
        let label = match element(value_type, bytes) {
            Element::Number(number) => choice(metadata, number),
            _ => None,
        };
        match label {
            Some(label) => to.text.extend_from_slice(label.as_bytes()),
            None => push_element(value_type, bytes, metadata, &mut to.text),
        }
        to.end(Cell::Text);
    }
}

/// A cell with the text in an array of characters; `false` if it is another array.
pub(super) fn characters(elements: Elements<'_>, to: &mut Results) -> bool {
    let are = push_characters(Some(elements), to);
    if are {
        to.end(Cell::Text);
    }
    are
}

/// Appends the text in an array of characters. Returns `false` if it isn't such an array, or if
/// some of the characters are missing.
pub(super) fn push_characters(elements: Option<Elements<'_>>, to: &mut Results) -> bool {
    let Some(Elements {
        value_type: ValueType::Int8 | ValueType::UInt8,
        bytes,
        count,
        ..
    }) = elements
    else {
        return false;
    };
    if bytes.len() < count as usize && !bytes.contains(&0) {
        return false;
    }
    format::push_characters(bytes, &mut to.text);
    true
}

/// Appends the first elements of an array.
pub(super) fn push_array(elements: Option<Elements<'_>>, metadata: &Metadata, to: &mut Results) {
    to.text.push(b'[');
    let mut count = 0;
    if let Some(elements) = elements {
        count = elements.count as usize;
        let size = size_of(elements.value_type);
        let shown = elements.bytes.chunks_exact(size).take(SHOWN);
        for (nth, bytes) in shown.enumerate() {
            separate(nth, to);
            push_element(elements.value_type, bytes, metadata, &mut to.text);
        }
    }
    end_list(count, to);
}

/// Appends the first strings of an array.
pub(super) fn push_text_array(list: &[String], to: &mut Results) {
    to.text.push(b'[');
    for (nth, text) in list.iter().take(SHOWN).enumerate() {
        separate(nth, to);
        format::push_quoted(text, &mut to.text);
    }
    end_list(list.len(), to);
}

fn separate(nth: usize, to: &mut Results) {
    if nth > 0 {
        to.text.extend_from_slice(b", ");
    }
}

fn end_list(count: usize, to: &mut Results) {
    if count > SHOWN {
        to.text.extend_from_slice(", … ".as_bytes());
        format::push_unsigned(count as u64, &mut to.text);
        to.text.extend_from_slice(b" elements");
    }
    to.text.push(b']');
}

/// Appends the type of a structure, or the number of structures.
pub(super) fn push_structure(
    elements: Option<Elements<'_>>,
    metadata: &Metadata,
    to: &mut Results,
) {
    to.text.push(b'(');
    if let Some(count) = elements.and_then(|elements| elements.count.checked_sub(1)) {
        format::push_unsigned(count.into(), &mut to.text);
        to.text.extend_from_slice(b" structures");
    } else if metadata.type_id.is_empty() {
        to.text.extend_from_slice(b"structure");
    } else {
        to.text.extend_from_slice(metadata.type_id.as_bytes());
    }
    to.text.push(b')');
}
