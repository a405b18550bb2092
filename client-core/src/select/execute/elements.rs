//! The value of a slot that is an array or a structure, as a program reads it.

use pvwire_schema::types::{Array, Node, NodeValue, ValueType};

/// The value of a slot that is an array or a structure, as far as its program needs it.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// Type of the elements.
    pub value_type: ValueType,
    /// Number of elements of the array. For a structure 0; for a list of structures their number
    /// plus one.
    pub count: u32,
    /// Its elements, or the first of them; see [`needs`](super::needs).
    pub bytes: &'a [u8],
    /// Its characters are one text, whatever the metadata say.
    pub is_text: bool,
    /// The structure; `None` where its fields are read elsewhere.
    pub node: Option<&'a Node>,
}

impl<'a> Elements<'a> {
    /// An array of numbers.
    #[must_use]
    pub fn array(array: &'a Array) -> Self {
        Self {
            value_type: array.value_type,
            count: array.count,
            bytes: &array.data,
            is_text: false,
            node: None,
        }
    }

    /// A structure and what it contains.
    #[must_use]
    pub fn structure(node: &'a Node) -> Self {
        Self {
            value_type: ValueType::Structure,
            count: count_of(node),
            bytes: &[],
            is_text: false,
            node: Some(node),
        }
    }
}

fn count_of(node: &Node) -> u32 {
    match &node.value {
        NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => list.len() as u32 + 1,
        NodeValue::TextArray(list) => list.len() as u32 + 1,
        NodeValue::Any(Some(held)) => count_of(held),
        _ => 0,
    }
}
