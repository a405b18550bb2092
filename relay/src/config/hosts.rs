//! To which hosts clients may be sent: browsers send their tokens there.

use std::net::IpAddr;

use hyper::Uri;
use wildmatch::WildMatch;

use super::value::socket_address;

/// Patterns of hosts (`member_hosts`); without any, all hosts. A pattern that ends in `*` is one of addresses: any domain's
/// names could begin as it does.
#[derive(Debug, Default)]
pub struct Hosts(Vec<WildMatch>);

impl Hosts {
    /// Reads patterns.
    #[must_use]
    pub fn new(patterns: &[String]) -> Self {
        Self(
            patterns
                .iter()
                .map(|pattern| WildMatch::new(&pattern.to_ascii_lowercase()))
                .collect(),
        )
    }

    /// Whether clients may be sent to this address.
    #[must_use]
    pub fn allow(&self, url: &str) -> bool {
        if socket_address(url).is_err() {
            return false;
        }
        let address: Option<Uri> = url.parse().ok();
        let host = address
            .as_ref()
            .and_then(Uri::host)
            .map(str::to_ascii_lowercase);
        let matches = |host: String| {
            let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
            self.0.iter().any(|pattern| {
                let pattern_text = pattern.pattern();
                let is_open = pattern_text.ends_with('*') && pattern_text != "*";
                (is_address || !is_open) && pattern.matches(&host)
            })
        };
        self.0.is_empty() || host.is_some_and(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_sent_to_the_hosts_of_the_site_alone() {
        let patterns = ["*.Relays.example.org", "10.1.2.*", "[::1]"].map(str::to_owned);
        let hosts = Hosts::new(&patterns);
        for own in [
            "wss://a.relays.example.org/ws",
            "wss://A.Relays.Example.ORG:8443/ws",
            "ws://10.1.2.3:8080/ws",
            "ws://[::1]:8080/ws",
        ] {
            assert!(hosts.allow(own), "{own}");
        }
        for other in [
            "wss://relays.example.org.evil.example/ws",
            "wss://evil.example/ws",
            "wss://10.1.2.3.evil.example/ws",
            "wss://10.1.2.evil.example/ws",
            "wss://evil.example/?a.relays.example.org",
            "wss://a.relays.example.org@evil.example/ws",
            "https://a.relays.example.org/ws",
            "wss:///ws",
            "javascript:alert(1)",
            "",
        ] {
            assert!(!hosts.allow(other), "{other}");
        }
    }

    #[test]
    fn without_patterns_only_addresses_that_are_none_are_refused() {
        let hosts = Hosts::default();
        assert!(hosts.allow("wss://any.example/ws"));
        for wrong in [
            "http://any.example/ws",
            "wss://user@any.example/ws",
            "ws://",
        ] {
            assert!(!hosts.allow(wrong), "{wrong}");
        }
    }
}
