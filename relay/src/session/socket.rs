//! How do whole messages get through one client's non-blocking socket?
//!
//! tungstenite parses what the client sends; what it wants to send itself (pong, close) is caught
//! and queued with our own frames, so that it never lands in the middle of one.

mod frames;
mod wire;

use self::frames::FrameCount;
pub use self::frames::frames_begun;
use self::wire::Wire;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use pvwire_schema::limits::MAX_REQUEST_BYTES;
use rustls::ServerConnection;
use socket2::SockRef;
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error as WsError, Message};

use crate::fanout::frame::Frame;

/// Unsent bytes that the kernel keeps for a client. A frame of 1,000 updates fits; more would only be
/// older when it arrives. It also bounds what a thousand stalled clients cost the machine. The size of
/// the send buffer is left to the kernel: what is sent and not yet acknowledged is in it too, so a fixed
/// size would be the most that a client gets in one round trip.
const NOTSENT_LOWAT_BYTES: u32 = 64 << 10;

/// Requests are small and rare; tungstenite keeps this much for every client.
const READ_BUFFER_BYTES: usize = 1 << 10;

/// Most answers and pongs that wait behind a frame that the socket has begun with. What waits beside
/// them is bounded by itself: the large values of one tick, of one catching up or of those answers.
const MAX_WAITING: usize = 64;

/// Most bytes that are read from one client before the others get their turn: some thousand of the
/// smallest frames.
const READ_TURN_BYTES: usize = 16 << 10;

/// Most control frames of one client that are taken before the others get their turn.
const CONTROLS_PER_TURN: usize = 32;

/// Most bytes that are written to one client before the others get their turn.
const TURN_BYTES: usize = 256 << 10;

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it is the kernel's now.
    Whole,
    /// The rest follows when the socket can take more.
    Begun,
    /// Not a byte; nothing is kept.
    Refused,
}

/// Why a socket can't go on.
#[derive(Debug)]
pub enum Broken {
    /// The client is gone, with or without a farewell.
    Gone,
    /// It sent something that no client may send.
    BadMessage,
    /// It broke the rules of WebSocket.
    BadFrame,
    /// It sent text that is no UTF-8.
    BadText,
    /// It sent a message longer than the limit.
    TooLarge,
    /// More answers wait than may.
    TooManyWaiting,
    /// It hasn't shown who it is, or that holds no more.
    NotLoggedIn,
    /// Its user has, or opens, too many connections.
    TooManyConnections,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// One client's socket after the handshake.
pub struct Socket {
    stream: Caught,
    context: WebSocketContext,
    /// What the messages so far took of the stream, at least: in several frames they took more.
    taken: u64,
    /// A message was larger than the buffer, which has grown for it.
    has_grown: bool,
    tail: Option<(Arc<Frame>, usize)>,
    waiting: VecDeque<Waiting>,
    answers: usize,
    /// The kernel took less than it was offered; the poll tells when it takes more.
    full: bool,
    /// Bytes of frames that it took so far.
    sent: u64,
}

struct Waiting {
    frame: Arc<Frame>,
    is_answer: bool,
}

/// Reads from the socket; keeps what tungstenite writes.
struct Caught {
    wire: Wire,
    written: Vec<u8>,
    /// Bytes read so far.
    received: u64,
    frames: FrameCount,
    turn: ReadTurn,
}

/// What one client may still send in this turn.
#[derive(Default)]
struct ReadTurn {
    bytes_left: usize,
    controls_left: usize,
    /// It ended before all was read.
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

impl Read for Caught {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.turn.bytes_left);
        if most == 0 && !into.is_empty() {
            self.turn.is_over = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let into = &mut into[..most];
        let count = self.wire.read(into)?;
        self.turn.bytes_left -= count;
        self.frames.scan(&into[..count]);
        self.received += count as u64;
        Ok(count)
    }
}

impl Write for Caught {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn context(read_ahead: Vec<u8>) -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(16 << 10)
        .max_message_size(Some(MAX_REQUEST_BYTES))
        .max_frame_size(Some(MAX_REQUEST_BYTES));
    WebSocketContext::from_partially_read(read_ahead, Role::Server, Some(config))
}

/// What a message of so many bytes takes at least, in one frame from a client.
fn least_on_the_wire(length: usize) -> u64 {
    let header = match length {
        ..=125 => 6,
        126..=0xffff => 8,
        _ => 14,
    };
    length as u64 + header
}

impl Socket {
    /// Takes a socket over from the HTTP server, with what encrypts it and the bytes that were read
    /// ahead.
    ///
    /// # Errors
    /// When the socket is no more.
    pub fn new(
        tcp: std::net::TcpStream,
        tls: Option<Box<ServerConnection>>,
        read_ahead: Vec<u8>,
    ) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        let options = SockRef::from(&tcp);
        options.set_tcp_nodelay(true)?;
        options.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
        let mut frames = FrameCount::default();
        frames.scan(&read_ahead);
        Ok(Self {
            stream: Caught {
                wire: Wire::new(TcpStream::from_std(tcp), tls),
                written: Vec::new(),
                received: read_ahead.len() as u64,
                frames,
                turn: ReadTurn::new(),
            },
            context: context(read_ahead),
            taken: 0,
            has_grown: false,
            tail: None,
            waiting: VecDeque::new(),
            answers: 0,
            full: false,
            sent: 0,
        })
    }

