//! Sizes of values: one walk over everything a value holds, and the memory that it takes.

use pvwire_schema::types::{BlobValue, Node, NodeValue};

/// Adds up the parts of a value as [`measure`] walks over them. Each method returns whether to go
/// on.
pub trait Measure {
    /// A field of a structure, without what it holds.
    fn field(&mut self, field: &Node) -> bool;

    /// A text.
    fn text(&mut self, text: &str) -> bool;

    /// An array of texts.
    fn texts(&mut self, texts: &[String]) -> bool;

    /// An array with this many bytes of elements.
    fn elements(&mut self, bytes: usize) -> bool;
}

/// Walks over a value until `by` stops it. Returns false if it did.
pub fn measure(blob: &BlobValue, by: &mut impl Measure) -> bool {
    match blob {
        BlobValue::Text(text) => by.text(text),
        BlobValue::TextArray(texts) => by.texts(texts),
        BlobValue::Int64(_) | BlobValue::UInt64(_) => true,
        BlobValue::Array(array) => by.elements(array.data.len()),
        BlobValue::Structure(root) | BlobValue::StructurePart(root) => measure_node(root, by),
    }
}

/// Like [`measure`], for a structure.
pub fn measure_node(node: &Node, by: &mut impl Measure) -> bool {
    by.field(node)
        && match &node.value {
            NodeValue::Empty
            | NodeValue::Number(..)
            | NodeValue::Int64(_)
            | NodeValue::UInt64(_)
            | NodeValue::Union(None)
            | NodeValue::Any(None) => true,
            NodeValue::Text(text) => by.text(text),
            NodeValue::TextArray(texts) => by.texts(texts),
            NodeValue::Array(array) => by.elements(array.data.len()),
            NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => measure_node(held, by),
            NodeValue::Structure(list)
            | NodeValue::StructureArray(list)
            | NodeValue::UnionArray(list)
            | NodeValue::AnyArray(list) => list.iter().all(|node| measure_node(node, by)),
        }
}

/// A machine word.
const WORD: usize = size_of::<usize>();

/// Bytes of memory that a value takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Elements of arrays and characters of texts.
    pub contents: usize,
    /// Everything else: nodes, strings without their characters, and the allocator's headers.
    pub overhead: usize,
}

impl Weight {
    /// The weight of a value; walks over all of it.
    #[must_use]
    pub fn of(blob: &BlobValue) -> Self {
        let mut weight = Self::default();
        measure(blob, &mut weight);
        weight
    }

    /// Contents and overhead.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.contents + self.overhead
    }
}

impl Measure for Weight {
    fn field(&mut self, field: &Node) -> bool {
        self.overhead += size_of::<Node>();
        self.text(&field.name) && self.text(&field.type_id)
    }

    fn text(&mut self, text: &str) -> bool {
        self.contents += text.len();
        // The allocator's header of a block.
        self.overhead += if text.is_empty() { 0 } else { 2 * WORD };
        true
    }

    fn texts(&mut self, texts: &[String]) -> bool {
        self.overhead += size_of_val(texts);
        texts.iter().all(|text| self.text(text))
    }

    fn elements(&mut self, bytes: usize) -> bool {
        self.contents += bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_elements_and_empty_strings_count_by_their_memory() {
        let texts = BlobValue::TextArray(vec![String::new(); 1000]);
        assert_eq!(Weight::of(&texts).bytes(), 1000 * size_of::<String>());
        let absent = vec![Node::default(); 1000];
        let root = Node {
            value: NodeValue::StructureArray(absent),
            ..Node::default()
        };
        let weight = Weight::of(&BlobValue::Structure(root));
        assert_eq!(
            (weight.contents, weight.overhead),
            (0, 1001 * size_of::<Node>())
        );
        let text = BlobValue::Text("abc".into());
        assert_eq!(Weight::of(&text).contents, 3);
    }
}
