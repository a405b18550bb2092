//! Formats a number with a given number of digits, exactly as C's `"%.*f"`.
//!
//! The standard library can do this too, but adds 20 KB of shortest-digits code that no page needs.

/// Maximum number of digits after the point, more than an operator can read.
pub const MAX_DIGITS: usize = 100;

/// `value` with `digits` after the point, rounded half to even on its exact decimal expansion.
///
/// JavaScript's `toFixed` gives the same result except for exact ties, which it rounds up, and from
/// 10²¹ on, where it switches to an exponent. JavaScript calls this function only in those cases.
#[must_use]
pub fn fixed(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let digits = digits.min(MAX_DIGITS);
    let mut scaled = scaled(value.abs(), digits).into_decimal();
    // At least one digit precedes the point.
    while scaled.len() <= digits {
        scaled.push(b'0');
    }
    let mut text = String::with_capacity(scaled.len() + 2);
    if value.is_sign_negative() {
        text.push('-');
    }
    for (place, digit) in scaled.iter().enumerate().rev() {
        text.push(char::from(*digit));
        if place == digits && digits > 0 {
            text.push('.');
        }
    }
    text
}

/// `value` times ten to the power of `digits`, rounded half to even.
fn scaled(value: f64, digits: usize) -> Natural {
    const FRACTION_BITS: u32 = 52;
    const BIAS: i32 = 1075;
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION_BITS) as i32;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    // Subnormal numbers have no implied leading bit.
    let (mantissa, shift) = match exponent {
        0 => (fraction, 1 - BIAS),
        _ => (fraction | 1 << FRACTION_BITS, exponent - BIAS),
    };
    let mut natural = Natural(vec![mantissa as u32, (mantissa >> 32) as u32]);
    for _ in 0..digits {
        natural.multiply_add(10, 0);
    }
    if shift >= 0 {
        for _ in 0..shift {
            natural.multiply_add(2, 0);
        }
    } else {
        natural.halve_rounding(shift.unsigned_abs() as usize);
    }
    natural
}

/// A natural number of any size, its low 32 bits first.
struct Natural(Vec<u32>);

impl Natural {
    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn bit(&self, place: usize) -> bool {
        let limb = self.0.get(place / 32);
        limb.is_some_and(|limb| limb >> (place % 32) & 1 == 1)
    }

    /// Divides by two `times` times and rounds the result half to even.
    fn halve_rounding(&mut self, times: usize) {
        let half = self.bit(times - 1);
        let rest = (0..times - 1).any(|place| self.bit(place));
        let up = half && (rest || self.bit(times));
        let (limbs, bits) = (times / 32, times % 32);
        self.0.drain(..limbs.min(self.0.len()));
        for at in 0..self.0.len() {
            let above = self.0.get(at + 1).copied().unwrap_or(0);
            let wide = u64::from(above) << 32 | u64::from(self.0[at]);
            self.0[at] = (wide >> bits) as u32;
        }
        if up {
            // An empty number has no limb to hold the result of rounding.
            self.0.push(0);
            self.multiply_add(1, 1);
        }
    }

    /// Its decimal digits, least significant first; empty for zero.
    fn into_decimal(mut self) -> Vec<u8> {
        let mut decimal = Vec::new();
        while let Some(high) = self.0.last() {
            if *high == 0 {
                self.0.pop();
                continue;
            }
            let mut rest = 0_u64;
            for limb in self.0.iter_mut().rev() {
                rest = rest << 32 | u64::from(*limb);
                *limb = (rest / 10) as u32;
                rest %= 10;
            }
            decimal.push(b'0' + rest as u8);
        }
        decimal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_read_as_c_prints_them() {
        for (value, digits, text) in [
            (0.0, 0, "0"),
            (0.5, 0, "0"),
            (1.5, 0, "2"),
            (2.5, 0, "2"),
            (-0.5, 0, "-0"),
            (0.9, 0, "1"),
            (9.99, 1, "10.0"),
            (0.125, 2, "0.12"),
            (0.375, 2, "0.38"),
            (2.675, 2, "2.67"),
            (1e22, 0, "10000000000000000000000"),
            (1e21, 1, "1000000000000000000000.0"),
            (-0.0, 2, "-0.00"),
            (21.5, 3, "21.500"),
            (5e-324, 3, "0.000"),
            (f64::NAN, 2, "nan"),
            (f64::INFINITY, 2, "inf"),
            (f64::NEG_INFINITY, 2, "-inf"),
        ] {
            assert_eq!(fixed(value, digits), text, "{value} with {digits} digits");
        }
    }

    proptest! {
        #[test]
        fn any_number_reads_as_the_standard_library_prints_it(
            value in prop_oneof![
                any::<f64>(),
                -1e6..1e6_f64,
                (-100_000..100_000_i32).prop_map(|eighths| f64::from(eighths) / 8.0),
            ],
            digits in 0_usize..20,
        ) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(fixed(value, digits), format!("{value:.digits$}"));
        }
    }
}
