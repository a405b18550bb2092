//! Finds the shortest decimal text that reads back as the same number, by Steele and White's
//! algorithm in exact arithmetic. Its code is slower than one with tables of powers, and a tenth as
//! large. Outside browsers, where size does not matter, [`quick`] finds the digits of most numbers.

use std::cmp::Ordering;

use super::natural::{Natural, parts};

#[cfg(not(target_family = "wasm"))]
mod quick;

/// From this number of digits on, a 32-bit float is written like the double of the same value.
const SINGLE_DIGITS: usize = 9;

/// A positive number in binary, and the distances to the numbers next to it.
struct Between {
    /// The number itself.
    #[cfg(not(target_family = "wasm"))]
    value: f64,
    mantissa: u64,
    exponent: i32,
    /// Whether the number below is only half as far away as the number above.
    uneven: bool,
    /// Whether of two equally near texts the one with an even digit is written, as JavaScript does
    /// for doubles; otherwise the larger one.
    even_ties: bool,
}

fn double(value: f64) -> Between {
    let (mantissa, exponent) = parts(value);
    Between {
        #[cfg(not(target_family = "wasm"))]
        value,
        mantissa,
        exponent,
        uneven: mantissa == 1 << 52 && exponent > -1074,
        even_ties: true,
    }
}

fn single(value: f32) -> Between {
    const FRACTION_BITS: u32 = 23;
    const BIAS: i32 = 150;
    let bits = value.to_bits();
    let fraction = u64::from(bits) & ((1 << FRACTION_BITS) - 1);
    let (mantissa, exponent) = match (bits >> FRACTION_BITS) as i32 {
        0 => (fraction, 1 - BIAS),
        exponent => (fraction | 1 << FRACTION_BITS, exponent - BIAS),
    };
    Between {
        #[cfg(not(target_family = "wasm"))]
        value: f64::from(value),
        mantissa,
        exponent,
        uneven: fraction == 0 && exponent > 1 - BIAS,
        even_ties: false,
    }
}

/// Appends a positive, finite number in JavaScript's notation.
pub(super) fn push(value: f64, is_single: bool, to: &mut Vec<u8>) {
    let of_single = value as f32;
    if is_single && f64::from(of_single) == value {
        let (digits, point) = digits(&single(of_single));
        if digits.len() < SINGLE_DIGITS {
            return push_digits(&digits, point, to);
        }
    }
    let (digits, point) = digits(&double(value));
    push_digits(&digits, point, to);
}

/// The digits of a number, and the place of the point among them: 0 is before the first digit.
fn digits(number: &Between) -> (Vec<u8>, i32) {
    #[cfg(not(target_family = "wasm"))]
    if let Some(found) = quick::digits(number) {
        return found;
    }
    exact_digits(number)
}

/// The same for every number.
fn exact_digits(number: &Between) -> (Vec<u8>, i32) {
    let even = number.mantissa.is_multiple_of(2);
    // The number and the bounds of what reads back as it are fractions with one denominator.
    let twice = if number.uneven { 2 } else { 1 };
    let mut rest = Natural::new(number.mantissa);
    let mut whole = Natural::new(1);
    let mut below = Natural::new(1);
    let power = number.exponent.unsigned_abs() as usize;
    rest.multiply_power(2, twice);
    whole.multiply_power(2, twice);
    if number.exponent >= 0 {
        rest.multiply_power(2, power);
        below.multiply_power(2, power);
    } else {
        whole.multiply_power(2, power);
    }
    let mut above = below.clone();
    above.multiply_power(2, twice - 1);
    let bits = 63 - number.mantissa.leading_zeros() as i32;
    // The decimal logarithm of 2; the estimate is right or one too small.
    let estimate = f64::from(number.exponent + bits) * std::f64::consts::LOG10_2 - 1e-10;
    let mut point = estimate.ceil() as i32;
    let powers = point.unsigned_abs() as usize;
    if point >= 0 {
        whole.multiply_power(10, powers);
    } else {
        for natural in [&mut rest, &mut below, &mut above] {
            natural.multiply_power(10, powers);
        }
    }
    let reaches = |sum: &Natural, whole: &Natural| match sum.compare(whole) {
        Ordering::Greater => true,
        Ordering::Equal => even,
        Ordering::Less => false,
    };
    if reaches(&rest.plus(&above), &whole) {
        whole.multiply_add(10, 0);
        point += 1;
    }
    let mut digits = Vec::with_capacity(17);
    loop {
        for natural in [&mut rest, &mut below, &mut above] {
            natural.multiply_add(10, 0);
        }
        let mut digit = b'0';
        while rest.compare(&whole) != Ordering::Less {
            rest.subtract(&whole);
            digit += 1;
        }
        let low = reaches(&below, &rest);
        let high = reaches(&rest.plus(&above), &whole);
        if !low && !high {
            digits.push(digit);
            continue;
        }
        let nearer_up = match rest.plus(&rest).compare(&whole) {
            Ordering::Less => false,
            Ordering::Equal => !number.even_ties || digit % 2 == 1,
            Ordering::Greater => true,
        };
        digits.push(digit + u8::from(high && (!low || nearer_up)));
        return (digits, point);
    }
}

/// Plain up to 21 digits before and 6 zeros after the point, otherwise with an exponent.
fn push_digits(digits: &[u8], point: i32, to: &mut Vec<u8>) {
    let zeros = |count: i32, to: &mut Vec<u8>| {
        for _ in 0..count {
            to.push(b'0');
        }
    };
    let length = digits.len() as i32;
    if (1..=21).contains(&point) {
        let (before, after) = digits.split_at(point.min(length) as usize);
        to.extend_from_slice(before);
        zeros(point - length, to);
        if !after.is_empty() {
            to.push(b'.');
            to.extend_from_slice(after);
        }
    } else if (-5..=0).contains(&point) {
        to.extend_from_slice(b"0.");
        zeros(-point, to);
        to.extend_from_slice(digits);
    } else {
        let (first, after) = digits.split_at(1);
        to.extend_from_slice(first);
        if !after.is_empty() {
            to.push(b'.');
            to.extend_from_slice(after);
        }
        to.extend_from_slice(if point > 0 { b"e+" } else { b"e-" });
        super::push_unsigned((point - 1).unsigned_abs().into(), to);
    }
}
