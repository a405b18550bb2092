//! The connection within the relay between a request by plain HTTP and the shard that serves it as a client.
//!
//! The shard sees a client of pvwire's protocol: the rules, limits, audit file, drain and counters of WebSocket
//! clients apply without a second implementation.

use std::io;
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::HeaderMap;
use pvwire_http::{NoAnswer, ReceiveError, Talk};
use pvwire_schema::close::CloseCode;
use pvwire_schema::limits::MAX_FRAME_BYTES;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::http::server::answer::Refusal;
use crate::http::server::handshake::NO_DESCRIPTORS;
use crate::http::server::read::charged;
use crate::http::server::{Server, Visit};
use crate::limits::connections::ClientPermit;
use crate::limits::memory::{Charge, Owner, TooMuch};
use crate::session::transport::AnyTransport;

/// Path of pvwire's protocol.
const PATH: &str = "/ws";

/// Opcodes of WebSocket frames.
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// The longest header of a frame from the relay.
const HEADER_BYTES: usize = 10;

/// Time between two checks of what is to be sent, when nothing else says so.
const IDLE: Duration = Duration::from_secs(5);

/// Descriptors of a link, besides that of its client's connection.
const PAIR_DESCRIPTORS: usize = 2;

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Ended {
    /// The shard closed it, with this code and reason.
    #[error("{1} (code {0})")]
    Closed(u16, String),
    /// The shard is gone, or the system refused.
    #[error("the connection within the relay ended: {0}")]
    Gone(#[from] io::Error),
    /// A message exceeds a memory budget.
    #[error("{0}")]
    TooMuch(TooMuch),
    /// A message can't be applied.
    #[error("{0}")]
    BadMessage(#[from] ReceiveError),
    /// The relay's threads don't answer.
    #[error("the relay doesn't answer")]
    NoAnswer(#[from] NoAnswer),
}

impl Ended {
    /// The code that a WebSocket client would get.
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Closed(code, _) => *code,
            Self::TooMuch(_) => CloseCode::TryAgainLater.number(),
            _ => CloseCode::RelayFault.number(),
        }
    }

    /// The reason in a sentence.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Closed(_, reason) => reason.clone(),
            other => other.to_string(),
        }
    }
}

impl From<Ended> for Refusal {
    fn from(ended: Ended) -> Self {
        let is = |code: CloseCode| ended.code() == code.number();
        let status = if is(CloseCode::NotLoggedIn) {
            StatusCode::UNAUTHORIZED
        } else if is(CloseCode::RightsChanged) {
            StatusCode::FORBIDDEN
        } else if is(CloseCode::RequestTooLarge) {
            StatusCode::PAYLOAD_TOO_LARGE
        } else if is(CloseCode::TooManyRequests) {
            StatusCode::TOO_MANY_REQUESTS
        } else if is(CloseCode::RelayFault) {
            log::error!("a request by plain HTTP failed: {ended}");
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        (status, format!("{}\n", ended.reason())).into()
    }
}

/// A message that is being read.
struct Incoming {
    opcode: u8,
    bytes: Vec<u8>,
    filled: usize,
    charge: Charge,
}

/// The client's end. No call loses bytes when it is cancelled.
pub(super) struct Link {
    stream: UnixStream,
    /// The owner of what is read.
    owner: Arc<Owner>,
    /// It counts as a client.
    _permit: ClientPermit,
    /// The relay has said who the client is.
    has_user: bool,
    head: Vec<u8>,
    incoming: Option<Incoming>,
    /// Bytes to be sent, of which the first `sent` are sent.
    outgoing: Vec<u8>,
    sent: usize,
}

impl Server {
    /// Makes a request's client one of a shard's, unless it is refused like a WebSocket client.
    pub(super) fn link(&self, headers: &HeaderMap, visit: &Visit) -> Result<Link, Refusal> {
        self.check_origin(headers)?;
        if let Some(message) = self.full() {
            return Err((StatusCode::SERVICE_UNAVAILABLE, message).into());
        }
        let (newcomer, permit) = self.newcomer(headers, visit, false)?;
        let user = newcomer.peer.identity.user.as_deref();
        let owner = (self.admin.memory).owner(&newcomer.peer.address, user);
        if !(self.descriptors).take(PAIR_DESCRIPTORS, std::time::Instant::now()) {
            return Err((StatusCode::SERVICE_UNAVAILABLE, NO_DESCRIPTORS).into());
        }
        let connected = || -> io::Result<_> {
            let (ours, shards) = Pair::pair()?;
            ours.set_nonblocking(true)?;
            let stream = UnixStream::from_std(ours)?;
            Ok((stream, AnyTransport::local(shards)?))
        };
        let (stream, transport) = connected().map_err(Ended::Gone)?;
        let known = |offer: &str| offer == pvwire_schema::SUBPROTOCOL;
        let encoding = self.encodings.select(PATH, known);
        let (encoding, _) = encoding.expect("the relay has its own protocol");
        self.hand_over(newcomer, encoding, transport, Vec::new());
        Ok(Link {
            stream,
            owner,
            _permit: permit,
            has_user: false,
            head: Vec::with_capacity(HEADER_BYTES),
            incoming: None,
            outgoing: Vec::new(),
            sent: 0,
        })
    }
}

impl Link {
    /// The owner of the request's memory.
    pub(super) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Sends what the client has to say and takes one message, if one comes before the client has to speak again.
    pub(super) async fn turn(&mut self, talk: &mut Talk) -> Result<(), Ended> {
        let now = SystemTime::now();
        for request in talk.requests(now)? {
            self.queue(BINARY, &request);
        }
        let due = talk.due().and_then(|due| due.duration_since(now).ok());
        let wait = due.unwrap_or(IDLE).min(IDLE);
        timeout(wait, self.message(talk)).await.unwrap_or(Ok(()))
    }

