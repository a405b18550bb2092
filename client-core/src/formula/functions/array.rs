//! Functions of arrays.

use std::sync::Arc;

use super::Call;
use crate::formula::error::Fault;
use crate::formula::operand::{elements, limited_text};
use crate::formula::value::Value;

/// Number of bins of a histogram if none is given.
const BINS: usize = 100;

/// Maximum number of bins of a histogram.
const MAX_BINS: usize = 1 << 20;

type Result<T = Value> = std::result::Result<T, Fault>;

/// Applies a function to each element of argument 1 and the number in argument 2.
fn with_scalar(call: &mut Call<'_>, function: fn(f64, f64) -> f64) -> Result {
    let scalar = call.number(1);
    if call.value(1).elements() != 1 || matches!(call.value(1), Value::Numbers(_)) {
        return Err(call.wrong(1, "a number"));
    }
    let numbers = call.numbers(0)?;
    Ok(call.collect(numbers.iter().map(|number| function(*number, scalar))))
}

/// Applies a function to the pairs of elements of two arrays of the same length.
fn with_array(call: &mut Call<'_>, function: fn(f64, f64) -> f64) -> Result {
    let (first, second) = (call.numbers(0)?, call.numbers(1)?);
    if first.len() != second.len() {
        return Err(Fault::Lengths {
            function: call.name,
            first: first.len(),
            second: second.len(),
        });
    }
    let pairs = first.iter().zip(second.iter());
    Ok(call.collect(pairs.map(|(a, b)| function(*a, *b))))
}

pub(super) fn add(call: &mut Call<'_>) -> Result {
    with_scalar(call, |number, offset| number + offset)
}

pub(super) fn subtract(call: &mut Call<'_>) -> Result {
    with_scalar(call, |number, offset| number - offset)
}

pub(super) fn multiply(call: &mut Call<'_>) -> Result {
    with_array(call, |a, b| a * b)
}

pub(super) fn divide(call: &mut Call<'_>) -> Result {
    with_array(call, |a, b| a / b)
}

pub(super) fn divide_by_scalar(call: &mut Call<'_>) -> Result {
    with_scalar(call, |number, denominator| number / denominator)
}

pub(super) fn power(call: &mut Call<'_>) -> Result {
    with_scalar(call, f64::powf)
}

/// The number in argument 1 divided by each element of argument 2.
pub(super) fn divide_scalar(call: &mut Call<'_>) -> Result {
    let nominator = call.number(0);
    let numbers = call.numbers(1)?;
    Ok(call.collect(numbers.iter().map(|number| nominator / number)))
}

/// Each element times a factor, plus an offset if there is one.
pub(super) fn scale(call: &mut Call<'_>) -> Result {
    let offset = if call.arguments.len() > 2 {
        call.number(2)
    } else {
        0.0
    };
    let factor = call.number(1);
    let numbers = call.numbers(0)?;
    Ok(call.collect(numbers.iter().map(|number| number * factor + offset)))
}

/// An array of the arguments, which are all texts or all numbers.
pub(super) fn of(call: &mut Call<'_>) -> Result {
    if matches!(call.value(0), Value::Text(_)) {
        let mut texts = Vec::new();
        for at in 0..call.arguments.len() {
            if !matches!(call.value(at), Value::Text(_) | Value::Enum { .. }) {
                return Err(call.wrong(at, "a text as the first one"));
            }
            let text = limited_text(call.value(at), call.work)?;
            call.work.add(text.len())?;
            texts.push(text);
        }
        return Ok(Value::Texts(texts.into()));
    }
    let mut numbers = Vec::new();
    for at in 0..call.arguments.len() {
        match call.value(at) {
            Value::Number(_) | Value::Integer(_) | Value::Boolean(_) | Value::Enum { .. } => {
                numbers.push(call.number(at));
            }
            _ => return Err(call.wrong(at, "a number or, if all are, a text")),
        }
    }
    Ok(Value::Numbers(numbers.into()))
}

