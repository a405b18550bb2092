//! Functions of numbers that the standard library doesn't have.

use super::Call;
use crate::formula::error::Fault;
use crate::formula::value::Value;

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

pub(super) fn max(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(best(call, |number, best| number > best))
}

pub(super) fn min(call: &mut Call<'_>) -> Result<Value, Fault> {
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
pub(super) fn random(call: &mut Call<'_>) -> Result<Value, Fault> {
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
