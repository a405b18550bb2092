//! Results as trees and as JSON, for hosts other than browsers.

use pvwire_schema::types::{Array, Node, NodeValue, ValueType};

use super::lists::{self, Element};
use super::results::{Cell, Results};
use crate::format;

/// A field of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number; may be NaN or infinite.
    Number(f64),
    /// An integer of any size that a source sends.
    Integer(i128),
    /// Text.
    Text(String),
    /// An array of numbers.
    Array(Array),
    /// A list of texts or structures.
    List(Vec<Self>),
    /// Fields by key, in the order of the selection.
    Object(Vec<(String, Self)>),
}

/// The source that a PV's name leaves out: a bare name means Channel Access.
pub(super) fn source(name: &str) -> &'static str {
    if name.contains("://") { "" } else { "ca://" }
}

/// A key or a name.
pub(super) fn text(bytes: &[u8]) -> String {
    str::from_utf8(bytes).unwrap_or_default().to_owned()
}

impl Value {
    /// Appends the value as cells. Its arrays must stay where they are until these are read.
    pub(super) fn write(&self, results: &mut Results) {
        match self {
            Self::Null | Self::Integer(_) => results.mark(Cell::Null),
            Self::Boolean(value) => results.boolean(*value),
            Self::Number(number) => results.number(*number),
            Self::Text(text) => results.text_of(text),
            Self::Array(array) => {
                let value_type = usize::from(array.value_type.number());
                results.push(Cell::Numbers, value_type, array.data.as_ptr() as usize);
                results.number(array.count.into());
            }
            Self::List(list) => {
                results.counted(Cell::List, list.len() as u32);
                for value in list {
                    value.write(results);
                }
            }
            Self::Object(fields) => {
                results.counted(Cell::Object, fields.len() as u32);
                for (key, value) in fields {
                    results.text_of(key);
                    value.write(results);
                }
            }
        }
    }

    /// The content of a structure's field.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let list = |nodes: &[Node]| Self::List(nodes.iter().map(Self::of).collect());
        match &node.value {
            NodeValue::Empty => Self::Null,
            NodeValue::Number(ValueType::Boolean, number) => Self::Boolean(*number != 0.0),
            NodeValue::Number(_, number) => Self::Number(*number),
            NodeValue::Int64(integer) => Self::Integer((*integer).into()),
            NodeValue::UInt64(integer) => Self::Integer((*integer).into()),
            NodeValue::Text(text) => Self::Text(text.clone()),
            NodeValue::TextArray(texts) => {
                Self::List(texts.iter().cloned().map(Self::Text).collect())
            }
            NodeValue::Array(array) => Self::Array(array.clone()),
            NodeValue::Structure(nodes) => Self::Object(
                (nodes.iter().map(|node| (node.name.clone(), Self::of(node)))).collect(),
            ),
            NodeValue::StructureArray(nodes)
            | NodeValue::UnionArray(nodes)
            | NodeValue::AnyArray(nodes) => list(nodes),
            NodeValue::Union(None) | NodeValue::Any(None) => Self::Null,
            NodeValue::Any(Some(held)) => Self::of(held),
            NodeValue::Union(Some(held)) => Self::Object(vec![
                ("selected".to_owned(), Self::Text(held.name.clone())),
                ("value".to_owned(), Self::of(held)),
            ]),
        }
    }

    /// The field of an object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(fields) = self else {
            return None;
        };
        let mut fields = fields.iter();
        fields.find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value as JSON. Numbers that JSON doesn't have are `null`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut bytes = Vec::new();
        self.push_json(&mut bytes);
        String::from_utf8(bytes).unwrap_or_default()
    }

    pub(super) fn push_json(&self, to: &mut Vec<u8>) {
        match self {
            Self::Null => to.extend_from_slice(b"null"),
            Self::Boolean(value) => {
                to.extend_from_slice(if *value { b"true" } else { b"false" });
            }
            Self::Number(number) => push_json_number(*number, to),
            Self::Integer(integer) => to.extend_from_slice(integer.to_string().as_bytes()),
            Self::Text(text) => format::push_quoted(text, to),
            Self::Array(array) => push_json_elements(array.value_type, &array.data, to),
            Self::List(list) => {
                push_list(list.iter(), (b'[', b']'), to, |value, to| {
                    value.push_json(to)
                });
            }
            Self::Object(fields) => {
                push_list(fields.iter(), (b'{', b'}'), to, |(key, value), to| {
                    format::push_quoted(key, to);
                    to.push(b':');
                    value.push_json(to);
                });
            }
        }
    }
}

pub(super) fn push_list<T>(
    items: impl Iterator<Item = T>,
    (open, close): (u8, u8),
    to: &mut Vec<u8>,
    mut push: impl FnMut(T, &mut Vec<u8>),
) {
    to.push(open);
    for (nth, item) in items.enumerate() {
        if nth > 0 {
            to.push(b',');
        }
        push(item, to);
    }
    to.push(close);
}

pub(super) fn push_json_number(number: f64, to: &mut Vec<u8>) {
    if number.is_finite() {
        // JSON has no sign of a zero.
        format::push_shortest(number + 0.0, false, to);
    } else {
        to.extend_from_slice(b"null");
    }
}

/// The elements of an array, little-endian; integers with all their digits.
pub(super) fn push_json_elements(value_type: ValueType, bytes: &[u8], to: &mut Vec<u8>) {
    let elements = lists::elements(value_type, bytes);
    push_list(elements, (b'[', b']'), to, |element, to| match element {
        Element::Number(number) => push_json_number(number, to),
        Element::Signed(integer) => format::push_signed(integer, to),
        Element::Unsigned(integer) => format::push_unsigned(integer, to),
    });
}
