//! Channels whose values are texts although their type says something else.

use std::ffi::CStr;

use super::command::Purpose;
use super::dbr;
use super::event::{NativeType, text};
use super::name::NameParts;
use super::shape::Shape;

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
