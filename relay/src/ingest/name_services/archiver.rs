//! The names of an Archiver Appliance: one text, with a name in each line.

use std::time::Duration;

use hyper::StatusCode;
use thiserror::Error;
use wildmatch::WildMatch;

use super::fetch::{Fetch, FetchError, Service};
use super::gathered::{Gathered, TooManyNames};
use super::page::placed;
use crate::config::ArchiverRule;

/// The one route that is requested: the names that match a regular expression, all of them.
const ROUTE: &str = "/bpl/searchForPVsRegex?regex=.*";

/// Longest answer, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Reading all names takes at most this many times as long as waiting for one part of the answer.
const PATIENCES: u32 = 20;

/// Why there are no names; who must act.
#[derive(Debug, Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    TooMany(#[from] TooManyNames),
    #[error(
        "gave an answer that is no list of names: the relay's operator checks that the option archiver has the address \
         of the archiver's retrieval service, as SR:*=http://HOST:17668/retrieval"
    )]
    NoList,
}

const SERVICE: Service = Service {
    option: "archiver",
    timeout_option: "archiver_timeout_ms",
    owner: "the archiver's operator",
    content_type: "text/plain",
    max_bytes: MAX_BYTES,
    advice,
};

/// What the relay reads, and how.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    fetch: Fetch,
    url: String,
    pattern: WildMatch,
    default_scheme: String,
}

/// Who must do what after an answer with this status.
fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        404 => {
            "the relay's operator corrects the option archiver to the address of the retrieval service"
        }
        503 => "it may be starting; the relay tries again",
        _ => "the archiver's operator reads its log",
    }
}

impl Reading {
    pub(super) fn new(rule: &ArchiverRule, default_scheme: &str, patience: Duration) -> Self {
        Self {
            fetch: Fetch {
                service: &SERVICE,
                patience,
            },
            url: rule.url.clone(),
            pattern: WildMatch::new(&rule.pattern),
            default_scheme: default_scheme.to_owned(),
        }
    }

    /// All names to which the rule applies.
    pub(super) async fn all(&self) -> Result<Gathered, ReadError> {
        let uri = format!("{}{ROUTE}", self.url).parse();
        let uri = uri.map_err(|_| FetchError::Address(SERVICE.option))?;
        let whole = self.fetch.patience.saturating_mul(PATIENCES);
        let answer = self.fetch.answer(&uri, None);
        let answer = self
            .fetch
            .within(whole, "given all names", answer)
            .await??;
        self.names(&answer)
    }

    fn names(&self, answer: &[u8]) -> Result<Gathered, ReadError> {
        let text = std::str::from_utf8(answer).map_err(|_| ReadError::NoList)?;
        // A web page begins so.
        if text.trim_start().starts_with('<') {
            return Err(ReadError::NoList);
        }
        let mut names = Gathered::new(&self.default_scheme);
        for name in text.lines().map(str::trim) {
            let is_of_rule = placed(name, &self.default_scheme).is_some_and(|(scheme, plain)| {
                self.pattern.matches(&plain) || self.pattern.matches(&format!("{scheme}://{plain}"))
            });
            if is_of_rule {
                names.add(name, String::new())?;
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str, answer: &str) -> Result<Vec<String>, String> {
        let rule = ArchiverRule {
            pattern: pattern.to_owned(),
            url: "http://a/retrieval".to_owned(),
        };
        let reading = Reading::new(&rule, "ca", Duration::from_secs(1));
        let names = reading.names(answer.as_bytes());
        let lists = names.map_err(|error| error.to_string())?.into_lists();
        let named = |list: &std::sync::Arc<crate::ingest::directory::NameList>| {
            let scheme = list.scheme().to_owned();
            let named = list.names().map(|name| format!("{scheme}://{name}"));
            named.collect::<Vec<_>>()
        };
        Ok(lists.iter().flat_map(named).collect())
    }

    #[test]
    fn names_are_those_of_the_rule_each_once() {
        let answer = "SR:A\nSR:B.RBV\r\n\nBR:A\npva://SR:C\nSR:A\nno name\nsim://SR:D\n";
        let of_sr = names("SR:*", answer).unwrap();
        assert_eq!(of_sr, ["ca://SR:A", "ca://SR:B.RBV", "pva://SR:C"]);
        assert_eq!(names("pva://*", answer).unwrap(), ["pva://SR:C"]);
        assert_eq!(names("*", "").unwrap(), [""; 0]);
        let page = names("*", " <!DOCTYPE html>").unwrap_err();
        assert!(page.contains("is no list of names"), "{page}");
    }
}
