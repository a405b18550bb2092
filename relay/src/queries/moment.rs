//! Texts of moments: ISO 8601 with a zone, nanoseconds past the POSIX epoch, or a time before now; and ISO 8601 to the
//! nanosecond.

use std::fmt::Write;

/// Why a text is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MomentError(String);

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Whole numbers below this are no nanoseconds of this century, but seconds or milliseconds.
const LEAST_NS: i64 = 100_000_000_000_000_000;

/// Units of a time before now, with their seconds.
const UNITS: [(&str, i64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

const EXPECTED: &str = "expected ISO 8601 with a zone, as 2026-11-26T10:00:00Z, nanoseconds past 1970 \
                        (19 digits), or a time before now, as -10m";

fn unexpected() -> MomentError {
    MomentError(EXPECTED.to_owned())
}

/// Reads a moment, in nanoseconds past the POSIX epoch.
///
/// # Errors
/// What was expected.
pub fn read(text: &str, now_ns: i64) -> Result<i64, MomentError> {
    let text = text.trim();
    if text == "now" {
        return Ok(now_ns);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let ns = text.parse().ok().filter(|ns| *ns >= LEAST_NS);
        return ns.ok_or_else(unexpected);
    }
    if let Some(before) = text.strip_prefix('-') {
        let unit = |(unit, seconds): &(&str, i64)| Some((before.strip_suffix(unit)?, *seconds));
        let (number, seconds) = UNITS.iter().find_map(unit).ok_or_else(unexpected)?;
        let number: u32 = number.parse().map_err(|_| unexpected())?;
        let before_ns = i64::from(number).saturating_mul(seconds * SECOND_NS);
        return Ok(now_ns.saturating_sub(before_ns));
    }
    iso(text).ok_or_else(unexpected)
}

fn iso(text: &str) -> Option<i64> {
    // A plus sign that a URL doesn't encode is a blank.
    let (date, rest) = text.split_once(['T', 't'])?;
    let zone_at = rest.find(['Z', 'z', '+', '-', ' '])?;
    let (time, zone) = rest.split_at(zone_at);
    let mut numbers = date.split('-');
    let mut next = |digits: usize| number(numbers.next()?, digits);
    let (year, month, day) = (next(4)?, next(2)?, next(2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if numbers.next().is_some() || !(1..=days_of_month).contains(&day) {
        return None;
    }
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let digits = fraction.len();
    let fraction = number(fraction, digits).filter(|_| (1..=9).contains(&digits))?;
    let nanos = fraction * 10_i64.pow(9 - digits as u32);
    let offset = offset(zone)?;
    let seconds =
        days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(SECOND_NS)?.checked_add(nanos)
}

/// A number of exactly `digits` digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits = zone.get(1..)?.replacen(':', "", 1);
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "00" } else { minutes };
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    (hours <= 23 && minutes <= 59).then(|| sign * (hours * 3600 + minutes * 60))
}

/// Days of the Gregorian calendar after 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // A year begins in March here, so that a leap day is its last day.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year of a time in UTC, and the seconds since it began.
#[must_use]
pub fn second_of_year(ns: i64) -> (i64, i64) {
    let seconds = ns.div_euclid(SECOND_NS);
    let year = year_of(seconds.div_euclid(DAY_SECONDS));
    (year, seconds - days(year, 1, 1) * DAY_SECONDS)
}

/// The year of a day after 1970-01-01.
fn year_of(day: i64) -> i64 {
    // Not later than the year, and at most a year before it: 64 bits are three centuries around 1970.
    let longest = if day < 0 { 365 } else { 366 };
    let mut year = 1970 + day.div_euclid(longest);
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    year
}

/// Nanoseconds past the POSIX epoch as ISO 8601 in UTC, with nine digits after the seconds.
#[must_use]
pub fn text(ns: i64) -> String {
    let (seconds, nanos) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (day, second) = (
        seconds.div_euclid(DAY_SECONDS),
        seconds.rem_euclid(DAY_SECONDS),
    );
    let year = year_of(day);
    let month = (1..=12)
        .rev()
        .find(|month| days(year, *month, 1) <= day)
        .unwrap_or(1);
    let of_month = day - days(year, month, 1) + 1;
    let mut text = String::with_capacity(30);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a string can't fail.
    let _ = write!(
        text,
        "{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z"
    );
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_795_000_000_123_456_789;

    #[test]
    fn moments_are_iso_nanoseconds_or_before_now() {
        let iso = 1_795_687_200 * SECOND_NS;
        for (text, expected) in [
            ("now", NOW),
            ("1795000000123456789", NOW),
            ("-10m", NOW - 600 * SECOND_NS),
            ("-90s", NOW - 90 * SECOND_NS),
            ("-2d", NOW - 172_800 * SECOND_NS),
            ("2026-11-26T10:00:00Z", iso),
            ("2026-11-26T10:00Z", iso),
            ("2026-11-26T11:00:00+01:00", iso),
            ("2026-11-26T11:00:00 01:00", iso),
            ("2026-11-26T04:30:00.5-0530", iso + SECOND_NS / 2),
            ("2026-11-26t10:00:00.000000001z", iso + 1),
            ("1969-12-31T23:59:59.999Z", -1_000_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND_NS),
        ] {
            assert_eq!(read(text, NOW), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_was_expected() {
        for text in [
            "",
            "1795000000",
            "1795000000123",
            "yesterday",
            "-10",
            "-10y",
            "--1m",
            "-1.5h",
            "2026-11-26",
            "2026-11-26T10:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-26T24:00:00Z",
            "2026-11-26T10:60:00Z",
            "2026-11-26T10:00:00.Z",
            "2026-11-26T10:00:00.1234567890Z",
            "2026-11-26T10:00:00+25:00",
            "2026-11-26T10:00:00+é",
            "2026-1-26T10:00:00Z",
            "99999999999999999999",
            "9999-01-01T00:00:00Z",
        ] {
            let MomentError(why) = read(text, NOW).unwrap_err();
            assert!(why.contains("2026-11-26T10:00:00Z"), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn text_of_a_moment_is_read_back(ns in any::<i64>()) {
            let text = text(ns);
            // The first and last second may exceed 64 bits on the way.
            prop_assume!(ns.checked_sub(SECOND_NS).is_some());
            prop_assert_eq!(read(&text, 0), Ok(ns), "{}", text);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = read(&text, NOW);
        }
    }
}
