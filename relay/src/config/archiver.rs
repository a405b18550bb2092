//! One rule of the key `archiver`: which archiver has the past of which PVs.

use std::fmt;

use hyper::Uri;

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
