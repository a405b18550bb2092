//! Mutations: random changes of bytes and texts, repeatable by their seed.

/// Random numbers that a seed repeats (xorshift64*).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// From any seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, or 0 when that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() >> 16) as usize % bound.max(1)
    }

    /// One of these.
    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// Lengths, offsets and counts that break what believes them.
const NUMBERS: &[u64] = &[
    0,
    1,
    3,
    4,
    7,
    8,
    16,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffc,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    u64::MAX,
];

/// An input longer than this teaches nothing that a shorter one doesn't.
const MAX_BYTES: usize = 64 << 10;

/// A seed changed in one to eight places. `words` are put in where the input is a text.
#[must_use]
pub fn mutated(random: &mut Random, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = random.one_of(seeds).cloned().unwrap_or_default();
    for _ in 0..=random.below(8) {
        change(random, &mut bytes, seeds, words);
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

fn range(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    let start = random.below(length + 1);
    let most = [4, 32, length].get(random.below(3)).copied().unwrap_or(4);
    start..(start + random.below(most + 1)).min(length)
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let length = bytes.len();
    let at = random.below(length);
    match random.below(if words.is_empty() { 9 } else { 12 }) {
        0 if length > 0 => bytes[at] ^= 1 << random.below(8),
        1 if length > 0 => bytes[at] = random.number() as u8,
        2 | 3 => {
            // In flatbuffers every scalar is aligned to its size.
            let size = [1, 2, 4, 8][random.below(4)];
            let number = random.one_of(NUMBERS).copied().unwrap_or(0).to_le_bytes();
            let at = at / size * size;
            if at + size <= length {
                bytes[at..at + size].copy_from_slice(&number[..size]);
            }
        }
        4 if length >= 4 => {
            let at = random.below(length / 4) * 4;
            if let Some(word) = bytes[at..].first_chunk_mut::<4>() {
                let by = random.below(65) as u32;
                *word = u32::from_le_bytes(*word)
                    .wrapping_add(by)
                    .wrapping_sub(32)
                    .to_le_bytes();
            }
        }
        5 => {
            bytes.drain(range(random, length));
        }
        6 => {
            let piece = bytes[range(random, length)].to_vec();
            bytes.splice(at..at, piece);
        }
        7 => {
            let other = random.one_of(seeds).cloned().unwrap_or_default();
            let piece = other[range(random, other.len())].to_vec();
            let gone = range(random, length);
            bytes.splice(gone, piece);
        }
        8 => bytes.truncate(random.below(length + 1)),
        9..=11 => {
            let word = random.one_of(words).copied().unwrap_or_default();
            let times = if random.below(20) == 0 { 500 } else { 1 };
            let gone = if random.below(2) == 0 {
                at..at
            } else {
                range(random, length)
            };
            bytes.splice(gone, word.repeat(times).into_bytes());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_inputs_and_another_makes_others() {
        let seeds = [b"query { a }".to_vec(), vec![0; 40]];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            let all = (0..50).map(|_| mutated(&mut random, &seeds, &["{", "}"]));
            all.collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().any(|input| !seeds.contains(input)));
    }

    #[test]
    fn nothing_to_begin_with_is_no_trouble() {
        let mut random = Random::new(7);
        for _ in 0..2000 {
            assert!(mutated(&mut random, &[], &["x"]).len() <= MAX_BYTES);
        }
    }
}
