//! Warnings of pages that can't connect: one per minute and origin, because pages try again for ever.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{self, HeaderMap};

use super::trust::only;

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
