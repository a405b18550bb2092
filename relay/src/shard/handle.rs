//! How do other threads reach a shard, and what do they learn of it?
//!
//! They hold its handle, which queues a command and wakes the shard's thread. Nobody waits there for
//! a client.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use mio::Waker;
use tokio::sync::oneshot;

use crate::auth::Peer;
use crate::group::{ClientId, FrameSink, Order, TickFrames};
use crate::stream::StreamBody;

/// A client whose handshake is done.
#[derive(Debug)]
pub struct Arrival {
    /// Its socket.
    pub tcp: std::net::TcpStream,
    /// What encrypts it, where TLS is spoken.
    pub tls: Option<Box<rustls::ServerConnection>>,
    /// What was read of it already.
    pub read_ahead: Vec<u8>,
    /// It wants columns packed.
    pub lz4: bool,
    /// Who that is.
    pub peer: Peer,
}

/// A client as the status page shows it.
#[derive(Clone, Debug)]
pub struct ClientSeen {
    /// Where it connects from.
    pub address: String,
    /// Who it is, if that is known.
    pub user: Option<String>,
    /// How long it has been connected.
    pub connected: Duration,
    /// Bytes of frames that it was sent, its stream included.
    pub bytes: u64,
    /// Whether it gets every tick's frame at present.
    pub is_in_step: bool,
}

/// A shard as other threads hold it.
#[derive(Clone)]
pub struct ShardHandle {
    mailbox: Arc<Mailbox>,
}

impl ShardHandle {
    pub(super) fn new(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox }
    }

    /// Gives the shard a client whose handshake is done.
    pub fn adopt(&self, arrival: Arrival) {
        self.mailbox.clients.fetch_add(1, Ordering::Relaxed);
        self.mailbox.put(Command::Adopt(Box::new(arrival)));
    }

    /// The large values of the client that was told this token; no answer when there is none.
    pub fn attach(&self, token: u128) -> oneshot::Receiver<StreamBody> {
        let (reply, body) = oneshot::channel();
        self.mailbox.put(Command::Attach { token, reply });
        body
    }

    /// The clients that were sent most, so many at most, in any order.
    pub fn inspect(&self, limit: usize) -> oneshot::Receiver<Vec<ClientSeen>> {
        let (answer, clients) = oneshot::channel();
        self.mailbox.put(Command::Inspect { limit, answer });
        clients
    }

    /// Clients that it has or is about to have.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.mailbox.clients.load(Ordering::Relaxed)
    }

    /// Closes every client with 1012, evenly over this time.
    pub fn drain(&self, over: Duration) {
        self.mailbox.put(Command::Drain { over });
    }

    /// The rules have changed: closes every client that has a PV which it may not read any more.
    pub fn recheck(&self) {
        self.mailbox.put(Command::Recheck);
    }

    /// Ends the shard's thread.
    pub(super) fn stop(&self) {
        self.mailbox.put(Command::Stop);
    }
}

impl FrameSink for ShardHandle {
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>) {
        self.mailbox.undone.fetch_add(1, Ordering::AcqRel);
        self.mailbox.put(Command::Deliver {
            frames: Arc::clone(frames),
            orders,
        });
    }

    fn is_ready(&self) -> bool {
        self.mailbox.undone.load(Ordering::Acquire) < 2
            || self.mailbox.stopped.load(Ordering::Acquire)
    }

    fn round(&self) -> Duration {
        Duration::from_micros(self.mailbox.round_micros.load(Ordering::Relaxed))
    }
}

/// What reaches a shard from other threads.
pub(super) enum Command {
    Adopt(Box<Arrival>),
    Deliver {
        frames: Arc<TickFrames>,
        orders: Vec<Order>,
    },
    /// Somebody fetches the large values of the client that was told this token.
    Attach {
        token: u128,
        reply: oneshot::Sender<StreamBody>,
    },
    /// A client has taken all of its stream that there was, or has given it up.
    Streamed(ClientId),
    /// Somebody wants to see the clients that got most.
    Inspect {
        limit: usize,
        answer: oneshot::Sender<Vec<ClientSeen>>,
    },
    /// Close every client with 1012, evenly over this time.
    Drain {
        over: Duration,
    },
    /// Find out whether all clients may still read what they have.
    Recheck,
    Stop,
}

/// What the shard's thread and the handles to it share.
pub(super) struct Mailbox {
    commands: Mutex<VecDeque<Command>>,
    waker: Waker,
    /// Deliveries that were given and not yet done.
    undone: AtomicUsize,
    round_micros: AtomicU64,
    clients: AtomicUsize,
    stopped: AtomicBool,
    /// The shard's own thread, which sleeps outside the poll while acknowledgements gather.
    sleeper: OnceLock<Thread>,
}

impl Mailbox {
    /// `waker` ends the poll of the shard's thread.
    pub(super) fn new(waker: Waker) -> Self {
        Self {
            commands: Mutex::default(),
            waker,
            undone: AtomicUsize::new(0),
            round_micros: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            sleeper: OnceLock::new(),
        }
    }

    pub(super) fn put(&self, command: Command) {
        let mut queue = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(command);
        drop(queue);
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            log::error!("a shard can't be woken: {error}");
        }
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// The shard's thread is the one that calls this.
    pub(super) fn opened(&self) {
        self.sleeper.get_or_init(thread::current);
    }

    pub(super) fn take(&self) -> Option<Command> {
        let mut queue = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }

    /// A delivery is done, its orders included.
    pub(super) fn delivered(&self) {
        self.undone.fetch_sub(1, Ordering::AcqRel);
    }

    /// All clients were written to, which took so long.
    pub(super) fn wrote(&self, round: Duration) {
        let round = round.as_micros() as u64;
        // One slow round must not stretch the ticks that follow.
        let before = self.round_micros.load(Ordering::Relaxed);
        self.round_micros
            .store((before * 7 + round) / 8, Ordering::Relaxed);
    }

    /// The shard has one client less.
    pub(super) fn client_left(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// No more deliveries will be done.
    pub(super) fn closed(&self) {
        self.stopped.store(true, Ordering::Release);
    }
}
