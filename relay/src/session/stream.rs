//! The HTTP stream of a client's large values.
//!
//! Browsers read the body of an HTTP response several times as fast as WebSocket messages, so a
//! client may fetch its large values as one endless body. The shard adds frames at one end; the
//! HTTP server takes them at the other end when its socket has room; each end learns when the other
//! is gone. What waits are pieces of the frames that all clients share, not copies.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame as Piece};

use crate::fanout::frame::Frame;

/// Bytes that the HTTP server gets at once; it asks for more when the kernel has taken them.
const PIECE_BYTES: usize = 256 << 10;

/// What both ends hold.
struct StreamShared {
    state: Mutex<StreamState>,
    /// Tells the shard that nothing waits, or that the other end is gone.
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct StreamState {
    waiting: VecDeque<Bytes>,
    /// Something was taken since the last check of the shard.
    progress: bool,
    /// One of the ends is gone.
    over: bool,
    waker: Option<Waker>,
}

impl StreamShared {
    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let mut state = self.state();
        state.over = true;
        state.waiting = VecDeque::new();
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The shard's end. Dropping it ends the body.
pub struct StreamSender(Arc<StreamShared>);

/// The HTTP server's end. Dropping it notifies the shard.
pub struct StreamBody(Arc<StreamShared>);

/// Both ends of a stream. It begins with an empty record, so that the client learns at once that no
/// proxy holds it back. `notify` is called from the server's thread when nothing waits, and at the
/// end.
#[must_use]
pub fn stream(notify: impl Fn() + Send + Sync + 'static) -> (StreamSender, StreamBody) {
    let state = StreamState {
        waiting: VecDeque::from([record(0, 0)]),
        ..StreamState::default()
    };
    let shared = Arc::new(StreamShared {
        state: Mutex::new(state),
        notify: Box::new(notify),
    });
    (StreamSender(Arc::clone(&shared)), StreamBody(shared))
}

/// The record before a message: its length, and the number of bytes before its array's elements.
fn record(length: usize, head: usize) -> Bytes {
    let number = |bytes: usize| (bytes as u32).to_le_bytes();
    Bytes::from([number(length), number(head)].concat())
}

impl StreamSender {
    /// Adds a frame behind the frames that wait.
    pub fn push(&self, frame: &Arc<Frame>) {
        let pieces = frame.pieces();
        let length = pieces.iter().map(Bytes::len).sum();
        let mut state = self.0.state();
        if state.over {
            return;
        }
        state.waiting.push_back(record(length, pieces[0].len()));
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        state.waiting.extend(pieces);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether bytes wait.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.0.state().waiting.is_empty()
    }

    /// Number of bytes that wait.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.0.state().waiting.iter().map(Bytes::len).sum()
    }

    /// Whether the other end is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.state().over
    }

    /// Whether bytes were taken since the last call.
    #[must_use]
    pub fn progressed(&self) -> bool {
        std::mem::take(&mut self.0.state().progress)
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Piece<Bytes>, Infallible>>> {
        let mut state = self.0.state();
        let Some(mut piece) = state.waiting.pop_front() else {
            if state.over {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        if piece.len() > PIECE_BYTES {
            let rest = piece.split_off(PIECE_BYTES);
            state.waiting.push_front(rest);
        }
        state.progress = true;
        let is_last = state.waiting.is_empty();
        drop(state);
        if is_last {
            (self.0.notify)();
        }
        Poll::Ready(Some(Ok(Piece::data(piece))))
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        self.0.end();
        (self.0.notify)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The body's next piece, if there is one, or its end.
    fn take(body: &mut StreamBody) -> Result<Bytes, bool> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(piece))) => Ok(piece.into_data().unwrap()),
            Poll::Ready(None) => Err(true),
            Poll::Pending => Err(false),
        }
    }

    #[test]
    fn frames_come_out_in_bounded_pieces_behind_their_lengths() {
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let (sender, mut body) = stream(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert!(sender.is_busy());
        assert_eq!(take(&mut body).unwrap()[..], [0; 8]);
        assert!(!sender.is_busy() && sender.progressed() && !sender.progressed());
        assert_eq!(take(&mut body), Err(false));
        assert_eq!(told.load(Ordering::Relaxed), 1);

        let length = 2 * PIECE_BYTES + 5;
        sender.push(&Arc::new(Frame::raw(vec![7; length])));
        let mut taken = Vec::new();
        while sender.is_busy() {
            let piece = take(&mut body).unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            taken.extend_from_slice(&piece);
        }
        assert_eq!(taken[..4], (length as u32).to_le_bytes());
        assert_eq!(taken[4..8], (length as u32).to_le_bytes());
        assert_eq!(taken[8..], vec![7; length]);
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn each_end_learns_that_the_other_is_gone_and_keeps_nothing() {
        let (sender, mut body) = stream(|| ());
        drop(sender);
        assert_eq!(take(&mut body), Err(true));

        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let (sender, body) = stream(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        drop(body);
        let frame = Arc::new(Frame::raw(vec![7; 100]));
        sender.push(&frame);
        assert!(sender.is_over() && !sender.is_busy());
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert_eq!(Arc::strong_count(&frame), 1);
    }
}
