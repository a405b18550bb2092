//! The way on which a client receives large values: its WebSocket, or a stream.

use crate::session::stream::StreamSender;

/// The way of a client's large values.
pub(super) enum LargeWay {
    /// On the WebSocket, with all other messages.
    Socket,
    /// On the WebSocket; the client was offered a stream and got its token.
    Offered(u128),
    /// On the WebSocket; the stream is connected.
    Fetched(StreamSender),
    /// On the stream, which the client has confirmed.
    Stream(StreamSender),
}

impl LargeWay {
    /// Whether the stream holds bytes that the client has yet to take.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.is_busy())
    }

    /// Bytes that wait in the stream.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.held_bytes(),
            _ => 0,
        }
    }

    /// Whether the client has taken bytes since the last call.
    pub(super) fn progressed(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.progressed())
    }
}
