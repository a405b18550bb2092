//! Handles of a shard for other threads.
//!
//! A handle queues a command and wakes the shard's thread. No call waits for a client.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::Waker;
use pvwire_schema::close::CloseCode;
use tokio::sync::oneshot;

use super::backlog::Backlog;
use crate::access::auth::{Login, Peer};
use crate::compute::{PoolHandle, Size};
use crate::fanout::control::ClientId;
use crate::fanout::door_session::{HeldName, MessageReader, ReadMessage};
use crate::fanout::encoding::Encoding;
use crate::fanout::output::{FrameSink, Order, TickFrames};
use crate::limits::connections::{SharedBudgets, Stay};
use crate::limits::cpu::CpuShare;
use crate::limits::memory::{Charge, Owner};
use crate::ops::pulse::Pulse;
use crate::session::batch::Puts;
use crate::session::question::{Page, Problem};
use crate::session::stream::StreamBody;
use crate::session::transport::AnyTransport;
use crate::state::batch::{BatchResult, Respond};

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
    pub rates: SharedBudgets,
    /// Counts as a connection and a client until it is dropped.
    pub stay: Option<Stay>,
}

/// A client as the status page shows it.
#[derive(Clone, Debug)]
pub struct ClientSeen {
    /// Names it in requests: its number at its shard or, for plain HTTP, `http-` and its number.
    pub id: String,
    /// The client at its shard; `None` for plain HTTP.
    pub client: Option<ClientId>,
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
    /// Whether it misses ticks because it is too slow, and not because it asked for updates at intervals.
    pub is_behind: bool,
    /// What it has not been sent yet.
    pub unsent: Unsent,
    /// Of a client of plain HTTP: the PV that it reads, if that is known.
    pub pv: Option<String>,
}

/// How far a client is behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsent {
    /// Bytes that wait for its connection.
    pub bytes: usize,
    /// Updates that ticks had for it since it was last in step.
    pub updates: u64,
    /// Age of the first of them.
    pub age: Option<Duration>,
    /// Updates that it has skipped since it connected, because it was behind.
    pub skipped: u64,
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

