//! One rule of the keys `history` and `archiver`: how long the relay keeps the past of which PVs, and which archiver has
//! more of it. Texts of durations and sizes.

use std::fmt;
use std::time::Duration;

use hyper::Uri;

/// For how long the past of some PVs is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRule {
    /// The PVs that it applies to, with `*` for any characters and `?` for one.
    pub pattern: String,
    /// For how long; zero keeps nothing.
    pub keep: Duration,
}

/// Units of durations, with their seconds.
const TIMES: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// Units of sizes, with their bytes.
const SIZES: [(&str, usize); 6] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
];

/// Longest time that is kept: a year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl HistoryRule {
    /// `PATTERN=DURATION`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (pattern, keep) = text.rsplit_once('=')?;
        let keep = duration(keep.trim())?;
        (!pattern.is_empty()).then(|| Self {
            pattern: pattern.to_owned(),
            keep,
        })
    }
}

impl fmt::Display for HistoryRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.keep.as_secs();
        let fits = |(_, unit): &&(&str, u64)| seconds != 0 && seconds.is_multiple_of(*unit);
        let (unit, length) = TIMES.iter().find(fits).unwrap_or(&("", 1));
        write!(formatter, "{}={}{unit}", self.pattern, seconds / length)
    }
}

/// `90s`, `10m`, `1h`, `2d` or `0`.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit = |(unit, seconds): &(&str, u64)| Some((text.strip_suffix(unit)?, *seconds));
    let (number, seconds) = TIMES.iter().find_map(unit)?;
    let number: u64 = number.trim().parse().ok()?;
    let length = Duration::from_secs(number.checked_mul(seconds)?);
    (length <= LONGEST).then_some(length)
}

/// `256MB`, `1GiB` or `0`.
pub(super) fn size(text: &str) -> Option<usize> {
    if text == "0" {
        return Some(0);
    }
    let unit = |(unit, bytes): &(&str, usize)| Some((text.strip_suffix(unit)?, *bytes));
    let (number, bytes) = SIZES.iter().find_map(unit)?;
    number.trim().parse::<usize>().ok()?.checked_mul(bytes)
}

/// A size in its largest unit without a fraction.
pub(super) fn show_size(bytes: &usize) -> String {
    let fits = |(_, unit): &&(&str, usize)| *bytes != 0 && bytes.is_multiple_of(*unit);
    let (unit, length) = SIZES.iter().find(fits).unwrap_or(&("", 1));
    format!("{}{unit}", bytes / length)
}

/// The archiver of some PVs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiverRule {
    /// The PVs that it applies to, with `*` for any characters and `?` for one.
    pub pattern: String,
    /// Address of the archiver's retrieval service, without a slash at its end.
    pub url: String,
}

/// Schemes of addresses.
const SCHEMES: [&str; 2] = ["=http://", "=https://"];

impl ArchiverRule {
    /// `PATTERN=URL`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let at = SCHEMES.iter().find_map(|scheme| text.find(scheme))?;
        let (pattern, url) = (&text[..at], text[at + 1..].trim_end_matches('/'));
        let uri: Uri = url.parse().ok()?;
        let has_user = uri
            .authority()
            .is_none_or(|host| host.as_str().contains('@'));
        let is_management = uri.path().split('/').any(|part| part == "mgmt");
        let is_usable = uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
            && !url.contains('#')
            && !has_user
            && !is_management;
        (!pattern.is_empty() && is_usable).then(|| Self {
            pattern: pattern.to_owned(),
            url: url.to_owned(),
        })
    }
}

impl fmt::Display for ArchiverRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.pattern, self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units_and_show_as_they_are_written() {
        for text in ["SR:*=1h", "A=90s", "*=10m", "pva://B=2d", "X=0"] {
            assert_eq!(HistoryRule::read(text).unwrap().to_string(), text);
        }
        for text in [
            "SR:*", "=1h", "A=1", "A=h", "A=-1s", "A=1y", "A=99999d", "A=1.5h",
        ] {
            assert_eq!(HistoryRule::read(text), None, "{text}");
        }
        for text in ["256MB", "1GiB", "3KB", "0", "100MiB"] {
            assert_eq!(size(text).map(|bytes| show_size(&bytes)).unwrap(), text);
        }
        for text in ["256", "MB", "-1MB", "1TB", "99999999999999999999GB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn rule_is_a_pattern_and_the_address_of_the_retrieval_service() {
        for (text, shown) in [
            (
                "SR:*=http://arch:17668/retrieval",
                "SR:*=http://arch:17668/retrieval",
            ),
            ("*=https://[::1]:1/a/b/", "*=https://[::1]:1/a/b"),
            ("pva://A?=http://h", "pva://A?=http://h"),
        ] {
            assert_eq!(ArchiverRule::read(text).unwrap().to_string(), shown);
        }
        for text in [
            "SR:*",
            "http://arch/retrieval",
            "=http://arch/retrieval",
            "A=arch:17668/retrieval",
            "A=ftp://arch/retrieval",
            "A=http:///retrieval",
            "A=http://user:password@arch/retrieval",
            "A=http://arch/retrieval?x=1",
            "A=http://arch/retrieval#x",
            "A=http://arch:17665/mgmt/bpl",
        ] {
            assert_eq!(ArchiverRule::read(text), None, "{text}");
        }
    }
}
