//! Reads all channels of ChannelFinder, page by page.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{StatusCode, Uri};
use thiserror::Error;
use tokio::time::timeout;

use super::page::{LARGEST_PAGE, Listed, Next, PAGE, Page, Pages, placed};
use crate::ingest::directory::NameList;
use crate::ops::file_reads::{RegularFileError, read_text};
use crate::ops::http_client::{self, RequestError};

/// Longest answer with one page, in bytes.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// Longest file with a user and a password, in bytes.
const MAX_CREDENTIALS: u64 = 4 << 10;

/// Names in a list. A longer list would take twice its memory while its names are put in order.
const LIST_NAMES: usize = 10_000;

/// Memory of all lists, in bytes.
const MAX_BYTES: usize = 128 << 20;

/// Memory of what is known of all names, in bytes; names beyond it are listed without.
const MAX_ABOUT_BYTES: usize = 64 << 20;

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
    Credentials(CredentialsError),
    #[error("can't be asked: the relay's operator corrects the query in the option channelfinder")]
    Query,
    #[error(
        "can't be reached ({0}): the relay's operator checks the option channelfinder and the network, ChannelFinder's \
         operator whether it runs"
    )]
    Unreachable(RequestError),
    #[error(
        "gave no answer of HTTP ({0}): the relay's operator checks the option channelfinder, ChannelFinder's operator \
         reads its log"
    )]
    NoAnswer(RequestError),
    #[error(
        "has not {what} within {ms} ms (channelfinder_timeout_ms): ChannelFinder's operator finds out what delays it"
    )]
    Late { what: &'static str, ms: u128 },
    #[error("answered {status}: {}", advice(*status))]
    Status { status: StatusCode },
    #[error("has cut its answer ({0}): ChannelFinder's operator reads its log")]
    Cut(hyper::Error),
    #[error(
        "gave an answer of more than {MAX_PAGE_BYTES} bytes for {PAGE} channels: ChannelFinder's operator finds out which \
         channels are that large"
    )]
    TooLong,
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
    #[error(
        "has more names than the {MAX_BYTES} bytes of the relay hold: the relay's operator limits them by a query in the \
         option channelfinder, as ?pvStatus=Active&~name=SR:*"
    )]
    TooMany,
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
    /// How long it waits for a part of an answer.
    pub(super) patience: Duration,
}

/// All names so far.
#[derive(Debug, Default)]
struct Names {
    ca: Vec<(String, String)>,
    pva: Vec<(String, String)>,
    lists: Vec<Arc<NameList>>,
    bytes: usize,
    about_bytes: usize,
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

impl Names {
    fn add(&mut self, channels: Vec<Listed>, default_scheme: &str) -> Result<(), ReadError> {
        for Listed { name, mut about } in channels {
            let Some((scheme, name)) = placed(&name, default_scheme) else {
                continue;
            };
            if self.about_bytes + about.len() > MAX_ABOUT_BYTES {
                about = String::new();
            }
            self.about_bytes += about.len();
            // A list has a name twice, and two indices of it.
            self.bytes += 2 * (name.len() + 1) + about.len() + 8;
            let names = match scheme {
                "pva" => &mut self.pva,
                _ => &mut self.ca,
            };
            names.push((name.into_owned(), about));
        }
        if self.bytes > MAX_BYTES {
            return Err(ReadError::TooMany);
        }
        if self.ca.len() + self.pva.len() >= LIST_NAMES {
            self.make_lists();
        }
        Ok(())
    }

    /// Makes lists of the names that are in none yet.
    fn make_lists(&mut self) {
        for (scheme, names) in [("ca", &mut self.ca), ("pva", &mut self.pva)] {
            if !names.is_empty() {
                let list = NameList::described(scheme, std::mem::take(names));
                self.lists.push(Arc::new(list));
            }
        }
    }
}

impl Reading {
    /// All names, in lists.
    pub(super) async fn all(&self) -> Result<Vec<Arc<NameList>>, ReadError> {
        let whole = self.patience.saturating_mul(PATIENCES);
        self.within(whole, "given all channels", self.read())
            .await?
    }

    async fn within<T>(
        &self,
        patience: Duration,
        what: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, ReadError> {
        let ms = patience.as_millis();
        let done = timeout(patience, work).await;
        done.map_err(|_| ReadError::Late { what, ms })
    }

    async fn read(&self) -> Result<Vec<Arc<NameList>>, ReadError> {
        let login = (!self.credentials.is_empty()).then(|| authorization(&self.credentials));
        let login = login.transpose().map_err(ReadError::Credentials)?;
        let mut names = Names::default();
        let (mut after, mut size) = (None, PAGE);
        loop {
            let address = self.pages.address(after.as_deref(), size);
            let uri = address.parse().map_err(|_| ReadError::Query)?;
            let answer = self.answer(&uri, login.as_ref()).await?;
            let page = Page::read(&answer, &self.properties);
            let mut page = page.map_err(ReadError::NoPage)?;
            let next = page.next(size);
            names.add(page.channels, &self.default_scheme)?;
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
        names.make_lists();
        Ok(names.lists)
    }

    /// The body of an answer.
    async fn answer(&self, uri: &Uri, login: Option<&HeaderValue>) -> Result<Vec<u8>, ReadError> {
        let patience = self.patience;
        let connected = self.within(patience, "accepted a connection", http_client::connect(uri));
        let connected = connected.await?.map_err(ReadError::Unreachable)?;
        let asked = connected.get_as(uri, "application/json", login);
        let asked = self.within(patience, "begun to answer", asked).await?;
        let mut answer = asked.map_err(ReadError::NoAnswer)?;
        match answer.response.status() {
            StatusCode::OK => self.body(answer.response.body_mut()).await,
            status => Err(ReadError::Status { status }),
        }
    }

    async fn body(&self, body: &mut Incoming) -> Result<Vec<u8>, ReadError> {
        let mut whole = Vec::new();
        loop {
            let frame = self.within(
                self.patience,
                "given a further part of its answer",
                body.frame(),
            );
            let Some(frame) = frame.await? else {
                return Ok(whole);
            };
            let frame = frame.map_err(ReadError::Cut)?;
            let bytes = frame.into_data().unwrap_or_default();
            if whole.len() + bytes.len() > MAX_PAGE_BYTES {
                return Err(ReadError::TooLong);
            }
            whole.extend_from_slice(&bytes);
        }
    }
}
