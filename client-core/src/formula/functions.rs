//! The table of functions, and the arguments and context of a call.

mod alarm;
mod array;
mod bits;
mod math;
mod text;
mod time;

use std::sync::Arc;

use super::Context;
use super::error::Fault;
use super::operand::{Alarm, Operand, Work};
use super::value::Value;

/// How a function is computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    /// From one number.
    One(fn(f64) -> f64),
    /// From two numbers.
    Two(fn(f64, f64) -> f64),
    /// From any arguments.
    Any(OfAny),
}

/// A function of formulas.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Minimum number of arguments.
    pub(super) least: u8,
    /// Maximum number of arguments, if there is one.
    pub(super) most: Option<u8>,
    pub(super) run: Run,
}

const fn function(name: &'static str, least: u8, most: Option<u8>, run: Run) -> Function {
    Function {
        name,
        least,
        most,
        run,
    }
}

const fn one(name: &'static str, run: fn(f64) -> f64) -> Function {
    function(name, 1, Some(1), Run::One(run))
}

const fn two(name: &'static str, run: fn(f64, f64) -> f64) -> Function {
    function(name, 2, Some(2), Run::Two(run))
}

/// Computes a function of any arguments.
type OfAny = fn(&mut Call<'_>) -> Result<Value, Fault>;

const fn any(name: &'static str, least: u8, most: u8, run: OfAny) -> Function {
    function(name, least, Some(most), Run::Any(run))
}

/// A function that takes `least` or more arguments.
const fn more(name: &'static str, least: u8, run: OfAny) -> Function {
    function(name, least, None, Run::Any(run))
}

/// All functions.
pub(super) static FUNCTIONS: &[Function] = &[
    one("abs", f64::abs),
    one("acos", f64::acos),
    one("asin", f64::asin),
    one("atan", f64::atan),
    one("ceil", f64::ceil),
    one("cos", f64::cos),
    one("cosh", f64::cosh),
    one("exp", f64::exp),
    one("expm1", f64::exp_m1),
    one("fac", math::factorial),
    one("floor", f64::floor),
    one("log", f64::ln),
    one("log10", f64::log10),
    one("round", math::round),
    one("sin", f64::sin),
    one("sinh", f64::sinh),
    one("sqrt", f64::sqrt),
    one("tan", f64::tan),
    one("tanh", f64::tanh),
    one("toDegrees", f64::to_degrees),
    one("toRadians", f64::to_radians),
    two("atan2", f64::atan2),
    two("hypot", f64::hypot),
    two("pow", f64::powf),
    more("max", 2, math::max),
    more("min", 2, math::min),
    any("rnd", 1, 1, math::random),
    any("arrayCumSum", 1, 1, array::cumulative_sum),
    any("arrayDiv", 2, 2, array::divide),
    any("arrayDivScalar", 2, 2, array::divide_by_scalar),
    any("arrayDivScalarInv", 2, 2, array::divide_scalar),
    any("arrayIndex", 2, 2, array::index),
    any("arrayMax", 1, 1, array::max),
    any("arrayMin", 1, 1, array::min),
    any("arrayMult", 2, 2, array::multiply),
    more("arrayOf", 1, array::of),
    any("arrayPow", 2, 2, array::power),
    any("arrayRangeOf", 1, 1, array::range),
    any("arraySampleWithStride", 2, 3, array::sample),
    any("arrayStats", 1, 1, array::statistics),
    any("arraySub", 2, 2, array::subtract),
    any("arraySum", 2, 2, array::add),
    any("arrayTotal", 1, 1, array::total),
    any("elementAt", 2, 2, array::element),
    any("histogramOf", 1, 2, array::histogram),
    any("rescale", 3, 3, array::scale),
    any("scale", 2, 3, array::scale),
    any("subArray", 3, 3, array::part),
    any("adData", 2, 2, array::retyped),
    any("imageDataHorizontalProfile", 3, 3, array::image_row),
    any("imageDataVerticalProfile", 3, 3, array::image_column),
    more("concat", 1, text::concatenate),
    more("strConcat", 1, text::concatenate),
    any("strEqual", 2, 2, text::equal),
    any("enumOf", 3, 3, text::enumeration),
    any("indexOf", 1, 1, text::index),
    any("bitAND", 2, 2, bits::and),
    any("bitLeftShift", 2, 2, bits::left),
    any("bitNOT", 1, 1, bits::not),
    any("bitOR", 2, 2, bits::or),
    any("bitRightShift", 2, 2, bits::right),
    any("bitXOR", 2, 2, bits::xor),
    more("highestSeverity", 1, alarm::highest),
    any("majorAlarm", 2, 2, alarm::major),
    any("minorAlarm", 2, 2, alarm::minor),
    any("timestamp", 1, 2, time::stamp),
];

/// Functions of Phoebus that take an image.
pub(super) const IMAGE_FUNCTIONS: [&str; 10] = [
    "imageHeight",
    "imageHorizontalProfile",
    "imageOf",
    "imageValue",
    "imageVerticalProfile",
    "imageWidth",
    "imageXOffset",
    "imageXReversed",
    "imageYOffset",
    "imageYReversed",
];

/// A call of a function: its arguments and what it may change.
pub(super) struct Call<'a> {
    pub(super) name: &'static str,
    pub(super) arguments: &'a [Operand],
    /// Alarm of the result: the most severe one of the arguments unless the function changes it.
    pub(super) alarm: &'a mut Alarm,
    pub(super) work: &'a mut Work,
    pub(super) context: &'a mut Context,
}

impl<'a> Call<'a> {
    /// The argument at an index. The parser has checked the number of arguments.
    fn value(&self, at: usize) -> &'a Value {
        static NONE: Value = Value::Number(f64::NAN);
        self.arguments.get(at).map_or(&NONE, |one| &one.value)
    }

    /// The argument as a number; NaN if it is not a number.
    fn number(&self, at: usize) -> f64 {
        self.value(at).to_number()
    }

    fn wrong(&self, at: usize, expected: &'static str) -> Fault {
        Fault::Argument {
            function: self.name,
            place: at + 1,
            expected,
            found: self.value(at).name_of_type(),
        }
    }

    fn outside(&self, at: usize, expected: &'static str) -> Fault {
        Fault::Range {
            function: self.name,
            place: at + 1,
            expected,
            value: self.number(at),
        }
    }

    /// The argument as an array of numbers.
    fn numbers(&mut self, at: usize) -> Result<&'a Arc<[f64]>, Fault> {
        let Value::Numbers(numbers) = self.value(at) else {
            return Err(self.wrong(at, "an array of numbers"));
        };
        self.work.add(numbers.len())?;
        Ok(numbers)
    }

    /// The argument as a whole number of at least 0, rounded towards zero.
    fn whole(&self, at: usize) -> Result<usize, Fault> {
        let number = self.number(at).trunc();
        if (0.0..=f64::from(u32::MAX)).contains(&number) {
            Ok(number as usize)
        } else {
            Err(self.outside(at, "a whole number from 0 on"))
        }
    }

    /// Makes an array of numbers.
    fn collect(&mut self, numbers: impl Iterator<Item = f64>) -> Value {
        Value::Numbers(numbers.collect())
    }
}
