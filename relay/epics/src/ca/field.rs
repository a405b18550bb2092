//! The field behind a channel, where Channel Access shows it as a wider type.

use std::fmt;

/// What numbers the field behind a channel holds. Channel Access shows some types as wider ones:
/// 64-bit and unsigned 32-bit integers as doubles, unsigned 16-bit ones as 32-bit ones, and bytes
/// without their sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Not known: whatever the channel's type holds is sent.
    Unknown,
    /// Floating point.
    Float,
    /// Integers of a range.
    Integers {
        /// Smallest.
        least: i128,
        /// Largest.
        most: i128,
    },
}

/// Asks what the field behind a channel holds; see
/// [`field_wanted`](super::ChannelEvents::field_wanted).
///
/// Dropped without an answer, it answers that the field is unknown.
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

    /// Answers it. Never waits.
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
