//! Columns of past samples as compressed bytes: times, numbers and other values.
//!
//! Times are offsets from a straight line in as few bits as the largest needs, because most PVs are processed
//! periodically, or differences as codes of Rice, because an IOC that is late once stays late. Numbers are compressed by
//! pco, as runs if they seldom change, or as steps of a grid. The measurements are in
//! `docs/explanations/decisions.md#the-past-is-kept-in-columns-of-pco-lines-and-runs`.

use std::sync::Arc;

use pco::data_types::Number;
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::{ChunkConfig, DeltaSpec};

use super::PastValue;
use super::bits::{BitReader, Rice, put_bits, width};
use crate::ingest::recording::grid::{Grid, Samples, rank};

/// Effort of pco, of 12.
const PCO_LEVEL: usize = 4;

/// Numbers of which at most one in this many differs from the one before are runs.
const SAMPLES_PER_RUN: usize = 8;

/// Times are whole multiples of one of these, or of nanoseconds.
const UNITS: [i64; 2] = [1_000_000, 1_000];

const LINE: u8 = 0;
const PCO: u8 = 1;
const RUNS: u8 = 2;
const RAW: u8 = 3;
const GRID: u8 = 4;
const RICE: u8 = 5;

/// Most times that differences are taken of numbers.
const MAX_ORDER: usize = 6;

/// Numbers of a chunk from which a grid is made.
const GRID_SAMPLES: usize = 24;

fn config(order: usize) -> ChunkConfig {
    ChunkConfig::default()
        .with_compression_level(PCO_LEVEL)
        .with_delta_spec(DeltaSpec::TryConsecutive(order))
}

/// How often differences are taken of numbers until they are shortest. Pco would try by compressing them, which takes
/// longer than all the rest.
fn shortest_order(numbers: &[f64]) -> usize {
    let mut ranks: Vec<i64> = numbers.iter().map(|number| rank(*number)).collect();
    let sum: i128 = ranks.iter().map(|rank| i128::from(*rank)).sum();
    let mean = (sum / ranks.len().max(1) as i128) as i64;
    let bits = |difference: i64| u64::from(u64::BITS - difference.unsigned_abs().leading_zeros());
    let mut shortest = ranks.iter().map(|rank| bits(rank.wrapping_sub(mean))).sum();
    let mut order = 0;
    while order < MAX_ORDER && ranks.len() > 1 {
        let mut sum = 0;
        for at in 1..ranks.len() {
            ranks[at - 1] = ranks[at].wrapping_sub(ranks[at - 1]);
            sum += bits(ranks[at - 1]);
        }
        ranks.pop();
        if sum >= shortest {
            break;
        }
        (shortest, order) = (sum, order + 1);
    }
    order
}

/// Longest column of values before its compression: a full chunk of the longest texts.
const MAX_PLAIN_BYTES: usize = 1 << 20;

