//! The body of an answer of an archiver, passed on as it arrives.
//!
//! A body that fails has no end of its chunked encoding, by which clients tell it from a whole one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::Outcome;

use crate::queries::archiver::Fetching;
use crate::queries::plain_clients::PlainClient;
use crate::session::question::Problem;

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
