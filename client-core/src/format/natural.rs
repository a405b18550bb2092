//! Natural numbers of any size, for the exact decimal expansion of a double.

use std::cmp::Ordering;

/// A natural number, its low 32 bits first.
#[derive(Clone)]
pub(super) struct Natural(Vec<u32>);

const FRACTION_BITS: u32 = 52;

/// Splits a finite, positive double: it is the first number times two to the power of the second
/// one.
pub(super) fn parts(value: f64) -> (u64, i32) {
    const BIAS: i32 = 1075;
    let bits = value.to_bits();
    let exponent = (bits >> FRACTION_BITS) as i32;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    // Subnormal numbers have no implied leading bit.
    match exponent {
        0 => (fraction, 1 - BIAS),
        _ => (fraction | 1 << FRACTION_BITS, exponent - BIAS),
    }
}

impl Natural {
    pub(super) fn new(value: u64) -> Self {
        Self(vec![value as u32, (value >> 32) as u32])
    }

    /// `value` times ten to the power of `digits`, rounded half to even.
    pub(super) fn scaled(value: f64, digits: usize) -> Self {
        let (mantissa, shift) = parts(value);
        let mut natural = Self::new(mantissa);
        natural.multiply_power(10, digits);
        if shift >= 0 {
            natural.multiply_power(2, shift.unsigned_abs() as usize);
        } else {
            natural.halve_rounding(shift.unsigned_abs() as usize);
        }
        natural
    }

    pub(super) fn multiply_power(&mut self, factor: u32, times: usize) {
        for _ in 0..times {
            self.multiply_add(factor, 0);
        }
    }

    pub(super) fn multiply_add(&mut self, factor: u32, summand: u32) {
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

    fn limb(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let limbs = self.0.len().max(other.0.len());
        for at in (0..limbs).rev() {
            let order = self.limb(at).cmp(&other.limb(at));
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        let mut carry = 0;
        for at in 0..self.0.len().max(other.0.len()) {
            let limb = u64::from(self.limb(at)) + u64::from(other.limb(at)) + carry;
            match sum.0.get_mut(at) {
                Some(place) => *place = limb as u32,
                None => sum.0.push(limb as u32),
            }
            carry = limb >> 32;
        }
        if carry > 0 {
            sum.0.push(carry as u32);
        }
        sum
    }

    /// Subtracts a number, which must not be larger.
    pub(super) fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let (first, one) = limb.overflowing_sub(other.limb(at));
            let (second, two) = first.overflowing_sub(u32::from(borrow));
            *limb = second;
            borrow = one || two;
        }
    }

    fn bit(&self, place: usize) -> bool {
        self.limb(place / 32) >> (place % 32) & 1 == 1
    }

    /// Divides by two `times` times and rounds the result half to even.
    fn halve_rounding(&mut self, times: usize) {
        let half = self.bit(times - 1);
        let rest = (0..times - 1).any(|place| self.bit(place));
        let up = half && (rest || self.bit(times));
        let (limbs, bits) = (times / 32, times % 32);
        self.0.drain(..limbs.min(self.0.len()));
        for at in 0..self.0.len() {
            let wide = u64::from(self.limb(at + 1)) << 32 | u64::from(self.0[at]);
            self.0[at] = (wide >> bits) as u32;
        }
        if up {
            // An empty number has no limb to hold the result of rounding.
            self.0.push(0);
            self.multiply_add(1, 1);
        }
    }

    /// The number's decimal digits, least significant first; empty for zero.
    pub(super) fn into_decimal(mut self) -> Vec<u8> {
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
