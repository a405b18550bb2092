//! One request by HTTP to a service that lists names.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{StatusCode, Uri};
use thiserror::Error;
use tokio::time::timeout;

use crate::ops::http_client::{self, RequestError};

/// A service that the relay reads, and who has to do with it.
#[derive(Debug)]
pub(super) struct Service {
    /// Names its address.
    pub(super) option: &'static str,
    /// Names how long a request waits.
    pub(super) timeout_option: &'static str,
    /// Who runs it.
    pub(super) owner: &'static str,
    /// What it answers.
    pub(super) content_type: &'static str,
    /// Longest answer, in bytes.
    pub(super) max_bytes: usize,
    /// Who must do what after an answer with this status.
    pub(super) advice: fn(StatusCode) -> &'static str,
}

/// How a service is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub(super) service: &'static Service,
    /// How long a request waits for each part of its answer.
    pub(super) patience: Duration,
}

/// Why there is no answer; who must act.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error(
        "can't be asked: the relay's operator corrects the address or the query in the option {0}"
    )]
    Address(&'static str),
    #[error(
        "can't be reached ({error}): the relay's operator checks the option {} and the network, {} whether it runs",
        .service.option, .service.owner
    )]
    Unreachable {
        service: &'static Service,
        error: RequestError,
    },
    #[error(
        "gave no answer of HTTP ({error}): the relay's operator checks the option {}, {} reads its log",
        .service.option, .service.owner
    )]
    NoAnswer {
        service: &'static Service,
        error: RequestError,
    },
    #[error(
        "has not {what} within {ms} ms ({}): {} finds out what delays it",
        .service.timeout_option, .service.owner
    )]
    Late {
        service: &'static Service,
        what: &'static str,
        ms: u128,
    },
    #[error("answered {status}: {}", (.service.advice)(*.status))]
    Status {
        service: &'static Service,
        status: StatusCode,
    },
    #[error("has cut its answer ({error}): {} reads its log", .service.owner)]
    Cut {
        service: &'static Service,
        error: hyper::Error,
    },
    #[error(
        "gave an answer of more than {} bytes: {} finds out what makes it that long",
        .service.max_bytes, .service.owner
    )]
    TooLong { service: &'static Service },
}

impl Fetch {
    pub(super) async fn within<T>(
        &self,
        patience: Duration,
        what: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, FetchError> {
        let ms = patience.as_millis();
        let done = timeout(patience, work).await;
        done.map_err(|_| FetchError::Late {
            service: self.service,
            what,
            ms,
        })
    }

    /// The body of an answer.
    pub(super) async fn answer(
        &self,
        uri: &Uri,
        login: Option<&HeaderValue>,
    ) -> Result<Vec<u8>, FetchError> {
        let patience = self.patience;
        let connected = self.within(patience, "accepted a connection", http_client::connect(uri));
        let connected = connected.await?;
        let connected = connected.map_err(|error| FetchError::Unreachable {
            service: self.service,
            error,
        })?;
        let asked = connected.get_as(uri, self.service.content_type, login);
        let asked = self.within(patience, "begun to answer", asked).await?;
        let mut answer = asked.map_err(|error| FetchError::NoAnswer {
            service: self.service,
            error,
        })?;
        match answer.response.status() {
            StatusCode::OK => self.body(answer.response.body_mut()).await,
            status => Err(FetchError::Status {
                service: self.service,
                status,
            }),
        }
    }

    async fn body(&self, body: &mut Incoming) -> Result<Vec<u8>, FetchError> {
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
            let frame = frame.map_err(|error| FetchError::Cut {
                service: self.service,
                error,
            })?;
            let bytes = frame.into_data().unwrap_or_default();
            if whole.len() + bytes.len() > self.service.max_bytes {
                return Err(FetchError::TooLong {
                    service: self.service,
                });
            }
            whole.extend_from_slice(&bytes);
        }
    }
}
