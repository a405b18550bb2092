//! Reads all channels of ChannelFinder, page by page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use thiserror::Error;

use super::fetch::{Fetch, FetchError, Service};
use super::gathered::{Gathered, TooManyNames};
use super::page::{LARGEST_PAGE, Next, PAGE, Page, Pages};
use crate::ops::file_reads::{RegularFileError, read_text};

/// Longest answer with one page, in bytes.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// Longest file with a user and a password, in bytes.
const MAX_CREDENTIALS: u64 = 4 << 10;

/// Reading all channels takes at most this many times as long as waiting for one part of an answer.
const PATIENCES: u32 = 20;

/// The file that `channelfinder_credentials` names can't be used.
#[derive(Debug, Error)]
#[error("channelfinder_credentials: {path}: {why}")]
pub struct CredentialsError {
    path: String,
    why: CredentialsProblem,
}

#[derive(Debug, Error)]
enum CredentialsProblem {
    #[error(transparent)]
    File(#[from] RegularFileError),
    #[error("expected USER:PASSWORD in one line")]
    Form,
}

/// Why there are no names; who must act.
#[derive(Debug, Error)]
pub(super) enum ReadError {
    #[error("{0}: the relay's operator corrects the file")]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    TooMany(#[from] TooManyNames),
    #[error(
        "gave an answer that is no page of channels ({0}): the relay's operator checks that the option channelfinder has \
         the address of ChannelFinder, as http://HOST:8080/ChannelFinder"
    )]
    NoPage(serde_json::Error),
    #[error(
        "gave the same page twice, after {0:?}: ChannelFinder's operator checks what stands between it and the relay"
    )]
    Repeated(String),
    #[error(
        "has {LARGEST_PAGE} names in a row that can't be asked for, because they contain one of / \\ ; %: the relay's \
         operator leaves them out by a query in the option channelfinder"
    )]
    NoSegments,
}

/// Who must do what after an answer with this status.
fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => {
            "the relay's operator sets channelfinder_credentials to a user who may read, or corrects that file"
        }
        400 => "the relay's operator corrects the query in the option channelfinder",
        404 => {
            "the relay's operator corrects the option channelfinder to the address of ChannelFinder 4 or later, as \
             http://HOST:8080/ChannelFinder"
        }
        300..=399 => "the relay's operator names the address to which this one redirects",
        _ => "ChannelFinder's operator reads its log",
    }
}

/// What the relay reads, and how.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) pages: Pages,
    /// File with the user and the password; empty for none.
    pub(super) credentials: String,
    /// Properties that clients are told.
    pub(super) properties: Vec<String>,
    pub(super) default_scheme: String,
    pub(super) fetch: Fetch,
}

/// The header with the user and the password of a file.
///
/// # Errors
/// When it can't be read, or isn't `USER:PASSWORD`.
pub(super) fn authorization(path: &str) -> Result<HeaderValue, CredentialsError> {
    let failed = |why| CredentialsError {
        path: path.to_owned(),
        why,
    };
    let text = read_text(path, MAX_CREDENTIALS).map_err(|why| failed(why.into()))?;
    let line = text.trim_end_matches(['\r', '\n']);
    let is_whole = !line.contains(char::is_control)
        && line
            .split_once(':')
            .is_some_and(|(user, _)| !user.is_empty());
    let value = format!("Basic {}", STANDARD.encode(line));
    let value = HeaderValue::try_from(value).ok().filter(|_| is_whole);
    let mut value = value.ok_or_else(|| failed(CredentialsProblem::Form))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) const SERVICE: Service = Service {
    option: "channelfinder",
    timeout_option: "channelfinder_timeout_ms",
    owner: "ChannelFinder's operator",
    content_type: "application/json",
    max_bytes: MAX_PAGE_BYTES,
    advice,
};

impl Reading {
    /// All names.
    pub(super) async fn all(&self) -> Result<Gathered, ReadError> {
        let whole = self.fetch.patience.saturating_mul(PATIENCES);
        let read = self.read();
        self.fetch.within(whole, "given all channels", read).await?
    }

    async fn read(&self) -> Result<Gathered, ReadError> {
        let login = (!self.credentials.is_empty()).then(|| authorization(&self.credentials));
        let login = login.transpose()?;
        let mut names = Gathered::new(&self.default_scheme);
        let (mut after, mut size) = (None, PAGE);
        loop {
            let address = self.pages.address(after.as_deref(), size);
            let uri = (address.parse()).map_err(|_| FetchError::Address(SERVICE.option))?;
            let answer = self.fetch.answer(&uri, login.as_ref()).await?;
            let page = Page::read(&answer, &self.properties);
            let mut page = page.map_err(ReadError::NoPage)?;
            let next = page.next(size);
            for channel in page.channels {
                names.add(&channel.name, channel.about)?;
            }
            match next {
                Next::End => break,
                Next::Larger if size == LARGEST_PAGE => return Err(ReadError::NoSegments),
                Next::Larger => size = LARGEST_PAGE,
                Next::After(name) if after.as_ref() == Some(&name) => {
                    return Err(ReadError::Repeated(name));
                }
                Next::After(name) => (after, size) = (Some(name), PAGE),
            }
        }
        Ok(names)
    }
}
