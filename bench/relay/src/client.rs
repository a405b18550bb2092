//! One client that connects, reads and acknowledges without ever blocking.

use std::error::Error;
use std::io::{self, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pvwire_schema::encode;
use pvwire_schema::types::{Request, RequestBody};
use socket2::{Domain, Socket, Type};
use testbed::{Line, Trust};

use crate::check::{Counts, Seen, Stream};
use crate::latency::Delays;
use crate::record::Record;
use crate::reference::{Arrived, Follower, Reference};
use crate::wire::{answer_at, handshake, masked, message_at};

/// Until the relay says how often it wants to hear.
const ACK_INTERVAL: Duration = Duration::from_millis(250);

/// A ping of WebSocket without content, and the answer to it.
const PING: u8 = 0x89;
const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];

pub(crate) struct Client {
    line: Line,
    /// What is to be said once the relay has taken the handshake.
    subscribe: Option<Vec<u8>>,
    unsaid: Vec<u8>,
    unread: Vec<u8>,
    follower: Follower,
    pub(crate) counts: Counts,
    /// By which code the relay closed the connection, if it did.
    pub(crate) closed_by: Option<u16>,
    ack_interval: Duration,
    last_ack: Instant,
    /// Tick that isn't acknowledged yet.
    owed: Option<u64>,
    /// When the last updates came.
    pub(crate) last_heard: Instant,
    pub(crate) longest_silence: Duration,
    /// Since the beginning, when every PV had a value.
    pub(crate) complete: Option<Duration>,
    started: Instant,
}

/// How a client connects.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// Asks for packed columns.
    pub(crate) lz4: bool,
    /// Size of its receive buffer, if not the system's.
    pub(crate) receive_bytes: Option<usize>,
    /// The relay's certificate, for TLS.
    pub(crate) trust: Option<Trust>,
}

/// What a client's reading needs of the others.
pub(crate) struct Reading<'a> {
    /// When the round began.
    pub(crate) now: Instant,
    pub(crate) now_ns: i64,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) delays: &'a mut Delays,
    pub(crate) record: Option<&'a mut (Instant, Record)>,
}

/// Connects with a small receive buffer, which has to be so before the other side is told its size.
fn connect_with(relay: SocketAddr, receive_bytes: usize) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(relay), Type::STREAM, None)?;
    socket.set_recv_buffer_size(receive_bytes)?;
    socket.connect(&relay.into())?;
    Ok(socket.into())
}

impl Client {
    /// Connects and asks for a WebSocket; `subscribe` follows as soon as there is one.
    pub(crate) fn connect(
        relay: &str,
        subscribe: Vec<u8>,
        pvs: usize,
        started: Instant,
        how: How,
    ) -> Result<Self, Box<dyn Error>> {
        let tcp = match how.receive_bytes {
            None => TcpStream::connect(relay)?,
            Some(bytes) => connect_with(relay.parse()?, bytes)?,
        };
        tcp.set_nodelay(true)?;
        tcp.set_nonblocking(true)?;
        let now = Instant::now();
        let mut client = Self {
            line: Line::over(tcp, how.trust),
            subscribe: Some(subscribe),
            unsaid: Vec::new(),
            unread: Vec::new(),
            follower: Follower::Alone(Box::new(Stream::new(pvs))),
            counts: Counts::default(),
            closed_by: None,
            ack_interval: ACK_INTERVAL,
            last_ack: now,
            owed: None,
            last_heard: now,
            longest_silence: Duration::ZERO,
            complete: None,
            started,
        };
        client.say(&handshake(relay, how.lz4))?;
        Ok(client)
    }

