//! Which arrays stand beside a frame instead of being copied into it, and where in it do they belong?
//!
//! FlatBuffers are written from their end, so what is written first stands last. The vectors of these
//! arrays are written first, without elements; when the frame is finished, their lengths are put in, and
//! the references to them are moved by the elements that will stand in between.

use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, VOffsetT, Vector, WIPOffset};

use crate::types::{Array, BlobValue, Node, NodeValue};

/// From this size on an array may stand apart from its frame.
const APART_BYTES: usize = 4 << 10;

/// Most arrays of one frame that stand apart; the others are copied.
const MAX_APART: usize = 4096;

/// Elements that belong into a frame.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Before this place in the frame's bytes.
    pub at: usize,
    /// The elements.
    pub data: Bytes,
    /// Zeros that fill their last word.
    pub padding: usize,
}

impl Cut {
    /// Bytes that it adds to the frame.
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

/// The arrays of one frame that stand apart, and the references to them.
#[derive(Default)]
pub(super) struct Aparts {
    arrays: Vec<ApartArray>,
    /// Where a reference is, counted from the frame's end, and to which of the arrays.
    references: Vec<(usize, usize)>,
}

impl Aparts {
    pub(super) fn clear(&mut self) {
        self.arrays.clear();
        self.references.clear();
    }

    /// The largest array of a value is to stand apart, if it is worth it. Before anything else is written.
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

    /// Which of them has these elements.
    fn place(&self, array: &Array) -> Option<usize> {
        let is_it = |apart: &ApartArray| {
            std::ptr::eq(apart.data.as_ptr(), array.data.as_ptr())
                && apart.data.len() == array.data.len()
        };
        // Small arrays are frequent, and never among them.
        let may_be = array.data.len() >= APART_BYTES;
        (may_be.then(|| self.arrays.iter().position(is_it))).flatten()
    }

    /// The vector that stands for an array, if that is apart.
    pub(super) fn vector(&self, array: &Array) -> Option<(usize, WIPOffset<Vector<'static, u64>>)> {
        let place = self.place(array)?;
        Some((place, self.arrays[place].vector))
    }

    /// Notes that the table that was written last refers to one of them in this field.
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

    /// Puts lengths and references right in a finished frame, and says where the elements belong.
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
        // Elements of those that were written later stand before those of an earlier one.
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
