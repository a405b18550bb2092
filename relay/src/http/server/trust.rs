//! Which pages and host names may use the relay: the checks of `Origin` and `Host`. A page that can't connect is logged
//! once a minute and origin, because pages try again for ever.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{self, HeaderMap, HeaderValue};

/// The trusted pages and host names.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Origins in addition to those of this host; `*` stands for all.
    pub origins: Vec<String>,
    /// Host names in addition to IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The relay's connections use TLS.
    pub encrypted: bool,
}

impl Trust {
    /// Whether `Host` is one of the relay's names. A foreign name that resolves to this machine is
    /// not: DNS rebinding begins with one.
    pub(super) fn host(&self, headers: &HeaderMap) -> bool {
        let Some(host) = only(headers, header::HOST) else {
            return false;
        };
        let name = host.rsplit_once(':').map_or(host, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) {
                name
            } else {
                host
            }
        });
        let literal = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        literal.unwrap_or(name).parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
            || self
                .origins
                .iter()
                .any(|origin| authority(origin).is_some_and(|of| same(of, host)))
    }

    /// Whether the requesting page may connect: one of this host, or one that is listed. Programs
    /// other than browsers send no `Origin`.
    pub(super) fn origin(&self, headers: &HeaderMap) -> bool {
        if !headers.contains_key(header::ORIGIN) {
            return true;
        }
        let Some(origin) = only(headers, header::ORIGIN) else {
            return false;
        };
        let host = only(headers, header::HOST).unwrap_or_default();
        // Without a port, http and https name the same host, and anyone between browser and server
        // can change a page of http.
        let is_safe = origin.starts_with("https:") || !self.is_reached_encrypted(headers);
        (is_safe && authority(origin).is_some_and(|of| same(of, host)))
            || self
                .origins
                .iter()
                .any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    }

    /// Whether a listed page may show an answer that it embeds, for example as an image. Browsers name the page's origin
    /// in `Referer`, because they send no `Origin` then.
    pub(super) fn embedder(&self, headers: &HeaderMap) -> bool {
        let page = only(headers, header::REFERER).and_then(origin_of);
        let is_it = |known: &String| {
            known == "*" || page.is_some_and(|page| known.eq_ignore_ascii_case(page))
        };
        self.origins.iter().any(is_it)
    }

    /// Whether the browser uses TLS to this relay, or to a proxy that says so. A page can't set the
    /// proxy's header.
    fn is_reached_encrypted(&self, headers: &HeaderMap) -> bool {
        let first = |value: &HeaderValue| {
            let value = value.to_str().unwrap_or_default();
            let first = value.split(',').next().unwrap_or_default().trim();
            same(first, "https") || same(first, "wss")
        };
        self.encrypted || headers.get("x-forwarded-proto").is_some_and(first)
    }
}

/// The value of a header that occurs once. Of two, one program may check the first and another use
/// the second.
pub(super) fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none());
    value.and_then(|value| value.to_str().ok())
}

/// The origin of a page's address.
fn origin_of(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    address.get(..scheme.len() + "://".len() + host.len())
}

/// Host and port of an origin.
fn authority(origin: &str) -> Option<&str> {
    origin
        .split_once("://")
        .filter(|(scheme, authority)| ["http", "https"].contains(scheme) && !authority.is_empty())
        .map(|(_, authority)| authority)
}

pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Interval between two warnings of one origin.
const EVERY: Duration = Duration::from_secs(60);

/// Maximum number of origins with a warning in the last minute; further ones are not logged.
const MAX_ORIGINS: usize = 64;

/// Maximum length of an origin in the log.
const MAX_ORIGIN_BYTES: usize = 200;

/// The origins of refused pages, each with the time of its last warning.
#[derive(Debug, Default)]
pub struct RefusedPages {
    warned: Mutex<HashMap<String, Instant>>,
}

impl RefusedPages {
    /// Logs that a page's WebSocket was refused. Other requests, and those of programs, which have
    /// no origin, are left out.
    pub(super) fn warn(&self, headers: &HeaderMap, why: &str, now: Instant) {
        let Some(origin) =
            only(headers, header::ORIGIN).filter(|_| headers.contains_key(header::UPGRADE))
        else {
            return;
        };
        let origin: String = origin.chars().take(MAX_ORIGIN_BYTES).collect();
        if self.is_due(&origin, now) {
            log::warn!("a page of {origin} can't connect: {}", why.trim_end());
        }
    }

