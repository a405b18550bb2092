//! Parses and prints the values of keys. Each parser says what it expected.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderName;
use ipnet::IpNet;
use pvwire_fleet::nats::{Servers, ServersError};
use pvwire_fleet::{Role, Site};

use super::history::size;
use super::{
    ArchiverRule, AuditSync, Auth, ChannelFinderUrl, HistoryRule, Pages, ScreenAccess, ScreenFolder,
};

/// Longest duration: one day.
const MAX_MILLIS: u64 = 86_400_000;

/// What a value should have been.
#[derive(Debug)]
pub(super) struct Expected(Cow<'static, str>);

impl Expected {
    pub(super) fn into_text(self) -> String {
        self.0.into_owned()
    }
}

impl From<&'static str> for Expected {
    fn from(text: &'static str) -> Self {
        Self(text.into())
    }
}

type Parsed<T> = Result<T, Expected>;

/// A number of milliseconds from `least` to one day.
pub(super) fn millis(least: u64) -> impl Fn(&str) -> Parsed<Duration> {
    move |value| {
        let millis = value.parse().ok();
        let millis = millis.filter(|millis| (least..=MAX_MILLIS).contains(millis));
        let expected = || format!("milliseconds from {least} to {MAX_MILLIS}");
        let millis = millis.ok_or_else(|| Expected(expected().into()))?;
        Ok(Duration::from_millis(millis))
    }
}

/// A number from 1 to `most`.
pub(super) fn count(most: usize) -> impl Fn(&str) -> Parsed<usize> {
    move |value| {
        number(value, 1, most, || {
            format!("a whole number from 1 to {most}")
        })
    }
}

/// A number from 1 to `most` that has no fixed default.
pub(super) fn share(most: usize) -> impl Fn(&str) -> Parsed<Option<usize>> {
    move |value| count(most)(value).map(Some)
}

/// A number up to `most`; 0 is no limit.
pub(super) fn limit(most: usize) -> impl Fn(&str) -> Parsed<usize> {
    move |value| {
        number(value, 0, most, || {
            format!("a whole number from 0 (no limit) to {most}")
        })
    }
}

fn number(value: &str, least: usize, most: usize, expected: impl Fn() -> String) -> Parsed<usize> {
    let number = value.parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Expected(expected().into()))
}

pub(super) fn text(value: &str) -> Parsed<String> {
    Ok(value.to_owned())
}

pub(super) fn boolean(value: &str) -> Parsed<bool> {
    value.parse().map_err(|_| "true or false".into())
}

pub(super) fn address(value: &str) -> Parsed<SocketAddr> {
    let expected = "an IP address and a port, as 127.0.0.1:8080";
    value.parse().map_err(|_| expected.into())
}

pub(super) fn admin_address(value: &str) -> Parsed<Option<SocketAddr>> {
    let expected = "an IP address and a port, as 127.0.0.1:8081";
    value.parse().map(Some).map_err(|_| expected.into())
}

/// The name of an HTTP header.
pub(super) fn header(value: &str) -> Parsed<HeaderName> {
    HeaderName::from_bytes(value.as_bytes()).map_err(|_| "the name of a header".into())
}

/// The name of an HTTP header that may be unset.
pub(super) fn optional_header(value: &str) -> Parsed<Option<HeaderName>> {
    header(value).map(Some)
}

/// An origin without a path, or `*`.
pub(super) fn origin(value: &str) -> Parsed<String> {
    if value == "*" {
        return Ok(value.to_owned());
    }
    let host = value
        .strip_prefix("https://")
        .or_else(|| value.strip_prefix("http://"))
        .filter(|host| !host.is_empty() && !host.contains(['/', '*', ' ']));
    host.ok_or("an origin without a path, as https://screens.example.org, or *")?;
    Ok(value.to_ascii_lowercase())
}

pub(super) fn host_name(value: &str) -> Parsed<String> {
    let is_name = !value.is_empty() && !value.contains(['/', ':', '*', ' ']);
    let expected = "a host name without port, as pvwire.example.org";
    is_name.then_some(()).ok_or(expected)?;
    Ok(value.to_ascii_lowercase())
}

/// A host name without port in which `*` stands for any characters.
pub(super) fn host_pattern(value: &str) -> Parsed<String> {
    let is_ipv6 = value.starts_with('[') && value.ends_with(']');
    let is_pattern = !value.is_empty() && !value.contains(['/', ' ', '@']);
    let expected =
        "a host name without port, in which * stands for any characters, as *.example.org";
    let fits = is_pattern && (is_ipv6 || !value.contains(':'));
    fits.then_some(()).ok_or(expected)?;
    Ok(value.to_ascii_lowercase())
}

