//! Functions of the bits of 64-bit integers.

use super::Call;
use crate::formula::error::Fault;
use crate::formula::value::Value;

type Result<T = Value> = std::result::Result<T, Fault>;

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