/// Which clients of a door a page shows.
#[derive(Clone, Debug)]
pub struct DoorClients {
    /// The door.
    pub door: Encoding,
    /// Only the client with this id.
    pub id: Option<String>,
    /// Maximum number of names of all of them: clients may have a million.
    pub names: usize,
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
        self.mailbox.put(ShardCommand::Adopt(newcomer));
    }

    /// The stream of large values for this token; no answer when no client has the token.
    pub fn attach(&self, token: u128) -> oneshot::Receiver<StreamBody> {
        let (reply, body) = oneshot::channel();
        self.mailbox.put(ShardCommand::Attach { token, reply });
        body
    }

    /// Up to `limit` clients in any order: those that are behind, and then those that were sent most bytes.
    pub fn inspect(&self, limit: usize) -> oneshot::Receiver<Vec<ClientSeen>> {
        self.inspect_client(limit, None)
    }

    /// The client with this id, if it is there.
    pub fn find(&self, id: &str) -> oneshot::Receiver<Vec<ClientSeen>> {
        self.inspect_client(1, Some(id.to_owned()))
    }

    fn inspect_client(
        &self,
        limit: usize,
        id: Option<String>,
    ) -> oneshot::Receiver<Vec<ClientSeen>> {
        let (answer, clients) = oneshot::channel();
        let command = ShardCommand::Inspect { limit, id, answer };
        self.mailbox.put(command);
        clients
    }

    /// The clients of a door.
    pub fn door_clients(&self, wanted: DoorClients) -> oneshot::Receiver<Vec<DoorClientSeen>> {
        let (answer, clients) = oneshot::channel();
        self.mailbox
            .put(ShardCommand::DoorClients { wanted, answer });
        clients
    }

    /// Closes a client; answers whether it was there.
    pub fn close(&self, client: ClientId, code: CloseCode) -> oneshot::Receiver<bool> {
        let (answer, was_there) = oneshot::channel();
        self.mailbox.put(ShardCommand::Close {
            client,
            code,
            answer,
        });
        was_there
    }

    /// Carries out the puts of a batch.
    pub fn put_for(&self, puts: Puts) {
        self.mailbox.put(ShardCommand::PutFor(Box::new(puts)));
    }

    /// Ends the puts of a client that were not sent.
    pub fn end_puts(&self, client: ClientId) {
        self.mailbox.put(ShardCommand::EndPuts(client));
    }

    /// A client's batch has been carried out: lets its response be written.
    pub fn respond(
        &self,
        pool: &PoolHandle,
        owner: &Arc<Owner>,
        (client, number): (ClientId, u32),
        respond: Respond,
        result: BatchResult,
    ) {
        let done = move |(response, charge)| ShardCommand::BatchDone {
            client,
            number,
            response,
            charge,
        };
        let answer = Answer::new(&self.mailbox, done((FAILED.to_vec(), None)));
        let (size, memory) = (Size::of(result.elements()), Arc::clone(owner));
        pool.run(owner.cpu(), size, move || {
            answer.give(done(respond.0(&result, &memory)));
        });
    }

    /// Lets a message of a client be read.
    pub(super) fn read(
        &self,
        pool: &PoolHandle,
        share: &CpuShare,
        client: ClientId,
        reader: Arc<dyn MessageReader>,
        message: Bytes,
    ) {
        let was_read = move |message| ShardCommand::WasRead { client, message };
        let answer = Answer::new(&self.mailbox, was_read(None));
        let size = reader.size(&message);
        pool.run(share, size, move || {
            answer.give(was_read(Some(reader.read(&message))));
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
        self.mailbox.put(ShardCommand::Drain { over });
    }

    /// The rules have changed: closes every client that holds a PV which it may no longer read.
    pub fn recheck(&self) {
        self.mailbox.put(ShardCommand::Recheck);
    }

    /// Ends the shard's thread.
    pub(super) fn stop(&self) {
        self.mailbox.put(ShardCommand::Stop);
    }
}

impl FrameSink for ShardHandle {
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>) {
        self.mailbox.deliver(frames, orders, Instant::now());
    }

    fn follow(&self, tick: u64, orders: Vec<Order>) {
        self.mailbox.follow(tick, orders);
    }

    fn is_ready(&self) -> bool {
        self.mailbox.takes_more(Instant::now())
    }

    fn round(&self) -> Duration {
        Duration::from_micros(self.mailbox.round_micros.load(Ordering::Relaxed))
    }
}

/// What reaches a shard from other threads.
pub(super) enum ShardCommand {
    Adopt(Box<(Arrival, Option<Login>)>),
    Deliver {
        frames: Arc<TickFrames>,
        orders: Vec<Order>,
    },
    /// Orders that follow the frames of the last delivery.
    Follow(Vec<Order>),
    /// Make up for the ticks of the backlog.
    MakeUp,
    /// An HTTP request for the stream with this token.
    Attach {
        token: u128,
        reply: oneshot::Sender<StreamBody>,
    },
    /// A client took everything in its stream, or ended it.
    Streamed(ClientId),
    /// Lists clients: those that are behind, and then those that were sent most bytes.
    Inspect {
        limit: usize,
        /// Only the client with this id.
        id: Option<String>,
        answer: oneshot::Sender<Vec<ClientSeen>>,
    },
    /// Lists clients of a door.
    DoorClients {
        wanted: DoorClients,
        answer: oneshot::Sender<Vec<DoorClientSeen>>,
    },
    /// Close one client, and answer whether it was there.
    Close {
        client: ClientId,
        code: CloseCode,
        answer: oneshot::Sender<bool>,
    },
    /// Close every client with 1012, evenly over this time.
    Drain {
        over: Duration,
    },
    /// Have the access of all clients checked.
    Recheck,
    /// The puts of a batch.
    PutFor(Box<Puts>),
    /// A client waits no more for its puts.
    EndPuts(ClientId),
    /// A client's batch has been carried out, and this is the response.
    BatchDone {
        client: ClientId,
        number: u32,
        response: Vec<u8>,
        /// Of the response, until it is a message.
        charge: Option<Charge>,
    },
    /// The frames of a client's large values were made, or that failed.
    LargeMade {
        client: ClientId,
        is_made: bool,
    },
    /// A page of the answer to a client's request was made.
    PageMade(Box<(ClientId, u32, Result<Page, Problem>)>),
    /// A client's message was read; `None` if that failed.
    WasRead {
        client: ClientId,
        message: Option<ReadMessage>,
    },
    Stop,
}