    fn is_due(&self, origin: &str, now: Instant) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.retain(|_, last| now.duration_since(*last) < EVERY);
        if warned.len() >= MAX_ORIGINS || warned.contains_key(origin) {
            return false;
        }
        warned.insert(origin.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    fn trust() -> Trust {
        Trust {
            origins: vec!["https://screens.example.org".into()],
            hosts: vec!["pvwire.example.org".into()],
            encrypted: false,
        }
    }

    #[test]
    fn http_page_of_the_own_host_may_not_connect_to_an_https_relay() {
        let encrypted = Trust {
            encrypted: true,
            ..trust()
        };
        let (http, https) = (
            Some("http://pvwire.example.org"),
            Some("https://pvwire.example.org"),
        );
        let headers = |origin| headers("pvwire.example.org", origin);
        assert!(!encrypted.origin(&headers(http)));
        assert!(encrypted.origin(&headers(https)));
        // Behind a proxy that encrypts the relay may not know it.
        assert!(trust().origin(&headers(http)) && trust().origin(&headers(https)));
        for (said, may) in [("https", false), ("wss, http", false), ("http", true)] {
            let mut headers = headers(http);
            headers.insert("x-forwarded-proto", said.parse().unwrap());
            assert_eq!(trust().origin(&headers), may, "{said}");
            headers.insert(header::ORIGIN, https.unwrap().parse().unwrap());
            assert!(trust().origin(&headers), "{said}");
        }
    }

    #[test]
    fn only_pages_of_the_same_host_and_listed_ones_may_connect() {
        for (host, origin, may) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), true),
            ("127.0.0.1:8080", None, true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8081"), false),
            ("127.0.0.1:8080", Some("https://screens.example.org"), true),
            (
                "127.0.0.1:8080",
                Some("https://screens.example.org.evil.test"),
                false,
            ),
            ("127.0.0.1:8080", Some("http://evil.test"), false),
            ("127.0.0.1:8080", Some("null"), false),
        ] {
            assert_eq!(
                trust().origin(&headers(host, origin)),
                may,
                "{host} {origin:?}"
            );
        }
    }

    #[test]
    fn listed_pages_alone_may_embed() {
        let with = |referer: Option<&str>| {
            let mut headers = headers("127.0.0.1:8080", None);
            if let Some(referer) = referer {
                headers.insert(header::REFERER, referer.parse().unwrap());
            }
            headers
        };
        for (referer, may) in [
            (Some("https://screens.example.org/"), true),
            (Some("https://screens.example.org/a?b=c://d"), true),
            (Some("https://screens.example.org"), true),
            (Some("https://screens.example.org.evil.test/"), false),
            (
                Some("https://evil.test/https://screens.example.org/"),
                false,
            ),
            (Some("http://screens.example.org/"), false),
            (None, false),
        ] {
            assert_eq!(trust().embedder(&with(referer)), may, "{referer:?}");
        }
        let all = Trust {
            origins: vec!["*".to_owned()],
            ..trust()
        };
        assert!(all.embedder(&with(None)));
    }

    #[test]
    fn relay_answers_to_addresses_localhost_and_its_own_names_only() {
        for (host, is_ours) in [
            ("127.0.0.1:8080", true),
            ("127.0.0.1", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("localhost:8080", true),
            ("pvwire.example.org", true),
            ("PVWIRE.example.org:443", true),
            ("screens.example.org", true),
            ("evil.test:8080", false),
            ("localhost.evil.test", false),
            ("", false),
        ] {
            assert_eq!(trust().host(&headers(host, None)), is_ours, "{host}");
        }
        assert!(!trust().host(&HeaderMap::new()));
    }

    #[test]
    fn origin_is_due_once_a_minute_and_the_number_of_origins_is_bounded() {
        let pages = RefusedPages::default();
        let start = Instant::now();
        let due =
            |origin: &str, after: u64| pages.is_due(origin, start + Duration::from_secs(after));
        assert!(due("https://a", 0));
        assert!(!due("https://a", 59) && due("https://b", 59));
        assert!(due("https://a", 60));
        for n in 0..MAX_ORIGINS - 2 {
            assert!(due(&format!("https://{n}"), 61));
        }
        assert!(!due("https://one.too.many", 61));
        assert!(due("https://one.too.many", 121));
    }
}
