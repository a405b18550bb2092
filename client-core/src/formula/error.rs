//! Errors of formulas: where the text is wrong, and what can't be evaluated.

use std::fmt;

use crate::format::number_text;

/// Why a formula can't be used, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Number of the character in the formula's text, from 1 on.
    pub at: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a formula's text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Something else is expected here.
    Expected {
        /// What is expected.
        what: &'static str,
        /// What is there.
        found: String,
    },
    /// A character that formulas don't have.
    Character(char),
    /// Digits that are not a number.
    Number(String),
    /// The closing quote of a text or PV name is missing.
    Unclosed(&'static str),
    /// Quotes without a PV name.
    NoName,
    /// There is no such function.
    Function(String),
    /// A function has too few or too many arguments.
    Arguments {
        /// Name of the function.
        function: &'static str,
        /// Smallest number of arguments.
        least: usize,
        /// Largest number of arguments.
        most: usize,
        /// Number of arguments in the formula.
        given: usize,
    },
    /// A function of Phoebus that takes images.
    Image(String),
    /// A limit of formulas.
    Limit {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: ", self.at)?;
        match &self.problem {
            Problem::Expected { what, found } => write!(f, "expected {what}, found {found}"),
            Problem::Character(c) => write!(
                f,
                "unexpected '{c}'; write the names of PVs with such characters in backquotes"
            ),
            Problem::Number(text) => write!(f, "{text} is not a number"),
            Problem::Unclosed(what) => write!(f, "the closing quote of this {what} is missing"),
            Problem::NoName => f.write_str("expected a PV name between the quotes"),
            Problem::Function(name) => write!(f, "unknown function {name}"),
            Problem::Arguments {
                function,
                least,
                most,
                given,
            } => {
                write!(f, "{function} takes {least}")?;
                match *most {
                    usize::MAX => f.write_str(" or more")?,
                    most if most != *least => write!(f, " to {most}")?,
                    _ => {}
                }
                let plural = if *least == 1 && most == least {
                    ""
                } else {
                    "s"
                };
                write!(f, " argument{plural}, found {given}")
            }
            Problem::Image(name) => {
                write!(
                    f,
                    "{name} takes an image, which formulas don't support here"
                )
            }
            Problem::Limit { what, limit } => write!(f, "the formula has more than {limit} {what}"),
        }
    }
}

impl std::error::Error for ParseError {}

/// Why a formula has no value with the present values of its inputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// An argument has the wrong type.
    Argument {
        /// Name of the function.
        function: &'static str,
        /// Number of the argument, from 1 on.
        place: usize,
        /// What the argument must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// An index is outside an array.
    Index {
        /// Name of the function.
        function: &'static str,
        /// The index.
        index: f64,
        /// Number of elements of the array.
        length: usize,
    },
    /// An argument is outside its range.
    Range {
        /// Name of the function.
        function: &'static str,
        /// Number of the argument, from 1 on.
        place: usize,
        /// What the argument must be.
        expected: &'static str,
        /// Its value.
        value: f64,
    },
    /// Two arrays must have the same length.
    Lengths {
        /// Name of the function.
        function: &'static str,
        /// Length of the first array.
        first: usize,
        /// Length of the second array.
        second: usize,
    },
    /// A letter in the format of a time that is not supported.
    TimeFormat(char),
    /// A text is longer than allowed.
    Text {
        /// The limit in bytes.
        limit: usize,
    },
    /// The evaluation works on too many elements of arrays.
    Work {
        /// The limit in elements.
        limit: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument {
                function,
                place,
                expected,
                found,
            } => write!(
                f,
                "{function}: argument {place} must be {expected}, not {found}"
            ),
            Self::Index {
                function,
                index,
                length,
            } => write!(
                f,
                "{function}: index {} is outside the array of {length} elements",
                number_text(*index)
            ),
            Self::Range {
                function,
                place,
                expected,
                value,
            } => write!(
                f,
                "{function}: argument {place} must be {expected}, not {}",
                number_text(*value)
            ),
            Self::Lengths {
                function,
                first,
                second,
            } => write!(
                f,
                "{function}: the arrays must have equal lengths, not {first} and {second}"
            ),
            Self::TimeFormat(c) => write!(
                f,
                "timestamp: the format has the letter {c}; y, M, d, H, m, s and S are supported"
            ),
            Self::Text { limit } => write!(f, "the text is longer than {limit} bytes"),
            Self::Work { limit } => write!(
                f,
                "the formula works on more than {limit} elements of arrays"
            ),
        }
    }
}

impl std::error::Error for Fault {}