/// The element at an index.
pub(super) fn element(call: &mut Call<'_>) -> Result {
    let index = call.number(1).trunc();
    let fault = |length| Fault::Index {
        function: call.name,
        index,
        length,
    };
    let length = call.value(0).elements();
    let is_inside = (0.0..length as f64).contains(&index);
    match call.value(0) {
        Value::Numbers(_) | Value::Texts(_) if !is_inside => Err(fault(length)),
        Value::Numbers(numbers) => Ok(Value::Number(numbers[index as usize])),
        Value::Texts(texts) => Ok(Value::text(&texts[index as usize])),
        _ => Err(call.wrong(0, "an array")),
    }
}

/// The elements from one index up to another, which is not included.
pub(super) fn part(call: &mut Call<'_>) -> Result {
    let (from, to) = (call.whole(1)?, call.whole(2)?);
    let length = call.value(0).elements();
    if from > to {
        return Err(call.outside(1, "at most argument 3"));
    }
    match call.value(0) {
        Value::Numbers(_) | Value::Texts(_) if to > length => {
            Err(call.outside(2, "at most the length of the array"))
        }
        Value::Numbers(numbers) => {
            call.work.add(to - from)?;
            Ok(Value::Numbers(numbers[from..to].into()))
        }
        Value::Texts(texts) => {
            call.work.add(to - from)?;
            Ok(Value::Texts(texts[from..to].into()))
        }
        _ => Err(call.wrong(0, "an array")),
    }
}

/// The index of the first element that equals the value; -1 if no element does.
pub(super) fn index(call: &mut Call<'_>) -> Result {
    let found = match (call.value(0), call.value(1)) {
        (Value::Texts(texts), Value::Text(_) | Value::Enum { .. }) => {
            call.work.add(texts.len())?;
            let wanted = call.value(1).to_text();
            texts.iter().position(|text| *text == wanted)
        }
        (Value::Texts(_), _) => return Err(call.wrong(1, "a text")),
        _ => {
            let wanted = call.number(1);
            call.numbers(0)?.iter().position(|number| *number == wanted)
        }
    };
    Ok(Value::Integer(found.map_or(-1, |at| at as i64)))
}

pub(super) fn max(call: &mut Call<'_>) -> Result {
    Ok(Value::Number(extremes(call.numbers(0)?).1))
}

pub(super) fn min(call: &mut Call<'_>) -> Result {
    Ok(Value::Number(extremes(call.numbers(0)?).0))
}

/// The smallest and the largest number; NaN without numbers.
fn extremes(numbers: &[f64]) -> (f64, f64) {
    let start = (f64::NAN, f64::NAN);
    // The result of `min` and `max` with NaN is the other number.
    numbers.iter().fold(start, |(low, high), number| {
        (low.min(*number), high.max(*number))
    })
}

pub(super) fn total(call: &mut Call<'_>) -> Result {
    Ok(Value::Number(sum(call.numbers(0)?)))
}

/// The sum; 0 without numbers, for which the standard library gives -0.
fn sum(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |sum, number| sum + number)
}

pub(super) fn cumulative_sum(call: &mut Call<'_>) -> Result {
    let numbers = call.numbers(0)?;
    let mut sum = 0.0;
    Ok(call.collect(numbers.iter().map(|number| {
        sum += number;
        sum
    })))
}

/// Average, minimum, maximum and number of elements. The average comes first, because it is what
/// arithmetic with the result uses.
pub(super) fn statistics(call: &mut Call<'_>) -> Result {
    let numbers = call.numbers(0)?;
    let (low, high) = extremes(numbers);
    let count = numbers.len() as f64;
    let average = sum(numbers) / count;
    Ok(Value::Numbers([average, low, high, count].into()))
}

/// The display limits of an array: low, high.
pub(super) fn range(call: &mut Call<'_>) -> Result {
    call.numbers(0)?;
    let (low, high) = call
        .arguments
        .first()
        .map_or((f64::NAN, f64::NAN), |one| one.display);
    Ok(Value::Numbers([low, high].into()))
}

