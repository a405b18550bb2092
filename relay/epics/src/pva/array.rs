//! Arrays as received by pvxs, shared without a copy, and the types of their elements.

use std::ffi::c_void;
use std::{fmt, ptr, slice};

use pvxs_sys::{pvs_array_release, pvs_array_retain};

/// The elements of an array, in this machine's byte order, without a copy: they stay where pvxs
/// received them, aligned for their type, until the last owner is dropped.
pub struct SharedArray {
    /// Null for an empty array.
    owner: *const c_void,
    bytes: *const [u8],
}

// SAFETY: pvxs documents that references to its `shared_array` with constant elements can be shared
// between threads: the elements are never written again, and the reference count is atomic.
unsafe impl Send for SharedArray {}
// SAFETY: as above; a reference allows only reading and adding an owner.
unsafe impl Sync for SharedArray {}

impl SharedArray {
    /// No elements.
    pub(super) fn empty() -> Self {
        Self {
            owner: ptr::null(),
            bytes: &[],
        }
    }

    /// Adds an owner.
    ///
    /// # Safety
    ///
    /// `array` is currently valid, and `bytes` are its elements.
    pub(super) unsafe fn retain(array: *const c_void, bytes: *const [u8]) -> Self {
        // SAFETY: valid, as the caller promises.
        let owner = unsafe { pvs_array_retain(array) };
        assert!(!owner.is_null(), "no memory for another owner of an array");
        Self { owner, bytes }
    }
}

impl AsRef<[u8]> for SharedArray {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the elements live as long as their owner, which this array holds, and are never
        // written. The slice of an empty array is always valid.
        unsafe { slice::from_raw_parts(self.bytes.cast(), self.bytes.len()) }
    }
}

impl Clone for SharedArray {
    fn clone(&self) -> Self {
        if self.owner.is_null() {
            return Self::empty();
        }
        // SAFETY: this owner keeps the array valid, and the elements are the same.
        unsafe { Self::retain(self.owner, self.bytes) }
    }
}

impl Drop for SharedArray {
    fn drop(&mut self) {
        if !self.owner.is_null() {
            // SAFETY: retained by us, and released only here.
            unsafe { pvs_array_release(self.owner) };
        }
    }
}

impl PartialEq for SharedArray {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for SharedArray {}

impl fmt::Debug for SharedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.bytes.len())
    }
}

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
    /// Bytes of one element in a [`SharedArray`]; 0 for text, which is passed in another form.
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
