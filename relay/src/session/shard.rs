//! A shard: one thread that owns the sockets of its clients, without a task, channel or lock per
//! client.
//!
//! It writes a tick's frame to one client after the other, each time beginning with another client,
//! and reads requests when the poll reports them.

mod backlog;
mod client;
mod delivery;
mod dialogue;
mod ending;
mod errands;
mod handle;
mod heartbeat;
mod large;
mod large_way;
mod login;
mod requests;

pub use self::handle::{Arrival, ClientSeen, DoorClientSeen, ShardHandle};

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token, Waker};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Hello, Reply};
use slab::Slab;

use self::client::Client;
use self::delivery::{Paces, Rounds};
use self::handle::{Command, Mailbox};
use self::heartbeat::Heartbeats;
use self::login::Login;
use crate::access::audit::Audit;
use crate::access::auth::{self, Tokens};
use crate::access::rule::Identity;
use crate::compute::PoolHandle;
use crate::fanout::control::{ClientId, ControlQueue, ControlRequest};
use crate::fanout::encoding::{Encoders, Encoding, Encodings};
use crate::fanout::frame::Frame;
use crate::limits::connections::{Callers, Users};
use crate::limits::memory::Memory;
use crate::limits::requests::RequestLimits;
use crate::limits::subscriptions::NewNameLimits;
use crate::ops::metrics::Metrics;
use crate::ops::shutdown::Indispensable;
use crate::session::errand::Orders;
use crate::session::neighbours::Neighbours;
use crate::session::operation::Operations;
use crate::session::request::Answerer;
use crate::session::socket::{Broken, Socket};
use crate::state::registry::Registry;

const WAKER: Token = Token(usize::MAX);

/// Time in which further acknowledgements gather after a wake-up by acknowledgements alone, unless
/// a tick comes: a wake-up costs as much as a frame.
const GATHER: Duration = Duration::from_millis(5);

/// Interval between checks for stalled clients and unacknowledged ticks.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Limits of a shard's clients.
#[derive(Clone, Copy, Debug)]
pub struct ShardLimits {
    /// A client that takes nothing for this long is closed.
    pub evict_after: Duration,
    /// A client that acknowledges nothing for this long gets no more frames until it does.
    pub ack_window: Duration,
    /// A client that sends nothing for this long gets a ping; zero for no pings.
    pub ping_after: Duration,
    /// Time that a get waits for first values by default.
    pub get_timeout: Duration,
    /// Time that a put waits for its answer by default.
    pub put_timeout: Duration,
    /// Requests and puts of a client.
    pub requests: RequestLimits,
    /// New names of a client.
    pub new_names: NewNameLimits,
}

/// What all shards share.
#[derive(Clone)]
pub struct ShardContext {
    /// Resolves names to PVs.
    pub registry: Arc<Registry>,
    /// The queue of requests to the fan-out stage.
    pub control: Arc<ControlQueue>,
    /// What each client is told first.
    pub hello: Hello,
    /// The relays of the fleet, of which clients are told.
    pub neighbours: Arc<Neighbours>,
    /// Limits of clients.
    pub limits: ShardLimits,
    /// The forms in which clients get their messages.
    pub encodings: Arc<Encodings>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Checks tokens, if clients have to log in.
    pub tokens: Option<Arc<Tokens>>,
    /// Counts the connections of each user.
    pub users: Arc<Users>,
    /// Budgets that the connections of a user or address share.
    pub callers: Arc<Callers>,
    /// Accounts for the memory of clients' PVs and answers.
    pub memory: Arc<Memory>,
    /// Records puts and calls, if there is an audit file.
    pub audit: Option<Arc<Audit>>,
    /// Where the errands of clients go.
    pub errands: Orders,
    /// Reads messages of clients of doors, and writes their responses.
    pub pool: PoolHandle,
}

/// A shard's thread, and the handle to it.
pub struct Shard {
    handle: ShardHandle,
    thread: Option<JoinHandle<()>>,
}

