//! The functions of `sys://`: the time, as Phoebus shows it of its machine, here of the relay's.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pvwire_schema::types::{BlobValue, Metadata, ValueType};

use super::generator::{Generator, Pace};
use crate::ingest::{OpenError, RowValue};

/// Formats of `timeOffset` by their names. Phoebus uses `seconds` for every other name.
const FORMATS: [(&str, &str); 6] = [
    ("full", "%Y-%m-%d %H:%M:%S%.9f"),
    ("milli", "%Y-%m-%d %H:%M:%S%.3f"),
    ("seconds", SECONDS),
    ("datetime", "%Y-%m-%d %H:%M"),
    ("date", "%Y-%m-%d"),
    ("time", "%H:%M:%S"),
];

const SECONDS: &str = "%Y-%m-%d %H:%M:%S";

/// Units of offsets by the beginning of their names, with their seconds. `ms` and `mo` come before `m`.
const UNITS: [(&str, f64); 9] = [
    ("ms", 1e-3),
    ("milli", 1e-3),
    ("mo", 30.0 * DAY),
    ("m", 60.0),
    ("s", 1.0),
    ("h", 3600.0),
    ("d", DAY),
    ("w", 7.0 * DAY),
    ("y", 365.0 * DAY),
];

const DAY: f64 = 86_400.0;

/// Shortest and longest interval between two values, in seconds.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.01..=1e6;

/// Longest offset in seconds: 10,000 years, more than calendars show.
const LONGEST_OFFSET: f64 = 10_000.0 * 365.0 * DAY;

/// Why there is no such PV.
#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("sys has no PV {0:?}; it has: time, timeOffset")]
    Unknown(String),
    #[error(
        "write timeOffset, timeOffset(offset), timeOffset(offset, seconds) or timeOffset(offset, format, seconds)"
    )]
    Arguments,
    #[error("invalid interval {0:?}: write 0.01 to 1000000 seconds")]
    Interval(String),
    #[error("invalid offset {0:?}: write now, or numbers with units such as 1 day 12 hours")]
    Offset(String),
}

/// Makes what a name asks for.
pub(super) fn read(name: &str) -> Result<Generator, OpenError> {
    let time = if name == "time" {
        Time::NOW
    } else {
        Time::with_offset(name).map_err(OpenError::name)?
    };
    let metadata = Metadata {
        value_type: ValueType::String,
        element_count: 1,
        description: "Local time of the relay".into(),
        ..Metadata::default()
    };
    let zone = TimeZone::system();
    let mut generator = Generator::new(time.interval, metadata, move |at| {
        let text = time.text(at.time_ns, &zone);
        RowValue::Blob(Arc::new(BlobValue::Text(text)))
    });
    generator.pace = Pace::AfterInterval;
    Ok(generator)
}

/// What a PV shows of the time.
#[derive(Clone, Copy, Debug)]
struct Time {
    /// Subtracted from the present time.
    offset: Duration,
    format: &'static str,
    interval: Duration,
}

impl Time {
    const NOW: Self = Self {
        offset: Duration::ZERO,
        format: SECONDS,
        interval: Duration::from_secs(1),
    };

    /// Reads `timeOffset` with its arguments.
    fn with_offset(name: &str) -> Result<Self, NameError> {
        let unknown = || NameError::Unknown(name.to_owned());
        let rest = name.strip_prefix("timeOffset").ok_or_else(unknown)?;
        if rest.is_empty() {
            return Ok(Self::NOW);
        }
        if !rest.starts_with('(') {
            return Err(unknown());
        }
        let arguments = rest
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        let arguments: Vec<_> = (arguments.ok_or(NameError::Arguments)?)
            .split(',')
            .map(str::trim)
            .collect();
        let (offset, format, interval) = match arguments[..] {
            [offset] => (offset, SECONDS, "1"),
            [offset, interval] => (offset, SECONDS, interval),
            [offset, format, interval] => (offset, format_of(format), interval),
            _ => return Err(NameError::Arguments),
        };
        Ok(Self {
            offset: offset_of(offset)?,
            format,
            interval: interval_of(interval)?,
        })
    }

