//! Integers in few bits each: all in as many as the largest needs, or those near the middle in fewer than others.

/// This number of ones stands before a number that is far from the middle.
const FAR: u32 = 8;

/// A shift by all bits would panic.
const MAX_REST_BITS: u32 = u64::BITS - 1;

/// Numbers of which the middle one is looked for.
const SAMPLES: usize = 64;

/// The least of these numbers, and the bits that each needs above it.
pub(super) fn width(numbers: &[i64]) -> (i64, u32) {
    let least = numbers.iter().min().copied().unwrap_or_default();
    let above = numbers
        .iter()
        .map(|number| number.wrapping_sub(least) as u64);
    let largest = above.max().unwrap_or_default();
    (least, length(largest))
}

fn length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Appends numbers, each in as many bits.
pub(super) fn put_bits(out: &mut Vec<u8>, numbers: &[i64], (least, bits): (i64, u32)) {
    let mut writer = BitWriter::new(out);
    for number in numbers {
        writer.put(number.wrapping_sub(least) as u64, bits);
    }
    writer.finish();
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u128,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            pending: 0,
            pending_bits: 0,
        }
    }

    /// Appends a number below 2 to the power of `bits`, which are at most 64.
    fn put(&mut self, number: u64, bits: u32) {
        self.pending |= u128::from(number) << self.pending_bits;
        self.pending_bits += bits;
        if self.pending_bits >= u64::BITS {
            self.out.extend((self.pending as u64).to_le_bytes());
            self.pending >>= u64::BITS;
            self.pending_bits -= u64::BITS;
        }
    }

    fn finish(self) {
        let bytes = self.pending.to_le_bytes();
        let used = self.pending_bits.div_ceil(8) as usize;
        self.out.extend(&bytes[..used]);
    }
}

/// Reads what was appended in bits; behind the end of the bytes all are 0.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits that have been read.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The bits that follow, at least 120.
    fn rest(&self) -> u128 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(word) => *word,
            None => {
                let mut word = [0; 16];
                word[..rest.len()].copy_from_slice(rest);
                word
            }
        };
        u128::from_le_bytes(word) >> (self.at % 8)
    }

    /// The number in the next bits, which are at most 64.
    pub(super) fn take(&mut self, bits: u32) -> u64 {
        let number = self.rest() & ((1 << bits) - 1);
        self.at += bits as usize;
        number as u64
    }

    /// Number of ones, at most [`FAR`], and reads the zero behind fewer.
    fn take_ones(&mut self) -> u32 {
        let ones = self.rest().trailing_ones().min(FAR);
        self.at += (ones + u32::from(ones < FAR)) as usize;
        ones
    }
}

/// Codes of Rice. What a number is above or below the middle is divided by a power of two. Ones say how often that is in it,
/// and the rest follows; a number that is far away follows whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rice {
    pub(super) middle: i64,
    /// The power of two.
    pub(super) rest_bits: u32,
    /// Bits of a number that is far away.
    pub(super) far_bits: u32,
}

impl Rice {
    /// The shortest for these numbers.
    pub(super) fn of(numbers: &[i64]) -> Self {
        let every = numbers.len().div_ceil(SAMPLES).max(1);
        let mut samples: Vec<i64> = numbers.iter().copied().step_by(every).collect();
        samples.sort_unstable();
        let middle = samples.get(samples.len() / 2).copied().unwrap_or_default();
        let mut codes = Self {
            middle,
            rest_bits: 0,
            far_bits: 0,
        };
        let mut counts = [0_u64; u64::BITS as usize + 1];
        for number in numbers {
            counts[length(codes.distance(*number)) as usize] += 1;
        }
        let counts: Vec<(u32, u64)> = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        codes.far_bits = counts.last().map_or(0, |(bits, _)| *bits);
        let bits = |rest_bits: &u32| {
            let codes = Self {
                rest_bits: *rest_bits,
                ..codes
            };
            // Three quarters of the largest number of these bits.
            let usual = |bits: u32| ((3_u128 << bits) >> 2) as u64;
            let bits = counts
                .iter()
                .map(|(bits, count)| u64::from(codes.bits(usual(*bits))) * count);
            bits.sum::<u64>()
        };
        codes.rest_bits = (0..=codes.far_bits.min(MAX_REST_BITS))
            .min_by_key(bits)
            .unwrap_or_default();
        codes
    }

    /// Small for numbers near the middle, above and below it.
    fn distance(self, number: i64) -> u64 {
        let above = number.wrapping_sub(self.middle);
        ((above << 1) ^ (above >> 63)) as u64
    }

    fn ones(self, distance: u64) -> u32 {
        let ones = distance.checked_shr(self.rest_bits).unwrap_or_default();
        ones.min(FAR.into()) as u32
    }

    fn bits(self, distance: u64) -> u32 {
        match self.ones(distance) {
            FAR => FAR + self.far_bits,
            ones => ones + 1 + self.rest_bits,
        }
    }

    /// Number of bits of these numbers.
    pub(super) fn bits_of(self, numbers: &[i64]) -> u64 {
        let bits = numbers
            .iter()
            .map(|number| u64::from(self.bits(self.distance(*number))));
        bits.sum()
    }

    /// Appends numbers.
    pub(super) fn put(self, out: &mut Vec<u8>, numbers: &[i64]) {
        let mut writer = BitWriter::new(out);
        for number in numbers {
            let distance = self.distance(*number);
            match self.ones(distance) {
                FAR => {
                    writer.put((1 << FAR) - 1, FAR);
                    writer.put(distance, self.far_bits);
                }
                ones => {
                    writer.put((1 << ones) - 1, ones + 1);
                    let above = u64::from(ones) << self.rest_bits;
                    writer.put(distance - above, self.rest_bits);
                }
            }
        }
        writer.finish();
    }

    /// The next number.
    pub(super) fn take(self, reader: &mut BitReader<'_>) -> i64 {
        let distance = match reader.take_ones() {
            FAR => reader.take(self.far_bits),
            ones => {
                let above = u64::from(ones).checked_shl(self.rest_bits);
                above.unwrap_or_default() | reader.take(self.rest_bits)
            }
        };
        let above = (distance >> 1) as i64 ^ -((distance & 1) as i64);
        self.middle.wrapping_add(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn codes_of_any_numbers_come_back(
            numbers in prop::collection::vec(prop_oneof![
                any::<i64>(), -100..100_i64, 6_000_000..6_100_000_i64, Just(i64::MIN), Just(i64::MAX),
            ], 0..300)
        ) {
            let codes = Rice::of(&numbers);
            let mut out = Vec::new();
            codes.put(&mut out, &numbers);
            prop_assert_eq!(out.len() as u64, codes.bits_of(&numbers).div_ceil(8));
            let mut reader = BitReader::new(&out);
            let back: Vec<i64> = numbers.iter().map(|_| codes.take(&mut reader)).collect();
            prop_assert_eq!(back, numbers);
        }
    }

    #[test]
    fn few_numbers_far_away_leave_the_others_short() {
        let jitter = |n: i64| (n * 7919) % 1000;
        let numbers: Vec<i64> = (0..512).map(|n| 6_000_000 + jitter(n)).collect();
        let late: Vec<i64> = (numbers.iter().enumerate())
            .map(|(n, number)| number + i64::from(n % 20 == 7) * 3_000_000)
            .collect();
        let bits = |numbers: &[i64]| Rice::of(numbers).bits_of(numbers) / 512;
        assert!(
            bits(&numbers) <= 12 && bits(&late) <= 14,
            "{} {}",
            bits(&numbers),
            bits(&late)
        );
    }
}