    /// Takes the next message.
    async fn message(&mut self, talk: &mut Talk) -> Result<(), Ended> {
        loop {
            self.flush()?;
            if self.take(talk)? {
                return Ok(());
            }
            let interest = if self.outgoing.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            self.stream.ready(interest).await?;
        }
    }

    /// Takes one message if it has arrived; returns whether it had.
    pub(super) fn take(&mut self, talk: &mut Talk) -> Result<bool, Ended> {
        while let Some((opcode, bytes, charge)) = self.read()? {
            match opcode {
                BINARY => {
                    talk.receive(charged(bytes, charge), SystemTime::now())?;
                    if let Some(user) = talk.user().filter(|_| !self.has_user) {
                        self.owner = self.owner.with_user(user);
                        self.has_user = true;
                    }
                    return Ok(true);
                }
                CLOSE => {
                    let code = bytes.first_chunk().map(|code| u16::from_be_bytes(*code));
                    let refusal = talk.refusal().map(str::to_owned);
                    let said = String::from_utf8_lossy(bytes.get(2..).unwrap_or_default());
                    let reason = refusal.unwrap_or_else(|| said.into_owned());
                    return Err(Ended::Closed(code.unwrap_or_default(), reason));
                }
                PING => {
                    self.queue(PONG, &bytes);
                    self.flush()?;
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// Reads a whole message, if there is one.
    fn read(&mut self) -> Result<Option<(u8, Vec<u8>, Charge)>, Ended> {
        loop {
            let Some(incoming) = &mut self.incoming else {
                if !self.begin()? {
                    return Ok(None);
                }
                continue;
            };
            if incoming.filled == incoming.bytes.len() {
                self.head.clear();
                let taken = self.incoming.take();
                return Ok(taken.map(|taken| (taken.opcode, taken.bytes, taken.charge)));
            }
            match read_some(&self.stream, &mut incoming.bytes[incoming.filled..])? {
                Some(count) => incoming.filled += count,
                None => return Ok(None),
            }
        }
    }

    /// Reads the header of the next message; returns whether it is complete.
    fn begin(&mut self) -> Result<bool, Ended> {
        loop {
            let needed = match self.head.get(1) {
                Some(126) => 4,
                Some(127) => HEADER_BYTES,
                _ => 2,
            };
            if self.head.len() == needed {
                break;
            }
            let mut more = [0; HEADER_BYTES];
            let more = &mut more[..needed - self.head.len()];
            match read_some(&self.stream, more)? {
                Some(count) => self.head.extend_from_slice(&more[..count]),
                None => return Ok(false),
            }
        }
        let digits = match self.head.len() {
            2 => &self.head[1..],
            _ => &self.head[2..],
        };
        let length = digits
            .iter()
            .fold(0_u64, |sum, digit| sum << 8 | u64::from(*digit));
        let length = usize::try_from(length).ok();
        let length = length.filter(|length| *length <= MAX_FRAME_BYTES);
        let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let charge = self.owner.charge(length).map_err(Ended::TooMuch)?;
        self.incoming = Some(Incoming {
            opcode: self.head[0] & 0xf,
            bytes: vec![0; length],
            filled: 0,
            charge,
        });
        Ok(true)
    }

    /// Appends a frame with a mask of zeros, which leaves the bytes as they are.
    fn queue(&mut self, opcode: u8, payload: &[u8]) {
        const FINAL: u8 = 0x80;
        const MASKED: u8 = 0x80;
        self.outgoing.push(FINAL | opcode);
        match payload.len() {
            length @ ..126 => self.outgoing.push(MASKED | length as u8),
            length @ ..=0xffff => {
                self.outgoing.push(MASKED | 126);
                self.outgoing.extend((length as u16).to_be_bytes());
            }
            length => {
                self.outgoing.push(MASKED | 127);
                self.outgoing.extend((length as u64).to_be_bytes());
            }
        }
        self.outgoing.extend([0; 4]);
        self.outgoing.extend_from_slice(payload);
    }

    /// Sends as much as the shard's end takes.
    fn flush(&mut self) -> Result<(), Ended> {
        while self.sent < self.outgoing.len() {
            match self.stream.try_write(&self.outgoing[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // What the shard said last is still to be read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The shard counts an orderly end. It learns of any other by the end of the connection.
        self.queue(CLOSE, &CloseCode::Normal.number().to_be_bytes());
        let _ = self.flush();
    }
}

/// Reads some bytes; `None` when there are none now.
fn read_some(stream: &UnixStream, into: &mut [u8]) -> Result<Option<usize>, Ended> {
    match stream.try_read(into) {
        Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}