    fn text(self, time_ns: i64, zone: &TimeZone) -> String {
        let time_ns = i128::from(time_ns) - self.offset.as_nanos() as i128;
        let time = Timestamp::from_nanosecond(time_ns);
        time.map_or_else(
            |_| String::new(),
            |time| {
                let local = time.to_zoned(zone.clone());
                local.strftime(self.format).to_string()
            },
        )
    }
}

fn format_of(name: &str) -> &'static str {
    let known = FORMATS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map_or(SECONDS, |(_, format)| format)
}

fn interval_of(text: &str) -> Result<Duration, NameError> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| INTERVALS.contains(seconds));
    let seconds = seconds.ok_or_else(|| NameError::Interval(text.to_owned()))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// The sum of amounts such as `1 day 12 hours`; zero for `now` and an empty text.
fn offset_of(text: &str) -> Result<Duration, NameError> {
    let invalid = || NameError::Offset(text.to_owned());
    let mut seconds = 0.0;
    let mut rest = text.trim();
    if rest.eq_ignore_ascii_case("now") {
        rest = "";
    }
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_digit(c)).ok_or_else(invalid)?;
        let (number, unit) = rest.split_at(end);
        // A unit without a number counts once.
        let number: f64 = match number {
            "" => 1.0,
            number => number.parse().map_err(|_| invalid())?,
        };
        let unit = unit.trim_start();
        let end = unit
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(unit.len());
        let (unit, more) = unit.split_at(end);
        let unit = unit.to_ascii_lowercase();
        let known = UNITS.iter().find(|(begin, _)| unit.starts_with(begin));
        seconds += number * known.ok_or_else(invalid)?.1;
        rest = more.trim_start();
    }
    if seconds > LONGEST_OFFSET {
        return Err(invalid());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_NS: i64 = 1_709_251_199_500_000_000;

    #[test]
    fn time_has_seconds_and_no_zone() {
        assert_eq!(
            Time::NOW.text(TIME_NS, &TimeZone::UTC),
            "2024-02-29 23:59:59"
        );
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(Time::NOW.text(TIME_NS, &zone), "2024-03-01 01:59:59");
        let refused = read("free_mb").map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("it has: time"), "{refused}");
    }

    #[test]
    fn time_offset_has_offset_format_and_interval() {
        for (name, text, interval_ms) in [
            ("timeOffset", "2024-02-29 23:59:59", 1000),
            ("timeOffset()", "2024-02-29 23:59:59", 1000),
            ("timeOffset(now)", "2024-02-29 23:59:59", 1000),
            ("timeOffset(1 day)", "2024-02-28 23:59:59", 1000),
            ("timeOffset(1day 2 hours, 0.5)", "2024-02-28 21:59:59", 500),
            ("timeOffset(30 mins, TIME, 2)", "23:29:59", 2000),
            (
                "timeOffset(now, full, 1)",
                "2024-02-29 23:59:59.500000000",
                1000,
            ),
            (
                "timeOffset(250ms, milli, 1)",
                "2024-02-29 23:59:59.250",
                1000,
            ),
            ("timeOffset(1 week, date, 1)", "2024-02-22", 1000),
            ("timeOffset(now, datetime, 1)", "2024-02-29 23:59", 1000),
            ("timeOffset(hour, nosuch, 1)", "2024-02-29 22:59:59", 1000),
        ] {
            let time = Time::with_offset(name).unwrap();
            assert_eq!(time.text(TIME_NS, &TimeZone::UTC), text, "{name}");
            assert_eq!(time.interval, Duration::from_millis(interval_ms), "{name}");
        }
    }

    #[test]
    fn invalid_time_offset_says_what_is_expected() {
        for (name, why) in [
            ("timeOffsets", "it has: time, timeOffset"),
            ("timeOffset(1 day", "write timeOffset"),
            ("timeOffset(now, full, 1, 2)", "write timeOffset"),
            ("timeOffset(now, 0)", "invalid interval \"0\""),
            ("timeOffset(now, nan)", "invalid interval"),
            ("timeOffset(1 lightyear)", "invalid offset"),
            ("timeOffset(1)", "invalid offset"),
            ("timeOffset(1.2.3 days)", "invalid offset"),
            ("timeOffset(99999999 years)", "invalid offset"),
        ] {
            let refused = read(name).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(why), "{name}: {refused}");
        }
    }
}
