//! How long a result may become, before it is made: a selection may name a large value any number of times, and a host
//! charges the memory first.

use pvwire_schema::types::{Node, NodeValue, ValueType};

#[cfg(feature = "graphql")]
use super::fields::Letter;
use super::fields::Read;
use super::lines::{Line, Lines};
use super::lists::limited;
use super::{Action, Program, Pv};
use crate::store::kind;

/// Bytes of a number as JSON with comma and quotes, at most.
const NUMBER: usize = 27;

/// Bytes of a text as JSON for each of its bytes: most characters are themselves, some follow a backslash.
const CHARACTER: usize = 2;

/// Bytes that a text or a field of a structure takes besides its characters, as part of a tree.
const NODE: usize = 64;

impl Program {
    /// About how many bytes the whole values in its result take as JSON: arrays, long texts and structures. Each other
    /// field takes some ten bytes.
    #[must_use]
    pub fn length(&self, pv: &impl Pv) -> usize {
        let value = Length::of(pv);
        let lengths = self.steps.iter().map(|step| match &step.action {
            Action::Read(read) => value.of_field(*read),
            Action::Apart(read, plan) => value.of_object(*read, plan),
            Action::Name(_) | Action::Object(..) => 0,
        });
        lengths.fold(0, usize::saturating_add)
    }
}

/// The lengths of one value.
#[derive(Debug, Default)]
struct Length {
    kind: u8,
    /// Number of elements, and bytes of each as JSON.
    count: usize,
    number: usize,
    /// Bytes of the elements.
    bytes: usize,
    /// A text, all texts of an array, or the characters in an array.
    text: usize,
    structure: usize,
    /// The structure is a list.
    is_list: bool,
}

impl Length {
    fn of(pv: &impl Pv) -> Self {
        let mut of = Self {
            kind: pv.kind(),
            ..Self::default()
        };
        match of.kind {
            kind::TEXT => {
                let mut text = Vec::new();
                pv.push_text(&mut text);
                of.text = CHARACTER * text.len();
            }
            kind::TEXT_ARRAY => of.text = pv.texts().iter().map(|text| of_text(text)).sum(),
            kind::ARRAY => {
                if let Some(elements) = pv.elements() {
                    of.count = elements.count as usize;
                    of.number = number(elements.value_type);
                    of.bytes = elements.bytes.len();
                    let is_text = elements.value_type.element_bytes() == Some(1);
                    of.text = if is_text { CHARACTER * of.bytes } else { 0 };
                }
            }
            kind::STRUCTURE => {
                let elements = pv.elements();
                of.is_list = elements.is_some_and(|elements| elements.count > 0);
                let node = elements.and_then(|elements| elements.node);
                of.structure = node.map_or(0, of_node);
            }
            _ => {}
        }
        of
    }

    fn numbers(&self, length: u32) -> usize {
        self.number * limited(self.count, length)
    }

    fn of_field(&self, read: Read) -> usize {
        match (read, self.kind) {
            (Read::String | Read::StringWithUnits | Read::Text, kind::TEXT | kind::ARRAY)
            | (Read::Array | Read::StringArray(_), kind::TEXT_ARRAY) => self.text,
            // A tree has a copy.
            (Read::Array, kind::ARRAY) => self.numbers(0) + self.bytes,
            (Read::StringArray(length) | Read::Float64Array(length), kind::ARRAY) => {
                self.numbers(length)
            }
            (Read::Structure, kind::STRUCTURE) if !self.is_list => self.structure,
            (Read::Structures, kind::STRUCTURE) if self.is_list => self.structure,
            #[cfg(feature = "graphql")]
            (Read::Coniql(letter), _) => self.of_letter(letter),
            _ => 0,
        }
    }

    #[cfg(feature = "graphql")]
    fn of_letter(&self, letter: Letter) -> usize {
        match (letter, self.kind) {
            (Letter::String | Letter::StringWithUnits, kind::TEXT | kind::ARRAY)
            | (Letter::StringArray(_), kind::TEXT_ARRAY) => self.text,
            (Letter::StringArray(length), kind::ARRAY) => self.numbers(length),
            _ => 0,
        }
    }

    /// That of a table, an image or numbers as base64; `plan` has the lines of its fields.
    fn of_object(&self, read: Read, plan: &[u8]) -> usize {
        let mut lines = Lines::new(plan);
        let mut all: usize = 0;
        while let Some(line) = lines.next() {
            if line.is_field() {
                all = all.saturating_add(self.of_line(read, &line));
            }
        }
        all
    }

    fn of_line(&self, read: Read, line: &Line<'_>) -> usize {
        // Four digits for three bytes.
        let digits = |bytes: usize| bytes / 3 * 4 + 4;
        match (read, self.kind, line.name) {
            (Read::Base64(_), kind::ARRAY, _) => digits(self.bytes),
            (_, kind::STRUCTURE, b"base64" | b"array" | b"float64Array" | b"stringArray") => {
                self.structure
            }
            _ => 0,
        }
    }
}

/// Bytes of a number of this type as JSON, at most.
fn number(value_type: ValueType) -> usize {
    match value_type.element_bytes() {
        Some(1) => 7,
        Some(2) => 9,
        _ => NUMBER,
    }
}

fn of_text(text: &str) -> usize {
    NODE + CHARACTER * text.len()
}

fn of_node(node: &Node) -> usize {
    let content = match &node.value {
        NodeValue::Empty
        | NodeValue::Number(..)
        | NodeValue::Int64(_)
        | NodeValue::UInt64(_)
        | NodeValue::Union(None)
        | NodeValue::Any(None) => NUMBER,
        NodeValue::Text(text) => of_text(text),
        NodeValue::TextArray(texts) => texts.iter().map(|text| of_text(text)).sum(),
        NodeValue::Array(array) => number(array.value_type) * array.count as usize,
        NodeValue::Structure(list)
        | NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => list.iter().map(of_node).sum(),
        NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => of_node(held),
    };
    NODE + node.name.len() + content
}
