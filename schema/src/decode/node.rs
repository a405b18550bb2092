//! Fields of a structure in a frame.

use bytes::Bytes;

use super::table::Table;
use super::{elements, offset_in, words_hold};
use crate::generated::frame as fb;
use crate::types::{Array, Node, NodeValue, ValueType};

/// One field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    pub(super) node: Table<'a>,
    /// The message.
    pub(super) bytes: &'a [u8],
}

impl<'a> NodeView<'a> {
    /// The structure whose table is at `position` in a message that was checked.
    #[must_use]
    pub fn at(bytes: &'a [u8], position: usize) -> Self {
        let node = Table::at(bytes, position);
        Self { node, bytes }
    }

    /// Field name; empty for the root and for array elements.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.node.text(fb::Node::VT_NAME)
    }

    /// Position of its table in the message, for other readers.
    #[must_use]
    pub fn position(&self) -> usize {
        self.node.position()
    }

    /// Type ID of a structure; empty if it has none.
    #[must_use]
    pub fn type_id(&self) -> &'a str {
        self.node.text(fb::Node::VT_TYPE_ID)
    }

    /// Type of its value, or of the elements of an array.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        ValueType::from_number(self.node.u8(fb::Node::VT_TYPE_))
    }

    /// Whether it is an array, even with one element or none.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.node.bool(fb::Node::VT_ARRAY)
    }

    /// Number of elements; 1 for a scalar.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.node.u32(fb::Node::VT_COUNT)
    }

    /// Little-endian elements of a numeric type.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        let words = self.node.vector(fb::Node::VT_DATA, 8);
        elements(self.value_type(), self.count(), words)
    }

    /// Where `data` starts in the message: a multiple of eight.
    #[must_use]
    pub fn data_offset(&self) -> usize {
        offset_in(self.bytes, self.data())
    }

    /// The strings.
    pub fn text(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.node.texts(fb::Node::VT_TEXT)
    }

    /// Fields of a structure, content of a union, or elements of an array of these.
    pub fn fields(&self) -> impl Iterator<Item = Self> + use<'a> {
        let bytes = self.bytes;
        (self.node.tables(fb::Node::VT_FIELDS)).map(move |node| NodeView { node, bytes })
    }

    /// A scalar number as its nearest double.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        let array = Array {
            value_type: self.value_type(),
            count: self.count(),
            data: Bytes::copy_from_slice(self.data()),
        };
        array
            .numbers()
            .first()
            .copied()
            .filter(|_| !self.is_array())
    }

    /// The word of a scalar Int64 or UInt64.
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        let data: [u8; 8] = self.data().try_into().ok()?;
        Some(u64::from_le_bytes(data)).filter(|_| !self.is_array())
    }

    /// An owned copy of the whole tree.
    #[must_use]
    pub fn to_node(&self) -> Node {
        let texts = || self.text().map(str::to_owned).collect::<Vec<_>>();
        let fields = || {
            self.fields()
                .map(|field| field.to_node())
                .collect::<Vec<_>>()
        };
        let held = || self.fields().next().map(|field| Box::new(field.to_node()));
        let value = match (self.value_type(), self.is_array()) {
            (ValueType::Unknown, _) => NodeValue::Empty,
            (ValueType::String, true) => NodeValue::TextArray(texts()),
            (ValueType::String, false) => NodeValue::Text(texts().pop().unwrap_or_default()),
            (ValueType::Structure, false) => NodeValue::Structure(fields()),
            (ValueType::Structure, true) => NodeValue::StructureArray(fields()),
            (ValueType::Union, false) => NodeValue::Union(held()),
            (ValueType::Union, true) => NodeValue::UnionArray(fields()),
            (ValueType::Any, false) => NodeValue::Any(held()),
            (ValueType::Any, true) => NodeValue::AnyArray(fields()),
            (value_type, true) => NodeValue::Array(Array {
                value_type,
                count: self.count(),
                data: Bytes::copy_from_slice(self.data()),
            }),
            (ValueType::Int64, false) => NodeValue::Int64(self.word().unwrap_or(0) as i64),
            (ValueType::UInt64, false) => NodeValue::UInt64(self.word().unwrap_or(0)),
            (value_type, false) => NodeValue::Number(value_type, self.number().unwrap_or(f64::NAN)),
        };
        Node {
            name: self.name().to_owned(),
            type_id: self.type_id().to_owned(),
            value,
        }
    }

    /// Whether types and counts fit the elements, recursively.
    pub(super) fn fits(&self) -> bool {
        let count = self.count() as usize;
        let one = self.is_array() || count == 1;
        let words = self.node.vector(fb::Node::VT_DATA, 8).len() / 8;
        let texts = self.node.count(fb::Node::VT_TEXT);
        let fields = self.node.count(fb::Node::VT_FIELDS);
        let known = match self.value_type() {
            ValueType::Unknown => return true,
            ValueType::String => one && texts == count,
            ValueType::Structure => one && (!self.is_array() || fields == count),
            ValueType::Union | ValueType::Any if self.is_array() => fields == count,
            ValueType::Union | ValueType::Any => fields <= 1,
            number => {
                let bytes = number.element_bytes().unwrap_or(0);
                one && words_hold(words, self.count(), bytes)
            }
        };
        known && self.fields().all(|field| field.fits())
    }
}
