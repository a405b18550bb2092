//! Handles of a shard for other threads.
//!
//! A handle queues a command and wakes the shard's thread. No call waits for a client.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use mio::Waker;
use tokio::sync::oneshot;

use crate::access::auth::{Login, Peer};
use crate::fanout::control::ClientId;
use crate::fanout::dialogue::{HeldName, Ran};
use crate::fanout::encoding::Encoding;
use crate::fanout::output::{FrameSink, Order, TickFrames};
use crate::limits::connections::{Caller, Stay};
use crate::ops::pulse::Pulse;
use crate::session::errand::Puts;
use crate::session::stream::StreamBody;
use crate::session::transport::AnyTransport;

/// A client whose handshake is done.
#[derive(Debug)]
pub struct Arrival {
    /// Its connection.
    pub transport: AnyTransport,
    /// Bytes that were read from it already.
    pub read_ahead: Vec<u8>,
    /// The form of its messages.
    pub encoding: Encoding,
    /// The client, as the handshake describes it.
    pub peer: Peer,
    /// The budgets that it shares with other connections of its address and user.
    pub caller: Caller,
    /// Counts as a connection while it is held.
    pub stay: Option<Stay>,
}

/// A client as the status page shows it.
#[derive(Clone, Debug)]
pub struct ClientSeen {
    /// Its address.
    pub address: String,
    /// Its user, if known.
    pub user: Option<String>,
    /// How long it has been connected.
    pub connected: Duration,
    /// Bytes of frames that it was sent, its stream included.
    pub bytes: u64,
    /// Whether it gets every tick's frame at present.
    pub is_in_step: bool,
}

/// A client of a door as the door's pages show it.
#[derive(Clone, Debug)]
pub struct DoorClientSeen {
    /// The client.
    pub client: ClientId,
    /// When it connected.
    pub since: Instant,
    /// When its last message came, or when it connected.
    pub heard: Instant,
    /// When it was last sent something, or when it connected.
    pub sent: Instant,
    /// Bytes that wait for it.
    pub held_bytes: usize,
    /// The names that it has subscribed.
    pub names: Vec<HeldName>,
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
        self.adopt_logged_in(arrival, None);
    }

    /// Gives the shard a client that has logged in by its handshake.
    pub fn adopt_logged_in(&self, arrival: Arrival, login: Option<Login>) {
        self.mailbox.clients.fetch_add(1, Ordering::Relaxed);
        let newcomer = Box::new((arrival, login));
        self.mailbox.put(Command::Adopt(newcomer));
    }

    /// The stream of large values for this token; no answer when no client has the token.
    pub fn attach(&self, token: u128) -> oneshot::Receiver<StreamBody> {
        let (reply, body) = oneshot::channel();
        self.mailbox.put(Command::Attach { token, reply });
        body
    }

    /// The clients that were sent most bytes, up to `limit`, in any order.
    pub fn inspect(&self, limit: usize) -> oneshot::Receiver<Vec<ClientSeen>> {
        let (answer, clients) = oneshot::channel();
        self.mailbox.put(Command::Inspect { limit, answer });
        clients
    }

    /// The clients of a door.
    pub fn door_clients(&self, door: Encoding) -> oneshot::Receiver<Vec<DoorClientSeen>> {
        let (answer, clients) = oneshot::channel();
        self.mailbox.put(Command::DoorClients { door, answer });
        clients
    }

    /// Closes a client; answers whether it was there.
    pub fn close(&self, client: ClientId) -> oneshot::Receiver<bool> {
        let (answer, was_there) = oneshot::channel();
        self.mailbox.put(Command::Close { client, answer });
        was_there
    }

    /// Carries out the puts of an errand.
    pub fn put_for(&self, puts: Puts) {
        self.mailbox.put(Command::PutFor(Box::new(puts)));
    }

    /// A client's errand has been carried out.
    pub fn came_back(&self, client: ClientId, number: u32, ran: Ran) {
        self.mailbox.put(Command::CameBack {
            client,
            number,
            ran: Box::new(ran),
        });
    }

    /// Number of clients, including those that it is about to get.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.mailbox.clients.load(Ordering::Relaxed)
    }

    /// Time since the last turn of the shard's thread.
    #[must_use]
    pub fn turned_ago(&self, now: Instant) -> Duration {
        self.mailbox.pulse.age(now)
    }

    /// Number of deliveries that it got although it had done none for half a second.
    #[must_use]
    pub fn late_total(&self) -> u64 {
        self.mailbox.late.load(Ordering::Relaxed)
    }

    /// Closes every client with 1012, evenly over this time.
    pub fn drain(&self, over: Duration) {
        self.mailbox.put(Command::Drain { over });
    }

    /// The rules have changed: closes every client that holds a PV which it may no longer read.
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
        self.mailbox.given(Instant::now());
        self.mailbox.put(Command::Deliver {
            frames: Arc::clone(frames),
            orders,
        });
    }

    fn is_ready(&self) -> bool {
        self.mailbox.takes_more(Instant::now())
    }

    fn round(&self) -> Duration {
        Duration::from_micros(self.mailbox.round_micros.load(Ordering::Relaxed))
    }
}

