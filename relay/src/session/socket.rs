//! A client's WebSocket after the handshake: whole messages over a transport that never waits.
//!
//! tungstenite parses what the client sends. What it writes itself (pong, close) is queued with the
//! relay's frames, so that it never lands in the middle of one.

mod frames;
mod receiving;

pub use self::frames::frames_begun;
use self::receiving::{Inbound, context};

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use mio::{Registry, Token};
use pvwire_schema::close::CloseCode;
use tungstenite::protocol::WebSocketContext;

use crate::fanout::frame::Frame;
use crate::session::transport::{AnyTransport, Transport};

/// Maximum number of answers and pongs that wait behind a started frame. The other frames that wait
/// are bounded by what they belong to: the large values of one tick, of one catch-up or of those
/// answers.
const MAX_WAITING: usize = 64;

/// Bytes that are written to one client before other clients get their turn.
const TURN_BYTES: usize = 256 << 10;

/// How much of a frame was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it.
    Whole,
    /// The rest follows when the socket can take more.
    Begun,
    /// Nothing, and nothing is kept.
    Refused,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disconnect {
    /// The client is gone, with or without a close frame.
    #[error("the client is gone")]
    Gone,
    /// The client sent a message that isn't a request.
    #[error("a message is not a request")]
    BadMessage,
    /// The client violated the WebSocket protocol.
    #[error("a frame violates the WebSocket protocol")]
    BadFrame,
    /// The client sent text that isn't UTF-8.
    #[error("a text message is not UTF-8")]
    BadText,
    /// The client sent a message that is longer than the limit.
    #[error("a message is longer than the limit")]
    TooLarge,
    /// Too many answers wait for the client, or it asks too fast.
    #[error("too many requests or answers")]
    TooManyWaiting,
    /// The client hasn't logged in, or its login has ended.
    #[error("the client is not logged in")]
    NotLoggedIn,
    /// The client's user has too many connections, or opens them too fast.
    #[error("the user has too many connections")]
    TooManyConnections,
    /// The protocol of a door ends the connection, with its own code and reason.
    #[error("the door's protocol ends the connection")]
    ClosedByDoor,
}

impl Disconnect {
    /// The close code for the client; `None` when it is gone.
    #[must_use]
    pub fn close_code(self) -> Option<CloseCode> {
        Some(match self {
            Self::Gone => return None,
            Self::BadMessage | Self::ClosedByDoor => CloseCode::BadRequest,
            Self::BadFrame => CloseCode::BadFrame,
            Self::BadText => CloseCode::BadText,
            Self::TooLarge => CloseCode::RequestTooLarge,
            Self::TooManyWaiting => CloseCode::TooManyRequests,
            Self::NotLoggedIn => CloseCode::NotLoggedIn,
            Self::TooManyConnections => CloseCode::TryAgainLater,
        })
    }
}

impl From<io::Error> for Disconnect {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// One client's socket after the handshake.
pub struct Socket<T = AnyTransport> {
    stream: Inbound<T>,
    context: WebSocketContext,
    /// Minimum bytes of the stream that the messages so far took; messages in several frames took
    /// more.
    taken: u64,
    /// Bytes of the stream up to the last whole message, and of control frames since.
    whole: u64,
    /// The read buffer has grown for a large message.
    has_grown: bool,
    /// The frame that is being written, and how much of it is.
    tail: Option<(Arc<Frame>, usize)>,
    waiting: VecDeque<Waiting>,
    /// Answers among the frames that wait.
    answers: usize,
    /// The kernel took only a part; the poll reports when it takes more.
    full: bool,
    /// Bytes of frames that were written.
    sent: u64,
    closing: Closing,
    /// Bytes that were read and dropped since it was closed.
    discarded: u64,
}

/// Progress of the relay's closing of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// It is open.
    Open,
    /// The close frame waits for the rest of a frame.
    Begun,
    /// The close frame is written, and nothing more follows.
    Done,
}

struct Waiting {
    frame: Arc<Frame>,
    is_answer: bool,
}

impl<T: Transport> Socket<T> {
    /// A socket whose handshake is done, of which `read_ahead` was read already.
    #[must_use]
    pub fn new(transport: T, read_ahead: Vec<u8>) -> Self {
        Self {
            stream: Inbound::new(transport, &read_ahead),
            context: context(read_ahead),
            taken: 0,
            whole: 0,
            has_grown: false,
            tail: None,
            waiting: VecDeque::new(),
            answers: 0,
            full: false,
            sent: 0,
            closing: Closing::Open,
            discarded: 0,
        }
    }

