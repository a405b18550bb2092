//! Values, and the classes that PVWS assigns to them: the `vtype` of a PV's first message.

use pvwire_schema::types::{Alarm, BlobValue, Metadata, ValueType};

use crate::json::Width;
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

impl Sample<'_> {
    /// Whether it is a number that is sent as `NaN`.
    pub(crate) fn is_nan(&self) -> bool {
        matches!(self.value, Value::Number(number) if !number.is_finite())
    }
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
    /// An object of this Java class, sent as text only, without class and severity.
    Other(&'static str),
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
                None if array.value_type == ValueType::Boolean => Self::Other("VBooleanArray"),
                None => Self::Other("VEnumArray"),
            },
            Value::Blob(BlobValue::Structure(node) | BlobValue::StructurePart(node)) => {
                if node.type_id.starts_with("epics:nt/NTTable:") {
                    Self::Other("VTable")
                } else if node.type_id.starts_with("epics:nt/NTNDArray:") {
                    Self::Other("VImage")
                } else {
                    Self::String
                }
            }
            Value::Blob(BlobValue::TextArray(_)) => Self::Other("VStringArray"),
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
            Self::Other(_) => None,
        }
    }

    /// The name of its Java class.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Other(class) => class,
            _ => self.name().unwrap_or_default(),
        }
    }

    /// Whether its values are under the key `value`.
    pub(crate) fn has_value(self) -> bool {
        matches!(
            self,
            Self::Double | Self::Float | Self::Integer(_) | Self::Enum
        )
    }

    /// The element type of its values, if they are arrays of numbers.
    pub(crate) fn width(self) -> Option<Width> {
        match self {
            Self::Array(_, width) => Some(width),
            _ => None,
        }
    }

    /// Whether its values have a text.
    pub(crate) fn has_text(self) -> bool {
        matches!(self, Self::Enum | Self::String | Self::Other(_))
    }

    /// Whether its metadata has units and limits.
    pub(crate) fn has_display(self) -> bool {
        matches!(
            self,
            Self::Double | Self::Float | Self::Integer(_) | Self::Array(..)
        )
    }

    /// Digits after the decimal point; `None` if the display form or a negative precision gives none.
    pub(crate) fn digits(self, metadata: &Metadata, dialect: Dialect) -> Option<i16> {
        let form = metadata.form.to_ascii_lowercase();
        if ["hex", "exponential", "string"].contains(&&*form) {
            return None;
        }
        match (metadata.precision, dialect) {
            (Some(digits), _) => Some(digits).filter(|digits| *digits >= 0),
            (None, Dialect::Ca) => self.is_integer().then_some(0),
            (None, Dialect::Pva | Dialect::Relay) => Some(DEFAULT_DIGITS),
        }
    }

    /// Whether it is an integer or an array of integers, for which PVWS sends a precision of 0 unless one is set.
    fn is_integer(self) -> bool {
        match self {
            Self::Integer(_) => true,
            Self::Array(_, width) => !matches!(width, Width::Double | Width::Float),
            _ => false,
        }
    }
}

/// Digits after the decimal point of values whose source gives no precision, except those of Channel Access.
const DEFAULT_DIGITS: i16 = 3;

fn number(metadata: &Metadata, dialect: Dialect) -> VType {
    VType::Integer(match metadata.value_type {
        ValueType::Float32 => return VType::Float,
        // Also with an index that has no label. An enum without any label is a number.
        ValueType::Enum if !metadata.choices.is_empty() => return VType::Enum,
        ValueType::Boolean => return VType::Other("VBoolean"),
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