/// Reads back what this module has written. Bytes from a disk may be others: they give other values, and never more of
/// them than rows.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// A number of bits.
    fn bits(&mut self) -> u32 {
        u32::from(self.byte()).min(u64::BITS)
    }

    /// What [`put_bits`] has appended.
    fn column(&mut self, (least, bits): (i64, u32), rows: usize) -> impl Iterator<Item = i64> {
        let mut reader = BitReader::new(self.bytes((rows * bits as usize).div_ceil(8)));
        (0..rows).map(move |_| least.wrapping_add(reader.take(bits) as i64))
    }

    fn varint(&mut self) -> usize {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.bytes(1) else { break };
            value |= (usize::from(byte & 0x7f)) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Compresses times in nanoseconds, which need not ascend.
pub(super) fn pack_times(times: &[i64]) -> Vec<u8> {
    let base = times.first().copied().unwrap_or_default();
    let is_multiple = |unit: &i64| {
        (times.iter()).all(|time| {
            time.checked_sub(base)
                .is_some_and(|delta| delta % unit == 0)
        })
    };
    // Differences that exceed 64 bits wrap around; then the unit is 1.
    let unit = UNITS.into_iter().find(is_multiple).unwrap_or(1);
    let since = |time: &i64| match time.wrapping_sub(base) {
        // A division takes longer than all the rest.
        delta if unit == 1 => delta,
        delta => delta / unit,
    };
    let units: Vec<i64> = times.iter().map(since).collect();
    let differences = units.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    let differences: Vec<i64> = differences.collect();
    let last = units.last().copied().unwrap_or_default();
    let step = last / differences.len().max(1) as i64;
    let along = (0..).map(|index: i64| step.wrapping_mul(index));
    let offsets = units.iter().zip(along);
    let offsets: Vec<i64> = offsets
        .map(|(time, along)| time.wrapping_sub(along))
        .collect();
    let (least, bits) = width(&offsets);
    let codes = Rice::of(&differences);
    let put = |out: &mut Vec<u8>, words: &[i64]| {
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    if codes.bits_of(&differences) < offsets.len() as u64 * u64::from(bits) {
        let mut out = vec![RICE, codes.rest_bits as u8, codes.far_bits as u8];
        put(&mut out, &[base, unit, codes.middle]);
        codes.put(&mut out, &differences);
        return out;
    }
    let mut out = vec![LINE, bits as u8];
    put(&mut out, &[base, unit, step, least]);
    put_bits(&mut out, &offsets, (least, bits));
    out
}

/// What pco has compressed, of at most this many numbers; none if the bytes make no sense. A few bytes may claim
/// millions of equal numbers.
fn decompressed<T: Number + Default>(bytes: &[u8], most: usize) -> Vec<T> {
    let mut numbers = vec![T::default(); most];
    let count = simple_decompress_into(bytes, &mut numbers).map_or(0, |read| read.n_processed);
    numbers.truncate(count);
    numbers
}

/// The times of [`pack_times`].
pub(super) fn unpack_times(bytes: &[u8], count: usize) -> Vec<i64> {
    let mut reader = Reader(bytes);
    match reader.byte() {
        // Relays before this one wrote it.
        PCO => return decompressed(reader.0, count),
        RICE => return unpack_differences(reader, count),
        _ => {}
    }
    let bits = reader.bits();
    let [base, unit, step, least] = [(); 4].map(|()| reader.word() as i64);
    let offsets = reader.column((least, bits), count);
    let time = |(index, offset): (i64, i64)| {
        let units = step.wrapping_mul(index).wrapping_add(offset);
        base.wrapping_add(units.wrapping_mul(unit))
    };
    (0..).zip(offsets).map(time).collect()
}

fn unpack_differences(mut reader: Reader<'_>, count: usize) -> Vec<i64> {
    let [rest_bits, far_bits] = [(); 2].map(|()| reader.bits());
    let [base, unit, middle] = [(); 3].map(|()| reader.word() as i64);
    let codes = Rice {
        middle,
        rest_bits,
        far_bits,
    };
    let mut reader = BitReader::new(reader.0);
    let next = |time: &i64| Some(time.wrapping_add(codes.take(&mut reader).wrapping_mul(unit)));
    std::iter::successors(Some(base), next)
        .take(count)
        .collect()
}

/// Compresses numbers without a change of any bit.
pub(super) fn pack_numbers(numbers: &[f64]) -> Vec<u8> {
    let runs = || numbers.chunk_by(|one, next| one.to_bits() == next.to_bits());
    if runs().count() * SAMPLES_PER_RUN <= numbers.len() + SAMPLES_PER_RUN {
        let mut out = vec![RUNS];
        for run in runs() {
            put_varint(&mut out, run.len());
            out.extend(run[0].to_le_bytes());
        }
        return out;
    }
    let steps = pack_steps(numbers);
    if let Some((steps, true)) = steps {
        return steps;
    }
    let mut out = vec![PCO];
    match simple_compress(numbers, &config(shortest_order(numbers))) {
        Ok(compressed) => out.extend(compressed),
        Err(_) => {
            out = vec![RAW];
            out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
    }
    match steps {
        Some((steps, _)) if steps.len() < out.len() => steps,
        _ => out,
    }
}

/// Numbers as steps of a grid; `None` if they have none. Returns whether they are a noise of exact steps, which pco makes
/// no shorter.
fn pack_steps(numbers: &[f64]) -> Option<(Vec<u8>, bool)> {
    let mut samples = Samples::default();
    let every = numbers.len().div_ceil(GRID_SAMPLES).max(1);
    let some = numbers.iter().step_by(every);
    some.for_each(|number| samples.push(*number));
    let grid = samples.grid()?;
    let (mut steps, mut trims) = (Vec::new(), Vec::new());
    for number in numbers {
        let (step, trim) = grid.find(*number)?;
        steps.push(step);
        trims.push(trim);
    }
    let of_grid = [grid.origin, grid.unit, grid.quantum].map(f64::to_bits);
    // Exact numbers have an origin of 0 and no quantum.
    let is_there = (0..)
        .zip(of_grid)
        .map(|(at, bits)| u8::from(bits != 0) << at);
    let mut out = vec![GRID, is_there.sum()];
    for bits in of_grid.into_iter().filter(|bits| *bits != 0) {
        out.extend(bits.to_le_bytes());
    }
    let differences: Vec<i64> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let is_noise = width(&steps).1 <= width(&differences).1;
    let is_exact = width(&trims).1 == 0;
    for column in [steps, trims] {
        let (least, bits) = width(&column);
        put_varint(&mut out, ((least << 1) ^ (least >> 63)) as usize);
        out.push(bits as u8);
        put_bits(&mut out, &column, (least, bits));
    }
    Some((out, is_noise && is_exact))
}

fn unpack_steps(reader: &mut Reader<'_>, rows: usize) -> Vec<f64> {
    let are_there = reader.byte();
    let [origin, unit, quantum] = [1, 2, 4].map(|place| match are_there & place {
        0 => 0.0,
        _ => f64::from_bits(reader.word()),
    });
    let grid = Grid {
        origin,
        unit,
        quantum,
    };
    let [steps, trims] = [(); 2].map(|()| {
        let least = reader.varint();
        let least = (least >> 1) as i64 ^ -((least & 1) as i64);
        let bits = reader.bits();
        reader.column((least, bits), rows).collect::<Vec<_>>()
    });
    let points = steps.into_iter().zip(trims);
    points.map(|(step, trim)| grid.number(step, trim)).collect()
}

/// The numbers of [`pack_numbers`].
pub(super) fn unpack_numbers(bytes: &[u8], rows: usize) -> Vec<f64> {
    let mut reader = Reader(bytes);
    match reader.bytes(1) {
        [PCO] => decompressed(reader.0, rows),
        [GRID] => unpack_steps(&mut reader, rows),
        [RUNS] => {
            let mut numbers = Vec::new();
            while !reader.0.is_empty() {
                let count = reader.varint().min(rows - numbers.len());
                let number = f64::from_bits(reader.word());
                numbers.resize(numbers.len() + count, number);
            }
            numbers
        }
        _ => {
            let (words, _) = reader.0.as_chunks();
            let numbers = words.iter().copied().map(f64::from_le_bytes);
            numbers.take(rows).collect()
        }
    }
}

/// Compresses values of several kinds. Equal values that follow each other are one.
pub(super) fn pack_values(values: &[PastValue]) -> Vec<u8> {
    let mut plain = Vec::new();
    for run in values.chunk_by(PastValue::is_same) {
        put_varint(&mut plain, run.len());
        match &run[0] {
            PastValue::Number(number) => {
                plain.push(0);
                plain.extend(number.to_le_bytes());
            }
            PastValue::Int64(number) => {
                plain.push(1);
                plain.extend(number.to_le_bytes());
            }
            PastValue::UInt64(number) => {
                plain.push(2);
                plain.extend(number.to_le_bytes());
            }
            PastValue::Text(text) => {
                plain.push(3);
                put_varint(&mut plain, text.len());
                plain.extend(text.as_bytes());
            }
        }
    }
    lz4_flex::block::compress_prepend_size(&plain)
}

/// The values of [`pack_values`].
pub(super) fn unpack_values(bytes: &[u8], rows: usize) -> Vec<PastValue> {
    let sized = bytes
        .split_first_chunk()
        .map(|(size, packed)| (u32::from_le_bytes(*size), packed));
    let fits = sized.filter(|(size, _)| *size as usize <= MAX_PLAIN_BYTES);
    let plain =
        fits.and_then(|(size, packed)| lz4_flex::block::decompress(packed, size as usize).ok());
    let plain = plain.unwrap_or_default();
    let mut reader = Reader(&plain);
    let mut values = Vec::new();
    while !reader.0.is_empty() {
        let count = reader.varint().min(rows - values.len());
        let value = match reader.bytes(1) {
            [0] => PastValue::Number(f64::from_bits(reader.word())),
            [1] => PastValue::Int64(reader.word() as i64),
            [2] => PastValue::UInt64(reader.word()),
            _ => {
                let length = reader.varint();
                PastValue::Text(Arc::from(String::from_utf8_lossy(reader.bytes(length))))
            }
        };
        values.resize(values.len() + count, value);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testbed::random::Random;

    #[test]
    fn periodic_times_need_as_many_bits_as_their_jitter() {
        let jitter = |n: i64| (n * 7919) % 1000;
        let times: Vec<_> = (0..512).map(|n| n * 100_000_000 + jitter(n)).collect();
        assert!(pack_times(&times).len() <= 34 + 512 * 11 / 8);
        let exact: Vec<_> = (0..512).map(|n| n * 100_000_000).collect();
        assert!(pack_times(&exact).len() <= 34);
        let micros: Vec<_> = times.iter().map(|time| time / 1000 * 1000).collect();
        assert!(pack_times(&micros).len() <= 34 + 512 * 2 / 8);
    }

    proptest! {
        #[test]
        fn times_come_back_to_the_nanosecond(
            times in prop::collection::vec(prop_oneof![
                any::<i64>(), 0..1000_i64, (0..1000_i64).prop_map(|n| n * 1_000_000),
                Just(i64::MIN), Just(i64::MAX),
            ], 1..300)
        ) {
            prop_assert_eq!(unpack_times(&pack_times(&times), times.len()), times);
        }

        #[test]
        fn ascending_times_come_back(steps in prop::collection::vec(0..1_000_000_000_i64, 1..600)) {
            let mut now = 1_795_000_000_000_000_000;
            let times: Vec<_> = steps.iter().map(|step| { now += step; now }).collect();
            prop_assert_eq!(unpack_times(&pack_times(&times), times.len()), times);
        }

        #[test]
        fn numbers_come_back_bit_by_bit(
            bits in prop::collection::vec(prop_oneof![
                any::<u64>(), Just(0x7ff8_0000_0000_0001), Just(1 << 63),
                (0..50_u32).prop_map(|n| f64::from(n).to_bits()),
            ], 1..300),
            repeat in 1..20_usize,
        ) {
            let numbers: Vec<_> = bits.iter()
                .flat_map(|bits| std::iter::repeat_n(f64::from_bits(*bits), repeat)).collect();
            let back = unpack_numbers(&pack_numbers(&numbers), numbers.len());
            let bits = |numbers: &[f64]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&numbers));
        }
    }

    #[test]
    fn times_of_relays_before_this_one_are_read() {
        let times: Vec<i64> = (0..100).map(|n| n * n * n * 1_000_003).collect();
        let packed = simple_compress(&times, &config(1)).unwrap();
        assert_eq!(unpack_times(&[&[PCO], &*packed].concat(), 100), times);
        let line = [
            &[LINE, 2][..],
            &[5_i64, 1_000, 7, -1].map(i64::to_le_bytes).concat(),
            &[0b11_01_00_10],
        ];
        let expected = [1, 6, 14, 23].map(|units| 5 + 1_000 * units);
        assert_eq!(unpack_times(&line.concat(), 4), expected);
    }

    #[test]
    fn column_that_claims_more_rows_than_its_chunk_has_takes_no_memory_for_them() {
        let (bytes, rows) = (
            simple_compress(&vec![7_i64; 1 << 20], &config(0)).unwrap(),
            512,
        );
        assert!(bytes.len() < 200, "{} bytes", bytes.len());
        let times = unpack_times(&[&[PCO], &*bytes].concat(), rows);
        assert_eq!((times.len(), times.capacity(), times[511]), (rows, rows, 7));
        let bytes = simple_compress(&vec![0.5; 1 << 20], &config(0)).unwrap();
        let numbers = unpack_numbers(&[&[PCO], &*bytes].concat(), rows);
        assert_eq!((numbers.len(), numbers.capacity()), (rows, rows));
        let numbers = unpack_numbers(&[RAW; 8_001], rows);
        assert_eq!(numbers.len(), rows);
        assert!(unpack_numbers(&[PCO, 1, 2, 3], rows).is_empty());
    }

    #[test]
    fn values_of_all_kinds_come_back() {
        let values = [
            PastValue::Number(-0.0),
            PastValue::Int64(i64::MIN),
            PastValue::UInt64(u64::MAX),
            PastValue::Text("".into()),
            PastValue::Text("ä€".into()),
            PastValue::Text("ä€".into()),
        ];
        let back = unpack_values(&pack_values(&values), values.len());
        assert!(
            back.len() == 6
                && back
                    .iter()
                    .zip(&values)
                    .all(|(one, other)| one.is_same(other))
        );
    }

    /// Prints the bytes and the time of a sample, and returns the bytes.
    fn measure<T>(kind: &str, samples: &[T], pack: impl Fn(&[T]) -> Vec<u8>) -> f64 {
        let begun = std::time::Instant::now();
        let bytes: usize = samples.chunks(512).map(|chunk| pack(chunk).len()).sum();
        let nanos = begun.elapsed().as_nanos() as f64 / samples.len() as f64;
        let bytes = bytes as f64 / samples.len() as f64;
        println!("{kind}: {bytes:.2} bytes, {nanos:.0} ns per sample");
        bytes
    }

    #[test]
    fn columns_take_no_more_bytes_than_the_decision_says() {
        let mut random = Random(88_172_645_463_325_252);
        let (mut drift, mut state) = (20.0, 0.0);
        let adc = |random: &mut Random| (32_768.0 + random.normal() * 40.0).round();
        let mut numbers = |make: &mut dyn FnMut(&mut Random, f64) -> f64| -> Vec<f64> {
            (0..36_000_u32)
                .map(|n| make(&mut random, f64::from(n)))
                .collect()
        };
        let made = [
            (
                "noisy f64",
                6.1,
                numbers(&mut |random, _| 100.0 + random.normal() * 0.5),
            ),
            (
                "noisy f32",
                2.5,
                numbers(&mut |random, _| f64::from((100.0 + random.normal() * 0.5) as f32)),
            ),
            (
                "16-bit ADC",
                1.2,
                numbers(&mut |random, _| adc(random) * (10.0 / 65_536.0) - 5.0),
            ),
            (
                "scaled ADC",
                2.9,
                numbers(&mut |random, _| (adc(random) * 0.000_305_175 - 5.0) * 1.7),
            ),
            (
                "3 decimals",
                1.1,
                numbers(&mut |random, n| {
                    let value = 25.0 + (n * 1e-4).sin() + random.normal() * 0.01;
                    (value * 1000.0).round() / 1000.0
                }),
            ),
            ("ramp", 0.2, numbers(&mut |_, n| n * 0.001)),
            (
                "slow drift of f64",
                4.9,
                numbers(&mut |random, _| {
                    drift += random.normal() * 1e-4;
                    drift
                }),
            ),
            ("constant", 0.1, numbers(&mut |_, _| 42.5)),
            ("counter", 0.2, numbers(&mut |_, n| n)),
            (
                "enum",
                0.3,
                numbers(&mut |random, _| {
                    if random.uniform() < 0.02 {
                        state = (random.uniform() * 4.0).floor();
                    }
                    state
                }),
            ),
        ];
        for (kind, most, samples) in made {
            assert!(measure(kind, &samples, pack_numbers) <= most, "{kind}");
        }
        let mut times = |jitter_ns: f64, unit: i64| -> Vec<i64> {
            let mut jitter = || (random.normal() * jitter_ns) as i64 / unit * unit;
            (0..36_000).map(|n| n * 100_000_000 + jitter()).collect()
        };
        for (kind, most, samples) in [
            ("times, jitter 50 us", 2.4, times(50_000.0, 1)),
            ("times, jitter 1 us", 1.9, times(1_000.0, 1)),
            (
                "times in whole us, jitter 50 us",
                1.4,
                times(50_000.0, 1_000),
            ),
            ("times, exact", 0.1, times(0.0, 1)),
        ] {
            assert!(measure(kind, &samples, pack_times) <= most, "{kind}");
        }
    }
}
