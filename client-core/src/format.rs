//! Formats numbers and times as text, with little code: the standard library's code for shortest
//! digits alone is a third as large as the browser's whole module.
//!
//! Every function appends UTF-8 to a buffer, because one buffer holds the text of all results.

mod natural;
mod shortest;
#[cfg(test)]
mod tests;
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