/// The elements at `offset`, `offset + stride` and so on; each index is rounded.
pub(super) fn sample(call: &mut Call<'_>) -> Result {
    let numbers = call.numbers(0)?;
    let stride = call.number(1);
    let offset = if call.arguments.len() > 2 {
        call.number(2)
    } else {
        0.0
    };
    if !(stride > 0.0 && stride.is_finite()) {
        return Err(call.outside(1, "a number above 0"));
    }
    if !(offset >= 0.0 && offset.is_finite()) {
        return Err(call.outside(2, "a number from 0 on"));
    }
    let count = ((numbers.len() as f64 - offset) / stride).ceil().max(0.0) as usize;
    call.work.add(count)?;
    let indexes = (0..count).map(|at| (offset + at as f64 * stride).round() as usize);
    // Rounding may lead beyond the last element.
    Ok(call.collect(indexes.map_while(|index| numbers.get(index).copied())))
}

/// Number of elements in each of several bins of equal width, from the smallest element to the
/// largest.
pub(super) fn histogram(call: &mut Call<'_>) -> Result {
    let count = if call.arguments.len() > 1 {
        call.whole(1)?
    } else {
        BINS
    };
    if !(1..=MAX_BINS).contains(&count) {
        return Err(call.outside(1, "a number of bins from 1 to 1048576"));
    }
    call.work.add(count)?;
    let numbers = call.numbers(0)?;
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let width = finite().fold(f64::NEG_INFINITY, f64::max) - low;
    let mut bins = vec![0.0; count];
    for number in finite() {
        let place = (number - low) / width * count as f64;
        // If all elements are equal, this is NaN, which the conversion turns into 0.
        let bin = (place as usize).min(count - 1);
        bins[bin] += 1.0;
    }
    Ok(Value::Numbers(bins.into()))
}

/// The bits of integers read as another type of integer.
pub(super) fn retyped(call: &mut Call<'_>) -> Result {
    let cast: fn(f64) -> f64 = match call.value(1).to_text().as_str() {
        "Int8" => |number| f64::from(number as i64 as i8),
        "UInt8" => |number| f64::from(number as i64 as u8),
        "Int16" => |number| f64::from(number as i64 as i16),
        "UInt16" => |number| f64::from(number as i64 as u16),
        "Int32" => |number| f64::from(number as i64 as i32),
        "UInt32" => |number| f64::from(number as i64 as u32),
        "Float32" => |number| f64::from(number as f32),
        "Float64" => |number| number,
        _ => {
            return Err(call.wrong(
                1,
                "Int8, UInt8, Int16, UInt16, Int32, UInt32, Float32 or Float64",
            ));
        }
    };
    call.numbers(0)?;
    elements(call.value(0), call.work, cast)
}

/// A row of an image given as its pixels and its width.
pub(super) fn image_row(call: &mut Call<'_>) -> Result {
    let (numbers, width) = image(call)?;
    let row = call.whole(2)?;
    let pixels = row
        .checked_mul(width)
        .and_then(|from| numbers.get(from..from + width));
    match pixels {
        Some(pixels) => Ok(Value::Numbers(pixels.into())),
        None => Err(call.outside(2, "a row of the image")),
    }
}

/// A column of an image given as its pixels and its width.
pub(super) fn image_column(call: &mut Call<'_>) -> Result {
    let (numbers, width) = image(call)?;
    let column = call.whole(2)?;
    if column >= width {
        return Err(call.outside(2, "a column of the image"));
    }
    let rows = numbers.chunks_exact(width);
    Ok(call.collect(rows.map(|row| row[column])))
}

fn image<'a>(call: &mut Call<'a>) -> Result<(&'a Arc<[f64]>, usize)> {
    match call.whole(1)? {
        0 => Err(call.outside(1, "a width above 0")),
        width => Ok((call.numbers(0)?, width)),
    }
}
