//! Values, and the classes that PVWS assigns to them: the `vtype` of a PV's first message.

use pvwire_schema::types::{Alarm, BlobValue, Metadata, ValueType};

use crate::array::Width;
use crate::name::Dialect;

/// A value of a PV.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number, or an enum's index.
    Number(f64),
    /// Any other value.
    Blob(&'a BlobValue),
}

/// One value of a PV.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The value.
    pub value: Value<'a>,
    /// Its alarm.
    pub alarm: Alarm,
    /// The alarm's message.
    pub message: &'a str,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
}

/// The class of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VType {
    Double,
    Float,
    /// An integer of this class.
    Integer(&'static str),
    Enum,
    String,
    /// An array of this class, under the key of its width.
    Array(&'static str, Width),
    /// Sent as text only, without class and severity.
    Other,
}

impl VType {
    /// The class of a value with this metadata.
    pub(crate) fn of(value: Value<'_>, metadata: &Metadata, dialect: Dialect) -> Self {
        match value {
            Value::Number(_) => number(metadata, dialect),
            Value::Blob(BlobValue::Text(_)) => Self::String,
            Value::Blob(BlobValue::Int64(_)) => Self::Integer("VLong"),
            Value::Blob(BlobValue::UInt64(_)) => Self::Integer("VULong"),
            Value::Blob(BlobValue::Array(array)) => match Width::of(array, dialect) {
                Some((name, width)) => Self::Array(name, width),
                None => Self::Other,
            },
            Value::Blob(BlobValue::Structure(node) | BlobValue::StructurePart(node)) => {
                let is_known = ["epics:nt/NTTable:", "epics:nt/NTNDArray:"]
                    .iter()
                    .any(|known| node.type_id.starts_with(known));
                if is_known { Self::Other } else { Self::String }
            }
            Value::Blob(BlobValue::TextArray(_)) => Self::Other,
        }
    }

    /// The text of `vtype`; `None` for values that are sent without it.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Double => Some("VDouble"),
            Self::Float => Some("VFloat"),
            Self::Integer(name) | Self::Array(name, _) => Some(name),
            Self::Enum => Some("VEnum"),
            Self::String => Some("VString"),
            Self::Other => None,
        }
    }

    /// Whether its values have a text.
    pub(crate) fn has_text(self) -> bool {
        matches!(self, Self::Enum | Self::String | Self::Other)
    }

    /// Whether its metadata has units and limits.
    pub(crate) fn has_display(self) -> bool {
        matches!(
            self,
            Self::Double | Self::Float | Self::Integer(_) | Self::Array(..)
        )
    }

    /// Whether it is an integer or an array of integers, for which PVWS sends a precision of 0 unless one is set.
    pub(crate) fn is_integer(self) -> bool {
        match self {
            Self::Integer(_) => true,
            Self::Array(_, width) => !matches!(width, Width::Double | Width::Float),
            _ => false,
        }
    }
}

fn number(metadata: &Metadata, dialect: Dialect) -> VType {
    VType::Integer(match metadata.value_type {
        ValueType::Float32 => return VType::Float,
        // Also with an index that has no label. An enum without any label is a number.
        ValueType::Enum if !metadata.choices.is_empty() => return VType::Enum,
        ValueType::Boolean => return VType::Other,
        ValueType::Int8 => "VByte",
        // Channel Access doesn't say whether a byte is signed; PVWS treats it as signed.
        ValueType::UInt8 if dialect == Dialect::Ca => "VByte",
        ValueType::UInt8 => "VUByte",
        ValueType::Int16 | ValueType::Enum => "VShort",
        ValueType::UInt16 => "VUShort",
        ValueType::Int32 => "VInt",
        ValueType::UInt32 => "VUInt",
        ValueType::Int64 => "VLong",
        ValueType::UInt64 => "VULong",
        ValueType::Float64
        | ValueType::Unknown
        | ValueType::String
        | ValueType::Structure
        | ValueType::Union
        | ValueType::Any => return VType::Double,
    })
}