    /// Registers with the poll.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.transport.register(registry, token)
    }

    /// Ends the registration with the poll.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.stream.transport.deregister(registry)
    }

    /// Bytes of frames that were written, without the bytes that TLS and TCP add.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Bytes that were read from the client.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.stream.received
    }

    /// Whether bytes wait for the socket.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.tail.is_some() || self.stream.transport.holds()
    }

    /// Bytes of the frames that wait.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let tail = self.tail.iter().map(|(frame, _)| frame);
        let waiting = self.waiting.iter().map(|waiting| &waiting.frame);
        tail.chain(waiting).map(|frame| frame.length()).sum()
    }

    /// Whether the waiting bytes wait for this client's next turn rather than for the kernel.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_blocked() && !self.full
    }

    /// Sends a frame now, or not at all.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn send(&mut self, frame: &Arc<Frame>) -> Result<Written, Disconnect> {
        if self.is_blocked() {
            return Ok(Written::Refused);
        }
        self.begin(frame)
    }

    fn begin(&mut self, frame: &Arc<Frame>) -> Result<Written, Disconnect> {
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

    /// Queues a frame that follows an accepted one: it is sent in the client's next turn, behind
    /// the frames that wait.
    pub fn follow(&mut self, frame: Arc<Frame>) {
        if self.tail.is_some() {
            let is_answer = false;
            self.waiting.push_back(Waiting { frame, is_answer });
        } else {
            self.tail = Some((frame, 0));
        }
    }

    /// Sends an answer, behind the frames that wait.
    ///
    /// # Errors
    /// When the client is gone, or lets too many answers wait.
    pub fn answer(&mut self, frame: &Arc<Frame>) -> Result<(), Disconnect> {
        if self.tail.is_some() {
            if self.answers >= MAX_WAITING {
                return Err(Disconnect::TooManyWaiting);
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

    /// Writes waiting bytes, for one turn; returns how many bytes were written.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn resume(&mut self) -> Result<usize, Disconnect> {
        let mut taken = self.stream.transport.flush()?;
        self.full = self.stream.transport.holds();
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
            // Frees the buffer of a burst of answers.
            self.waiting = VecDeque::new();
            self.finish_when_written();
        }
        Ok(taken)
    }

    /// Writes up to `most` bytes of a frame from byte `at` on; returns how many the transport took.
    fn write_some(&mut self, frame: &Frame, at: usize, most: usize) -> Result<usize, Disconnect> {
        let most = most.min(frame.length() - at);
        self.full = false;
        let mut count = 0;
        while count < most {
            let slices = frame.slices(at + count, most - count);
            match self.stream.transport.write(&slices) {
                Ok(0) => return Err(Disconnect::Gone),
                Ok(written) => count += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.full = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.full |= self.stream.transport.holds();
        self.sent += count as u64;
        Ok(count)
    }

    /// Closes the connection: writes the rest of a started frame, then the close frame, then the
    /// end of the stream. Waiting frames are dropped. A client that does not read may not receive
    /// the close frame.
    pub fn close(&mut self, code: u16, reason: &str) {
        if self.is_closing() {
            return;
        }
        self.closing = Closing::Begun;
        self.waiting = VecDeque::new();
        self.answers = 0;
        self.tail.take_if(|(_, written)| *written == 0);
        // The client may be gone already; that shows at the next read.
        let _ = self.answer(&Arc::new(Frame::close(code, reason)));
        self.finish_when_written();
    }

    /// Whether `close` was called.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing != Closing::Open
    }

    fn finish_when_written(&mut self) {
        if self.closing == Closing::Begun && !self.is_blocked() {
            self.closing = Closing::Done;
            self.stream.transport.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::receiving::{CONTROLS_PER_TURN, READ_TURN_BYTES};
    use super::*;
    use crate::fanout::encoding::MessageKind;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    fn socket_of(listener: &TcpListener) -> Socket {
        let accepted = listener.accept().unwrap().0;
        Socket::new(AnyTransport::new(accepted, None).unwrap(), Vec::new())
    }

    /// A masked binary message of `length` bytes, all equal to `byte`; the mask is zero.
    fn masked(byte: u8, length: u16) -> Vec<u8> {
        let mut message = vec![0x82, 0x80 | 126];
        message.extend(length.to_be_bytes());
        message.extend([0; 4]);
        message.resize(8 + usize::from(length), byte);
        message
    }

    #[test]
    fn buffer_of_a_large_request_is_freed_unless_another_has_begun() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = socket_of(&listener);
        let next = |socket: &mut Socket| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            loop {
                socket.begin_turn();
                if let Some((_, request)) = socket.receive().unwrap() {
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
        assert_eq!(next(&mut socket), vec![1; 30_000]);
        while socket.stream.received < 30_000 + 8 + 3 {
            socket.begin_turn();
            assert_eq!(socket.receive().unwrap(), None);
        }
        assert!(socket.has_grown, "three bytes of the next are in it");
        far.write_all(rest).unwrap();
        assert_eq!(next(&mut socket), vec![2; 5_000]);
        socket.begin_turn();
        assert_eq!(socket.receive().unwrap(), None);
        assert!(!socket.has_grown);
        far.write_all(&masked(3, 200)).unwrap();
        assert_eq!(next(&mut socket), vec![3; 200]);
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
            let mut socket = socket_of(&listener);
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
    fn fast_reader_gets_no_more_than_a_turn_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = socket_of(&listener);
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

    #[test]
    fn close_frame_follows_what_has_begun_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = socket_of(&listener);
        let frame = |byte: u8, length: usize| Arc::new(Frame::raw(vec![byte; length]));
        let large = 16 << 20;
        socket.follow(frame(1, large));
        while socket.is_ready() {
            socket.resume().unwrap();
        }
        assert!(socket.is_blocked(), "more than the kernel takes");
        socket.follow(frame(2, 5));
        socket.close(4408, "why");
        assert!(socket.is_closing());
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            all
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while socket.closing != Closing::Done {
            socket.resume().unwrap();
            assert!(std::time::Instant::now() < deadline);
            thread::yield_now();
        }
        let close_frame = [&[0x88, 5][..], &4408_u16.to_be_bytes(), b"why"].concat();
        let expected = [vec![1; large], close_frame].concat();
        assert!(reader.join().unwrap() == expected);
    }

    #[test]
    fn client_that_keeps_sending_reads_the_close_frame_and_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = socket_of(&listener);
        far.write_all(&masked(1, 60_000)).unwrap();
        socket.close(4400, "why");
        let client = thread::spawn(move || {
            for _ in 0..100 {
                far.write_all(&masked(2, 60_000)).unwrap();
            }
            far.shutdown(std::net::Shutdown::Write).unwrap();
            let mut all = Vec::new();
            far.read_to_end(&mut all).map(|_| all)
        });
        while socket.discard() != Err(Disconnect::Gone) {
            thread::yield_now();
        }
        assert_eq!(socket.discarded, 101 * 60_008);
        drop(socket);
        let close_frame = [&[0x88, 5][..], &4400_u16.to_be_bytes(), b"why"].concat();
        assert_eq!(client.join().unwrap().unwrap(), close_frame);
    }

    /// Bytes in memory: the relay's socket needs no TCP.
    #[derive(Default)]
    struct InMemory {
        incoming: VecDeque<u8>,
        written: Vec<u8>,
        room: usize,
        is_finished: bool,
    }

    impl Transport for InMemory {
        fn register(&mut self, _: &Registry, _: Token) -> io::Result<()> {
            Ok(())
        }
        fn deregister(&mut self, _: &Registry) -> io::Result<()> {
            Ok(())
        }
        fn readable(&mut self, _: bool) {}
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.incoming.read(into)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                count => Ok(count),
            }
        }
        fn write(&mut self, slices: &[io::IoSlice<'_>; 3]) -> io::Result<usize> {
            let bytes = slices.iter().flat_map(|slice| slice.iter());
            let before = self.written.len();
            self.written.extend(bytes.take(self.room));
            let count = self.written.len() - before;
            self.room -= count;
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<usize> {
            Ok(0)
        }
        fn holds(&self) -> bool {
            false
        }
        fn finish(&mut self) {
            self.is_finished = true;
        }
    }

    #[test]
    fn only_a_message_that_is_not_whole_counts_as_unfinished() {
        let transport = InMemory {
            room: 1 << 20,
            ..InMemory::default()
        };
        let mut socket = Socket::new(transport, Vec::new());
        let mut read = |bytes: &[u8]| {
            socket.stream.transport.incoming.extend(bytes);
            socket.begin_turn();
            while socket.receive().unwrap().is_some() {}
            socket.unfinished_bytes()
        };
        let pong = [0x8a, 0x80, 0, 0, 0, 0];
        let [first, last] = [[0x02, 0x81, 0, 0, 0, 0, 1], [0x80, 0x81, 0, 0, 0, 0, 2]];
        for _ in 0..100 {
            assert_eq!(read(&pong), 0);
            assert_eq!(read(&[&first[..], &pong, &last, &pong].concat()), 0);
        }
        assert_eq!(read(&[&first[..], &pong].concat()), first.len());
        assert_eq!(read(&last), 0);
        let long = masked(1, 10_000);
        assert_eq!(read(&long[..9_000]), 9_000);
        assert_eq!(read(&long[9_000..]), 0);
    }

    #[test]
    fn socket_serves_any_transport() {
        let transport = InMemory {
            room: 5,
            ..InMemory::default()
        };
        let mut socket = Socket::new(transport, masked(1, 200));
        socket.stream.transport.incoming.extend(masked(2, 300));
        for (byte, length) in [(1, 200), (2, 300)] {
            socket.begin_turn();
            let (kind, message) = socket.receive().unwrap().unwrap();
            assert_eq!(kind, MessageKind::Binary);
            assert_eq!(message, vec![byte; length]);
        }
        let frame = Arc::new(Frame::text("hello"));
        assert_eq!(socket.send(&frame).unwrap(), Written::Begun);
        socket.close(1000, "");
        assert!(!socket.stream.transport.is_finished);
        socket.stream.transport.room = 100;
        socket.resume().unwrap();
        let transport = &socket.stream.transport;
        assert!(transport.is_finished);
        let expected = [&b"\x81\x05hello\x88\x02"[..], &1000_u16.to_be_bytes()].concat();
        assert_eq!(transport.written, expected);
    }
}
