//! `PUT /pv/NAME`: one put, with its outcome.

use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use pvwire_http::{PutBody, Route, Standing, Talk, put_answer, put_body};
use tokio::time::timeout;

use super::link::Link;
use super::{JSON, lacks_token, settled};
use crate::compute::Size;
use crate::http::server::answer::{Answer, Refusal, shared_with, with_type};
use crate::http::server::{Server, Visit};

/// Maximum length of a body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that reading a body takes for each of its bytes, at most: an array of one digit each.
const READ_FACTOR: usize = 24;

/// How long a put waits for its completion, unless the request says otherwise.
const COMPLETION: Duration = Duration::from_secs(10);

impl Server {
    /// `PUT /pv/NAME`.
    pub(super) async fn pv_put(
        &self,
        route: &Route,
        request: Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        let mut link = self.link(headers, visit)?;
        let now = SystemTime::now();
        let mut talk = Talk::new(self.token(headers), now);
        let body = self.received(body, &link).await?;
        talk.put(&route.name, body, now);
        let result = loop {
            lacks_token(&talk)?;
            if let Some(result) = talk.take_put() {
                break result;
            }
            link.turn(&mut talk).await?;
        };
        let (status, text) = put_answer(&result);
        let mut status = StatusCode::from_u16(status).unwrap_or_default();
        if status == StatusCode::SERVICE_UNAVAILABLE
            && is_not_found(&mut link, &mut talk, route).await
        {
            status = StatusCode::NOT_FOUND;
        }
        let mut answer = with_type(text, JSON);
        *answer.status_mut() = status;
        Ok(shared_with(answer, headers))
    }

    /// What the body asks for.
    async fn received(&self, body: Incoming, link: &Link) -> Result<PutBody, Refusal> {
        let too_late = (
            StatusCode::REQUEST_TIMEOUT,
            "the body has not arrived within 10 s\n",
        );
        let collected = timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
        let collected = collected.map_err(|_| too_late)?.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = "a put may have at most 1 MiB: write fewer elements at a time\n";
                return (StatusCode::PAYLOAD_TOO_LARGE, message.to_owned());
            }
            let message = format!("the body can't be read: {error}\n");
            (StatusCode::BAD_REQUEST, message)
        })?;
        let bytes = collected.to_bytes();
        let _charge = link.owner().charge(bytes.len() * READ_FACTOR)?;
        let (size, read) = (Size::of(bytes.len()), move || put_body(&bytes, COMPLETION));
        let body = self.pool.compute(link.owner().cpu(), size, read).await?;
        body.map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into())
    }
}

/// Whether no server has answered for the PV, as far as the relay knows.
async fn is_not_found(link: &mut Link, talk: &mut Talk, route: &Route) -> bool {
    talk.open(&route.name, Duration::ZERO, SystemTime::now());
    let standing = settled(link, talk, Duration::ZERO).await;
    matches!(standing, Ok(Standing::NotFound(reason) | Standing::Searched(reason)) if reason.is_empty())
}
