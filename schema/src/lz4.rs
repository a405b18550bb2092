//! Packs the columns of numeric rows for slow links: the bytes of the values are stored in planes, all
//! lowest bytes first, and all columns together are one LZ4 block.

/// Maximum ratio of unpacked to packed bytes: one byte can add this much to a length.
const MAX_RATIO: usize = 255;

/// Minimum length of a match, which is not part of its token.
const MIN_MATCH: usize = 4;

/// Packing does not shorten frames with fewer rows.
const MIN_ROWS: usize = 8;

/// Bytes of a value.
const VALUE_BYTES: usize = size_of::<f64>();

/// Packs the columns of a frame and keeps its buffers.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Packer {
    /// The three columns as one block; `None` if that is not shorter.
    pub(crate) fn pack(&mut self, ids: &[u8], times: &[u8], values: &[f64]) -> Option<&[u8]> {
        if values.len() < MIN_ROWS {
            return None;
        }
        self.plain.clear();
        self.plain.extend_from_slice(ids);
        self.plain.extend_from_slice(times);
        for place in 0..VALUE_BYTES {
            let bytes = values.iter().map(|value| value.to_le_bytes()[place]);
            self.plain.extend(bytes);
        }
        let most = lz4_flex::block::get_maximum_output_size(self.plain.len());
        self.packed.resize(most, 0);
        let packed = lz4_flex::block::compress_into(&self.plain, &mut self.packed);
        // There is room for the worst case.
        let length = packed.unwrap_or(usize::MAX);
        (length < self.plain.len()).then(|| &self.packed[..length])
    }
}

/// The columns of ids, times and values, concatenated; `None` if the block does not contain exactly
/// `others` bytes of ids and times and the values of `rows` rows.
pub(crate) fn unpacked(block: &[u8], others: usize, rows: usize) -> Option<Vec<u8>> {
    let length = rows.checked_mul(VALUE_BYTES)?.checked_add(others)?;
    // Checked before memory is allocated.
    if length > block.len().saturating_mul(MAX_RATIO) {
        return None;
    }
    let mut columns = Vec::with_capacity(length);
    unpack(block, length, &mut columns)?;
    let sorted = columns.split_off(others);
    let (a, rest) = sorted.split_at_checked(rows)?;
    let (b, rest) = rest.split_at_checked(rows)?;
    let (c, rest) = rest.split_at_checked(rows)?;
    let (d, rest) = rest.split_at_checked(rows)?;
    let (e, rest) = rest.split_at_checked(rows)?;
    let (f, rest) = rest.split_at_checked(rows)?;
    let (g, h) = rest.split_at_checked(rows)?;
    columns.resize(length, 0);
    let (values, _) = columns.get_mut(others..)?.as_chunks_mut::<VALUE_BYTES>();
    for (row, value) in values.iter_mut().enumerate() {
        *value = [
            a[row], b[row], c[row], d[row], e[row], f[row], g[row], h[row],
        ];
    }
    Some(columns)
}

/// Appends the content of a block, which must be `length` bytes.
fn unpack(mut block: &[u8], length: usize, to: &mut Vec<u8>) -> Option<()> {
    loop {
        let (token, rest) = block.split_first()?;
        block = rest;
        let literals = run(usize::from(token >> 4), &mut block)?;
        let (copied, rest) = block.split_at_checked(literals)?;
        block = rest;
        if copied.len() > length - to.len() {
            return None;
        }
        to.extend_from_slice(copied);
        // The last token has no match.
        let Some((back, rest)) = block.split_first_chunk::<2>() else {
            return (block.is_empty() && to.len() == length).then_some(());
        };
        block = rest;
        let back = usize::from(u16::from_le_bytes(*back));
        let mut left = run(usize::from(token & 15), &mut block)?.checked_add(MIN_MATCH)?;
        let from = to.len().checked_sub(back).filter(|_| back > 0)?;
        if left > length - to.len() {
            return None;
        }
        // The copied range may overlap the copy.
        while left > 0 {
            let part = left.min(to.len() - from);
            to.extend_from_within(from..from + part);
            left -= part;
        }
    }
}

