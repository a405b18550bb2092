//! Type of a scalar, and of the elements of an array.

/// Type of a scalar and of the elements of an array. The numbers are the type codes of pvAccess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "named for what they are")]
pub enum ElementType {
    Bool = 0x00,
    Int8 = 0x20,
    Int16 = 0x21,
    Int32 = 0x22,
    Int64 = 0x23,
    UInt8 = 0x24,
    UInt16 = 0x25,
    UInt32 = 0x26,
    UInt64 = 0x27,
    Float32 = 0x42,
    Float64 = 0x43,
    Text = 0x60,
}

impl ElementType {
    /// Bytes of one element in a [`SharedArray`](super::SharedArray); 0 for text, which is passed in another form.
    pub const fn element_bytes(self) -> usize {
        match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
            Self::Text => 0,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Bool,
            0x20 => Self::Int8,
            0x21 => Self::Int16,
            0x22 => Self::Int32,
            0x23 => Self::Int64,
            0x24 => Self::UInt8,
            0x25 => Self::UInt16,
            0x26 => Self::UInt32,
            0x27 => Self::UInt64,
            0x42 => Self::Float32,
            0x43 => Self::Float64,
            0x60 => Self::Text,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_have_the_codes_of_pv_access() {
        let known = (0..=u8::MAX).filter_map(|code| Some((code, ElementType::from_code(code)?)));

        assert!(known.clone().all(|(code, element)| element as u8 == code));
        assert_eq!(known.count(), 12);
    }
}