/// A network in CIDR notation, or a single address.
pub(super) fn network(value: &str) -> Parsed<IpNet> {
    let single = || value.parse::<IpAddr>().map(IpNet::from);
    let network = value.parse().ok().or_else(|| single().ok());
    network.ok_or_else(|| "a network, as 10.1.0.0/16".into())
}

/// Addresses of NATS servers.
pub(super) fn servers(value: &str) -> Parsed<String> {
    let servers: Result<Servers, _> = value.parse();
    servers.map_err(|error| match error {
        ServersError::User => "addresses without a user name, which belongs into bus_credentials",
        _ => "nats://HOST:PORT or tls://HOST:PORT, several separated by commas",
    })?;
    Ok(value.to_owned())
}

/// Where clients open WebSockets.
pub(super) fn socket_address(value: &str) -> Parsed<String> {
    let address: Option<Uri> = value.parse().ok();
    let is_socket = address.is_some_and(|address| {
        let known = matches!(address.scheme_str(), Some("ws" | "wss"));
        let host = address.authority().map_or("", |host| host.as_str());
        known && !host.is_empty() && !host.contains('@')
    });
    let fits = is_socket && !value.contains('#') && value.len() <= 1024;
    fits.then_some(())
        .ok_or("a WebSocket address of at most 1024 bytes, as wss://relay1.example.org/ws")?;
    Ok(value.to_owned())
}

/// The name of a fleet.
pub(super) fn site(value: &str) -> Parsed<Site> {
    let expected = "a name of 1 to 64 letters, digits, '-' and '_'";
    value.parse().map_err(|_| expected.into())
}

/// A pattern of PV names.
pub(super) fn pattern(value: &str) -> Parsed<String> {
    let expected = "a PV name, with * for any characters and ? for one";
    (!value.is_empty()).then_some(()).ok_or(expected)?;
    Ok(value.to_owned())
}

/// A pattern of PV names and the most updates per second of each of them; 0 is no limit.
pub(super) fn max_rate(value: &str) -> Parsed<MaxRate> {
    let expected = "PATTERN=HZ, as SR:*=10: PV names, with * for any characters and ? for one, and at most 1000 \
                    updates per second, or 0 for no limit";
    let (pattern, rate) = value.rsplit_once('=').ok_or(expected)?;
    let rate_hz: f64 = rate.trim().parse().map_err(|_| expected)?;
    let fits = !pattern.is_empty() && (rate_hz == 0.0 || (0.001..=1000.0).contains(&rate_hz));
    fits.then_some(()).ok_or(expected)?;
    let interval_ms = if rate_hz == 0.0 {
        0.0
    } else {
        1000.0 / rate_hz
    };
    Ok(MaxRate {
        pattern: pattern.to_owned(),
        min_interval_ms: interval_ms.round() as u32,
    })
}

/// A pattern of PV names and for how long their past is kept.
pub(super) fn replay_speed(value: &str) -> Parsed<ReplaySpeed> {
    ReplaySpeed::read(value).ok_or_else(|| "a number from 0.1 to 100".into())
}

pub(super) fn history_rule(value: &str) -> Parsed<HistoryRule> {
    let expected = "PATTERN=DURATION, as SR:*=1h: PV names, with * for any characters and ? for one, and a whole \
                    number of s, m, h or d up to 366d, or 0 to keep nothing";
    HistoryRule::read(value).ok_or_else(|| expected.into())
}

pub(super) fn archiver_rule(value: &str) -> Parsed<ArchiverRule> {
    let expected = "PATTERN=URL, as SR:*=http://archiver:17668/retrieval: PV names, with * for any characters and ? for \
                    one, and the address of an archiver's retrieval service (not of its management) without a user";
    ArchiverRule::read(value).ok_or_else(|| expected.into())
}

/// The address of ChannelFinder.
pub(super) fn channelfinder_url(value: &str) -> Parsed<Option<ChannelFinderUrl>> {
    let expected = "the address of ChannelFinder, as http://HOST:8080/ChannelFinder or with a query in its language, as \
                    http://HOST:8080/ChannelFinder?pvStatus=Active; without a user, and without ~size and ~from";
    let url = ChannelFinderUrl::read(value).ok_or(expected)?;
    Ok(Some(url))
}

/// A folder of displays.
pub(super) fn screen_folder(value: &str) -> Parsed<ScreenFolder> {
    ScreenFolder::read(value).ok_or_else(|| "a folder, or PREFIX=FOLDER, as ops=/epics/ops".into())
}

