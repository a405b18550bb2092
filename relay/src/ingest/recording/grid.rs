//! Numbers of one PV as steps of a grid, `origin + step × unit`.
//!
//! A converter or a record that rounds gives few different numbers, but their doubles differ in all bits. Their steps are
//! small integers. What the sum differs from the number by, because both are rounded, is the trim. It counts doubles up or
//! down or, with an origin, multiples of a power of two: near zero such numbers are no more exact than their origin. No
//! bit is lost.

/// Numbers that are kept of a PV beside its smallest and largest.
const RECENT: usize = 16;

/// A grid is looked for in at least this many different numbers.
const LEAST: usize = 6;

/// Differences below this part of the largest number are errors of its rounding. A grid that is as fine has more steps
/// than any converter.
const ROUNDING: f64 = 1.0 / (1_u64 << 34) as f64;

/// Largest trim of a number that is on the grid.
const MAX_TRIM: i64 = 1 << 16;

/// Largest trim of most numbers of which a grid is made.
const USUAL_TRIM: i64 = 64;

/// Other numbers of a grid may have so much finer a lowest bit than those of which it is made.
const FINER: f64 = 2.0;

/// Largest step; beyond it a double has no fraction.
const MAX_STEP: f64 = (1_u64 << 50) as f64;

/// How far the origin of other numbers may be from a step, to be one.
const NEAR: f64 = 0.05;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grid {
    /// The number at step 0.
    pub(crate) origin: f64,
    /// The distance of two steps.
    pub(crate) unit: f64,
    /// What trims count, a power of two; 0 if they count doubles.
    pub(crate) quantum: f64,
}

impl Grid {
    /// The step and the trim of a number; `None` if it isn't on the grid.
    pub(crate) fn find(&self, number: f64) -> Option<(i64, i64)> {
        let step = ((number - self.origin) / self.unit).round();
        let is_step = number.is_finite() && step.abs() <= MAX_STEP;
        if !is_step {
            return None;
        }
        let step = step as i64;
        let trim = if self.quantum == 0.0 {
            rank(number).wrapping_sub(rank(self.at(step)))
        } else {
            (number / self.quantum - self.multiples(step)) as i64
        };
        let is_whole = self.number(step, trim).to_bits() == number.to_bits();
        let is_on = is_whole && (-MAX_TRIM..=MAX_TRIM).contains(&trim);
        is_on.then_some((step, trim))
    }

    /// The number that has this step and trim.
    pub(crate) fn number(&self, step: i64, trim: i64) -> f64 {
        if self.quantum == 0.0 {
            return of_rank(rank(self.at(step)).wrapping_add(trim));
        }
        (self.multiples(step) + trim as f64) * self.quantum
    }

    /// A step in multiples of the quantum.
    fn multiples(&self, step: i64) -> f64 {
        (self.at(step) / self.quantum).round()
    }

    /// Whether most of these numbers are on it, with few trims.
    fn has_most(&self, numbers: &[f64]) -> bool {
        let is_on = |number: &&f64| {
            let found = self.find(**number);
            found.is_some_and(|(_, trim)| trim.abs() <= USUAL_TRIM)
        };
        numbers.iter().filter(is_on).count() * 4 >= numbers.len() * 3
    }

    fn at(&self, step: i64) -> f64 {
        self.origin + step as f64 * self.unit
    }
}

/// The place of a double among all doubles in ascending order. Those of consecutive doubles differ by 1.
pub(crate) fn rank(number: f64) -> i64 {
    turned(number.to_bits() as i64)
}

/// The double with this rank.
pub(crate) fn of_rank(rank: i64) -> f64 {
    f64::from_bits(turned(rank) as u64)
}

/// Negative doubles descend with their bits.
fn turned(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Numbers of a PV, of which a grid is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Samples {
    recent: [f64; RECENT],
    smallest: f64,
    largest: f64,
    /// Changes of the number so far.
    pub(crate) count: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            recent: [f64::NAN; RECENT],
            smallest: f64::NAN,
            largest: f64::NAN,
            count: 0,
        }
    }
}

impl Samples {
    /// Adds a number.
    pub(crate) fn push(&mut self, number: f64) {
        let last = self.recent[(self.count as usize).wrapping_sub(1) % RECENT];
        if !number.is_finite() || number == last {
            return;
        }
        self.recent[self.count as usize % RECENT] = number;
        self.count += 1;
        self.smallest = self.smallest.min(number);
        self.largest = self.largest.max(number);
    }

    /// Forgets all numbers.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Distance of the smallest and the largest number.
    pub(crate) fn span(&self) -> f64 {
        self.largest - self.smallest
    }

    /// The grid that most of the numbers are on.
    pub(crate) fn grid(&self) -> Option<Grid> {
        let numbers = self.recent.iter().chain([&self.smallest, &self.largest]);
        let mut numbers: Vec<f64> = numbers
            .copied()
            .filter(|number| number.is_finite())
            .collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let (first, last) = (*numbers.first()?, *numbers.last()?);
        if numbers.len() < LEAST {
            return None;
        }
        let error = first.abs().max(last.abs()) * ROUNDING;
        let differences = numbers.windows(2).map(|pair| pair[1] - pair[0]);
        let unit = differences.fold(0.0, |unit, difference| common_part(unit, difference, error));
        let is_unit = unit > error && (last - first).is_finite();
        if !is_unit {
            return None;
        }
        let unit = refined(first, unit, &numbers);
        let steps = first / unit;
        let from_zero = Grid {
            origin: 0.0,
            unit: refined(0.0, unit, &numbers),
            quantum: 0.0,
        };
        let lowest = numbers.iter().map(|number| lowest_bit(*number));
        let from_first = Grid {
            origin: first,
            unit,
            quantum: lowest.fold(f64::INFINITY, f64::min) / FINER,
        };
        let is_near_zero = (steps - steps.round()).abs() < NEAR;
        let mut grids = [is_near_zero.then_some(from_zero), Some(from_first)].into_iter();
        grids.find_map(|grid| grid.filter(|grid| grid.has_most(&numbers)))
    }
}