/// A length, which may continue in the following bytes.
fn run(start: usize, block: &mut &[u8]) -> Option<usize> {
    let mut length = start;
    let mut more = start == 15;
    while more {
        let (byte, rest) = block.split_first()?;
        *block = rest;
        length = length.checked_add(usize::from(*byte))?;
        more = *byte == u8::MAX;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes with repetitions at short and long distances.
    fn repetitive() -> impl Strategy<Value = Vec<u8>> {
        let piece = (prop::collection::vec(any::<u8>(), 1..20), 1_usize..400);
        prop::collection::vec(piece, 0..20).prop_map(|pieces| {
            let repeated = pieces.into_iter().map(|(bytes, times)| bytes.repeat(times));
            repeated.flatten().collect()
        })
    }

    proptest! {
        #[test]
        fn block_of_any_bytes_comes_back_as_it_was(bytes in repetitive()) {
            let block = lz4_flex::block::compress(&bytes);
            let mut back = Vec::new();
            prop_assert_eq!(unpack(&block, bytes.len(), &mut back), Some(()));
            prop_assert_eq!(&back, &bytes);
            prop_assert_eq!(unpack(&block, bytes.len() + 1, &mut Vec::new()), None);
            if let Some(shorter) = bytes.len().checked_sub(1) {
                prop_assert_eq!(unpack(&block, shorter, &mut Vec::new()), None);
            }
        }

        #[test]
        fn columns_come_back_as_they_were(
            ids: Vec<u8>,
            times: Vec<u8>,
            values in prop::collection::vec(any::<f64>(), 0..600),
        ) {
            let mut packer = Packer::default();
            if let Some(block) = packer.pack(&ids, &times, &values) {
                let columns = unpacked(block, ids.len() + times.len(), values.len());
                let values = values.iter().flat_map(|value| value.to_le_bytes());
                let expected: Vec<u8> = ids.into_iter().chain(times).chain(values).collect();
                prop_assert_eq!(columns, Some(expected));
            }
        }

        /// Compared with the safe decoder of `lz4_flex`.
        #[test]
        fn damaged_block_gives_what_another_decoder_gives_or_nothing(
            bytes in repetitive(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut: prop::sample::Index,
        ) {
            let mut block = lz4_flex::block::compress(&bytes);
            for (at, byte) in changes {
                let at = at.index(block.len());
                block[at] = byte;
            }
            block.truncate(cut.index(block.len() * 2).max(1));
            let mut found = Vec::with_capacity(bytes.len());
            let room = found.capacity();
            if unpack(&block, bytes.len(), &mut found).is_some() {
                let other = lz4_flex::block::decompress(&block, bytes.len()).ok();
                prop_assert_eq!(Some(&found), other.as_ref());
            }
            prop_assert!(found.len() <= bytes.len() && found.capacity() == room);
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(block: Vec<u8>, others: usize, rows: usize) {
            let _ = unpacked(&block, others, rows);
            let _ = unpacked(&block, others % 64, rows % 64);
        }
    }

    #[test]
    fn no_room_is_made_for_more_than_a_block_can_hold() {
        assert_eq!(unpacked(&[0x1f, 7, 1, 0, 255], 1 << 40, 0), None);
        assert_eq!(unpacked(&[0x1f, 7, 1, 0, 255], 0, usize::MAX), None);
        assert_eq!(unpacked(&[], 0, 0), None);
    }

    #[test]
    fn few_rows_are_left_as_they_are() {
        assert_eq!(Packer::default().pack(&[2; 7], &[0; 7], &[0.0; 7]), None);
        assert!(
            Packer::default()
                .pack(&[2; 8], &[0; 8], &[0.0; 8])
                .is_some()
        );
    }
}
