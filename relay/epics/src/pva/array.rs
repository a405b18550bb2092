//! Arrays as received by pvxs, shared without a copy.

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
