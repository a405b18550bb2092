//! Reads the keys that verify tokens from `jwt_keys`, a file or a URL, and reads them again while
//! the relay runs.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http_body_util::{BodyExt, Limited};
use hyper::{StatusCode, Uri};
use thiserror::Error;

use crate::access::auth::{KeySetError, Keys, TokenRules, Tokens};
use crate::config::Config;
use crate::ops::file_reads::{FileReads, NO_ANSWER, RegularFileError, read_text};
use crate::ops::http_client::{self, RequestError};
use crate::ops::metrics::Metrics;
use crate::ops::rhythm;

/// Interval between reads of a file.
const FILE_EVERY: Duration = Duration::from_secs(1);

/// Interval between requests to a URL.
const URL_EVERY: Duration = Duration::from_secs(300);

/// The same while the URL gives no keys.
const URL_RETRY: Duration = Duration::from_secs(10);

/// Shortest interval between two requests, even when tokens with unknown keys arrive.
const URL_AGAIN: Duration = Duration::from_secs(2);

/// Time limit for a URL's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest key set, in bytes.
const MAX_KEYS_BYTES: usize = 1 << 20;

fn is_url(place: &str) -> bool {
    place.contains("://")
}

/// `jwt_keys` gives no keys.
#[derive(Debug, Error)]
#[error("jwt_keys: {place}: {cause}")]
pub struct KeysError {
    place: String,
    cause: Cause,
}

#[derive(Debug, Error)]
enum Cause {
    #[error(transparent)]
    File(#[from] RegularFileError),
    #[error("{NO_ANSWER}")]
    DiskHangs,
    #[error("not UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Set(#[from] KeySetError),
    #[error("not a URL")]
    NotAUrl,
    #[error("expected https://, or http:// on this machine")]
    Scheme,
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Body(String),
}

/// Reads the keys of a configuration that names a file with keys, to find errors in it.
///
/// # Errors
/// When the file can't be read or has no keys, or the URL is invalid.
pub fn check_file(config: &Config) -> Result<(), KeysError> {
    let place = &config.jwt_keys;
    if place.is_empty() {
        return Ok(());
    }
    let failed = |cause| KeysError {
        place: place.clone(),
        cause,
    };
    if is_url(place) {
        return check_url(place).map(drop).map_err(failed);
    }
    let text = read_text(place, MAX_KEYS_BYTES as u64).map_err(|error| failed(error.into()))?;
    Keys::read(&text).map_err(|error| failed(error.into()))?;
    Ok(())
}

/// Checks tokens by the configuration. A URL that can't be reached yet is requested again later.
///
/// # Errors
/// When the file can't be read or has no keys.
pub async fn tokens(config: &Config) -> Result<Arc<Tokens>, KeysError> {
    let place = &config.jwt_keys;
    let keys = match read(place, &mut FileReads::default()).await {
        Ok((_, keys)) => keys,
        Err(error) if is_url(place) && check_url(place).is_ok() => {
            log::warn!("{error}; all log-ins are refused until there are keys");
            Keys::default()
        }
        Err(error) => return Err(error),
    };
    let rules = TokenRules {
        audience: config.jwt_audience.clone(),
        issuer: config.jwt_issuer.clone(),
        user_claim: config.jwt_user_claim.clone(),
        groups_claim: config.jwt_groups_claim.clone(),
    };
    Ok(Arc::new(Tokens::new(rules, keys)))
}

/// Reads the keys again, for ever: a file every second, a URL every five minutes and when an
/// unknown key signed a token. While they can't be read, or the set is empty, the previous keys
/// stay valid for `jwt_keys_keep_ms`.
pub async fn keep_fresh(tokens: Arc<Tokens>, config: Config, metrics: Arc<Metrics>) {
    let place = config.jwt_keys;
    let (mut last, mut asked) = (String::new(), Instant::now());
    let mut reads = FileReads::default();
    let mut state = KeyState::new(&tokens, &metrics, config.jwt_keys_keep);
    loop {
        if is_url(&place) {
            let every = if state.complaint.is_some() {
                URL_RETRY
            } else {
                URL_EVERY
            };
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = tokens.wanted() => {
                    tokio::time::sleep(URL_AGAIN.saturating_sub(asked.elapsed())).await;
                }
            }
        } else {
            rhythm::next(FILE_EVERY).await;
        }
        asked = Instant::now();
        match read(&place, &mut reads).await {
            Ok((text, keys)) => {
                if text != last || state.retired {
                    if !last.is_empty() {
                        log::info!("{place}: new keys are in effect");
                    }
                    tokens.replace(keys);
                    last = text;
                }
                state.fresh();
            }
            Err(error) => state.failed(error.to_string()),
        }
    }
}

