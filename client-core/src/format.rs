//! Formats numbers and times as text, with little code: the standard library's code for shortest
//! digits alone is a third as large as the browser's whole module.
//!
//! Every function appends UTF-8 to a buffer, because one buffer holds the text of all results.

mod natural;
mod shortest;
mod time;

pub use self::time::{TimeFormat, push_iso};

use pvwire_schema::types::ValueType;

use self::natural::Natural;

/// Maximum number of digits after the point; operators don't need more.
pub const MAX_DIGITS: usize = 100;

/// The powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// From here on a double has no bit for the half of a tie, and products are inexact.
const EXACT: f64 = (1_u64 << 52) as f64;

/// Up to here every integer is a double.
const INTEGERS: f64 = (1_u64 << 53) as f64;

/// A number as an operator reads it: `precision` digits after the point as C's `"%.*f"` prints it;
/// without a precision the shortest text that reads back as the same number of its type.
#[inline]
pub fn push_number(value: f64, precision: Option<i16>, value_type: ValueType, to: &mut Vec<u8>) {
    if !value.is_finite() {
        push_special(value, to);
    } else if value_type == ValueType::Boolean {
        to.extend_from_slice(if value == 0.0 { b"false" } else { b"true" });
    } else if let Some(digits) = precision {
        push_fixed(value, digits.unsigned_abs().into(), to);
    } else {
        push_shortest(value, value_type == ValueType::Float32, to);
    }
}

fn push_special(value: f64, to: &mut Vec<u8>) {
    to.extend_from_slice(match value {
        f64::INFINITY => b"inf",
        f64::NEG_INFINITY => b"-inf",
        _ => b"nan",
    });
}

/// Text in characters of EPICS: up to the first NUL, in UTF-8 or otherwise in Latin-1.
pub fn push_characters(bytes: &[u8], to: &mut Vec<u8>) {
    let end = bytes.iter().position(|byte| *byte == 0);
    let characters = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    if let Ok(text) = str::from_utf8(characters) {
        // The decoders of browsers drop a byte order mark.
        let text = text.as_bytes();
        let text = text.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(text);
        to.extend_from_slice(text);
        return;
    }
    for byte in characters {
        match byte {
            0..0x80 => to.push(*byte),
            _ => to.extend_from_slice(&[0xc0 | byte >> 6, 0x80 | byte & 0x3f]),
        }
    }
}

/// A number as JavaScript writes it: the shortest text that reads back as the same number.
#[must_use]
pub fn number_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        let text = if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        return text.to_owned();
    }
    let mut text = Vec::new();
    // Without the sign of a zero.
    push_shortest(number + 0.0, false, &mut text);
    text.into_iter().map(char::from).collect()
}

/// `value` with `digits` after the point, rounded half to even on its exact decimal expansion, as
/// C's `"%.*f"` prints it. At most [`MAX_DIGITS`] digits.
#[inline]
pub fn push_fixed(value: f64, digits: usize, to: &mut Vec<u8>) {
    if !push_small(value, digits, to) {
        push_any_fixed(value, digits, to);
    }
}

/// Space for ten digits, a point and a sign.
const SMALL: usize = 12;

