//! A response body whose pieces are made while it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

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
