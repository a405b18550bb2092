//! How much memory does a value take?

use pvwire_schema::types::{BlobValue, Node, NodeValue};

/// A machine's word.
const WORD: usize = size_of::<usize>();

/// What a value takes in memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Elements of arrays and characters of texts.
    pub contents: usize,
    /// What holds them together.
    pub beside: usize,
}

impl Weight {
    /// That of a value; goes through all of it.
    #[must_use]
    pub fn of(blob: &BlobValue) -> Self {
        let mut weight = Self::default();
        match blob {
            BlobValue::Text(text) => weight.text(text),
            BlobValue::TextArray(texts) => weight.texts(texts),
            BlobValue::Int64(_) | BlobValue::UInt64(_) => {}
            BlobValue::Array(array) => weight.contents = array.data.len(),
            BlobValue::Structure(root) | BlobValue::StructurePart(root) => weight.node(root),
        }
        weight
    }

    /// All of it.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.contents + self.beside
    }

    fn text(&mut self, text: &str) {
        self.contents += text.len();
        // What the allocator keeps beside each block.
        self.beside += if text.is_empty() { 0 } else { 2 * WORD };
    }

    fn texts(&mut self, texts: &[String]) {
        self.beside += size_of_val(texts);
        texts.iter().for_each(|text| self.text(text));
    }

    fn node(&mut self, node: &Node) {
        self.beside += size_of::<Node>();
        self.text(&node.name);
        self.text(&node.type_id);
        match &node.value {
            NodeValue::Empty
            | NodeValue::Number(..)
            | NodeValue::Int64(_)
            | NodeValue::UInt64(_)
            | NodeValue::Union(None)
            | NodeValue::Any(None) => {}
            NodeValue::Text(text) => self.text(text),
            NodeValue::TextArray(texts) => self.texts(texts),
            NodeValue::Array(array) => self.contents += array.data.len(),
            NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => self.node(held),
            NodeValue::Structure(list)
            | NodeValue::StructureArray(list)
            | NodeValue::UnionArray(list)
            | NodeValue::AnyArray(list) => list.iter().for_each(|node| self.node(node)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_elements_and_empty_strings_weigh_what_they_take_and_not_what_they_say() {
        let texts = BlobValue::TextArray(vec![String::new(); 1000]);
        assert_eq!(Weight::of(&texts).bytes(), 1000 * size_of::<String>());
        let absent = vec![Node::default(); 1000];
        let root = Node {
            value: NodeValue::StructureArray(absent),
            ..Node::default()
        };
        let weight = Weight::of(&BlobValue::Structure(root));
        assert_eq!(
            (weight.contents, weight.beside),
            (0, 1001 * size_of::<Node>())
        );
        let text = BlobValue::Text("abc".into());
        assert_eq!(Weight::of(&text).contents, 3);
    }
}
