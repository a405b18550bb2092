//! Puts large values of the stream back into the order of the WebSocket's messages, by the rule of the browsers' client:
//! messages wait two seconds for announced values, then the connection is given up.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Client, Stream};

/// Messages wait this long for an announced value.
const STALL: Duration = Duration::from_secs(2);

/// A client that didn't read for so long may find the value behind what it reads now.
const LATE: Duration = Duration::from_millis(500);

/// After a stream that broke in use, a client that reconnects requests none for this time. It is shorter than in a
/// browser, so that a run of faults breaks many.
const PAUSE: Duration = Duration::from_secs(3);

/// The large values of one connection.
pub(super) struct Large {
    /// Where the stream is requested: the relay's address, or a proxy's.
    at: SocketAddr,
    stream: Option<Stream>,
    /// The first record came, and the relay sends large values by the stream from now on.
    is_open: bool,
    /// The stream couldn't be requested, or ended before it was used.
    has_failed: bool,
    /// Waiting messages and when they came; the first is an announcement, which is empty.
    waiting: VecDeque<(Vec<u8>, Instant)>,
    /// When the client read again after a pause: what waited before isn't the stream's fault.
    awake: Instant,
    looked: Instant,
    /// Number of values that came by the stream since it was last read.
    values: usize,
}

/// What to do next.
pub(super) enum Next {
    Read,
    /// Request the stream's use.
    Open,
    Apply(Vec<u8>),
    /// Give up the connection.
    Lost,
}

impl Large {
    pub(super) fn new(at: SocketAddr) -> Self {
        Self {
            at,
            stream: None,
            is_open: false,
            has_failed: false,
            waiting: VecDeque::new(),
            awake: Instant::now(),
            looked: Instant::now(),
            values: 0,
        }
    }

    /// Takes a message of the WebSocket if it has to wait.
    pub(super) fn takes(&mut self, message: &[u8]) -> bool {
        if !message.is_empty() && self.waiting.is_empty() {
            return false;
        }
        if self.waiting.is_empty() {
            self.looked = Instant::now();
        }
        self.waiting.push_back((message.to_vec(), Instant::now()));
        true
    }

    /// Whether the first message has waited too long.
    fn is_stalled(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|(_, at)| self.awake.max(*at).elapsed() > STALL)
    }

    /// What to do before the WebSocket is read.
    pub(super) fn next(&mut self) -> Next {
        if (self.waiting.front()).is_some_and(|(first, _)| !first.is_empty()) {
            let first = self.waiting.pop_front();
            return first.map_or(Next::Read, |(message, _)| Next::Apply(message));
        }
        if self.is_open && self.waiting.is_empty() {
            return Next::Read;
        }
        if self.looked.elapsed() >= LATE {
            self.awake = Instant::now();
        }
        self.looked = Instant::now();
        let record = match &mut self.stream {
            Some(stream) => stream.poll(),
            None => Ok(None),
        };
        match record {
            Ok(Some(_)) if !self.is_open => {
                self.is_open = true;
                Next::Open
            }
            Ok(Some(message)) => {
                self.waiting.pop_front();
                self.values += 1;
                Next::Apply(message)
            }
            Ok(None) if self.is_open && self.is_stalled() => Next::Lost,
            Ok(None) => Next::Read,
            Err(_) if self.is_open => Next::Lost,
            Err(_) => {
                // If no body gets through, large values continue over the WebSocket.
                self.stream = None;
                self.has_failed = true;
                Next::Read
            }
        }
    }
}

impl Client {
    /// Takes large values from a stream from now on.
    pub fn fetch_large(&mut self) {
        self.request_large(self.address);
        self.wait("the stream", Self::is_fetching);
    }

    /// Takes large values from a stream as soon as it begins. The stream is requested of the relay at `at`, which is its
    /// own address or a proxy's.
    pub fn request_large(&mut self, at: SocketAddr) {
        self.large = Some(Large::new(at));
        self.send(&[]);
    }

    /// The path of its stream of large values.
    pub fn ask_for_stream(&mut self) -> String {
        self.send(&[]);
        self.wait("where the stream is", |client| client.text.is_some());
        format!("/{}", self.text.take().unwrap())
    }

    /// Closes its stream.
    pub fn drop_stream(&mut self) {
        if let Some(large) = &mut self.large {
            large.stream = None;
        }
    }

    /// Whether its large values come by a stream.
    pub fn is_fetching(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.is_open)
    }

    /// Number of values that came by its stream since this was called last.
    pub fn take_fetched(&mut self) -> usize {
        let large = self.large.as_mut();
        large.map_or(0, |large| std::mem::take(&mut large.values))
    }

    /// Whether it gave its connection up because its stream stalled or ended.
    pub fn has_lost_stream(&self) -> bool {
        self.has_lost_stream
    }

    /// Whether its stream ended before it was used, or couldn't be requested.
    fn has_no_stream(&self) -> bool {
        let is_without = |large: &Large| large.has_failed && !large.is_open;
        self.large.as_ref().is_some_and(is_without)
    }

    /// Requests the stream at the address that the relay sent.
    pub(super) fn open_stream(&mut self, path: &str) {
        let (trust, relay) = (self.how.trust, self.address);
        if let Some(large) = &mut self.large {
            large.stream = Stream::request(trust, large.at, relay, &format!("/{path}")).ok();
            large.has_failed = large.stream.is_none();
        }
    }

    /// Follows the stream; returns whether a message was applied.
    pub(super) fn follow_stream(&mut self) -> bool {
        match self.large.as_mut().map_or(Next::Read, Large::next) {
            Next::Read => false,
            Next::Open => {
                self.send(&[]);
                false
            }
            Next::Apply(message) => {
                self.apply(&message);
                self.ack_in_time();
                true
            }
            Next::Lost => {
                self.has_lost_stream |= self.closed.is_none();
                self.closed.get_or_insert(1006);
                false
            }
        }
    }
}

/// How a client that reconnects takes its large values: by streams, with pauses after broken ones.
#[derive(Clone, Copy, Debug)]
pub struct Fetching {
    at: SocketAddr,
    paused_at: Option<Instant>,
    /// Number of streams that broke in use.
    pub broken: usize,
}

impl Fetching {
    /// Requests streams at `at`, the address of a proxy.
    pub fn new(at: SocketAddr) -> Self {
        Self {
            at,
            paused_at: None,
            broken: 0,
        }
    }

    /// Requests the stream of a connection, unless one broke a short time ago.
    pub fn follow(&mut self, client: &mut Client) {
        let is_due = self.paused_at.is_none_or(|at| at.elapsed() > PAUSE);
        if client.large.is_none() && is_due {
            client.request_large(self.at);
        } else if client.has_no_stream() && is_due {
            // The relay gives a connection only one.
            self.paused_at = Some(Instant::now());
            client.closed.get_or_insert(1006);
        }
    }

    /// Notes the end of a connection. When the stream breaks, the relay may notice first.
    pub fn end(&mut self, client: &Client) {
        if client.has_lost_stream() || client.closed == Some(4408) {
            self.broken += 1;
            self.paused_at = Some(Instant::now());
        }
    }
}