/// The response to a batch whose response could not be written.
const FAILED: &[u8] = br#"{"errors":[{"message":"the relay failed; see its log"}],"data":null}"#;

/// Gives the shard a command at the end of work on another thread, also if that fails.
pub(super) struct Answer {
    mailbox: Arc<Mailbox>,
    command: Option<ShardCommand>,
}

impl Answer {
    /// `failed` is for work that fails.
    pub(super) fn new(mailbox: &Arc<Mailbox>, failed: ShardCommand) -> Self {
        Self {
            mailbox: Arc::clone(mailbox),
            command: Some(failed),
        }
    }

    pub(super) fn give(mut self, command: ShardCommand) {
        self.command = Some(command);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(command) = self.command.take() {
            self.mailbox.put(command);
        }
    }
}

/// Deliveries of a shard that keeps up: the present one and the next.
const IN_STEP: usize = 2;

/// Ticks don't wait for a shard that has done no delivery for this long, so that it doesn't delay
/// the clients of other shards.
const LATE: Duration = Duration::from_millis(500);

/// Deliveries that may wait for a late shard; further ones become its backlog.
const MAX_UNDONE: usize = 256;

/// What the shard's thread and the handles to it share.
pub(super) struct Mailbox {
    commands: Mutex<VecDeque<ShardCommand>>,
    /// The ticks beyond those that may wait.
    backlog: Mutex<Backlog>,
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
    /// The thread that gives deliveries, and whether it waits to give the next.
    ticker: OnceLock<Thread>,
    is_awaited: AtomicBool,
    /// The shard's own thread, which sleeps outside the poll while acknowledgements gather.
    sleeper: OnceLock<Thread>,
}

impl Mailbox {
    /// `waker` ends the poll of the shard's thread.
    pub(super) fn new(waker: Waker) -> Self {
        Self {
            commands: Mutex::default(),
            backlog: Mutex::default(),
            waker,
            undone: AtomicUsize::new(0),
            moved: Mutex::new(Instant::now()),
            round_micros: AtomicU64::new(0),
            pulse: Pulse::default(),
            late: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            ticker: OnceLock::new(),
            is_awaited: AtomicBool::new(false),
            sleeper: OnceLock::new(),
        }
    }

    pub(super) fn put(&self, command: ShardCommand) {
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

    pub(super) fn take(&self) -> Option<ShardCommand> {
        let mut queue = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }

    fn moved(&self) -> MutexGuard<'_, Instant> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the shard a tick. If too many wait already, it is added to the backlog.
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>, now: Instant) {
        let mut backlog = self.backlog();
        if backlog.is_empty() && self.undone.load(Ordering::Acquire) < MAX_UNDONE {
            drop(backlog);
            self.given(now);
            let frames = Arc::clone(frames);
            return self.put(ShardCommand::Deliver { frames, orders });
        }
        let is_first = backlog.is_empty();
        backlog.add(frames, orders);
        drop(backlog);
        self.late.fetch_add(1, Ordering::Relaxed);
        if is_first {
            self.put(ShardCommand::MakeUp);
        }
    }