/// The same for numbers of at most ten digits, which most are: written with 32-bit arithmetic, and
/// copied with a length that the compiler knows. Returns `false` if it is not one of these.
#[inline]
fn push_small(value: f64, digits: usize, to: &mut Vec<u8>) -> bool {
    let Some(power) = POWERS.get(digits).filter(|_| digits < SMALL - 2) else {
        return false;
    };
    // Rounding the product can move it onto a tie, but not across it.
    let scaled = value.abs() * power;
    let down = scaled as u32;
    let fraction = scaled - f64::from(down);
    // No comparison holds for NaN.
    let is_small = (0.0..1.0).contains(&fraction) && fraction != 0.5 && down < u32::MAX;
    if !is_small {
        return false;
    }
    let mut rest = down + u32::from(fraction > 0.5);
    // The text ends in the middle, so that the same number of bytes can be copied from any start.
    let mut text = [b'0'; 2 * SMALL];
    let mut at = SMALL;
    let mut put = |byte: u8| {
        at -= 1;
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
    };
    if digits > 0 {
        for _ in 0..digits {
            put(b'0' + (rest % 10) as u8);
            rest /= 10;
        }
        put(b'.');
    }
    loop {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value.is_sign_negative() {
        put(b'-');
    }
    let start = to.len();
    if let Some(copied) = text.get(at..).and_then(<[u8]>::first_chunk::<SMALL>) {
        to.extend_from_slice(copied);
    }
    to.truncate(start + SMALL - at);
    true
}

fn push_any_fixed(value: f64, digits: usize, to: &mut Vec<u8>) {
    if !value.is_finite() {
        return push_special(value, to);
    }
    if value.is_sign_negative() {
        to.push(b'-');
    }
    let size = value.abs();
    if let Some(power) = POWERS.get(digits) {
        let scaled = size * power;
        // Rounding the product can move it onto a tie, but not across it.
        let down = scaled as u64;
        let rest = scaled - down as f64;
        if scaled < EXACT && rest != 0.5 {
            return push_point(down + u64::from(rest > 0.5), digits, to);
        }
    }
    let digits = digits.min(MAX_DIGITS);
    let mut scaled = Natural::scaled(size, digits).into_decimal();
    // At least one digit precedes the point.
    while scaled.len() <= digits {
        scaled.push(b'0');
    }
    for (place, digit) in scaled.iter().enumerate().rev() {
        to.push(*digit);
        if place == digits && digits > 0 {
            to.push(b'.');
        }
    }
}

/// The digits of the largest integer, or a zero and the most digits after the point.
const MAX_LENGTH: usize = 26;

/// An integer with a point before its last `digits` digits.
fn push_point(mut rest: u64, digits: usize, to: &mut Vec<u8>) {
    let mut length = 1;
    let mut end = 10;
    while rest >= end && length < 19 {
        length += 1;
        end *= 10;
    }
    if rest >= end {
        length += 1;
    }
    let length = length.max(digits + 1) + usize::from(digits > 0);
    let start = to.len();
    // Of a length that the compiler knows: in WebAssembly this takes a fraction of the time.
    to.extend_from_slice(&[b'0'; MAX_LENGTH]);
    to.truncate(start + length);
    let places = to.get_mut(start..).unwrap_or_default();
    for (nth, place) in places.iter_mut().rev().enumerate() {
        if nth == digits && digits > 0 {
            *place = b'.';
            continue;
        }
        // WebAssembly on a 32-bit machine divides 64 bits slowly.
        if let Ok(small) = u32::try_from(rest) {
            *place = b'0' + (small % 10) as u8;
            rest = u64::from(small / 10);
        } else {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
}

/// An unsigned integer.
pub fn push_unsigned(value: u64, to: &mut Vec<u8>) {
    push_point(value, 0, to);
}

/// A signed integer.
pub fn push_signed(value: i64, to: &mut Vec<u8>) {
    if value < 0 {
        to.push(b'-');
    }
    push_unsigned(value.unsigned_abs(), to);
}

/// The shortest text that reads back as the same number, in JavaScript's notation; `single` for a
/// 32-bit float.
pub fn push_shortest(value: f64, single: bool, to: &mut Vec<u8>) {
    if !value.is_finite() {
        return push_special(value, to);
    }
    if value.is_sign_negative() {
        to.push(b'-');
    }
    let size = value.abs();
    if size < INTEGERS && size as u64 as f64 == size && (!single || size < 1e6) {
        push_unsigned(size as u64, to);
    } else {
        shortest::push(size, single, to);
    }
}

/// A string in quotation marks, as JSON writes it.
pub fn push_quoted(text: &str, to: &mut Vec<u8>) {
    to.push(b'"');
    for byte in text.bytes() {
        let short = match byte {
            b'"' | b'\\' => byte,
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            0..32 => {
                to.extend_from_slice(b"\\u00");
                to.push(b'0' + (byte >> 4));
                to.push(b"0123456789abcdef"[usize::from(byte & 15)]);
                continue;
            }
            _ => {
                to.push(byte);
                continue;
            }
        };
        to.extend_from_slice(&[b'\\', short]);
    }
    to.push(b'"');
}

/// `value` with `digits` after the point, see [`push_fixed`].
#[must_use]
pub fn fixed(value: f64, digits: usize) -> String {
    let mut text = Vec::new();
    push_fixed(value, digits, &mut text);
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pvwire_schema::types::ValueType;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        write(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn numbers_read_as_c_prints_them() {
        for (value, digits, expected) in [
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
            (562_949_953_421_312.2, 1, "562949953421312.2"),
            (-0.0, 2, "-0.00"),
            (-0.001, 2, "-0.00"),
            (21.5, 3, "21.500"),
            (0.1, 30, "0.100000000000000005551115123126"),
            (5e-324, 3, "0.000"),
            (f64::NAN, 2, "nan"),
            (f64::INFINITY, 2, "inf"),
            (f64::NEG_INFINITY, 2, "-inf"),
        ] {
            assert_eq!(
                fixed(value, digits),
                expected,
                "{value} with {digits} digits"
            );
        }
    }

    #[test]
    fn no_precision_gives_the_shortest_text() {
        for (value, value_type, expected) in [
            (0.1, ValueType::Float64, "0.1"),
            (2.5, ValueType::Float64, "2.5"),
            (-0.0, ValueType::Float64, "-0"),
            (1e-7, ValueType::Float64, "1e-7"),
            (0.000_001, ValueType::Float64, "0.000001"),
            (1e21, ValueType::Float64, "1e+21"),
            (
                123_456_789_012_345_680_000.0,
                ValueType::Float64,
                "123456789012345680000",
            ),
            (5e-324, ValueType::Float64, "5e-324"),
            // Two texts of 17 digits are equally near.
            (2_f64.powi(-25), ValueType::Float64, "2.9802322387695312e-8"),
            (0.1 + 0.2, ValueType::Float64, "0.30000000000000004"),
            (f64::MAX, ValueType::Float64, "1.7976931348623157e+308"),
            (f64::from(0.1_f32), ValueType::Float32, "0.1"),
            (f64::from(16_777_217.5_f32), ValueType::Float32, "16777218"),
            (f64::from(f32::MAX), ValueType::Float32, "3.4028235e+38"),
            (f64::from(f32::from_bits(1)), ValueType::Float32, "1e-45"),
            (-7.0, ValueType::Int32, "-7"),
            (
                9_007_199_254_740_992.0,
                ValueType::Int64,
                "9007199254740992",
            ),
            (f64::NAN, ValueType::Float64, "nan"),
            (1.0, ValueType::Boolean, "true"),
            (0.0, ValueType::Boolean, "false"),
        ] {
            let shown = text(|to| push_number(value, None, value_type, to));
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn times_are_iso_8601_in_utc() {
        let mut format = TimeFormat::new();
        for (seconds, nanoseconds, expected) in [
            (0.0, 999_999_999, "1970-01-01T00:00:00.999999Z"),
            (-1.0, 1_000, "1969-12-31T23:59:59.000001Z"),
            (951_782_400.0, 0, "2000-02-29T00:00:00.000000Z"),
            (1_753_000_000.0, 123_456_789, "2025-07-20T08:26:40.123456Z"),
            (253_402_300_800.0, 0, "+010000-01-01T00:00:00.000000Z"),
            (-62_198_755_200.0, 0, "-000001-01-01T00:00:00.000000Z"),
        ] {
            let shown = text(|to| format.push(seconds, nanoseconds, to));
            assert_eq!(shown, expected);
        }
        assert_eq!(text(|to| push_iso(1.0, to)), "1970-01-01T00:00:00.001Z");
        assert_eq!(text(|to| push_iso(-1.0, to)), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn strings_are_quoted_as_in_json() {
        let shown = text(|to| push_quoted("a\"b\\\n\u{1f}\u{7f}é", to));
        assert_eq!(shown, "\"a\\\"b\\\\\\n\\u001f\u{7f}é\"");
    }

    /// The digits that the standard library finds, without point and exponent.
    fn significant(text: &str) -> String {
        let mantissa = text.split('e').next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        digits.trim_matches('0').to_owned()
    }

    fn any_number() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>(),
            -1e6..1e6_f64,
            (-100_000..100_000_i32).prop_map(|eighths| f64::from(eighths) / 8.0),
            any::<u64>().prop_map(f64::from_bits),
            (-1074..1024_i32).prop_map(|exponent| 2_f64.powi(exponent)),
            (-300..300_i32).prop_map(|exponent| 10_f64.powi(exponent)),
        ]
    }

    proptest! {
        #[test]
        fn any_number_reads_as_the_standard_library_prints_it(value in any_number(), digits in 0_usize..40) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(fixed(value, digits), format!("{value:.digits$}"));
        }

        #[test]
        fn the_shortest_text_is_the_nearest_of_its_length(value in any_number()) {
            prop_assume!(value.is_finite() && value != 0.0);
            let shown = text(|to| push_shortest(value, false, to));
            prop_assert_eq!(shown.parse::<f64>().unwrap().to_bits(), value.to_bits());
            // The standard library writes the larger of two equally near texts.
            let shortest = significant(&format!("{value:e}"));
            let nearest = format!("{value:.*e}", shortest.len().saturating_sub(1));
            let expected = if nearest.parse() == Ok(value) { significant(&nearest) } else { shortest };
            prop_assert_eq!(significant(&shown), expected);
        }

        #[test]
        fn the_shortest_text_of_a_single_reads_back(bits in any::<u32>()) {
            let single = f32::from_bits(bits);
            prop_assume!(single.is_finite() && single != 0.0);
            let shown = text(|to| push_shortest(single.into(), true, to));
            prop_assert_eq!(shown.parse::<f32>().unwrap().to_bits(), bits);
            let expected = significant(&format!("{single:e}"));
            if expected.len() < 9 {
                prop_assert_eq!(significant(&shown), expected);
            }
        }
    }
}
