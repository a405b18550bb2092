//! Writes arrays as NumPy prints them, because that is the `string` of an array in Coniql.

use pvwire_schema::types::ValueType;

use super::super::lists::{self, Element};

/// Maximum length of a line.
const LINE: usize = 75;

/// Arrays with more elements are shortened to their first and last ones.
const THRESHOLD: usize = 1000;

/// Number of elements that are shown at each end of a long array.
const EDGE: usize = 3;

/// Maximum number of digits after the point.
const DIGITS: usize = 8;

/// Appends an array of numbers.
pub(super) fn push(value_type: ValueType, bytes: &[u8], to: &mut Vec<u8>) {
    let all: Vec<Element> = lists::elements(value_type, bytes).collect();
    let is_long = all.len() > THRESHOLD;
    let shown: Vec<Element> = if is_long {
        let (first, last) = (&all[..EDGE], &all[all.len() - EDGE..]);
        [first, last].concat()
    } else {
        all
    };
    let words = match value_type {
        ValueType::Float64 => floats(&shown, false),
        ValueType::Float32 => floats(&shown, true),
        _ => integers(&shown),
    };
    push_words(&words, is_long, to);
}

/// Appends an array of strings, in the quotation marks of Python.
pub(super) fn push_texts(texts: &[String], to: &mut Vec<u8>) {
    let is_long = texts.len() > THRESHOLD;
    let ends = [
        texts.get(..EDGE).unwrap_or_default(),
        texts
            .get(texts.len().saturating_sub(EDGE)..)
            .unwrap_or_default(),
    ];
    let shown = if is_long {
        ends.concat()
    } else {
        texts.to_vec()
    };
    let words: Vec<String> = shown.iter().map(|text| quoted(text)).collect();
    push_words(&words, is_long, to);
}

fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut quoted = String::from(mark);
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0'..=' ' if c != ' ' => quoted.push_str(&format!("\\x{:02x}", c as u32)),
            '\\' => quoted.push_str("\\\\"),
            c if c == mark => {
                quoted.push('\\');
                quoted.push(c);
            }
            c => quoted.push(c),
        }
    }
    quoted.push(mark);
    quoted
}

/// Joins words with spaces and breaks lines that would be too long.
fn push_words(words: &[String], is_long: bool, to: &mut Vec<u8>) {
    let mut lines = String::from("[");
    // Characters of the current line; each begins with a bracket or a space.
    let mut width = 1;
    let mut push = |word: &str| {
        let length = word.chars().count();
        if width > 1 && width + length > LINE - 1 {
            lines.truncate(lines.trim_end().len());
            lines.push_str("\n ");
            width = 1;
        }
        lines.push_str(word);
        lines.push(' ');
        width += length + 1;
    };
    for (at, word) in words.iter().enumerate() {
        if is_long && at == EDGE {
            push("...");
        }
        push(word);
    }
    if !words.is_empty() {
        lines.pop();
    }
    lines.push(']');
    to.extend_from_slice(lines.as_bytes());
}

fn integers(elements: &[Element]) -> Vec<String> {
    let texts = elements.iter().map(|element| match element {
        Element::Number(number) => format!("{number:.0}"),
        Element::Signed(integer) => integer.to_string(),
        Element::Unsigned(integer) => integer.to_string(),
    });
    let texts: Vec<String> = texts.collect();
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    let padded = texts.iter().map(|text| format!("{text:>width$}"));
    padded.collect()
}

/// Digits before and after the point; and the exponent's sign and digits, if there is an exponent.
struct Parts {
    whole: String,
    fraction: String,
    exponent: String,
}

fn floats(elements: &[Element], single: bool) -> Vec<String> {
    let numbers: Vec<f64> = elements.iter().map(|element| element.as_number()).collect();
    let finite: Vec<f64> = (numbers.iter().copied())
        .filter(|number| number.is_finite())
        .collect();
    let is_scientific = needs_exponent(&finite, single);
    let parts = |number: f64| {
        if is_scientific {
            scientific(number, single)
        } else {
            positional(number, single)
        }
    };
    let all: Vec<Parts> = finite.iter().map(|number| parts(*number)).collect();
    let longest = |of: fn(&Parts) -> usize| all.iter().map(of).max().unwrap_or(0);
    let mut left = longest(|parts| parts.whole.len());
    let fraction = longest(|parts| parts.fraction.len());
    let exponent = longest(|parts| parts.exponent.len());
    // Behind the letter and the sign.
    let exponent_digits = exponent.saturating_sub(2);
    let right = fraction + exponent;
    let specials = numbers.iter().filter(|number| !number.is_finite());
    let special = specials.map(|number| special_text(*number).len()).max();
    if let Some(special) = special {
        left = left.max(special.saturating_sub(right + 1));
    }
    let width = left + 1 + right;
    let word = |number: &f64| {
        if !number.is_finite() {
            return format!("{:>width$}", special_text(*number));
        }
        let parts = parts(*number);
        if is_scientific {
            let Parts {
                whole,
                fraction: digits,
                exponent,
            } = parts;
            let (sign, exponent) = exponent.split_at(2);
            format!("{whole:>left$}.{digits:0<fraction$}{sign}{exponent:0>exponent_digits$}")
        } else {
            let Parts {
                whole, fraction, ..
            } = parts;
            format!("{whole:>left$}.{fraction:<right$}")
        }
    };
    numbers.iter().map(word).collect()
}

fn special_text(number: f64) -> &'static str {
    match number {
        f64::INFINITY => "inf",
        f64::NEG_INFINITY => "-inf",
        _ => "nan",
    }
}

/// Whether the numbers are too large, too small or too different to be written without exponents.
fn needs_exponent(finite: &[f64], single: bool) -> bool {
    let sizes = finite.iter().map(|number| number.abs());
    let sizes = sizes.filter(|size| *size != 0.0);
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for size in sizes {
        least = least.min(size);
        most = most.max(size);
    }
    let ratio = if single {
        f64::from(most as f32 / least as f32)
    } else {
        most / least
    };
    most != 0.0 && (most >= 1e8 || least < 1e-4 || ratio > 1000.0)
}

/// The fewest digits that read back as the number, at most [`DIGITS`] after the point.
fn positional(number: f64, single: bool) -> Parts {
    let mut text = if single {
        (number as f32).to_string()
    } else {
        number.to_string()
    };
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    if digits > DIGITS {
        text = format!("{number:.DIGITS$}");
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    Parts {
        whole: whole.to_owned(),
        fraction: fraction.trim_end_matches('0').to_owned(),
        exponent: String::new(),
    }
}

/// The same with one digit before the point and an exponent.
fn scientific(number: f64, single: bool) -> Parts {
    let mut text = if single {
        format!("{:e}", number as f32)
    } else {
        format!("{number:e}")
    };
    let digits = |text: &str| {
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa
            .split_once('.')
            .map_or(0, |(_, digits)| digits.len())
    };
    if digits(&text) > DIGITS {
        text = format!("{number:.DIGITS$e}");
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    Parts {
        whole: whole.to_owned(),
        fraction: fraction.trim_end_matches('0').to_owned(),
        exponent: format!("e{sign}{exponent:0>2}"),
    }
}
