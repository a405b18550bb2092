//! How a column of slowly changing integers becomes few bytes: zigzag LEB128 differences.

/// Appends the difference from `previous` to `value`.
pub(crate) fn push_delta(column: &mut Vec<u8>, previous: i64, value: i64) {
    let delta = value.wrapping_sub(previous);
    let mut rest = ((delta << 1) ^ (delta >> 63)) as u64;
    while rest >= 0x80 {
        column.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    column.push(rest as u8);
}

/// Whether `column` holds exactly `count` whole numbers.
pub(crate) fn holds(column: &[u8], count: usize) -> bool {
    column.last().is_none_or(|byte| byte & 0x80 == 0)
        && column.iter().filter(|byte| **byte & 0x80 == 0).count() == count
}

/// Reads a column that `holds` what is taken from it.
#[derive(Clone, Debug)]
pub(crate) struct Deltas<'a> {
    column: &'a [u8],
    at: usize,
    value: i64,
}

impl<'a> Deltas<'a> {
    pub(crate) fn new(column: &'a [u8], base: i64) -> Self {
        Self {
            column,
            at: 0,
            value: base,
        }
    }

    /// The next value; the last one again when the column is at its end.
    #[inline]
    pub(crate) fn advance(&mut self) -> i64 {
        let mut raw = 0_u64;
        let mut shift = 0;
        while let Some(&byte) = self.column.get(self.at) {
            self.at += 1;
            // More than ten bytes can't come from our encoder; what they say is cut off.
            if shift < 64 {
                raw |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let delta = (raw >> 1) as i64 ^ -((raw & 1) as i64);
        self.value = self.value.wrapping_add(delta);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_column_comes_back_as_it_was(values: Vec<i64>, base: i64) {
            let mut column = Vec::new();
            let mut previous = base;
            for &value in &values {
                push_delta(&mut column, previous, value);
                previous = value;
            }
            prop_assert!(holds(&column, values.len()));
            let mut deltas = Deltas::new(&column, base);
            for &value in &values {
                prop_assert_eq!(deltas.advance(), value);
            }
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
        let mut column = Vec::new();
        push_delta(&mut column, 41, 42);
        assert_eq!(column.len(), 1);
        push_delta(&mut column, 0, 9_000);
        assert_eq!(column.len(), 1 + 3);
    }

    #[test]
    fn cut_column_is_noticed() {
        assert!(!holds(&[0x80], 1));
        assert!(!holds(&[0x00], 2));
        assert!(holds(&[], 0));
    }
}
