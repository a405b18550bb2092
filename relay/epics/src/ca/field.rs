//! The type of the field behind a channel, which Channel Access may represent by a wider type.

use std::fmt;

/// The numbers that the field behind a channel can hold. Channel Access represents some types by
/// wider ones: 64-bit and unsigned 32-bit integers as doubles, unsigned 16-bit integers as 32-bit
/// ones, and bytes without their sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Unknown: any value of the channel's type is sent.
    Unknown,
    /// Floating point.
    Float,
    /// Integers in a range.
    Integers {
        /// Smallest.
        least: i128,
        /// Largest.
        most: i128,
    },
}

/// Asks for the type of the field behind a channel; see
/// [`field_wanted`](super::ChannelEvents::field_wanted).
///
/// If it is dropped without an answer, the type is unknown.
pub struct FieldQuestion {
    kind: FieldKind,
    answer: Box<dyn Fn(FieldKind) + Send>,
}

impl FieldQuestion {
    pub(super) fn new(answer: impl Fn(FieldKind) + Send + 'static) -> Self {
        Self {
            kind: FieldKind::Unknown,
            answer: Box::new(answer),
        }
    }

    /// Answers it. Does not block.
    pub fn answer(mut self, kind: FieldKind) {
        self.kind = kind;
    }
}

impl Drop for FieldQuestion {
    fn drop(&mut self) {
        (self.answer)(self.kind);
    }
}

impl fmt::Debug for FieldQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldQuestion").finish_non_exhaustive()
    }
}