    /// For the poll.
    pub fn source(&mut self) -> &mut TcpStream {
        self.stream.wire.tcp()
    }

    /// Bytes of frames that were sent so far, without what TLS and TCP add.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Bytes that came from the client so far.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.stream.received
    }

    /// Whether bytes wait for the socket.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.tail.is_some() || self.stream.wire.holds()
    }

    /// Bytes of the frames that wait.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let tail = self.tail.iter().map(|(frame, _)| frame);
        let waiting = self.waiting.iter().map(|waiting| &waiting.frame);
        tail.chain(waiting).map(|frame| frame.length()).sum()
    }

    /// Whether what waits does so for this client's next turn, not for the kernel.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_blocked() && !self.full
    }

    /// Sends data: now, or not at all.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn send(&mut self, frame: &Arc<Frame>) -> Result<Written, Broken> {
        if self.is_blocked() {
            return Ok(Written::Refused);
        }
        self.begin(frame)
    }

    fn begin(&mut self, frame: &Arc<Frame>) -> Result<Written, Broken> {
        let count = self.write_some(frame, 0, TURN_BYTES)?;
        Ok(match count {
            count if count == frame.length() => Written::Whole,
            0 => Written::Refused,
            count => {
                self.tail = Some((Arc::clone(frame), count));
                Written::Begun
            }
        })
    }

    /// Sends what follows on a frame that the socket took: in the client's next turn, after all that
    /// waits already.
    pub fn follow(&mut self, frame: Arc<Frame>) {
        if self.tail.is_some() {
            let is_answer = false;
            self.waiting.push_back(Waiting { frame, is_answer });
        } else {
            self.tail = Some((frame, 0));
        }
    }

    /// Sends an answer, after all that waits already.
    ///
    /// # Errors
    /// When the client is gone, or lets too many answers wait.
    pub fn answer(&mut self, frame: &Arc<Frame>) -> Result<(), Broken> {
        if self.tail.is_some() {
            if self.answers >= MAX_WAITING {
                return Err(Broken::TooManyWaiting);
            }
            self.answers += 1;
            self.waiting.push_back(Waiting {
                frame: Arc::clone(frame),
                is_answer: true,
            });
        } else if self.begin(frame)? == Written::Refused {
            self.tail = Some((Arc::clone(frame), 0));
        }
        Ok(())
    }

    /// Goes on with what waits, for one turn; says how many bytes the socket took.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn resume(&mut self) -> Result<usize, Broken> {
        let mut taken = self.stream.wire.flush()?;
        self.full = self.stream.wire.holds();
        while taken < TURN_BYTES
            && !self.full
            && let Some((frame, at)) = self.tail.take()
        {
            let count = self.write_some(&frame, at, TURN_BYTES - taken)?;
            taken += count;
            self.tail = if at + count < frame.length() {
                Some((frame, at + count))
            } else {
                self.waiting.pop_front().map(|next| {
                    self.answers -= usize::from(next.is_answer);
                    (next.frame, 0)
                })
            };
        }
        if !self.is_blocked() {
            // A burst of answers must not leave its buffer behind.
            self.waiting = VecDeque::new();
        }
        Ok(taken)
    }

    /// Writes of a frame, from byte `at` on, until the socket takes no more or `most` are written.
    fn write_some(&mut self, frame: &Frame, at: usize, most: usize) -> Result<usize, Broken> {
        let most = most.min(frame.length() - at);
        self.full = false;
        let mut count = 0;
        while count < most {
            let slices = frame.slices(at + count, most - count);
            match self.stream.wire.write(&slices) {
                Ok(0) => return Err(Broken::Gone),
                Ok(written) => count += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.full = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.full |= self.stream.wire.holds();
        self.sent += count as u64;
        Ok(count)
    }

    /// The poll says that there is something to read, and whether the end is behind it.
    pub fn comes(&mut self, ends: bool) {
        self.stream.wire.comes(ends);
    }

    /// A turn begins in which some of what the client sends is read.
    pub fn begin_turn(&mut self) {
        self.stream.turn = ReadTurn::new();
    }

    /// Whether the turn ended before all was read that is there.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.stream.turn.is_over
    }

    /// Frames that have come since this was asked last, of whatever kind.
    pub fn take_frames(&mut self) -> usize {
        std::mem::take(&mut self.stream.frames.begun)
    }

    /// The next whole request, if there is one in this turn.
    ///
    /// # Errors
    /// When the client is gone or breaks the rules.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        match self.message()? {
            None => Ok(None),
            Some(Message::Binary(bytes)) => Ok(Some(bytes.into())),
            Some(_) => Err(Broken::BadMessage),
        }
    }

    /// Sends the next message back as it came, of whatever kind; says whether there was one. For the
    /// conformance test.
    ///
    /// # Errors
    /// When the client is gone or breaks the rules.
    pub fn echo(&mut self) -> Result<bool, Broken> {
        let Some(message) = self.message()? else {
            return Ok(false);
        };
        let opcode = if message.is_text() { 0x1 } else { 0x2 };
        let frame = Frame::message(opcode, &message.into_data());
        self.answer(&Arc::new(frame))?;
        Ok(true)
    }

    /// Queues what tungstenite wrote.
    fn answer_own(&mut self) -> Result<(), Broken> {
        if self.stream.written.is_empty() {
            return Ok(());
        }
        let own = Frame::raw(std::mem::take(&mut self.stream.written));
        self.answer(&Arc::new(own))
    }

    /// The next whole message with data, if there is one.
    fn message(&mut self) -> Result<Option<Message>, Broken> {
        loop {
            let read = self.context.read(&mut self.stream);
            self.answer_own()?;
            if let Ok(message) = &read {
                self.taken += least_on_the_wire(message.len());
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
                Err(WsError::Capacity(_)) => return Err(Broken::TooLarge),
                Err(WsError::Protocol(error)) => {
                    use tungstenite::error::ProtocolError as Fault;
                    return Err(match error {
                        Fault::ResetWithoutClosingHandshake => Broken::Gone,
                        _ => Broken::BadFrame,
                    });
                }
                Err(WsError::Utf8(_)) => return Err(Broken::BadText),
                Err(_) => return Err(Broken::Gone),
            }
        }
    }

    /// Gives a buffer back that a large request has left, unless another one has begun: a thousand
    /// clients that each named a thousand PVs would keep 30 MB.
    fn shrink(&mut self) {
        if self.has_grown && self.taken == self.stream.received {
            self.context = context(Vec::new());
            self.has_grown = false;
        }
    }

    /// Says farewell as well as the socket allows; a client whose socket is full learns only that
    /// the connection ended.
    pub fn close(&mut self, code: u16, reason: &str) {
        if !self.is_blocked() {
            // It may be gone already, and then there is nobody to tell.
            let _ = self.begin(&Arc::new(Frame::close(code, reason)));
        }
        self.stream.wire.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A masked binary message of so many bytes of one kind; the mask is zero.
    fn masked(byte: u8, length: u16) -> Vec<u8> {
        let mut message = vec![0x82, 0x80 | 126];
        message.extend(length.to_be_bytes());
        message.extend([0; 4]);
        message.resize(8 + usize::from(length), byte);
        message
    }

    #[test]
    fn buffer_of_a_large_request_is_given_back_once_no_other_has_begun() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = Socket::new(listener.accept().unwrap().0, None, Vec::new()).unwrap();
        let next = |socket: &mut Socket| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            loop {
                socket.begin_turn();
                if let Some(request) = socket.receive().unwrap() {
                    break request;
                }
                assert!(std::time::Instant::now() < deadline);
                thread::yield_now();
            }
        };
        let second = masked(2, 5_000);
        let (begun, rest) = second.split_at(3);
        far.write_all(&[&masked(1, 30_000), begun].concat())
            .unwrap();
        assert_eq!(next(&mut socket), [1; 30_000]);
        while socket.stream.received < 30_000 + 8 + 3 {
            socket.begin_turn();
            assert_eq!(socket.receive().unwrap(), None);
        }
        assert!(socket.has_grown, "three bytes of the next are in it");
        far.write_all(rest).unwrap();
        assert_eq!(next(&mut socket), [2; 5_000]);
        socket.begin_turn();
        assert_eq!(socket.receive().unwrap(), None);
        assert!(!socket.has_grown);
        far.write_all(&masked(3, 200)).unwrap();
        assert_eq!(next(&mut socket), [3; 200]);
    }

    #[test]
    fn turn_of_reading_ends_whatever_the_client_sends() {
        let message = masked(1, 60_000);
        let mut fragments = vec![0x02, 0x80, 0, 0, 0, 0];
        fragments.extend([0x00, 0x80, 0, 0, 0, 0].repeat(20_000));
        let pongs = [0x8a, 0x80, 0, 0, 0, 0].repeat(20_000);
        let pings = [0x89, 0x80, 0, 0, 0, 0].repeat(2_000);
        for (flood, frames, turns) in [
            (message, 1, 60_000 / READ_TURN_BYTES),
            (fragments, 20_001, 120_000 / READ_TURN_BYTES),
            (pongs, 20_000, 20_000 / CONTROLS_PER_TURN),
            (pings, 2_000, 2_000 / CONTROLS_PER_TURN),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut socket = Socket::new(listener.accept().unwrap().0, None, Vec::new()).unwrap();
            let length = flood.len() as u64;
            let mut replies = far.try_clone().unwrap();
            // Pongs for the pings.
            let reader = thread::spawn(move || replies.read_to_end(&mut Vec::new()));
            let writer = thread::spawn(move || far.write_all(&flood).map(|()| far));
            let (mut taken, mut seen) = (0, 0);
            let mut received = false;
            while socket.stream.received < length || socket.has_more() {
                let before = socket.stream.received;
                socket.begin_turn();
                received |= socket.receive().unwrap().is_some();
                assert!(socket.stream.received - before <= READ_TURN_BYTES as u64);
                seen += socket.take_frames();
                taken += usize::from(socket.has_more());
                while socket.is_blocked() {
                    socket.resume().unwrap();
                }
            }
            assert_eq!((seen, received), (frames, frames == 1));
            assert!(taken + 1 >= turns, "{taken} turns");
            drop((socket, writer.join().unwrap().unwrap()));
            let _ = reader.join().unwrap();
        }
    }

    #[test]
    fn nobody_gets_more_than_a_turn_at_once_however_fast_it_reads() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = Socket::new(listener.accept().unwrap().0, None, Vec::new()).unwrap();
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            all
        });
        let frame = |byte: u8, length: usize| Arc::new(Frame::raw(vec![byte; length]));
        let lengths = [8 << 20, 3, 400_000];
        for (byte, length) in (1..).zip(lengths) {
            socket.follow(frame(byte, length));
        }
        assert!(socket.is_ready(), "not a byte is written before its turn");
        assert_eq!(socket.send(&frame(9, 1)).unwrap(), Written::Refused);
        let mut turns = 0;
        while socket.is_blocked() {
            let taken = socket.resume().unwrap();
            assert!(taken <= TURN_BYTES);
            assert!(taken == TURN_BYTES || !socket.is_ready());
            turns += usize::from(taken > 0);
            thread::yield_now();
        }
        assert!(turns > lengths[0] / TURN_BYTES);
        drop(socket);
        let expected = (1..).zip(lengths);
        let expected: Vec<_> = expected.map(|(byte, length)| vec![byte; length]).collect();
        assert!(reader.join().unwrap() == expected.concat());
    }
}