impl Shard {
    /// Starts shard number `number`.
    ///
    /// # Errors
    /// When the system gives no poll or thread.
    pub fn start(number: usize, context: ShardContext) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox::new(Waker::new(poll.registry(), WAKER)?));
        let handle = ShardHandle::new(Arc::clone(&mailbox));
        let run = Run::new(number, context, poll, mailbox);
        let thread = thread::Builder::new()
            .name(format!("shard-{number}"))
            .spawn(|| run.run())?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    /// The handle for other threads.
    #[must_use]
    pub fn handle(&self) -> ShardHandle {
        self.handle.clone()
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// The state of the shard's thread.
struct Run {
    number: usize,
    context: ShardContext,
    mailbox: Arc<Mailbox>,
    poll: Poll,
    answerer: Answerer,
    operations: Operations,
    encoders: Encoders,
    /// What a client is told first, in each encoding.
    hello: Vec<Arc<Frame>>,
    clients: Slab<Client>,
    generation: u64,
    /// Clients whose sockets may have more requests than one turn reads.
    again: HashSet<usize>,
    /// Clients that have more to write than one turn allows.
    turns: VecDeque<usize>,
    /// Only acknowledgements have come since the last poll.
    only_acks: bool,
    rounds: Rounds,
    paces: Paces,
    heartbeats: Heartbeats,
    /// Clients to close in a drain, and when.
    leaving: VecDeque<(Instant, ClientId)>,
    /// Generation of the keys with which clients' tokens were last checked.
    keys_seen: Option<u64>,
    /// The relays of the fleet that connected clients were told of last.
    relays_told: Vec<String>,
}

impl Run {
    fn new(number: usize, context: ShardContext, poll: Poll, mailbox: Arc<Mailbox>) -> Self {
        let mut encoders = context.encodings.encoders();
        let hello = Reply::Hello(context.hello.clone());
        let hello = (context.encodings.all().iter())
            .map(|encoding| Arc::new(encoders.of(*encoding).answer(0, 0, &hello)))
            .collect();
        let wake = {
            let mailbox = Arc::clone(&mailbox);
            Arc::new(move || mailbox.wake())
        };
        Self {
            number,
            answerer: Answerer::new(
                Arc::clone(&context.registry),
                context.limits.get_timeout,
                context.limits.put_timeout,
                context.limits.new_names,
            ),
            heartbeats: Heartbeats::new(context.limits),
            operations: Operations::new(
                number,
                Arc::clone(&context.registry),
                Arc::clone(&context.control),
                context.audit.clone(),
                wake,
            ),
            context,
            mailbox,
            poll,
            encoders,
            hello,
            clients: Slab::new(),
            generation: 0,
            again: HashSet::new(),
            turns: VecDeque::new(),
            only_acks: false,
            rounds: Rounds::default(),
            paces: Paces::new(Instant::now()),
            leaving: VecDeque::new(),
            keys_seen: None,
            relays_told: Vec::new(),
        }
    }

    fn run(mut self) {
        let _alive = Indispensable("shard");
        self.mailbox.opened();
        let mut events = Events::with_capacity(1024);
        let mut next_check = Instant::now() + CHECK_EVERY;
        loop {
            self.mailbox.turned(Instant::now());
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience(next_check)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the poll of shard {} failed: {error}", self.number);
            }
            self.only_acks = !events.is_empty();
            for event in &events {
                if event.token() == WAKER {
                    self.only_acks = false;
                } else {
                    // The next piece of a large message is read without delay.
                    self.only_acks &= !(event.is_writable() && self.is_blocked(event.token().0));
                    self.on_event(event);
                }
            }
            for place in std::mem::take(&mut self.again) {
                self.on_socket(place, true, false);
            }
            self.give_turns();
            if self.carry_out().is_break() {
                break;
            }
            let now = Instant::now();
            self.answer_operations(now);
            self.let_go(now);
            self.bring_up_paced(now);
            if now >= next_check {
                next_check = now + CHECK_EVERY;
                self.check(now);
                self.look_for_silent(now);
                self.tell_relays(now);
            }
            if self.only_acks && self.again.is_empty() && self.turns.is_empty() {
                thread::park_timeout(GATHER);
            }
        }
        self.mailbox.closed();
    }

    /// How long the poll may sleep.
    fn patience(&self, next_check: Instant) -> Duration {
        if !self.again.is_empty() || !self.turns.is_empty() {
            return Duration::ZERO;
        }
        let leaving = self.leaving.front().map(|(at, _)| *at);
        let next = [leaving, self.operations.next_deadline(), self.paces.next()]
            .into_iter()
            .flatten()
            .fold(next_check, Instant::min);
        next.saturating_duration_since(Instant::now())
    }

    /// Carries out the commands of other threads; breaks at `Stop`.
    fn carry_out(&mut self) -> ControlFlow<()> {
        while let Some(command) = self.mailbox.take() {
            match command {
                Command::Stop => return ControlFlow::Break(()),
                Command::Adopt(newcomer) => {
                    let (arrival, login) = *newcomer;
                    self.adopt(arrival, login);
                }
                Command::Drain { over } => self.drain(over),
                Command::Recheck => self.recheck(),
                Command::PutFor(puts) => self.put_for(*puts),
                Command::CameBack {
                    client,
                    number,
                    response,
                } => self.came_back(client, number, &response),
                Command::WasRead { client, message } => self.was_read(client, message),
                Command::Inspect { limit, answer } => {
                    // The receiver may be gone meanwhile.
                    let _ = answer.send(self.inspect(limit));
                }
                Command::DoorClients { door, answer } => {
                    // The receiver may be gone meanwhile.
                    let _ = answer.send(self.door_clients(door));
                }
                Command::Close { client, answer } => {
                    let was_there = self.serves(client);
                    if was_there {
                        self.close(client.index, CloseCode::Normal);
                    }
                    // The receiver may be gone meanwhile.
                    let _ = answer.send(was_there);
                }
                Command::Attach { token, reply } => self.attach(token, reply),
                Command::Streamed(id) => self.streamed(id),
                Command::MakeUp => self.make_up(),
                Command::Deliver { frames, orders } => {
                    self.deliver(&frames, self.mailbox.is_behind());
                    for order in orders {
                        self.follow(order);
                    }
                    self.mailbox.delivered(Instant::now());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn inspect(&self, limit: usize) -> Vec<ClientSeen> {
        let clients = self.clients.iter().map(|(_, client)| client);
        let mut clients: Vec<_> = clients.filter(|client| !client.is_closing()).collect();
        if clients.len() > limit {
            clients.select_nth_unstable_by_key(limit, |client| Reverse(client.sent_bytes()));
            clients.truncate(limit);
        }
        clients.into_iter().map(Client::seen).collect()
    }

    /// The clients of a door, as its pages show them.
    fn door_clients(&self, door: Encoding) -> Vec<DoorClientSeen> {
        let clients = self.clients.iter().map(|(_, client)| client);
        let of_door = clients.filter(|client| client.id.encoding == door && !client.is_closing());
        of_door.filter_map(Client::seen_by_door).collect()
    }

    fn adopt(&mut self, arrival: Arrival, login: Option<auth::Login>) {
        let Arrival {
            transport,
            read_ahead,
            encoding,
            peer,
            caller,
            stay,
        } = arrival;
        let mut socket = Socket::new(transport, read_ahead);
        let place = self.clients.vacant_key();
        if let Err(error) = socket.register(self.poll.registry(), Token(place)) {
            self.mailbox.client_left();
            log::debug!("a client was gone before it was served: {error}");
            return;
        }
        self.generation += 1;
        let id = ClientId {
            shard: self.number,
            index: place,
            generation: self.generation,
            encoding,
        };
        let is_first = self.context.hello.authenticate || self.context.neighbours.is_empty();
        let hello = if is_first && peer.identity == Identity::default() {
            Arc::clone(&self.hello[encoding.index()])
        } else {
            let welcome = self.welcome(&peer.identity, 0);
            Arc::new(self.encoders.of(encoding).answer(0, 0, &welcome))
        };
        let now = Instant::now();
        let dialogue = self.context.encodings.format(encoding).dialogue();
        let login = match (&self.context.tokens, login) {
            (Some(_), Some(login)) => Login::of(&login),
            // A client of a door may bring a token later, and is anonymous until then.
            (Some(_), None) if dialogue.is_none() => Login::awaited(now),
            _ => Login::Done(None),
        };
        let memory = &self.context.memory;
        let owner = memory.owner(&peer.address, peer.identity.user.as_deref());
        let mut client = Client::new(
            id,
            (peer, caller, stay),
            owner,
            login,
            socket,
            self.context.limits,
            now,
        );
        if let Some(dialogue) = dialogue {
            client.talk(dialogue);
        }
        let identity = Arc::clone(&client.identity);
        let is_full = client.take_permit(&self.context.users, &identity).is_err();
        self.clients.insert(client);
        self.context.metrics.sessions_opened.inc();
        let said = self.clients[place].socket.answer(&hello);
        self.settle(place, said.map(|()| true));
        if is_full && self.clients.contains(place) {
            return self.close(place, CloseCode::TryAgainLater);
        }
        if self.serves(id) {
            self.pass_time(place);
        }
        // Requests may have come with the handshake.
        self.on_socket(place, true, false);
    }

    fn on_event(&mut self, event: &Event) {
        let place = event.token().0;
        if event.is_readable()
            && let Some(client) = self.clients.get_mut(place)
        {
            client.socket.readable(event.is_read_closed());
        }
        self.on_socket(place, event.is_readable(), event.is_writable());
    }

    fn on_socket(&mut self, place: usize, readable: bool, writable: bool) {
        if !self.clients.contains(place) {
            return;
        }
        let mut done = Ok(false);
        if writable {
            done = self.clients[place].socket.resume().map(|taken| taken > 0);
        }
        if readable && done.is_ok() {
            done = self
                .read(place)
                .map(|heard| heard || matches!(done, Ok(true)));
        }
        self.settle(place, done);
    }

    /// Follows each action on a client: ends its connection, or notes its progress and requests its
    /// catch-up.
    fn settle(&mut self, place: usize, done: Result<bool, Broken>) {
        let progress = match done {
            Ok(progress) => progress,
            Err(error) => return self.part(place, &error),
        };
        let client = &mut self.clients[place];
        let blocked = client.is_blocked();
        client.note_progress(progress, blocked);
        if !client.is_closing()
            && let Some(since) = client.session.catch_up_from(blocked)
        {
            self.context.control.push(ControlRequest::CatchUp {
                client: client.id,
                since,
                cause: client.session.cause(),
            });
        }
        self.ask_turn(place);
    }

    fn is_blocked(&self, place: usize) -> bool {
        let client = self.clients.get(place);
        client.is_some_and(|client| client.socket.is_blocked())
    }

    /// Whether the client is still connected and not being closed.
    fn serves(&self, id: ClientId) -> bool {
        let client = self.clients.get(id.index);
        client.is_some_and(|client| client.id == id && !client.is_closing())
    }
}