    /// Gives the shard orders that follow the frames of this tick.
    fn follow(&self, tick: u64, orders: Vec<Order>) {
        let mut backlog = self.backlog();
        if backlog.is_empty() {
            drop(backlog);
            self.put(ShardCommand::Follow(orders));
        } else {
            backlog.add_orders(tick, orders);
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the backlog, which follows all deliveries.
    pub(super) fn take_backlog(&self) -> Backlog {
        std::mem::take(&mut self.backlog())
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
        let undone = self.undone.fetch_sub(1, Ordering::SeqCst) - 1;
        *moved = now;
        drop(moved);
        if undone == 0
            && self.is_awaited.swap(false, Ordering::SeqCst)
            && let Some(ticker) = self.ticker.get()
        {
            ticker.unpark();
        }
    }

    /// The backlog is done.
    pub(super) fn delivered_backlog(&self, now: Instant) {
        *self.moved() = now;
    }

    /// Whether another delivery may be given now. If not, the calling thread is unparked once the present ones are
    /// done: what it gives then is newer than what would have waited for them.
    fn takes_more(&self, now: Instant) -> bool {
        let is_free =
            || self.undone.load(Ordering::SeqCst) == 0 || self.stopped.load(Ordering::SeqCst);
        if is_free() || now.saturating_duration_since(*self.moved()) >= LATE {
            return true;
        }
        self.ticker.get_or_init(thread::current);
        self.is_awaited.store(true, Ordering::SeqCst);
        is_free()
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

    /// Subtracts a client of the shard.
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
    use crate::fanout::output::GroupFrame;
    use crate::fanout::set::PvSet;
    use crate::ingest::RowValue;
    use crate::state::table::{ChangedRow, Changes};
    use mio::{Poll, Token};
    use pvwire_schema::types::{PvId, Skips};

    fn tick(number: u64, values: usize) -> Arc<TickFrames> {
        let row = |n: usize| ChangedRow {
            pv: PvId(n as u32),
            time_ns: 0,
            value: RowValue::Number(0.0),
            alarm: None,
            detail: None,
            skips: Skips::NONE,
        };
        let changes = Changes {
            tick: number,
            rows: (0..values).map(row).collect(),
            ..Changes::default()
        };
        Arc::new(TickFrames {
            tick: number,
            changes: Arc::new(changes),
            dirty: None,
            large: Vec::new(),
            groups: vec![GroupFrame::Gather(Arc::new(PvSet::new(vec![PvId(1)])))],
        })
    }

    #[test]
    fn hanging_shard_delays_ticks_only_briefly_and_its_queue_is_bounded() {
        let poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let start = Instant::now();
        let give = |number: u64, at: Instant| {
            let client = ClientId {
                shard: 0,
                index: number as usize,
                generation: 1,
                encoding: Encoding::default(),
            };
            let orders = vec![Order::Refuse { client }];
            mailbox.deliver(&tick(number, 2), orders, at);
        };
        assert!(mailbox.takes_more(start));
        for number in 0..IN_STEP {
            give(number as u64, start);
            assert!(!mailbox.takes_more(start + LATE / 2));
        }
        assert!(!mailbox.is_behind());
        let last = 10 * MAX_UNDONE as u64;
        for number in IN_STEP as u64..last {
            assert!(mailbox.takes_more(start + LATE), "the others' ticks go on");
            give(number, start + LATE);
            assert!(mailbox.is_behind());
        }
        let late = last - IN_STEP as u64;
        assert_eq!(mailbox.late.load(Ordering::Relaxed), late);
        let mut waiting = 0;
        while let Some(ShardCommand::Deliver { frames, orders }) = mailbox.take() {
            assert_eq!((frames.tick, orders.len()), (waiting, 1));
            waiting += 1;
            mailbox.delivered(start + LATE * 100);
        }
        // It took the command that follows, too.
        assert_eq!(waiting as usize, MAX_UNDONE);
        let backlog = mailbox.take_backlog();
        assert_eq!(backlog.tick(), last - 1);
        let orders: Vec<_> = backlog
            .orders
            .iter()
            .map(|order| order.client().index)
            .collect();
        assert!(orders.into_iter().eq(MAX_UNDONE..last as usize));
        assert_eq!(backlog.missed(Some(0)), last - MAX_UNDONE as u64);
        assert!(backlog.missed(Some(1)) == 0 && backlog.missed(None) == 0);
        // It makes progress, so ticks wait for it again.
        let now = start + LATE * 100;
        assert!(mailbox.takes_more(now));
        give(0, now);
        assert!(!mailbox.takes_more(now + LATE - Duration::from_millis(1)));
        // The thread that waits is woken when the shard is free.
        mailbox.delivered(now);
        thread::park();
        assert!(mailbox.takes_more(now));
    }
}
