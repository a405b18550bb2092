//! Finds the shortest digits quickly: in arithmetic of 128 bits for doubles near 1, time stamps among them,
//! and by the standard library where it decides as [`super::exact_digits`] does.

use std::io::Write;
use std::ops::Range;

use super::Between;

/// Two of the shortest texts can be equally near only to odd numbers times two to one of these powers. Such
/// a number has at most 18 decimal digits: 5^26 > 10^18, and 2^60 > 10^18 above the largest power of 5 that
/// 53 bits hold. Of two such texts the standard library takes the larger one.
const TIES: Range<i32> = -25..82;

/// The number is a fraction with this power of two as its largest denominator.
const MOST_HALVINGS: i32 = 60;

/// Most decimal places that are tried: numerators have at most 53 + 67 bits.
const MOST_PLACES: u32 = 20;

/// The digits of a number, and the place of the point among them; `None` for integers beyond 2^53 and
/// powers of two.
pub(super) fn digits(number: &Between) -> Option<(Vec<u8>, i32)> {
    if !number.even_ties {
        return of_text(number.value as f32);
    }
    let zeros = number.mantissa.trailing_zeros();
    if !TIES.contains(&(number.exponent + zeros as i32)) {
        return of_text(number.value);
    }
    let halvings = -number.exponent;
    if number.uneven || !(0..=MOST_HALVINGS).contains(&halvings) {
        return None;
    }
    let is_even = number.mantissa.is_multiple_of(2);
    // All numbers less than half the distance to the next double away read back as this one.
    let mut power = 1_u128;
    for places in 0..=MOST_PLACES {
        let numerator = u128::from(number.mantissa) * power;
        let nearest = rounded(numerator, halvings);
        let twice_off = (nearest << halvings).abs_diff(numerator) * 2;
        if nearest > 0 && (twice_off < power || twice_off == power && is_even) {
            return Some(text(nearest, places as i32));
        }
        power *= 10;
    }
    None
}

/// The digits that the standard library finds.
fn of_text(number: impl std::fmt::LowerExp) -> Option<(Vec<u8>, i32)> {
    let mut text = Vec::with_capacity(24);
    write!(text, "{number:e}").ok()?;
    let at = text.iter().position(|byte| *byte == b'e')?;
    let exponent: i32 = str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?;
    text.truncate(at);
    if text.len() > 1 {
        text.remove(1);
    }
    Some((text, exponent + 1))
}

/// A fraction's nearest integer; of two equally near ones the even one.
fn rounded(numerator: u128, halvings: i32) -> u128 {
    let whole = numerator >> halvings;
    let rest = numerator - (whole << halvings);
    let up = match (rest * 2).cmp(&(1 << halvings)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => whole & 1,
        std::cmp::Ordering::Greater => 1,
    };
    whole + up
}

/// The digits of an integer with this number of decimal places. Zeros at the end don't count.
fn text(mut integer: u128, places: i32) -> (Vec<u8>, i32) {
    let mut digits = Vec::with_capacity(24);
    // Division of 64 bits is quicker, and nearly all integers have as few.
    while integer > u128::from(u64::MAX) {
        digits.push(b'0' + (integer % 10) as u8);
        integer /= 10;
    }
    let mut rest = integer as u64;
    while rest > 0 {
        digits.push(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    let point = digits.len() as i32 - places;
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.drain(..zeros);
    digits.reverse();
    (digits, point)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Between, double, exact_digits, single};
    use super::digits;

    /// The digits of a double, which must be those of exact arithmetic.
    fn same(value: f64) -> Option<String> {
        same_digits(double(value))
    }

    fn same_digits(number: Between) -> Option<String> {
        let value = number.value;
        let (found, point) = digits(&number)?;
        assert_eq!((found.clone(), point), exact_digits(&number), "{value:e}");
        Some(String::from_utf8(found).unwrap())
    }

    #[test]
    fn digits_are_those_of_exact_arithmetic() {
        assert_eq!(same(1_795_438_527.123_456_7).unwrap(), "17954385271234567");
        assert_eq!(same(120.0).unwrap(), "12");
        assert_eq!(same(0.1).unwrap(), "1");
        // Two texts of this length are equally near.
        let between = 2_f64.powi(50) + 0.25;
        assert_eq!(same(between).unwrap(), "11258999068426242");
        for kept in [1.0, 2_f64.powi(60) * 3.0] {
            assert_eq!(same(kept), None, "{kept:e}");
        }
        for (value, digits) in [
            (5e-324, "5"),
            (1e300, "1"),
            (1e-9, "1"),
            (0.001, "1"),
            (2.2e-12, "22"),
        ] {
            assert_eq!(same(value).unwrap(), digits, "{value:e}");
        }
        assert!(same(2_f64.powi(-80)).is_some());
        assert!(same(f64::MAX).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn digits_of_any_double_are_exact(value in 1e-6..1e16_f64) {
            same(value);
        }

        #[test]
        fn digits_of_all_sizes_are_exact(bits in 1..0x7FF0_0000_0000_0000_u64, zeros in 0..53_u32) {
            same(f64::from_bits(bits));
            let short = f64::from_bits(bits >> zeros << zeros);
            if short > 0.0 {
                same(short);
            }
        }

        #[test]
        fn digits_of_singles_are_exact(bits in 1..0x7F80_0000_u32, zeros in 0..24_u32) {
            same_digits(single(f32::from_bits(bits)));
            let short = f32::from_bits(bits >> zeros << zeros);
            if short > 0.0 {
                same_digits(single(short));
            }
        }

        #[test]
        fn digits_of_decimals_are_exact(whole in 0..2_000_000_000_u32, thousandths in 1..1000_u32) {
            let value = f64::from(whole) + f64::from(thousandths) / 1000.0;
            same(value);
            same(f64::from(thousandths) / 1000.0);
        }
    }
}
