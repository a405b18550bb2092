//! A shard: one thread that owns the sockets of its clients, without a task, channel or lock per
//! client.
//!
//! It writes a tick's frame to one client after the other, each time beginning with another client,
//! and reads requests when the poll reports them.

mod backlog;
mod batches;
mod client;
mod delivery;
mod door;
mod ending;
mod handle;
mod heartbeat;
mod large;
mod login;
mod questions;
mod requests;
mod turns;

pub use self::handle::{Arrival, ClientSeen, DoorClientSeen, DoorClients, ShardHandle, Unsent};

use std::cmp::Reverse;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token, Waker};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::Hello;
use slab::Slab;

use self::client::Client;
use self::delivery::Deliveries;
use self::ending::Endings;
use self::handle::{Mailbox, ShardCommand};
use self::login::{Login, Logins};
use self::turns::Turns;
use crate::access::audit::Audit;
use crate::access::auth::{self, Tokens};
use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::compute::PoolHandle;
use crate::fanout::control::{ClientId, ControlQueue, ControlRequest};
use crate::fanout::encoding::Encodings;
use crate::limits::connections::{Callers, Users};
use crate::limits::memory::Memory;
use crate::limits::requests::RequestLimits;
use crate::limits::subscriptions::NewNameLimits;
use crate::ops::metrics::Metrics;
use crate::ops::shutdown::Indispensable;
use crate::ops::thread_cache::ThreadCache;
use crate::session::batch::Batches;
use crate::session::operation::Operations;
use crate::session::peers::Peers;
use crate::session::question::Services;
use crate::session::request::RequestRouter;
use crate::session::socket::{Disconnect, Socket};
use crate::state::registry::Registry;

const WAKER: Token = Token(usize::MAX);

/// Time in which further acknowledgements gather after a wake-up by acknowledgements alone, unless
/// a tick comes: a wake-up costs as much as a frame.
const GATHER: Duration = Duration::from_millis(5);

/// Clients of which the memory is worth to be freed once most have left.
const MANY: usize = 64;

/// Interval between checks for stalled clients and unacknowledged ticks.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The same while there is no client: the thread shows that it is alive.
const CHECK_WITHOUT_CLIENTS: Duration = Duration::from_secs(2);

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
    /// The first message to each client.
    pub hello: Hello,
    /// The relays of the fleet, whose addresses clients get.
    pub peers: Arc<Peers>,
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
    /// Where the batches of clients go.
    pub batches: Batches,
    /// Reads messages of clients of doors, and writes their responses. Makes pages of answers.
    pub pool: PoolHandle,
    /// Answers questions.
    pub services: Arc<dyn Services>,
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
    router: RequestRouter,
    operations: Operations,
    clients: Slab<Client>,
    generation: u64,
    deliveries: Deliveries,
    logins: Logins,
    turns: Turns,
    endings: Endings,
}

impl Run {
    fn new(number: usize, context: ShardContext, poll: Poll, mailbox: Arc<Mailbox>) -> Self {
        let now = Instant::now();
        let wake = {
            let mailbox = Arc::clone(&mailbox);
            Arc::new(move || mailbox.wake())
        };
        Self {
            number,
            router: RequestRouter::new(
                Arc::clone(&context.registry),
                context.limits.get_timeout,
                context.limits.put_timeout,
                context.limits.new_names,
            ),
            deliveries: Deliveries::new(&context.encodings, &context.hello, now),
            logins: Logins::new(now),
            turns: Turns::new(now),
            endings: Endings::new(context.limits),
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
            clients: Slab::new(),
            generation: 0,
        }
    }

