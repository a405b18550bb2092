//! Columns of slowly changing integers as zigzag LEB128 differences.

/// Longest number of a column, in bytes.
const MAX_BYTES: usize = 10;

/// Numbers below this fit in eight bytes of seven bits.
const EIGHT_BYTES: u64 = 1 << 56;

/// A column under construction.
#[derive(Debug, Default)]
pub struct DeltaColumn {
    /// Longer than the content, so that a number is written by one 8-byte store.
    bytes: Vec<u8>,
    length: usize,
    last: i64,
}

impl DeltaColumn {
    /// Empties the column; its first difference is relative to `base`.
    pub fn begin(&mut self, base: i64) {
        self.length = 0;
        self.last = base;
    }

    /// Appends the difference between `value` and the previous value.
    #[inline]
    pub fn push(&mut self, value: i64) {
        let delta = value.wrapping_sub(self.last);
        self.last = value;
        let number = ((delta << 1) ^ (delta >> 63)) as u64;
        if self.length + MAX_BYTES > self.bytes.len() {
            self.grow();
        }
        if number < 0x80 {
            // The common case for ids.
            self.bytes[self.length] = number as u8;
            self.length += 1;
            return;
        }
        if number >= EIGHT_BYTES {
            return self.push_long(number);
        }
        // No branch on the length, which varies from row to row in a column of times.
        let (word, length) = septets(number);
        self.bytes[self.length..self.length + 8].copy_from_slice(&word.to_le_bytes());
        self.length += length;
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(self.bytes.len() * 2 + 8 * MAX_BYTES, 0);
    }

    #[cold]
    fn push_long(&mut self, mut rest: u64) {
        while rest >= 0x80 {
            self.bytes[self.length] = rest as u8 | 0x80;
            self.length += 1;
            rest >>= 7;
        }
        self.bytes[self.length] = rest as u8;
        self.length += 1;
    }

    /// The bytes of the column.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A number below 2^56 in LEB128, from the lowest byte of the word, and its length in bytes.
#[inline]
fn septets(number: u64) -> (u64, usize) {
    let length = (63 - (number | 1).leading_zeros() as usize) / 7 + 1;
    // 28 bits to each half, then 14 to each quarter, then 7 to each byte.
    let halves = (number & 0x0fff_ffff) | (number & 0x00ff_ffff_f000_0000) << 4;
    let quarters = (halves & 0x0000_3fff_0000_3fff) | (halves & 0x0fff_c000_0fff_c000) << 2;
    let bytes = (quarters & 0x007f_007f_007f_007f) | (quarters & 0x3f80_3f80_3f80_3f80) << 1;
    let more = 0x8080_8080_8080_8080 & ((1 << (8 * (length - 1))) - 1);
    (bytes | more, length)
}

/// Whether `column` contains exactly `count` complete numbers.
#[must_use]
pub fn holds(column: &[u8], count: usize) -> bool {
    /// The continuation bits of eight bytes.
    const MORE: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = column.as_chunks::<8>();
    let mut ends = rest.iter().filter(|byte| **byte & 0x80 == 0).count();
    for word in words {
        ends += (!u64::from_le_bytes(*word) & MORE).count_ones() as usize;
    }
    column.last().is_none_or(|byte| byte & 0x80 == 0) && ends == count
}

/// Reads a column whose length was checked by `holds`.
#[derive(Clone, Debug, Default)]
pub struct Deltas<'a> {
    column: &'a [u8],
    value: i64,
}

impl<'a> Deltas<'a> {
    /// Reads `column`, whose first difference is relative to `base`.
    #[must_use]
    pub fn new(column: &'a [u8], base: i64) -> Self {
        Self {
            column,
            value: base,
        }
    }

    /// The remaining bytes.
    pub(crate) fn column(&self) -> &'a [u8] {
        self.column
    }

    /// The next value; the last one again at the end of the column.
    #[inline(always)]
    pub fn advance(&mut self) -> i64 {
        // Most ids take one byte and most times two or three.
        let raw = match self.column {
            [a, after @ ..] if after.len() >= 2 && *a < 0x80 => {
                self.column = after;
                u64::from(*a)
            }
            [a, b, after @ ..] if !after.is_empty() && *b < 0x80 => {
                self.column = after;
                u64::from(*a & 0x7f) | u64::from(*b) << 7
            }
            [a, b, c, after @ ..] if *c < 0x80 => {
                self.column = after;
                u64::from(*a & 0x7f) | u64::from(*b & 0x7f) << 7 | u64::from(*c) << 14
            }
            _ => {
                let raw;
                (raw, self.column) = long(self.column);
                raw
            }
        };
        let delta = (raw >> 1) as i64 ^ -((raw & 1) as i64);
        self.value = self.value.wrapping_add(delta);
        self.value
    }
}

/// A longer number, and the bytes after it.
#[cold]
#[inline(never)]
fn long(mut column: &[u8]) -> (u64, &[u8]) {
    let mut raw = 0_u64;
    let mut shift = 0;
    while let Some((byte, rest)) = column.split_first() {
        column = rest;
        // Our encoder writes at most ten bytes; excess bits are discarded.
        if shift < 64 {
            raw |= u64::from(byte & 0x7f) << shift;
        }
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (raw, column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_column_comes_back_as_it_was(values: Vec<i64>, base: i64) {
            let mut column = DeltaColumn::default();
            column.begin(base);
            for &value in &values {
                column.push(value);
            }
            prop_assert!(holds(column.bytes(), values.len()));
            let mut deltas = Deltas::new(column.bytes(), base);
            for &value in &values {
                prop_assert_eq!(deltas.advance(), value);
            }
        }

        /// By definition, seven bits at a time.
        #[test]
        fn number_of_any_length_has_the_bytes_of_leb128(value: i64, bits in 0_u32..64) {
            let value = value >> bits;
            let mut expected = Vec::new();
            let mut rest = ((value << 1) ^ (value >> 63)) as u64;
            while rest >= 0x80 {
                expected.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            expected.push(rest as u8);
            let mut column = DeltaColumn::default();
            column.push(value);
            prop_assert_eq!(column.bytes(), expected);
        }

        #[test]
        fn no_bytes_panic_the_reader(column: Vec<u8>, base: i64) {
            let mut deltas = Deltas::new(&column, base);
            for _ in 0..=column.len() {
                deltas.advance();
            }
        }
    }

    #[test]
    fn neighbouring_ids_take_one_byte_and_microseconds_two_or_three() {
        let mut column = DeltaColumn::default();
        column.begin(41);
        column.push(42);
        assert_eq!(column.bytes().len(), 1);
        column.push(42 + 9_000);
        assert_eq!(column.bytes().len(), 1 + 3);
    }

    #[test]
    fn cut_column_is_noticed() {
        assert!(!holds(&[0x80], 1));
        assert!(!holds(&[0x00], 2));
        assert!(holds(&[], 0));
    }
}
