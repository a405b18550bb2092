//! Shape of a channel: its native type and number of elements, the type of the field behind it, and whether its values are
//! texts.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::command::Purpose;
use super::dbr;
use super::event::{NativeType, text};
use super::name::NameParts;

/// Native type and element count of a connected channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) native: NativeType,
    pub(super) count: u32,
}

impl Shape {
    /// At most one element means a scalar, more mean an array.
    pub(super) fn is_scalar(self) -> bool {
        self.count == 1
    }
}

/// An optional [`Shape`] in one atomic word.
pub(super) struct AtomicShape(AtomicU64);

impl AtomicShape {
    const NONE: u64 = u64::MAX;

    pub(super) const fn none() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    pub(super) fn load(&self) -> Option<Shape> {
        let word = self.0.load(Ordering::Acquire);
        // The upper half of `NONE` is not a type code.
        Some(Shape {
            native: NativeType::from_code((word >> 32).try_into().ok()?)?,
            count: word as u32,
        })
    }

    pub(super) fn store(&self, shape: Option<Shape>) {
        let word = shape.map_or(Self::NONE, |shape| {
            (shape.native as u64) << 32 | u64::from(shape.count)
        });
        self.0.store(word, Ordering::Release);
    }
}

/// How a channel's type is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TextForm {
    /// As the server reports it.
    #[default]
    Native,
    /// As an array of characters that is a text. A server that keeps it as a string may be unable to send metadata of
    /// another type.
    LongString,
    /// As one string, whatever the server reports.
    Scalar,
}

impl TextForm {
    pub(super) fn of(purpose: Purpose, name: &CStr) -> Self {
        match purpose {
            Purpose::Text => Self::Scalar,
            _ if NameParts::of(&text(name.to_bytes())).is_long_string => Self::LongString,
            _ => Self::Native,
        }
    }

    /// The shape in which the channel is monitored.
    pub(super) fn shape(self, reported: Shape) -> Shape {
        match self {
            Self::Scalar => Shape {
                native: NativeType::String,
                count: 1,
            },
            Self::Native | Self::LongString => reported,
        }
    }

    /// The type in which the metadata of a channel of this type is requested; `None` if it has none.
    pub(super) fn metadata_type(self, native: NativeType) -> Option<NativeType> {
        match (self, native) {
            (Self::LongString, NativeType::Char) => Some(NativeType::Char),
            _ => dbr::metadata_type(native),
        }
    }
}
