//! Formats numbers and times as documented, independently of the engine and without optimization.

/// A number with `digits` after the point, as C's `"%.*f"`; without digits the shortest text that
/// reads back as the same number of its type.
pub(crate) fn number(value: f64, digits: Option<i64>, value_type: &str) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value_type == "Boolean" {
        return (value != 0.0).to_string();
    }
    match digits {
        Some(digits) => format!("{value:.*}", digits.clamp(0, 100) as usize),
        None if value == 0.0 && value.is_sign_negative() => "-0".to_owned(),
        None if value_type == "Float32" => shortest_single(value),
        None => javascript(value),
    }
}

/// As JavaScript writes a number.
pub(crate) fn javascript(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rust's exponent form has the shortest digits, not always the nearest: of two that are equally
    // near, JavaScript writes the even one.
    let shortest = format!("{:e}", value.abs());
    let mantissa = shortest.bytes().take_while(|byte| *byte != b'e');
    let places = mantissa.filter(u8::is_ascii_digit).count();
    let nearest = format!("{:.*e}", places - 1, value.abs());
    let is_equal = nearest.parse() == Ok(value.abs());
    let text = if is_equal { nearest } else { shortest };
    let (mantissa, exponent) = text.split_once('e').expect("an exponent");
    let digits = mantissa.replace('.', "");
    let point = exponent.parse::<i64>().expect("a number") + 1;
    let count = digits.len() as i64;
    let zeros = |count: i64| "0".repeat(count as usize);
    let plain = if count <= point && point <= 21 {
        digits + &zeros(point - count)
    } else if 0 < point && point <= 21 {
        let (whole, rest) = digits.split_at(point as usize);
        format!("{whole}.{rest}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() {
            String::new()
        } else {
            format!(".{rest}")
        };
        let sign = if point > 0 { "+" } else { "-" };
        format!("{first}{rest}e{sign}{}", (point - 1).abs())
    };
    if value < 0.0 {
        format!("-{plain}")
    } else {
        plain
    }
}

/// The fewest decimal digits, rounded half away from zero, that give the same 32-bit number.
fn shortest_single(value: f64) -> String {
    for digits in 1..9 {
        let rounded = to_precision(value, digits);
        if f64::from(rounded as f32) == value {
            return javascript(rounded);
        }
    }
    javascript(value)
}

/// The nearest number with this many significant decimal digits.
fn to_precision(value: f64, digits: usize) -> f64 {
    // All digits of the exact value: a 32-bit number has fewer than 120.
    let exact = format!("{:.150e}", value.abs());
    let (mantissa, exponent) = exact.split_once('e').expect("an exponent");
    let all: Vec<u8> = mantissa.bytes().filter(|byte| *byte != b'.').collect();
    let mut kept: Vec<u8> = all[..digits].iter().map(|digit| digit - b'0').collect();
    let mut exponent: i64 = exponent.parse().expect("a number");
    if all[digits] >= b'5' {
        let mut at = digits;
        loop {
            if at == 0 {
                kept.insert(0, 1);
                exponent += 1;
                break;
            }
            at -= 1;
            if kept[at] < 9 {
                kept[at] += 1;
                break;
            }
            kept[at] = 0;
        }
    }
    let digits: String = kept.iter().map(|digit| char::from(digit + b'0')).collect();
    let text = format!("{digits}e{}", exponent - (digits.len() as i64 - 1));
    text.parse::<f64>().expect("a number").copysign(value)
}

/// ISO 8601 in UTC up to the seconds, of whole seconds past the POSIX epoch.
fn date(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let (mut year, mut left) = (1970, days);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |year: i64| if is_leap(year) { 366 } else { 365 };
    while left < 0 {
        year -= 1;
        left += length(year);
    }
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= months[month] {
        left -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (month, day) = (month + 1, left + 1);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// ISO 8601 with microseconds.
pub(crate) fn datetime(seconds: i64, nanoseconds: i64) -> String {
    format!("{}.{:06}Z", date(seconds), nanoseconds / 1000)
}

/// ISO 8601 with milliseconds.
pub(crate) fn iso(ms: i64) -> String {
    format!("{}.{:03}Z", date(ms.div_euclid(1000)), ms.rem_euclid(1000))
}

/// A string in quotes, as JSON writes it.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Bytes as base64.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0_u32, |word, at| {
            word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        for place in 0..4 {
            if place > chunk.len() {
                text.push('=');
            } else {
                let digit = word >> (18 - 6 * place) & 63;
                text.push(char::from(DIGITS[digit as usize]));
            }
        }
    }
    text
}