    fn run(mut self) {
        let _alive = Indispensable("shard");
        self.mailbox.opened();
        let mut events = Events::with_capacity(1024);
        let mut next_check = Instant::now() + CHECK_EVERY;
        let (mut cache, mut had_clients) = (ThreadCache::new(), false);
        loop {
            self.mailbox.turned(Instant::now());
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience(next_check)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the poll of shard {} failed: {error}", self.number);
            }
            self.turns.woke(!events.is_empty());
            for event in &events {
                if event.token() == WAKER {
                    self.turns.saw(false);
                } else {
                    // The next piece of a large message is read without delay.
                    let is_next_piece = event.is_writable() && self.is_blocked(event.token().0);
                    self.turns.saw(!is_next_piece);
                    self.on_event(event);
                }
            }
            self.read_clients();
            self.give_turns();
            if self.carry_out().is_break() {
                break;
            }
            let now = Instant::now();
            self.answer_operations(now);
            self.let_go(now);
            self.serve_paced(now);
            if now >= next_check {
                next_check = now + CHECK_WITHOUT_CLIENTS;
                match had_clients && self.clients.is_empty() {
                    true => cache.give_back(),
                    false => cache.give_back_if_asked(),
                }
                had_clients = !self.clients.is_empty();
                if self.clients.capacity() > MANY.max(4 * self.clients.len()) {
                    self.clients.shrink_to_fit();
                }
                self.check(now);
                self.router.sweep();
                self.look_for_silent(now);
                self.tell_relays(now);
            }
            if !self.clients.is_empty() {
                next_check = next_check.min(now + CHECK_EVERY);
            }
            if self.turns.may_wait(now) {
                thread::park_timeout(GATHER);
            }
        }
        self.mailbox.closed();
    }

    /// How long the poll may sleep.
    fn patience(&self, next_check: Instant) -> Duration {
        if self.turns.writers() > 0 {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let next = [
            self.endings.next(),
            self.operations.next_deadline(),
            self.deliveries.next_paced(),
            self.turns.reading.due(now),
        ]
        .into_iter()
        .flatten()
        .fold(next_check, Instant::min);
        next.saturating_duration_since(now)
    }

    /// Carries out the commands of other threads; breaks at `Stop`.
    fn carry_out(&mut self) -> ControlFlow<()> {
        while let Some(command) = self.mailbox.take() {
            match command {
                ShardCommand::Stop => return ControlFlow::Break(()),
                ShardCommand::Adopt(newcomer) => {
                    let (arrival, login) = *newcomer;
                    self.adopt(arrival, login);
                }
                ShardCommand::Drain { over } => self.drain(over),
                ShardCommand::Recheck => self.recheck(),
                ShardCommand::PutFor(puts) => self.put_for(*puts),
                ShardCommand::EndPuts(client) => self.operations.forget(client, Instant::now()),
                ShardCommand::BatchDone {
                    client,
                    number,
                    response,
                    charge,
                } => {
                    drop(charge);
                    self.batch_done(client, number, &response);
                }
                ShardCommand::WasRead { client, message } => self.was_read(client, message),
                ShardCommand::LargeMade { client, is_made } => self.large_made(client, is_made),
                ShardCommand::PageMade(made) => {
                    let (client, request, page) = *made;
                    self.page_made(client, request, page);
                }
                ShardCommand::Inspect { limit, id, answer } => {
                    // The receiver may be gone meanwhile.
                    let _ = answer.send(self.inspect(limit, id.as_deref()));
                }
                ShardCommand::DoorClients { wanted, answer } => {
                    // The receiver may be gone meanwhile.
                    let _ = answer.send(self.door_clients(&wanted));
                }
                ShardCommand::Close {
                    client,
                    code,
                    answer,
                } => {
                    let was_there = self.serves(client);
                    if was_there {
                        self.close(client.index, code);
                    }
                    // The receiver may be gone meanwhile.
                    let _ = answer.send(was_there);
                }
                ShardCommand::Attach { token, reply } => self.attach(token, reply),
                ShardCommand::Streamed(id) => self.streamed(id),
                ShardCommand::MakeUp => self.make_up(),
                ShardCommand::Follow(orders) => {
                    for order in orders {
                        self.follow(order);
                    }
                }
                ShardCommand::Deliver { frames, orders } => {
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

    fn inspect(&self, limit: usize, id: Option<&str>) -> Vec<ClientSeen> {
        let clients = self.clients.iter().map(|(_, client)| client);
        let is_wanted = |client: &&Client| id.is_none_or(|id| client.id.to_string() == id);
        let clients = clients.filter(|client| !client.is_closing());
        let mut clients: Vec<_> = clients.filter(is_wanted).collect();
        if clients.len() > limit {
            let rank = |client: &&Client| Reverse((client.is_behind(), client.sent_bytes()));
            clients.select_nth_unstable_by_key(limit, rank);
            clients.truncate(limit);
        }
        clients.into_iter().map(Client::seen).collect()
    }

    /// The clients of a door, as its pages show them.
    fn door_clients(&self, wanted: &DoorClients) -> Vec<DoorClientSeen> {
        let DoorClients {
            door,
            id,
            mut names,
        } = wanted.clone();
        let clients = self.clients.iter().map(|(_, client)| client);
        let of_door = clients.filter(|client| client.id.encoding == door && !client.is_closing());
        let is_wanted = |client: &&Client| {
            let wanted = id.as_deref();
            wanted.is_none_or(|id| client.id.to_string() == id)
        };
        let seen = of_door.filter(is_wanted).filter_map(|client| {
            let seen = client.seen_by_door(names)?;
            names -= seen.names.len();
            Some(seen)
        });
        seen.collect()
    }

    fn adopt(&mut self, arrival: Arrival, login: Option<auth::Login>) {
        let Arrival {
            transport,
            read_ahead,
            encoding,
            peer,
            rates,
            stay,
        } = arrival;
        let mut socket = Socket::new(transport, read_ahead);
        let slot = self.clients.vacant_key();
        if let Err(error) = socket.register(self.poll.registry(), Token(slot)) {
            self.mailbox.client_left();
            log::debug!("a client was gone before it was served: {error}");
            return;
        }
        self.generation += 1;
        let id = ClientId {
            shard: self.number,
            index: slot,
            generation: self.generation,
            encoding,
        };
        let is_first = self.context.hello.authenticate || self.context.peers.is_empty();
        let hello = if is_first && peer.identity == Identity::default() {
            self.deliveries.hello(encoding)
        } else {
            let welcome = self.welcome(&peer.identity, 0);
            self.deliveries.answer(encoding, (0, 0), &welcome)
        };
        let now = Instant::now();
        let session = self.context.encodings.format(encoding).door_session();
        let login = match (&self.context.tokens, login) {
            (Some(_), Some(login)) => Login::of(&login),
            // A client of a door may bring a token later, and is anonymous until then.
            (Some(_), None) if session.is_none() => Login::awaited(now),
            _ => Login::Done(None),
        };
        let memory = &self.context.memory;
        let owner = memory.owner(&peer.address, peer.identity.user.as_deref());
        let caller = Caller::new(peer, owner, rates);
        let mut client = Client::new(id, (caller, stay), login, socket, self.context.limits, now);
        if let Some(session) = session {
            client.open_door(session);
        }
        let identity = Arc::clone(&client.caller.identity);
        let is_full = client.take_permit(&self.context.users, &identity).is_err();
        self.clients.insert(client);
        self.context.metrics.sessions_opened.inc();
        let said = self.clients[slot].socket.answer(&hello);
        self.finish_turn(slot, said.map(|()| true));
        if is_full && self.clients.contains(slot) {
            return self.close(slot, CloseCode::TryAgainLater);
        }
        if self.serves(id) {
            self.pass_time(slot);
        }
        // Requests may have come with the handshake.
        self.read_later(slot);
    }

    fn on_event(&mut self, event: &Event) {
        let slot = event.token().0;
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        if event.is_readable() {
            client.socket.readable(event.is_read_closed());
            self.read_later(slot);
        }
        if event.is_writable() {
            let taken = self.clients[slot].socket.resume();
            self.finish_turn(slot, taken.map(|taken| taken > 0));
        }
    }

    /// Follows each action on a client: ends its connection, or notes its progress and requests its
    /// catch-up.
    fn finish_turn(&mut self, slot: usize, done: Result<bool, Disconnect>) {
        let progress = match done {
            Ok(progress) => progress,
            Err(error) => return self.disconnect(slot, &error),
        };
        let client = &mut self.clients[slot];
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
        self.ask_turn(slot);
        self.make_page(slot);
    }

    fn is_blocked(&self, slot: usize) -> bool {
        let client = self.clients.get(slot);
        client.is_some_and(|client| client.socket.is_blocked())
    }

    /// Whether the client is still connected and not being closed.
    fn serves(&self, id: ClientId) -> bool {
        let client = self.clients.get(id.index);
        client.is_some_and(|client| client.id == id && !client.is_closing())
    }
}
