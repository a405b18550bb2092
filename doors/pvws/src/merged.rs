//! Keys that clients have from values of earlier classes.
//!
//! Clients merge updates key by key, and decide by the keys that they have what they show. A value of another class
//! therefore replaces or empties the keys of the earlier ones.

use crate::json::Width;
use crate::update::{self, Keys};
use crate::vtype::VType;

/// Keys that clients may have. None is forgotten: a client that was behind may have a key of any earlier value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    /// A `text`, which clients show rather than a value.
    pub(crate) text: bool,
    /// Whether the text is one of a value, not of one that was taken away.
    pub(crate) of_value: bool,
    /// Whether the text is the empty one of a large array.
    pub(crate) is_of_large: bool,
    /// A number or index under `value`.
    number: bool,
    /// Values had different classes.
    pub(crate) is_mixed: bool,
    pub(crate) keys: Keys,
    /// Arrays by their width. Clients keep the elements until another message has the same key.
    arrays: [bool; Width::ALL.len()],
}

impl Merged {
    pub(crate) fn is_text_shown(self) -> bool {
        self.text && self.of_value
    }

    /// Some clients may have these keys, too.
    pub(crate) fn add(&mut self, others: Self) {
        self.text |= others.text;
        self.of_value |= others.of_value;
        self.is_of_large &= others.is_of_large;
        self.number |= others.number;
        self.is_mixed |= others.is_mixed;
        self.keys.class |= others.keys.class;
        self.keys.display |= others.keys.display;
        self.keys.labels |= others.keys.labels;
        for (mine, other) in self.arrays.iter_mut().zip(others.arrays) {
            *mine |= other;
        }
    }

    /// Clients have a value of this class.
    pub(crate) fn note(&mut self, vtype: VType) {
        self.text |= self.needs_text(vtype) || vtype.has_text();
        self.of_value = true;
        self.number |= vtype.has_value();
        self.keys.class |= vtype.name().is_some();
        self.keys.labels |= vtype == VType::Enum;
        self.keys.display |= vtype.has_display();
        if let Some(width) = vtype.width() {
            self.arrays[width as usize] = true;
        }
    }

    /// Whether a value of a class that has no text is sent with one. cs-web-lib shows a number as text too.
    pub(crate) fn needs_text(self, vtype: VType) -> bool {
        !vtype.has_text() && (self.text || self.number && vtype.width().is_some())
    }

    /// Whether clients may have a number that a value of this class doesn't replace.
    pub(crate) fn has_number_beside(self, vtype: VType) -> bool {
        self.number && !vtype.has_value()
    }

    /// Whether clients may have an empty array beside a value of this class. cs-web-lib shows it instead of NaN.
    pub(crate) fn has_array_beside(self, vtype: VType) -> bool {
        vtype.width().is_none() && self.arrays.contains(&true)
    }

    /// Keys of arrays that a value of this class doesn't replace.
    fn arrays_beside(self, vtype: VType) -> impl Iterator<Item = &'static str> {
        let widths = Width::ALL.into_iter().zip(self.arrays);
        let others = widths.filter(move |(width, known)| *known && vtype.width() != Some(*width));
        others.map(|(width, _)| width.key())
    }

    /// Appends empty arrays in place of those that a value of this class doesn't replace; returns whether there are
    /// any. No message has them beside a value, because clients take one of both.
    pub(crate) fn empty_arrays(self, out: &mut Vec<u8>, vtype: VType) -> bool {
        let begin = out.len();
        for key in self.arrays_beside(vtype) {
            update::key(out, key);
            out.extend_from_slice(b"\"\"");
        }
        out.len() > begin
    }
}
