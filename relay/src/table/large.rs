//! Which updates are too large to travel beside others in one frame?
//!
//! An array or structure of many bytes goes to the clients in a frame of its own, which all of
//! them share and which is written piece by piece, while the small updates of the same tick are
//! on their way already.

use pvwire_schema::types::{BlobValue, Node, NodeValue, PvId, Skips};

use super::Latest;
use crate::source::RowValue;

/// A value of more bytes is large. Below it, copying a value into a client's frame costs less than a
/// message of its own does.
pub const LARGE_BYTES: usize = 16 << 10;

/// Whether what would travel of a value is large.
#[must_use]
pub fn is_large(value: &RowValue) -> bool {
    let mut room = LARGE_BYTES;
    match value {
        RowValue::Number(_) => false,
        RowValue::Blob(blob) | RowValue::Structure { part: blob, .. } => {
            !blob_fits(blob, &mut room)
        }
    }
}

/// Whether so many bytes more fit; what is left of the room.
fn takes(room: &mut usize, bytes: usize) -> bool {
    match room.checked_sub(bytes) {
        Some(rest) => {
            *room = rest;
            true
        }
        None => false,
    }
}

fn texts_fit(texts: &[String], room: &mut usize) -> bool {
    // Each has an offset, a length and a zero at its end.
    texts.iter().all(|text| takes(room, text.len() + 9))
}

fn blob_fits(blob: &BlobValue, room: &mut usize) -> bool {
    match blob {
        BlobValue::Text(text) => takes(room, text.len()),
        BlobValue::TextArray(texts) => texts_fit(texts, room),
        BlobValue::Int64(_) | BlobValue::UInt64(_) => true,
        BlobValue::Array(array) => takes(room, array.data.len()),
        BlobValue::Structure(root) | BlobValue::StructurePart(root) => node_fits(root, room),
    }
}

fn node_fits(node: &Node, room: &mut usize) -> bool {
    if !takes(room, node.name.len() + size_of::<u64>()) {
        return false;
    }
    match &node.value {
        NodeValue::Empty
        | NodeValue::Number(..)
        | NodeValue::Int64(_)
        | NodeValue::UInt64(_)
        | NodeValue::Union(None)
        | NodeValue::Any(None) => true,
        NodeValue::Text(text) => takes(room, text.len()),
        NodeValue::TextArray(texts) => texts_fit(texts, room),
        NodeValue::Array(array) => takes(room, array.data.len()),
        NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => node_fits(held, room),
        NodeValue::Structure(list)
        | NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => list.iter().all(|node| node_fits(node, room)),
    }
}

/// An update that goes in a frame of its own: one that is large, or one that came after a large one
/// of its PV in the same tick, so that their order stays.
#[derive(Clone, Debug)]
pub struct LargeRow {
    /// The PV.
    pub pv: PvId,
    /// The type and element count that it belongs to; see [`crate::source::Row::epoch`].
    pub epoch: u32,
    /// Value, time and alarm, all of it.
    pub latest: Latest,
    /// Updates that were left out just before this one.
    pub skips: Skips,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvwire_schema::types::ValueType;
    use std::sync::Arc;

    fn array(bytes: usize) -> BlobValue {
        BlobValue::array(ValueType::UInt8, bytes as u32, vec![0; bytes])
    }

    fn structure(fields: Vec<NodeValue>) -> Node {
        let field = |value| Node {
            value,
            ..Node::default()
        };
        field(NodeValue::Structure(
            fields.into_iter().map(field).collect(),
        ))
    }

    #[test]
    fn size_of_what_travels_decides() {
        let blob = |blob| RowValue::Blob(Arc::new(blob));
        assert!(!is_large(&RowValue::Number(1.0)));
        assert!(!is_large(&blob(array(LARGE_BYTES))));
        assert!(is_large(&blob(array(LARGE_BYTES + 1))));
        assert!(is_large(&blob(BlobValue::Text(
            "x".repeat(LARGE_BYTES + 1)
        ))));
        assert!(is_large(&blob(BlobValue::TextArray(vec![
            String::new();
            LARGE_BYTES / 8
        ]))));
        let BlobValue::Array(image) = array(LARGE_BYTES) else {
            panic!("an array")
        };
        let image = Node {
            value: NodeValue::Array(image),
            ..Node::default()
        };
        let held = NodeValue::Union(Some(Box::new(image)));
        let whole = Arc::new(BlobValue::Structure(structure(vec![
            NodeValue::Int64(1),
            held,
        ])));
        let part = structure(vec![NodeValue::Int64(1)]);
        assert!(is_large(&RowValue::Blob(Arc::clone(&whole))));
        assert!(!is_large(&RowValue::Structure {
            whole,
            part: Arc::new(BlobValue::StructurePart(part)),
        }));
    }
}
