//! Holds the arrays and structures of slots, for hosts that don't keep messages.

use bytes::Bytes;
use pvwire_schema::decode::NodeView;
use pvwire_schema::types::{Array, Node, NodeValue, ValueType};

use super::elements::Elements;
use crate::ingest::ArrayRow;
use crate::store::{NO_SLOT, Slot};

#[derive(Debug)]
enum Content {
    Array(Array),
    Structure(Node),
}

/// The arrays and structures of a store's slots.
#[derive(Debug, Default)]
pub struct Held {
    /// By slot.
    contents: Vec<Option<Content>>,
}

impl Held {
    /// Without arrays and structures.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies the arrays and structures of a message that was applied; `rows` are the session's
    /// `arrays`.
    pub fn keep(&mut self, message: &[u8], rows: &[ArrayRow]) {
        self.keep_each(message, rows, |data| data.to_vec().into());
    }

    /// Like [`Held::keep`], but arrays share the memory of their message.
    pub fn share(&mut self, message: &Bytes, rows: &[ArrayRow]) {
        self.keep_each(message, rows, |data| message.slice_ref(data));
    }

    fn keep_each(&mut self, message: &[u8], rows: &[ArrayRow], bytes_of: impl Fn(&[u8]) -> Bytes) {
        for row in rows.iter().filter(|row| row.slot != NO_SLOT) {
            let content = self.place(row.slot);
            let value_type = u8::try_from(row.value_type).map(ValueType::from_number);
            let value_type = value_type.unwrap_or_default();
            if value_type == ValueType::Structure {
                let node = NodeView::at(message, row.offset as usize).to_node();
                match content {
                    // Changed fields apply to a structure that was received as a whole before.
                    Some(Content::Structure(whole)) if row.count == 0 => merge(whole, node),
                    _ => *content = Some(Content::Structure(node)),
                }
                continue;
            }
            let bytes = row.count as usize * value_type.element_bytes().unwrap_or(0);
            let start = row.offset as usize;
            let data = message.get(start..start + bytes).unwrap_or_default();
            *content = Some(Content::Array(Array {
                value_type,
                count: row.count,
                data: bytes_of(data),
            }));
        }
    }

    /// Sets the array of a slot whose value does not come in a message.
    pub fn set_array(&mut self, slot: Slot, array: Array) {
        *self.place(slot) = Some(Content::Array(array));
    }

    /// Sets the structure of a slot whose value does not come in a message.
    pub fn set_structure(&mut self, slot: Slot, structure: Node) {
        *self.place(slot) = Some(Content::Structure(structure));
    }

    /// Drops what a slot has.
    pub fn clear(&mut self, slot: Slot) {
        if let Some(content) = self.contents.get_mut(slot as usize) {
            *content = None;
        }
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Content> {
        let at = slot as usize;
        if self.contents.len() <= at {
            self.contents.resize_with(at + 1, || None);
        }
        &mut self.contents[at]
    }

    /// The array of a slot whose value is one.
    #[must_use]
    pub fn array(&self, slot: Slot) -> Option<&Array> {
        match self.contents.get(slot as usize)?.as_ref()? {
            Content::Array(array) => Some(array),
            Content::Structure(_) => None,
        }
    }

    /// The structure of a slot whose value is one.
    #[must_use]
    pub fn structure(&self, slot: Slot) -> Option<&Node> {
        match self.contents.get(slot as usize)?.as_ref()? {
            Content::Structure(node) => Some(node),
            Content::Array(_) => None,
        }
    }

    /// The array or structure of a slot that has one.
    #[must_use]
    pub fn elements(&self, slot: Slot) -> Option<Elements<'_>> {
        match self.contents.get(slot as usize)?.as_ref()? {
            Content::Structure(node) => Some(Elements::structure(node)),
            Content::Array(array) => Some(Elements::array(array)),
        }
    }
}

/// Replaces the fields that changed.
fn merge(whole: &mut Node, part: Node) {
    match (&mut whole.value, part.value) {
        // An `Any` is what it holds.
        (NodeValue::Any(Some(held)), value) => merge(held, Node { value, ..part }),
        (NodeValue::Structure(_), NodeValue::Any(Some(held))) => merge(whole, *held),
        (NodeValue::Structure(fields), NodeValue::Structure(changed)) => {
            for node in changed {
                match fields.iter_mut().find(|field| field.name == node.name) {
                    Some(field) => *field = node,
                    None => fields.push(node),
                }
            }
        }
        (value, changed) => *value = changed,
    }
}