/// What reaches a shard from other threads.
pub(super) enum Command {
    Adopt(Box<(Arrival, Option<Login>)>),
    Deliver {
        frames: Arc<TickFrames>,
        orders: Vec<Order>,
    },
    /// An HTTP request for the stream with this token.
    Attach {
        token: u128,
        reply: oneshot::Sender<StreamBody>,
    },
    /// A client took everything in its stream, or ended it.
    Streamed(ClientId),
    /// Lists the clients that were sent most bytes.
    Inspect {
        limit: usize,
        answer: oneshot::Sender<Vec<ClientSeen>>,
    },
    /// Lists the clients of a door.
    DoorClients {
        door: Encoding,
        answer: oneshot::Sender<Vec<DoorClientSeen>>,
    },
    /// Close one client, and answer whether it was there.
    Close {
        client: ClientId,
        answer: oneshot::Sender<bool>,
    },
    /// Close every client with 1012, evenly over this time.
    Drain {
        over: Duration,
    },
    /// Have the access of all clients checked.
    Recheck,
    /// The puts of an errand.
    PutFor(Box<Puts>),
    /// A client's errand has been carried out.
    CameBack {
        client: ClientId,
        number: u32,
        ran: Box<Ran>,
    },
    Stop,
}

/// Deliveries of a shard that keeps up: the present one and the next.
const IN_STEP: usize = 2;

/// Ticks don't wait for a shard that has done no delivery for this long, so that it doesn't delay
/// the clients of other shards.
const LATE: Duration = Duration::from_millis(500);

/// Deliveries that may wait for a late shard; beyond this, ticks wait for it.
const MAX_UNDONE: usize = 256;

/// What the shard's thread and the handles to it share.
pub(super) struct Mailbox {
    commands: Mutex<VecDeque<Command>>,
    waker: Waker,
    /// Deliveries that were given and aren't done.
    undone: AtomicUsize,
    /// When it got its first undone delivery, or did the last one before that.
    moved: Mutex<Instant>,
    round_micros: AtomicU64,
    /// Turned by the shard's thread.
    pulse: Pulse,
    /// Deliveries that were given while it was late.
    late: AtomicU64,
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
            moved: Mutex::new(Instant::now()),
            round_micros: AtomicU64::new(0),
            pulse: Pulse::default(),
            late: AtomicU64::new(0),
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

    fn moved(&self) -> MutexGuard<'_, Instant> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A delivery follows.
    fn given(&self, now: Instant) {
        let mut moved = self.moved();
        if self.undone.fetch_add(1, Ordering::AcqRel) == 0 {
            *moved = now;
        } else if now.saturating_duration_since(*moved) >= LATE {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The shard's thread begins another turn.
    pub(super) fn turned(&self, now: Instant) {
        self.pulse.turned(now);
    }

    /// A delivery is done, its orders included.
    pub(super) fn delivered(&self, now: Instant) {
        let mut moved = self.moved();
        self.undone.fetch_sub(1, Ordering::AcqRel);
        *moved = now;
    }

    /// Whether another delivery may be given now.
    fn takes_more(&self, now: Instant) -> bool {
        let undone = self.undone.load(Ordering::Acquire);
        let is_late = || now.saturating_duration_since(*self.moved()) >= LATE;
        undone < IN_STEP
            || self.stopped.load(Ordering::Acquire)
            || (undone < MAX_UNDONE && is_late())
    }

    /// Whether more deliveries wait than a shard in step has, so that the present one's values are
    /// left out.
    pub(super) fn is_behind(&self) -> bool {
        self.undone.load(Ordering::Acquire) > IN_STEP
    }

    /// Notes how long writing to all clients took.
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

    /// Notes that no more deliveries are done.
    pub(super) fn closed(&self) {
        self.stopped.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Poll, Token};

    #[test]
    fn idle_shard_delays_ticks_only_briefly_and_its_queue_is_bounded() {
        let poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let start = Instant::now();
        for undone in 0..IN_STEP {
            assert!(mailbox.takes_more(start), "{undone}");
            mailbox.given(start);
        }
        assert!(!mailbox.takes_more(start + LATE / 2));
        assert!(!mailbox.is_behind());
        for _ in IN_STEP..MAX_UNDONE {
            assert!(mailbox.takes_more(start + LATE));
            mailbox.given(start + LATE);
            assert!(mailbox.is_behind());
        }
        let late = (MAX_UNDONE - IN_STEP) as u64;
        assert_eq!(mailbox.late.load(Ordering::Relaxed), late);
        assert!(!mailbox.takes_more(start + LATE * 100), "enough wait");
        // It makes progress, so ticks wait for it again.
        for _ in 1..MAX_UNDONE {
            mailbox.delivered(start + LATE * 100);
        }
        assert!(mailbox.takes_more(start + LATE * 100));
        mailbox.given(start + LATE * 100);
        assert!(!mailbox.takes_more(start + LATE * 101 - Duration::from_millis(1)));
    }
}
