//! Numbers and times as text, formatted as Java formats them.

use std::fmt::Display;
use std::io::Write;

/// Appends a finite double as `Double.toString` does: with at least one digit after the decimal point, and with
/// an exponent below 0.001 and from 10,000,000.
pub(crate) fn double(out: &mut Vec<u8>, number: f64) {
    debug_assert!(number.is_finite());
    let size = number.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        let begin = out.len();
        // Writing to a Vec can't fail.
        let _ = write!(out, "{number}");
        if !out[begin..].contains(&b'.') {
            out.extend_from_slice(b".0");
        }
        return;
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    out.extend_from_slice(digits.as_bytes());
    if !digits.contains('.') {
        out.extend_from_slice(b".0");
    }
    out.push(b'E');
    out.extend_from_slice(exponent.as_bytes());
}

/// Appends a limit. NaN and infinities, which JSON numbers can't express, are quoted.
pub(crate) fn limit(out: &mut Vec<u8>, number: f64) {
    if number.is_finite() {
        return double(out, number);
    }
    out.extend_from_slice(match number {
        number if number.is_nan() => b"\"NaN\"",
        number if number > 0.0 => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    });
}

/// Appends an integer.
pub(crate) fn integer(out: &mut Vec<u8>, number: impl Display) {
    // Writing to a Vec can't fail.
    let _ = write!(out, "{number}");
}

/// A time stamp as PVWS sends it: a value without one, such as that of a record that was never processed, has the
/// start of the EPICS epoch.
pub(crate) fn or_epics_epoch(time_ns: i64) -> i64 {
    const EPICS_EPOCH_NS: i64 = 631_152_000_000_000_000;
    if time_ns == 0 {
        EPICS_EPOCH_NS
    } else {
        time_ns
    }
}

/// A time as `Instant.toString` writes it: UTC, with 0, 3, 6 or 9 digits for the fraction of the second.
pub(crate) fn instant(time_ns: i64) -> String {
    let (seconds, nanos) = (
        time_ns.div_euclid(1_000_000_000),
        time_ns.rem_euclid(1_000_000_000),
    );
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = match nanos {
        0 => String::new(),
        nanos if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => format!(".{:06}", nanos / 1_000),
        nanos => format!(".{nanos:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Year, month and day of a number of days since 1970-01-01. Years are counted from 1 March, so that a leap day
/// is the last day of its year.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + 719_468;
    let (era, of_era) = (
        days.div_euclid(DAYS_OF_400_YEARS),
        days.rem_euclid(DAYS_OF_400_YEARS),
    );
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (year + era * 400 + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (5.0, "5.0"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (f64::from(0.1_f32), "0.10000000149011612"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (1e-5, "1.0E-5"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (9_007_199_254_740_992.0, "9.007199254740992E15"),
            (1e21, "1.0E21"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
        ] {
            assert_eq!(text(|out| double(out, number)), expected);
        }
    }

    #[test]
    fn limits_that_are_no_numbers_are_quoted() {
        for (number, expected) in [
            (1.5, "1.5"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(text(|out| limit(out, number)), expected);
        }
    }

    #[test]
    fn instants_have_the_digits_that_they_need() {
        for (time_ns, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_500_000_000, "2024-02-29T23:59:59.500Z"),
            (1_763_856_000_000_001_000, "2025-11-23T00:00:00.000001Z"),
            (631_152_000_000_000_000, "1990-01-01T00:00:00Z"),
        ] {
            assert_eq!(instant(time_ns), expected);
        }
    }
}
