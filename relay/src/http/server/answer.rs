//! Answers to HTTP requests, each with the headers that browsers need, and the bodies that are written as their parts
//! arrive.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::Outcome;
use tokio::sync::mpsc;

use crate::compute::NotComputed;
use crate::limits::connections::TooMany;
use crate::ops::shutdown::Unready;
use crate::queries::archiver::Fetching;
use crate::queries::plain_clients::PlainClient;
use crate::session::question::Problem;
use crate::session::stream::StreamBody;

/// The body of `/ready`.
const READY: &str = "ready\n";

/// The body of `/ready` while puts wait for the audit file.
const READY_TO_READ: &str =
    "ready, but takes no puts: the audit file can't be written (audit_fail = closed)\n";

/// A refused request: the status of its answer, and one line that says why.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: Cow<'static, str>,
}

impl<M: Into<Cow<'static, str>>> From<(StatusCode, M)> for Refusal {
    fn from((status, message): (StatusCode, M)) -> Self {
        let message = message.into();
        Self { status, message }
    }
}

impl From<NotComputed> for Refusal {
    fn from(why: NotComputed) -> Self {
        let status = match why {
            NotComputed::UsedUp => StatusCode::TOO_MANY_REQUESTS,
            NotComputed::Busy => StatusCode::SERVICE_UNAVAILABLE,
            NotComputed::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{why}\n")).into()
    }
}

/// An answer; the streams have bodies without end.
pub(super) type Answer =
    Response<Either<Full<Bytes>, Either<StreamBody, Either<Pieces, Forwarded>>>>;

/// Whether traffic should be sent here, and if not, why. A relay that refuses puts because it can't
/// record them is ready: it still shows PVs.
pub(super) fn ready(unready: Option<Unready>, takes_puts: bool) -> Answer {
    let why = match unready {
        None if takes_puts => return plain(StatusCode::OK, READY),
        None => return plain(StatusCode::OK, READY_TO_READ),
        Some(Unready::Starting) => "not ready: the relay is starting\n",
        Some(Unready::Draining) => "not ready: the relay is stopping\n",
        Some(Unready::ShortOfMemory) => {
            "not ready: the relay uses more memory than max_memory_mib and takes no new clients until it uses \
             less\n"
        }
    };
    plain(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// The refusal of a connection beyond a limit.
pub(super) fn too_many(why: TooMany) -> Refusal {
    let (status, message) = match why {
        TooMany::InAll => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the relay is full: try again later\n",
        ),
        TooMany::FromAddress => (
            StatusCode::TOO_MANY_REQUESTS,
            "your address has too many connections: close some, or the relay's operator raises \
             max_connections_per_address, or names the proxy that you share in trusted_proxy\n",
        ),
        TooMany::TooFast => (
            StatusCode::TOO_MANY_REQUESTS,
            "your address or user connects too fast: try again later, or the relay's operator raises \
             max_new_connections_per_s, or names the proxy that you share in trusted_proxy\n",
        ),
    };
    (status, message).into()
}

pub(super) fn plain(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Answer {
    let message = match message.into() {
        Cow::Borrowed(message) => Bytes::from_static(message.as_bytes()),
        Cow::Owned(message) => Bytes::from(message),
    };
    let mut response = with_type(message, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

/// An answer that says, if a token is missing, how to bring it.
pub(super) fn challenged(mut answer: Answer) -> Answer {
    if answer.status() == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        let headers = answer.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, scheme);
    }
    answer
}

/// The answer to a method that a path doesn't have. `allowed` are those that it has.
pub(super) fn not_allowed(allowed: &'static str, message: impl Into<Cow<'static, str>>) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, message);
    allow(&mut answer, allowed);
    answer
}

/// Adds the methods that a path has.
pub(super) fn allow(answer: &mut Answer, allowed: &'static str) {
    let headers = answer.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
}

pub(super) fn with_type(body: impl Into<Bytes>, content_type: &'static str) -> Answer {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// Stands in a page and its policy for a number that no other answer has, and that no injected script can know.
const NONCE: &str = "{NONCE}";

/// A page with its content security policy.
pub(super) fn page(html: &str, policy: &str) -> Answer {
    let mut random = [0; 16];
    if getrandom::fill(&mut random).is_err() {
        let why = "the system gives no random numbers, without which the page is not safe\n";
        return plain(StatusCode::INTERNAL_SERVER_ERROR, why);
    }
    let nonce = format!("{:032x}", u128::from_ne_bytes(random));
    let mut answer = with_type(html.replace(NONCE, &nonce), "text/html; charset=utf-8");
    let policy = HeaderValue::try_from(policy.replace(NONCE, &nonce));
    let policy = policy.expect("policies and hexadecimal digits are ASCII");
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

/// Lets the page that made a request read the answer. Its origin must be trusted.
pub(super) fn shared_with(mut answer: Answer, request: &HeaderMap) -> Answer {
    if let Some(origin) = request.get(header::ORIGIN) {
        let headers = answer.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    }
    answer
}

/// The answer to a request that the relay ends.
pub(super) fn ended_by(code: CloseCode) -> Refusal {
    let status = match code {
        CloseCode::NotLoggedIn => StatusCode::UNAUTHORIZED,
        CloseCode::RightsChanged => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{}\n", code.reason())).into()
}

/// The HTTP server's end; the body ends when the other end is dropped.
pub(super) struct Pieces(mpsc::Receiver<Bytes>);

/// Both ends. One piece waits at most.
pub(super) fn pieces() -> (mpsc::Sender<Bytes>, Pieces) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Pieces(receiver))
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.poll_recv(context);
        next.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A body whose parts are passed on as they arrive.
pub(super) struct Forwarded {
    /// The first part, which was awaited for the status.
    first: Option<Bytes>,
    fetching: Fetching,
    is_ended: bool,
    /// Why the body has no end. It is said after what came before is written: hyper drops what it has buffered.
    problem: Option<Problem>,
    /// Resolves when the relay ends the client, which counts as one until the body is dropped.
    closed: Pin<Box<dyn Future<Output = CloseCode> + Send>>,
}

impl Forwarded {
    /// A body that begins with this part; without one the answer is empty.
    pub(super) fn new(first: Option<Bytes>, fetching: Fetching, mut client: PlainClient) -> Self {
        Self {
            is_ended: first.is_none(),
            first,
            fetching,
            problem: None,
            // Rules are checked for each part.
            closed: Box::pin(async move { client.ended(|_| true).await }),
        }
    }

    /// Ends the body at the next poll, between which and this one hyper writes what it has.
    fn fail(
        &mut self,
        problem: Problem,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Problem>>> {
        self.is_ended = true;
        self.problem = Some(problem);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Body for Forwarded {
    type Data = Bytes;
    type Error = Problem;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Problem>>> {
        if let Some(problem) = self.problem.take() {
            return Poll::Ready(Some(Err(problem)));
        }
        if !self.is_ended
            && let Poll::Ready(code) = self.closed.as_mut().poll(context)
        {
            self.first = None;
            return self.fail(Problem::new(Outcome::Interrupted, code.reason()), context);
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.is_ended {
            return Poll::Ready(None);
        }
        match ready!(self.fetching.poll_next(context)) {
            Ok(Some(part)) => Poll::Ready(Some(Ok(Frame::data(part)))),
            Ok(None) => {
                self.is_ended = true;
                Poll::Ready(None)
            }
            Err(problem) => self.fail(problem, context),
        }
    }
}