/// Who may read a folder of displays.
pub(super) fn screen_access(value: &str) -> Parsed<ScreenAccess> {
    let expected = "PREFIX=READER,…, as ops=alice,@operators: a prefix of screens, and users, groups after @, or * \
                    for every user who has logged in";
    ScreenAccess::read(value).ok_or_else(|| expected.into())
}

/// A user or group that a list names.
pub(super) fn listed_user(value: &str) -> Parsed<String> {
    let is_named = !value.trim_start_matches('@').is_empty() && value.trim() == value;
    is_named
        .then(|| value.to_owned())
        .ok_or_else(|| "a user, @ and a group, or * for every user who has logged in".into())
}

/// A size in bytes.
pub(super) fn memory_size(value: &str) -> Parsed<usize> {
    size(value)
        .ok_or_else(|| "a whole number of KB, MB, GB, KiB, MiB or GiB, as 256MB, or 0".into())
}

pub(super) fn source(value: &str) -> Parsed<String> {
    let is_source = ["ca", "pva"].contains(&value);
    is_source.then_some(()).ok_or("ca or pva")?;
    Ok(value.to_owned())
}

/// A setting that is one of a few words.
pub(super) trait Word: Copy + PartialEq + 'static {
    /// The words.
    const WORDS: &'static [(&'static str, Self)];
    /// All words in one phrase.
    const EXPECTED: &'static str;
}

impl Word for Pages {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("open", Self::Open),
        ("login", Self::Login),
        ("off", Self::Off),
    ];
    const EXPECTED: &'static str = "open, login or off";
}

impl Word for Auth {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("jwt", Self::Jwt),
        ("trusted-header", Self::TrustedHeader),
    ];
    const EXPECTED: &'static str = "none, jwt or trusted-header";
}

impl Word for AuditSync {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("never", Self::Never),
        ("each", Self::Each),
        ("1s", Self::EverySecond),
    ];
    const EXPECTED: &'static str = "never, each or 1s";
}

impl Word for Role {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("both", Self::Both),
        ("ingest", Self::Ingest),
        ("edge", Self::Edge),
    ];
    const EXPECTED: &'static str = "both, ingest or edge";
}

/// Whether writes are refused while the audit file can't be written.
impl Word for bool {
    const WORDS: &'static [(&'static str, Self)] = &[("open", false), ("closed", true)];
    const EXPECTED: &'static str = "open or closed";
}

pub(super) fn word<T: Word>(value: &str) -> Parsed<T> {
    let known = T::WORDS.iter().find(|(word, _)| *word == value);
    known
        .map(|(_, meaning)| *meaning)
        .ok_or_else(|| T::EXPECTED.into())
}

pub(super) fn show_word<T: Word>(value: &T) -> String {
    let known = T::WORDS.iter().find(|(_, meaning)| meaning == value);
    known.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

pub(super) fn show_millis(value: &Duration) -> String {
    value.as_millis().to_string()
}

pub(super) fn show_optional<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map(T::to_string).unwrap_or_default()
}

pub(super) fn show_list<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(T::to_string).collect();
    values.join(" ")
}

/// A cap of the rate of updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxRate {
    /// The PVs that it applies to, with `*` for any characters and `?` for one.
    pub pattern: String,
    /// Minimum interval between two updates of one PV in milliseconds; 0: no limit.
    pub min_interval_ms: u32,
}

impl fmt::Display for MaxRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate_hz = match self.min_interval_ms {
            0 => 0.0,
            interval => 1000.0 / f64::from(interval),
        };
        write!(formatter, "{}={rate_hz}", self.pattern)
    }
}

/// Times the speed of a recording, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySpeed(u32);

impl Default for ReplaySpeed {
    fn default() -> Self {
        Self(1000)
    }
}

impl ReplaySpeed {
    /// Whether a replay may have this speed.
    #[must_use]
    pub fn fits(times: f64) -> bool {
        (0.1..=100.0).contains(&times)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let times = text
            .parse::<f64>()
            .ok()
            .filter(|times| Self::fits(*times))?;
        Some(Self((times * 1000.0).round() as u32))
    }

    /// Times the speed of the recording.
    #[must_use]
    pub fn times(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for ReplaySpeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_in_cidr_notation_or_a_single_address() {
        for (text, shown) in [
            ("10.1.0.0/16", "10.1.0.0/16"),
            ("fd00::/8", "fd00::/8"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(network(text).unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "10.1.0.0/33",
            "10.1.0.0/",
            "10.1/16",
            "proxy",
            "::/129",
            "10.0.0.1/-1",
        ] {
            assert!(network(bad).is_err(), "{bad}");
        }
    }
}
