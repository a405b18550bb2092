//! Functions of numbers that the standard library doesn't have, and of the bits of 64-bit integers.

use super::Call;
use crate::formula::error::Fault;
use crate::formula::value::Value;

type Result<T = Value> = std::result::Result<T, Fault>;

/// The largest number whose factorial is finite.
const MAX_FACTORIAL: f64 = 170.0;

/// The product of all whole numbers up to this one; 1 for numbers below 2.
pub(super) fn factorial(number: f64) -> f64 {
    if number.is_nan() {
        return number;
    }
    if number > MAX_FACTORIAL + 1.0 {
        return f64::INFINITY;
    }
    let mut product = 1.0;
    let mut factor = 2.0;
    while factor <= number.trunc() {
        product *= factor;
        factor += 1.0;
    }
    product
}

/// The closest whole number; the larger one of two that are equally close.
pub(super) fn round(number: f64) -> f64 {
    let floor = number.floor();
    // The sum `number + 0.5` may be rounded up to the next whole number.
    if number - floor >= 0.5 {
        floor + 1.0
    } else {
        floor
    }
}

pub(super) fn max(call: &mut Call<'_>) -> Result {
    Ok(best(call, |number, best| number > best))
}

pub(super) fn min(call: &mut Call<'_>) -> Result {
    Ok(best(call, |number, best| number < best))
}

fn best(call: &Call<'_>, is_better: fn(f64, f64) -> bool) -> Value {
    let mut best = call.number(0);
    for at in 1..call.arguments.len() {
        let number = call.number(at);
        if is_better(number, best) {
            best = number;
        }
    }
    Value::Number(best)
}

/// A random number from 0 up to the argument.
pub(super) fn random(call: &mut Call<'_>) -> Result {
    // SplitMix64 by Steele and Vigna: every state is suitable.
    let state = &mut call.context.random;
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    // A double has 53 bits.
    let fraction = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    Ok(Value::Number(fraction * call.number(0)))
}

/// The argument as an integer; an error if it has a fraction or is too large.
fn integer(call: &Call<'_>, at: usize) -> Result<i64> {
    if let Value::Integer(integer) = call.value(at) {
        return Ok(*integer);
    }
    let number = call.number(at);
    // Every double in this range, but not its end, fits into 64 bits.
    const END: f64 = (1_u64 << 63) as f64;
    if (-END..END).contains(&number) && number.fract() == 0.0 {
        Ok(number as i64)
    } else {
        Err(call.outside(at, "an integer of 64 bits"))
    }
}

fn of(call: &Call<'_>, function: fn(i64, i64) -> i64) -> Result {
    let (a, b) = (integer(call, 0)?, integer(call, 1)?);
    Ok(Value::Integer(function(a, b)))
}

pub(super) fn and(call: &mut Call<'_>) -> Result {
    of(call, |a, b| a & b)
}

pub(super) fn or(call: &mut Call<'_>) -> Result {
    of(call, |a, b| a | b)
}

pub(super) fn xor(call: &mut Call<'_>) -> Result {
    of(call, |a, b| a ^ b)
}

pub(super) fn not(call: &mut Call<'_>) -> Result {
    Ok(Value::Integer(!integer(call, 0)?))
}

/// As in Java, only the lowest six bits of the second argument count.
pub(super) fn left(call: &mut Call<'_>) -> Result {
    of(call, |a, b| a.wrapping_shl(b as u32))
}

/// Shifts to the right and keeps the sign.
pub(super) fn right(call: &mut Call<'_>) -> Result {
    of(call, |a, b| a.wrapping_shr(b as u32))
}
