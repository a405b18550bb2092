//! Large arrays that are sent apart from their frame, so that their elements are not copied.
//!
//! FlatBuffers are written backwards: what is written first comes last in the message. The vectors of
//! these arrays are written first, without elements. When the frame is finished, their lengths are
//! filled in, and the offsets to them are increased by the elements that belong in between.

use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, VOffsetT, Vector, WIPOffset};

use crate::types::{Array, BlobValue, Node, NodeValue};

/// Minimum size of an array that is sent apart, in bytes.
const APART_BYTES: usize = 4 << 10;

/// Maximum number of arrays of one frame that are sent apart; others are copied.
const MAX_APART: usize = 4096;

/// Elements of an array that is sent apart.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Their position in the frame's bytes.
    pub at: usize,
    /// The elements.
    pub data: Bytes,
    /// Number of zero bytes that pad the last word.
    pub padding: usize,
}

impl Cut {
    /// Number of bytes that it adds to the frame.
    #[must_use]
    pub fn length(&self) -> usize {
        self.data.len() + self.padding
    }
}

struct ApartArray {
    data: Bytes,
    vector: WIPOffset<Vector<'static, u64>>,
}

impl ApartArray {
    fn words(&self) -> usize {
        self.data.len().div_ceil(8)
    }
}

/// The arrays of one frame that are sent apart, and the offsets that refer to them.
#[derive(Default)]
pub(super) struct Aparts {
    arrays: Vec<ApartArray>,
    /// Position of an offset, counted from the end of the frame, and the index of its array.
    references: Vec<(usize, usize)>,
}

impl Aparts {
    pub(super) fn clear(&mut self) {
        self.arrays.clear();
        self.references.clear();
    }

    /// Sends the largest array of a value apart, if it is large enough. Must precede everything else.
    pub(super) fn add(&mut self, builder: &mut FlatBufferBuilder<'static>, value: &BlobValue) {
        let largest = match value {
            BlobValue::Array(array) => Some(array),
            BlobValue::Structure(root) | BlobValue::StructurePart(root) => largest_below(root),
            _ => None,
        };
        if let Some(array) = largest
            && array.data.len() >= APART_BYTES
            && self.arrays.len() < MAX_APART
            && self.place(array).is_none()
        {
            let vector = builder.create_vector::<u64>(&[]);
            let data = array.data.clone();
            self.arrays.push(ApartArray { data, vector });
        }
    }

    /// Index of the array with these elements.
    fn place(&self, array: &Array) -> Option<usize> {
        let is_it = |apart: &ApartArray| {
            std::ptr::eq(apart.data.as_ptr(), array.data.as_ptr())
                && apart.data.len() == array.data.len()
        };
        // Small arrays are frequent and never sent apart.
        let may_be = array.data.len() >= APART_BYTES;
        (may_be.then(|| self.arrays.iter().position(is_it))).flatten()
    }

    /// The empty vector of an array that is sent apart.
    pub(super) fn vector(&self, array: &Array) -> Option<(usize, WIPOffset<Vector<'static, u64>>)> {
        let place = self.place(array)?;
        Some((place, self.arrays[place].vector))
    }

    /// Records that this field of the table that was just written refers to an array.
    pub(super) fn refer(
        &mut self,
        builder: &FlatBufferBuilder<'static>,
        table: flatbuffers::UOffsetT,
        field: VOffsetT,
        place: usize,
    ) {
        let written = builder.unfinished_data();
        let table = written.len() - table as usize;
        let bytes = |at: usize| written[at..].first_chunk().expect("a table is whole");
        // How a table describes its layout: https://flatbuffers.dev/internals
        let layout = table as i64 - i64::from(i32::from_le_bytes(*bytes(table)));
        let entry = written[layout as usize + usize::from(field)..].first_chunk();
        let offset = u16::from_le_bytes(*entry.expect("a layout is whole"));
        let from_end = written.len() - (table + usize::from(offset));
        self.references.push((from_end, place));
    }

    /// Fills in lengths and offsets in a finished frame and returns where the elements belong.
    #[inline]
    pub(super) fn finish(&mut self, bytes: &mut [u8]) -> Vec<Cut> {
        if self.arrays.is_empty() {
            return Vec::new();
        }
        self.finish_some(bytes)
    }

    #[inline(never)]
    fn finish_some(&mut self, bytes: &mut [u8]) -> Vec<Cut> {
        let end = bytes.len();
        let mut patch = |from_end: usize, change: &dyn Fn(u32) -> u32| {
            let place = &mut bytes[end - from_end..][..size_of::<u32>()];
            let number = u32::from_le_bytes(place.try_into().expect("four bytes"));
            place.copy_from_slice(&change(number).to_le_bytes());
        };
        // Arrays that were written later come earlier in the message.
        let mut before = vec![0; self.arrays.len()];
        let mut sum = 0;
        for (place, array) in self.arrays.iter().enumerate().rev() {
            before[place] = sum;
            sum += (8 * array.words()) as u32;
        }
        for &(from_end, place) in &self.references {
            patch(from_end, &|offset| offset + before[place]);
        }
        let cuts = self.arrays.drain(..).map(|array| {
            let from_end = array.vector.value() as usize;
            patch(from_end, &|_| array.words() as u32);
            Cut {
                at: end - from_end + size_of::<u32>(),
                padding: 8 * array.words() - array.data.len(),
                data: array.data,
            }
        });
        let mut cuts: Vec<_> = cuts.collect();
        cuts.reverse();
        self.references.clear();
        cuts
    }
}

/// The largest array of a structure.
fn largest_below(root: &Node) -> Option<&Array> {
    match &root.value {
        NodeValue::Array(array) => Some(array),
        NodeValue::Structure(list)
        | NodeValue::StructureArray(list)
        | NodeValue::UnionArray(list)
        | NodeValue::AnyArray(list) => list
            .iter()
            .filter_map(largest_below)
            .max_by_key(|array| array.data.len()),
        NodeValue::Union(held) | NodeValue::Any(held) => held.as_deref().and_then(largest_below),
        _ => None,
    }
}
