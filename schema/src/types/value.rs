//! Values: element types, arrays, structures, and what a client writes.

use bytes::Bytes;

wire_enum! {
    /// Element type of a value at its source.
    ValueType {
        /// Not known yet, or added by a later version.
        #[default]
        Unknown = 0,
        /// IEEE double.
        Float64 = 1,
        /// IEEE single.
        Float32 = 2,
        /// Signed, 8 bits.
        Int8 = 3,
        /// Unsigned, 8 bits.
        UInt8 = 4,
        /// Signed, 16 bits.
        Int16 = 5,
        /// Unsigned, 16 bits.
        UInt16 = 6,
        /// Signed, 32 bits.
        Int32 = 7,
        /// Unsigned, 32 bits.
        UInt32 = 8,
        /// Signed, 64 bits.
        Int64 = 9,
        /// Unsigned, 64 bits.
        UInt64 = 10,
        /// Index into the choices.
        Enum = 11,
        /// Text.
        String = 12,
        /// True or false.
        Boolean = 13,
        /// Named fields.
        Structure = 14,
        /// One selected field out of several named ones, or no selection.
        Union = 15,
        /// A field of any type, or empty.
        Any = 16,
    }
}

impl ValueType {
    /// Size of one packed element, in bytes; `None` for types that are not packed.
    #[must_use]
    pub const fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Unknown | Self::String | Self::Structure | Self::Union | Self::Any => None,
            Self::Int8 | Self::UInt8 | Self::Boolean => Some(1),
            Self::Int16 | Self::UInt16 | Self::Enum => Some(2),
            Self::Float32 | Self::Int32 | Self::UInt32 => Some(4),
            Self::Float64 | Self::Int64 | Self::UInt64 => Some(8),
        }
    }
}

/// Numbers or enum indices, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Element type; one that has `element_bytes`.
    pub value_type: ValueType,
    /// Number of elements.
    pub count: u32,
    /// Little-endian elements without gaps. Shared; not copied until they are encoded.
    pub data: Bytes,
}

impl Array {
    /// The elements as doubles. 64-bit integers are rounded to the nearest double.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        fn read<const N: usize>(data: &[u8], one: fn([u8; N]) -> f64) -> Vec<f64> {
            let elements = data.as_chunks::<N>().0;
            elements.iter().map(|element| one(*element)).collect()
        }
        let data = &self.data;
        match self.value_type {
            ValueType::Float64 => read(data, f64::from_le_bytes),
            ValueType::Float32 => read(data, |e| f32::from_le_bytes(e).into()),
            ValueType::Int8 => read(data, |e| i8::from_le_bytes(e).into()),
            ValueType::UInt8 | ValueType::Boolean => read(data, |e| u8::from_le_bytes(e).into()),
            ValueType::Int16 => read(data, |e| i16::from_le_bytes(e).into()),
            ValueType::UInt16 | ValueType::Enum => read(data, |e| u16::from_le_bytes(e).into()),
            ValueType::Int32 => read(data, |e| i32::from_le_bytes(e).into()),
            ValueType::UInt32 => read(data, |e| u32::from_le_bytes(e).into()),
            ValueType::Int64 => read(data, |e| i64::from_le_bytes(e) as f64),
            ValueType::UInt64 => read(data, |e| u64::from_le_bytes(e) as f64),
            ValueType::Unknown
            | ValueType::String
            | ValueType::Structure
            | ValueType::Union
            | ValueType::Any => Vec::new(),
        }
    }
}

/// A value that is not a double.
#[derive(Clone, Debug, PartialEq)]
pub enum BlobValue {
    /// A scalar string.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// A scalar integer outside ±2^53.
    Int64(i64),
    /// See `Int64`.
    UInt64(u64),
    /// An array of numbers or enum indices.
    Array(Array),
    /// A structure.
    Structure(Node),
    /// The top-level fields of a structure that changed; the others are unchanged.
    StructurePart(Node),
}

impl BlobValue {
    /// An array.
    #[must_use]
    pub fn array(value_type: ValueType, count: u32, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        Self::Array(Array {
            value_type,
            count,
            data,
        })
    }

    /// Element type on the wire.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Text(_) | Self::TextArray(_) => ValueType::String,
            Self::Int64(_) => ValueType::Int64,
            Self::UInt64(_) => ValueType::UInt64,
            Self::Array(array) => array.value_type,
            Self::Structure(_) | Self::StructurePart(_) => ValueType::Structure,
        }
    }
}

/// One field of a structure with its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Field name; empty for the root and for array elements.
    pub name: String,
    /// Type ID of a structure; empty if it has none.
    pub type_id: String,
    /// Content.
    pub value: NodeValue,
}

/// Content of a field of a structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeValue {
    /// An absent array element.
    #[default]
    Empty,
    /// An integer of up to 32 bits, a float, a double, or a boolean as 1 or 0.
    Number(ValueType, f64),
    /// A signed integer of 64 bits.
    Int64(i64),
    /// An unsigned integer of 64 bits.
    UInt64(u64),
    /// A string.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// An array of numbers.
    Array(Array),
    /// Named fields.
    Structure(Vec<Node>),
    /// Structures, or `Empty`.
    StructureArray(Vec<Node>),
    /// The selected field, if any.
    Union(Option<Box<Node>>),
    /// Unions, or `Empty`.
    UnionArray(Vec<Node>),
    /// A field of any type, if any.
    Any(Option<Box<Node>>),
    /// `Any`s, or `Empty`.
    AnyArray(Vec<Node>),
}

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub enum PutValue {
    /// A number.
    Number(f64),
    /// A 64-bit integer.
    Int64(i64),
    /// A 64-bit integer.
    UInt64(u64),
    /// A string, an enum's label, or the text of a number.
    Text(String),
    /// An array of strings.
    TextArray(Vec<String>),
    /// An array of numbers.
    Array(Array),
}
