//! The receiving half of a socket: reads whole messages, a bounded number of bytes per turn.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use pvwire_schema::limits::MAX_REQUEST_BYTES;
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error as WsError, Message};

use super::frames::FrameCount;
use super::{Disconnect, Socket};
use crate::fanout::encoding::MessageKind;
use crate::fanout::frame::Frame;
use crate::session::transport::Transport;

/// Size of the read buffer that tungstenite keeps for every client: requests are small and rare.
pub(super) const READ_BUFFER_BYTES: usize = 1 << 10;

/// Bytes that are read from one client before other clients get their turn: some thousand of the
/// smallest frames.
pub(super) const READ_TURN_BYTES: usize = 16 << 10;

/// Control frames of one client that are read before other clients get their turn.
pub(super) const CONTROLS_PER_TURN: usize = 32;

/// Bytes that are read and dropped after the close frame, so that a client which keeps sending
/// still gets it.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// The stream that tungstenite reads; it keeps what tungstenite writes.
pub(super) struct Inbound<T> {
    pub(super) transport: T,
    /// Bytes that tungstenite wrote.
    written: Vec<u8>,
    /// Bytes read so far.
    pub(super) received: u64,
    frames: FrameCount,
    turn: ReadTurn,
}

/// How much may still be read from one client in this turn.
#[derive(Default)]
struct ReadTurn {
    bytes_left: usize,
    controls_left: usize,
    /// The turn ended before everything was read.
    is_over: bool,
}

impl ReadTurn {
    fn new() -> Self {
        Self {
            bytes_left: READ_TURN_BYTES,
            controls_left: CONTROLS_PER_TURN,
            is_over: false,
        }
    }
}

impl<T> Inbound<T> {
    /// A transport of which `read_ahead` was read already.
    pub(super) fn new(transport: T, read_ahead: &[u8]) -> Self {
        let mut frames = FrameCount::default();
        frames.scan(read_ahead);
        Self {
            transport,
            written: Vec::new(),
            received: read_ahead.len() as u64,
            frames,
            turn: ReadTurn::new(),
        }
    }
}

impl<T: Transport> Read for Inbound<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.turn.bytes_left);
        if most == 0 && !into.is_empty() {
            self.turn.is_over = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let into = &mut into[..most];
        let count = self.transport.read(into)?;
        self.turn.bytes_left -= count;
        self.frames.scan(&into[..count]);
        self.received += count as u64;
        Ok(count)
    }
}

impl<T> Write for Inbound<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn context(read_ahead: Vec<u8>) -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(16 << 10)
        .max_message_size(Some(MAX_REQUEST_BYTES))
        .max_frame_size(Some(MAX_REQUEST_BYTES));
    WebSocketContext::from_partially_read(read_ahead, Role::Server, Some(config))
}

/// Minimum number of bytes on the wire of a client's message of this length.
fn least_on_the_wire(length: usize) -> u64 {
    let header = match length {
        ..=125 => 6,
        126..=0xffff => 8,
        _ => 14,
    };
    length as u64 + header
}

impl<T: Transport> Socket<T> {
    /// Called when the poll reports that there is something to read; `ends`: the client sends no
    /// more after it.
    pub fn readable(&mut self, ends: bool) {
        self.stream.transport.readable(ends);
    }

    /// Begins a turn of reading.
    pub fn begin_turn(&mut self) {
        self.stream.turn = ReadTurn::new();
    }

    /// Whether the turn ended before everything was read.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.stream.turn.is_over
    }

    /// Bytes that have come of messages that aren't whole yet.
    #[must_use]
    pub fn begun_bytes(&self) -> u64 {
        self.stream.received.saturating_sub(self.taken)
    }

    /// Bytes that a message takes which isn't whole yet, except for some that were read with the one before.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.stream.received.saturating_sub(self.whole) as usize
    }

    /// WebSocket frames of any kind since the last call.
    pub fn take_frames(&mut self) -> usize {
        std::mem::take(&mut self.stream.frames.begun)
    }

    /// The next whole message with its kind, if there is one in this turn.
    ///
    /// # Errors
    /// When the client is gone or breaks the rules.
    pub fn receive(&mut self) -> Result<Option<(MessageKind, Bytes)>, Disconnect> {
        let message = self.message()?;
        Ok(message.map(|message| {
            let kind = if message.is_text() {
                MessageKind::Text
            } else {
                MessageKind::Binary
            };
            (kind, message.into_data())
        }))
    }

    /// Reads and drops what a client sends after it was closed; returns whether there is more.
    ///
    /// If the socket were dropped with unread bytes, the kernel would reset the connection, and the
    /// close frame would be lost.
    ///
    /// # Errors
    /// At the client's end, and when it sends too much.
    pub fn discard(&mut self) -> Result<bool, Disconnect> {
        self.begin_turn();
        let mut some = [0; 4 << 10];
        loop {
            match self.stream.read(&mut some) {
                Ok(0) => return Err(Disconnect::Gone),
                Ok(count) => self.discarded += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(self.has_more());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if self.discarded > MAX_DISCARDED_BYTES {
                return Err(Disconnect::Gone);
            }
        }
    }

    /// Queues what tungstenite wrote.
    fn answer_own(&mut self) -> Result<(), Disconnect> {
        if self.stream.written.is_empty() {
            return Ok(());
        }
        let own = Frame::raw(std::mem::take(&mut self.stream.written));
        self.answer(&Arc::new(own))
    }

    /// The next whole data message.
    fn message(&mut self) -> Result<Option<Message>, Disconnect> {
        loop {
            let read = self.context.read(&mut self.stream);
            self.answer_own()?;
            if let Ok(message) = &read {
                let least = least_on_the_wire(message.len());
                self.taken += least;
                self.whole = match message {
                    Message::Binary(_) | Message::Text(_) => self.stream.received,
                    // It may come between the frames of a message.
                    _ => (self.whole + least).min(self.stream.received),
                };
                self.has_grown |= message.len() > READ_BUFFER_BYTES;
            }
            match read {
                Ok(message @ (Message::Binary(_) | Message::Text(_))) => return Ok(Some(message)),
                Ok(_) => {
                    let turn = &mut self.stream.turn;
                    turn.controls_left = turn.controls_left.saturating_sub(1);
                    if turn.controls_left == 0 {
                        turn.is_over = true;
                        return Ok(None);
                    }
                }
                Err(WsError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shrink();
                    return Ok(None);
                }
                Err(WsError::Capacity(_)) => return Err(Disconnect::TooLarge),
                Err(WsError::Protocol(error)) => {
                    use tungstenite::error::ProtocolError as Fault;
                    return Err(match error {
                        Fault::ResetWithoutClosingHandshake => Disconnect::Gone,
                        _ => Disconnect::BadFrame,
                    });
                }
                Err(WsError::Utf8(_)) => return Err(Disconnect::BadText),
                Err(_) => return Err(Disconnect::Gone),
            }
        }
    }

    /// Frees the buffer that a large request left, unless another request has begun: a thousand
    /// clients that each named a thousand PVs would keep 30 MB.
    fn shrink(&mut self) {
        if self.has_grown && self.taken == self.stream.received {
            self.context = context(Vec::new());
            self.has_grown = false;
        }
    }
}
