//! Values of formulas and local PVs, and their conversions to numbers and text.

use std::sync::Arc;

use crate::format::number_text;

/// A value. Texts and arrays are shared, so that copies are cheap.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A double.
    Number(f64),
    /// An integer.
    Integer(i64),
    /// True or false.
    Boolean(bool),
    /// A string.
    Text(Arc<str>),
    /// One of several labels. The index may have no label.
    Enum {
        /// Index of the label.
        index: i32,
        /// All labels.
        labels: Arc<[String]>,
    },
    /// An array of doubles.
    Numbers(Arc<[f64]>),
    /// An array of strings.
    Texts(Arc<[String]>),
    /// A table without rows: the names of its columns.
    Table(Arc<[String]>),
}

impl Value {
    /// A string.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// What the value is, for error messages.
    #[must_use]
    pub fn name_of_type(&self) -> &'static str {
        match self {
            Self::Number(_) => "a number",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "a boolean",
            Self::Text(_) => "a text",
            Self::Enum { .. } => "an enum",
            Self::Numbers(_) => "an array of numbers",
            Self::Texts(_) => "an array of texts",
            Self::Table(_) => "a table",
        }
    }

    /// The value as a number: the index of an enum, the first element of an array, the number that
    /// a text contains, 1 for true; otherwise NaN.
    #[must_use]
    pub fn to_number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Integer(integer) => *integer as f64,
            Self::Boolean(is) => f64::from(u8::from(*is)),
            Self::Text(text) => number_in(text).unwrap_or(f64::NAN),
            Self::Enum { index, .. } => f64::from(*index),
            Self::Numbers(numbers) => numbers.first().copied().unwrap_or(f64::NAN),
            Self::Texts(_) | Self::Table(_) => f64::NAN,
        }
    }

    /// The value as text: a number as Java prints it, the label of an enum, the elements of an
    /// array in brackets.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Number(number) => java_number(*number),
            Self::Integer(integer) => integer.to_string(),
            Self::Boolean(is) => is.to_string(),
            Self::Text(text) => text.to_string(),
            Self::Enum { index, labels } => label(*index, labels),
            Self::Numbers(numbers) => {
                in_brackets(numbers.iter().map(|number| java_number(*number)))
            }
            Self::Texts(texts) | Self::Table(texts) => in_brackets(texts.iter().cloned()),
        }
    }

    /// Number of elements of an array; 1 for everything else.
    #[must_use]
    pub fn elements(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
            _ => 1,
        }
    }
}

/// The label at an index, or the index itself when it has none.
#[must_use]
pub fn label(index: i32, labels: &[String]) -> String {
    let found = usize::try_from(index).ok().and_then(|at| labels.get(at));
    found.map_or_else(|| index.to_string(), Clone::clone)
}

fn in_brackets(parts: impl Iterator<Item = String>) -> String {
    let mut text = String::from("[");
    for (at, part) in parts.enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&part);
    }
    text.push(']');
    text
}

/// The number that a text contains, without the spaces around it; `0x` begins a hexadecimal
/// integer.
#[must_use]
pub fn number_in(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    if let Some(digits) = digits {
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(digits, 16).ok()?;
        return is_hex.then_some(number as f64);
    }
    // Rust also reads "inf", "infinity" and "nan" in any case; Java and EPICS write them so.
    text.parse().ok()
}

/// A number as Java prints a double: at least one digit after the point, an exponent from 10⁷ on
/// and below 10⁻³.
#[must_use]
pub fn java_number(number: f64) -> String {
    if !number.is_finite() {
        return number_text(number);
    }
    let mut java = String::new();
    if number.is_sign_negative() {
        java.push('-');
    }
    let size = number.abs();
    let text = number_text(size);
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        java.push_str(&text);
        if !text.contains('.') {
            java.push_str(".0");
        }
        return java;
    }
    let (digits, exponent) = scientific(&text);
    let mut digits = digits.chars();
    java.extend(digits.next());
    java.push('.');
    let rest = digits.as_str();
    java.push_str(if rest.is_empty() { "0" } else { rest });
    java.push('E');
    java.push_str(&exponent.to_string());
    java
}

/// The digits of a positive number's text without leading and trailing zeros, and the exponent of
/// the first one.
fn scientific(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let all: String = [whole, fraction].concat();
    let zeros = all.bytes().take_while(|digit| *digit == b'0').count();
    let digits = all.trim_matches('0').to_owned();
    (digits, exponent + whole.len() as i32 - 1 - zeros as i32)
}

/// Alarm severity, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No alarm.
    #[default]
    None,
    /// A minor alarm.
    Minor,
    /// A major alarm.
    Major,
    /// The value can't be trusted.
    Invalid,
    /// There is no value, or its severity is not known.
    Undefined,
}

impl Severity {
    /// The labels of [`Severity`] as an enum, as Phoebus names them.
    pub const LABELS: [&'static str; 5] = ["NONE", "MINOR", "MAJOR", "INVALID", "UNDEFINED"];

    /// The severity of a number; [`Severity::Undefined`] beyond the last.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Minor,
            2 => Self::Major,
            3 => Self::Invalid,
            _ => Self::Undefined,
        }
    }
}

/// Time stamp: seconds past the POSIX epoch and 0 to 999,999,999 nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Whole seconds past the POSIX epoch.
    pub seconds: i64,
    /// The remaining nanoseconds.
    pub nanoseconds: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_java_prints_them() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (5.0, "5.0"),
            (0.1, "0.1"),
            (1e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (9.007_199_254_740_992e15, "9.007199254740992E15"),
            (0.001, "0.001"),
            (0.000_12, "1.2E-4"),
            (1e-9, "1.0E-9"),
            (-1.5e300, "-1.5E300"),
            (12_345_678.9, "1.23456789E7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_number(number), text);
        }
    }

    #[test]
    fn text_is_a_number_only_as_a_whole() {
        assert_eq!(number_in(" 2.5 "), Some(2.5));
        assert_eq!(number_in("0xFF"), Some(255.0));
        assert_eq!(number_in("0x"), None);
        assert_eq!(number_in("0x+1"), None);
        assert_eq!(number_in("2 mm"), None);
        assert_eq!(number_in(""), None);
    }
}