/// Whether the keys in use are those of their file or URL.
struct KeyState<'a> {
    tokens: &'a Tokens,
    metrics: &'a Metrics,
    keep: Duration,
    read: Instant,
    /// The last error, once it is logged.
    complaint: Option<String>,
    /// The previous keys have expired.
    retired: bool,
}

impl<'a> KeyState<'a> {
    fn new(tokens: &'a Tokens, metrics: &'a Metrics, keep: Duration) -> Self {
        let mut state = Self {
            tokens,
            metrics,
            keep,
            read: Instant::now(),
            complaint: None,
            retired: tokens.keys().is_empty(),
        };
        if state.retired {
            // The reason was logged at the start.
            state.complaint = Some(String::new());
            metrics.keys_stale.set(1);
        } else {
            state.fresh();
        }
        state
    }

    /// The keys were read.
    fn fresh(&mut self) {
        (self.read, self.retired) = (Instant::now(), false);
        if self.complaint.take().is_some() {
            log::info!("jwt_keys can be read again");
        }
        self.metrics.keys_stale.set(0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = now.map_or(0, |since| since.as_secs());
        self.metrics
            .keys_read
            .set(i64::try_from(seconds).unwrap_or(0));
    }

    /// The keys couldn't be read.
    fn failed(&mut self, error: String) {
        self.metrics.keys_stale.set(1);
        if !self.retired && self.read.elapsed() >= self.keep {
            self.retired = true;
            self.tokens.retire();
            let keep = self.keep.as_millis();
            log::error!(
                "{error}; this has lasted for {keep} ms (jwt_keys_keep_ms), so all log-ins are refused"
            );
        } else if !self.retired && self.complaint.as_ref() != Some(&error) {
            log::error!("{error}; the previous keys stay valid for jwt_keys_keep_ms");
        }
        self.complaint = Some(error);
    }
}

/// Reads of a file of keys.
type KeyReads = FileReads<Result<String, RegularFileError>>;

async fn read(place: &str, reads: &mut KeyReads) -> Result<(String, Keys), KeysError> {
    let text = if is_url(place) {
        let fetched = tokio::time::timeout(PATIENCE, fetch(place)).await;
        fetched.unwrap_or(Err(Cause::Late))
    } else {
        let path = place.to_owned();
        let text = reads.read(move || read_text(&path, MAX_KEYS_BYTES as u64));
        let text = text.await.ok_or(Cause::DiskHangs);
        text.and_then(|text| Ok(text?))
    };
    let keys = text.and_then(|text| {
        let keys = Keys::read(&text)?;
        Ok((text, keys))
    });
    keys.map_err(|cause| KeysError {
        place: place.to_owned(),
        cause,
    })
}

/// Refuses unencrypted URLs of other machines: an attacker who can change the answer could log in
/// as any user.
fn check_url(url: &str) -> Result<Uri, Cause> {
    let uri: Uri = url.parse().map_err(|_| Cause::NotAUrl)?;
    let host = uri.host().unwrap_or_default();
    let local = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => Ok(uri),
        Some("http") if local => Ok(uri),
        _ => Err(Cause::Scheme),
    }
}

async fn fetch(url: &str) -> Result<String, Cause> {
    let uri = check_url(url)?;
    let answer = http_client::connect(&uri).await?;
    let mut answer = answer.get(&uri, "application/json").await?;
    if answer.response.status() != StatusCode::OK {
        return Err(Cause::Status(answer.response.status()));
    }
    let body = Limited::new(answer.response.body_mut(), MAX_KEYS_BYTES).collect();
    let body = body.await.map_err(|error| Cause::Body(error.to_string()))?;
    String::from_utf8(body.to_bytes().to_vec()).map_err(|_| Cause::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_over_a_network_by_tls_only() {
        for (url, good) in [
            ("https://login.example.org/keys", true),
            ("https://login.example.org:8443/keys?v=2", true),
            ("http://127.0.0.1:9/keys", true),
            ("http://localhost/keys", true),
            ("http://login.example.org/keys", false),
            ("http://localhost.evil.test/keys", false),
            ("http://127.0.0.1@evil.test/keys", false),
            ("ftp://login.example.org/keys", false),
            ("https://", false),
        ] {
            assert_eq!(check_url(url).is_ok(), good, "{url}");
        }
    }
}
