//! The key `channelfinder`: where ChannelFinder is, and which of its channels are listed.

use std::fmt;

use hyper::Uri;

/// Schemes of addresses.
const SCHEMES: [&str; 2] = ["http", "https"];

/// Parameters of ChannelFinder's queries that the relay sets itself.
const OWN_PARAMETERS: [&str; 4] = ["~size", "~from", "~search_after", "~track_total_hits"];

/// Path below the service's address, which an operator may have copied, too.
const RESOURCES: &str = "/resources";

/// The address of ChannelFinder, and a query in its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelFinderUrl {
    /// Without a slash at its end, as `http://host:8080/ChannelFinder`.
    pub service: String,
    /// What follows the `?`, as `pvStatus=Active`; empty for all channels.
    pub query: String,
}

impl ChannelFinderUrl {
    /// `http://HOST:PORT/PATH?QUERY`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let has_user = uri
            .authority()
            .is_none_or(|host| host.as_str().contains('@'));
        let is_usable = uri
            .scheme_str()
            .is_some_and(|scheme| SCHEMES.contains(&scheme))
            && uri.host().is_some_and(|host| !host.is_empty())
            && !text.contains('#')
            && !has_user;
        let (service, query) = text.split_once('?').unwrap_or((text, ""));
        let service = service.trim_end_matches('/');
        let service = service.strip_suffix(RESOURCES).unwrap_or(service);
        let is_own = |part: &str| {
            let name = part.split('=').next().unwrap_or_default();
            OWN_PARAMETERS.contains(&name.trim_end_matches('!'))
        };
        (is_usable && !query.split('&').any(is_own)).then(|| Self {
            service: service.trim_end_matches('/').to_owned(),
            query: query.to_owned(),
        })
    }
}

impl fmt::Display for ChannelFinderUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.service)?;
        match self.query.as_str() {
            "" => Ok(()),
            query => write!(formatter, "?{query}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_the_address_of_the_service_and_a_query() {
        for (text, shown) in [
            (
                "http://cf:8080/ChannelFinder",
                "http://cf:8080/ChannelFinder",
            ),
            (
                "https://cf/ChannelFinder/resources/",
                "https://cf/ChannelFinder",
            ),
            (
                "http://[::1]:1/?pvStatus=Active",
                "http://[::1]:1?pvStatus=Active",
            ),
            (
                "http://cf/CF/resources?~name=SR:*&~tag!=old",
                "http://cf/CF?~name=SR:*&~tag!=old",
            ),
        ] {
            assert_eq!(ChannelFinderUrl::read(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "cf:8080/ChannelFinder",
            "ftp://cf/ChannelFinder",
            "http:///ChannelFinder",
            "http://user:password@cf/ChannelFinder",
            "http://cf/ChannelFinder#x",
            "http://cf/ChannelFinder?~size=5",
            "http://cf/ChannelFinder?pvStatus=Active&~from=5",
            "http://cf/Channel Finder",
        ] {
            assert_eq!(ChannelFinderUrl::read(text), None, "{text}");
        }
    }
}