/// The value of the lowest bit that is set in a double; infinite for zero.
fn lowest_bit(number: f64) -> f64 {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.abs().to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    if number == 0.0 {
        return f64::INFINITY;
    }
    let above = MANTISSA_BITS.min(mantissa.trailing_zeros());
    let exponent = f64::from_bits(bits & !((1 << MANTISSA_BITS) - 1));
    // Of a number that is not as small as the smallest ones.
    exponent * f64::EPSILON * (1_u64 << above) as f64
}

/// Greatest common divisor of two lengths, each of which has about this error.
fn common_part(one: f64, other: f64, error: f64) -> f64 {
    let (mut larger, mut smaller) = (one.max(other), one.min(other));
    while smaller > error {
        let rest = larger - (larger / smaller).round() * smaller;
        (larger, smaller) = (smaller, rest.abs());
    }
    larger
}

/// The unit as the distances of these numbers from the origin give it, the longest one most exactly.
fn refined(origin: f64, unit: f64, numbers: &[f64]) -> f64 {
    let mut distances: Vec<f64> = numbers
        .iter()
        .map(|number| (number - origin).abs())
        .collect();
    distances.sort_by(f64::total_cmp);
    distances.into_iter().fold(unit, |unit, distance| {
        let steps = (distance / unit).round();
        if steps < 1.0 { unit } else { distance / steps }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The grid of these numbers, and the largest trim of those that are on it.
    fn grid_of(numbers: impl IntoIterator<Item = f64>) -> Option<(Grid, i64)> {
        let mut samples = Samples::default();
        let numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.iter().for_each(|number| samples.push(*number));
        let grid = samples.grid()?;
        let trims = numbers.iter().filter_map(|number| grid.find(*number));
        Some((
            grid,
            trims.map(|(_, trim)| trim.abs()).max().unwrap_or_default(),
        ))
    }

    /// Codes of a converter: a sine with noise.
    fn codes(bits: u32) -> impl Iterator<Item = f64> {
        let half = f64::from(1 << (bits - 1));
        (0..200_u32).map(move |at| {
            let noise = f64::from(at.wrapping_mul(2_654_435_761) >> 29);
            (half + half * 0.7 * (f64::from(at) / 40.0).sin() + noise).round()
        })
    }

    #[test]
    fn codes_of_converters_are_steps_of_a_grid_whatever_their_scale() {
        for bits in [12, 14, 16, 18] {
            for (slope, offset) in [
                (1.0, 0.0),
                (20.0 / 65_535.0, -10.0),
                (1e-9, 3e-7),
                (0.37, 1234.5),
            ] {
                let numbers = || codes(bits).map(move |code| code * slope + offset);
                let (grid, _) = grid_of(numbers()).unwrap_or_else(|| panic!("{bits} {slope}"));
                let units = slope / grid.unit;
                assert!(
                    (units - 1.0).abs() < 1e-6,
                    "{bits} {slope} {offset}: {grid:?}"
                );
                let (mut trims, mut count) = (0, 0);
                for number in numbers() {
                    let Some((step, trim)) = grid.find(number) else {
                        continue;
                    };
                    assert_eq!(grid.number(step, trim).to_bits(), number.to_bits());
                    trims += trim.abs();
                    count += 1;
                }
                assert!(
                    count >= 195 && trims < 64 * count,
                    "{bits} {slope} {offset}: {trims}"
                );
            }
        }
    }

    #[test]
    fn rounded_numbers_are_steps_from_zero_with_trims_of_one_or_none() {
        let rounded = (0..60).map(|at| (f64::from(at).sin() * 1000.0).round() / 1000.0);
        let (grid, trim) = grid_of(rounded).unwrap();
        assert_eq!(grid.origin, 0.0);
        assert!(
            (grid.unit * 1000.0 - 1.0).abs() < 1e-12 && trim <= 2,
            "{grid:?} {trim}"
        );
    }

    #[test]
    fn numbers_with_noise_in_all_bits_have_no_grid() {
        let noise = (0..200).map(|at| (f64::from(at) * 12.9898).sin() * 43.758_545_3 + 100.0);
        assert_eq!(grid_of(noise), None);
        assert_eq!(grid_of([1.0, 2.0, 1.0, 2.0]), None, "too few");
        assert_eq!(grid_of([f64::INFINITY, f64::NAN, 0.0, -0.0]), None);
        assert_eq!(
            grid_of([f64::MAX, f64::MIN, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            None
        );
    }

    proptest! {
        #[test]
        fn number_that_is_found_comes_back_bit_by_bit(
            bits: u64,
            origin in prop_oneof![Just(0.0), any::<f64>()],
            unit in prop_oneof![Just(0.001), any::<f64>()],
            quantum in prop_oneof![Just(0.0), Just(2_f64.powi(-50)), any::<f64>()],
        ) {
            let grid = Grid { origin, unit, quantum };
            let number = f64::from_bits(bits);
            if let Some((step, trim)) = grid.find(number) {
                prop_assert_eq!(grid.number(step, trim).to_bits(), bits);
            }
            prop_assert_eq!(of_rank(rank(number)).to_bits(), bits);
        }

        #[test]
        fn any_numbers_give_a_grid_or_none(bits: Vec<u64>) {
            let _ = grid_of(bits.into_iter().map(f64::from_bits));
        }
    }
}