    /// Has the poll report when there is something to read or room to write.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let socket: RawFd = self.line.tcp().as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&socket), token, interest)
    }

    /// Ends what [`register`](Self::register) began.
    pub(crate) fn deregister(&self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut SourceFd(&self.line.tcp().as_raw_fd()))
    }

    pub(crate) fn follower(&mut self) -> &mut Follower {
        &mut self.follower
    }

    fn say(&mut self, words: &[u8]) -> io::Result<()> {
        self.unsaid.extend_from_slice(words);
        self.send_on()
    }

    /// Writes the rest of the pending bytes.
    pub(crate) fn send_on(&mut self) -> io::Result<()> {
        while !self.unsaid.is_empty() {
            match self.line.write(&self.unsaid) {
                Ok(count) => {
                    self.unsaid.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all that is there.
    pub(crate) fn read(
        &mut self,
        reference: &mut Reference,
        reading: &mut Reading<'_>,
    ) -> Result<(), Box<dyn Error>> {
        // One read gives one record of TLS.
        let is_encrypted = matches!(self.line, Line::Tls(_));
        loop {
            let buffer = mem::take(&mut reading.buffer);
            let read = self.line.read(buffer);
            let more = match read {
                Ok(0) => Err("the relay closed a connection".into()),
                Ok(count) => {
                    let taken = self.take(&buffer[..count], reference, reading);
                    taken.map(|()| is_encrypted || count == buffer.len())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error.into()),
            };
            reading.buffer = buffer;
            if !more? {
                // What had to wait for the handshake of TLS.
                self.send_on()?;
                return Ok(());
            }
        }
    }

    fn take(
        &mut self,
        bytes: &[u8],
        reference: &mut Reference,
        reading: &mut Reading<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let updates = self.counts.updates;
        if self.unread.is_empty() {
            let taken = self.messages(bytes, reference, reading)?;
            self.unread.extend_from_slice(&bytes[taken..]);
        } else {
            let mut unread = mem::take(&mut self.unread);
            unread.extend_from_slice(bytes);
            let taken = self.messages(&unread, reference, reading)?;
            unread.drain(..taken);
            self.unread = unread;
        }
        if self.counts.updates > updates {
            self.last_heard = Instant::now();
        }
        self.acknowledge(reading.now)?;
        Ok(())
    }

    /// Takes the whole messages at the beginning; says how long they are.
    fn messages(
        &mut self,
        bytes: &[u8],
        reference: &mut Reference,
        reading: &mut Reading<'_>,
    ) -> Result<usize, Box<dyn Error>> {
        let mut at = 0;
        if self.subscribe.is_some() {
            let Some(end) = answer_at(bytes) else {
                return Ok(0);
            };
            if !bytes.starts_with(b"HTTP/1.1 101 ") {
                let answer = String::from_utf8_lossy(bytes);
                return Err(format!("the relay refused the handshake: {answer}").into());
            }
            at = end;
            let subscribe = self.subscribe.take().unwrap_or_default();
            self.say(&subscribe)?;
            self.note_completion();
        }
        while let Some((header, length)) = message_at(&bytes[at..]) {
            let end = at + header + length;
            if end > bytes.len() {
                break;
            }
            if bytes[at] == PING {
                // The relay asks whether an idle client is still there.
                self.line.write_all(&PONG)?;
                at = end;
                continue;
            }
            if bytes[at] != 0x82 {
                let payload = &bytes[at + header..end];
                self.closed_by = close_code(bytes[at], payload);
                return Err(unexpected(bytes[at], payload).into());
            }
            let message = Arrived {
                payload: &bytes[at + header..end],
                length: end - at,
                now_ns: reading.now_ns,
            };
            let (seen, counts) = reference.take(&mut self.follower, &message, reading.delays)?;
            self.counts.add(&counts);
            match seen {
                Seen::Hello(interval_ms) => {
                    self.ack_interval = Duration::from_millis(interval_ms.into());
                }
                Seen::Data(tick) => {
                    self.owed = Some(tick);
                    if let Some((start, record)) = reading.record.as_deref_mut() {
                        let message = (start.elapsed(), bytes[at..end].to_vec());
                        record.messages.push(message);
                    }
                }
                Seen::Other => {}
            }
            self.note_completion();
            at = end;
        }
        Ok(at)
    }

    fn note_completion(&mut self) {
        if self.complete.is_none() {
            let complete = match &self.follower {
                Follower::Alone(stream) => stream.is_complete(),
                Follower::InStep(_) => true,
            };
            self.complete = complete.then(|| self.started.elapsed());
        }
    }

    /// Says what was processed, if it is time.
    pub(crate) fn acknowledge(&mut self, now: Instant) -> io::Result<()> {
        if let Some(tick) = self.owed
            && now.saturating_duration_since(self.last_ack) >= self.ack_interval
        {
            let body = RequestBody::Ack { tick };
            self.say(&masked(&encode::request(&Request { id: 0, body })))?;
            self.last_ack = now;
            self.owed = None;
        }
        Ok(())
    }
}

fn close_code(first: u8, payload: &[u8]) -> Option<u16> {
    let code = payload.first_chunk::<2>().filter(|_| first == 0x88)?;
    Some(u16::from_be_bytes(*code))
}

/// What a message that holds no frame says.
fn unexpected(first: u8, payload: &[u8]) -> String {
    match close_code(first, payload) {
        Some(code) => {
            let reason = String::from_utf8_lossy(&payload[2..]);
            format!("the relay closed a connection with {code}: {reason}")
        }
        None => format!("a message begins with {first:#x}"),
    }
}
