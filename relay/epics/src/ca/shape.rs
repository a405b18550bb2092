//! Shape of a channel: its native type and number of elements.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::NativeType;

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
