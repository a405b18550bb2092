//! Who writes to the sockets, and what happens to a client that doesn't take its bytes?
//!
//! A shard is one thread that owns the sockets of its clients: no task, channel or lock per client.
//! A tick's frame is written to one client after the other, each time beginning with another, and
//! requests are read when the poll says that there are some.

mod large;

use self::large::LargeWay;

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime};

use mio::{Events, Interest, Poll, Token, Waker};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Hello, Reply, RequestProblem};
use slab::Slab;
use tokio::sync::oneshot;

use crate::audit::Audit;
use crate::auth::{Peer, TokenError, Tokens};
use crate::frame::{Frame, FrameMaker, missed};
use crate::group::{ClientId, Demand, Desk, FrameSink, GroupFrame, Order, TickFrames};
use crate::large::large_steps;
use crate::latency::{SENT_SAMPLES, wall_ns};
use crate::metrics::Metrics;
use crate::operation::{OpAnswer, Operations};
use crate::quota::{Bucket, Seat, Users};
use crate::registry::Registry;
use crate::request::{Answerer, Outcome};
use crate::rule::Person;
use crate::session::{Offer, Session};
use crate::shutdown::Indispensable;
use crate::socket::{Broken, Socket, Written};
use crate::stream::StreamBody;

const WAKER: Token = Token(usize::MAX);

/// Whether clients get back what they send, and nothing else, as the conformance test wants it.
const ECHOES: bool = cfg!(feature = "conformance");

/// Requests of one client that are read before the others get their turn.
const REQUESTS_PER_TURN: usize = 32;

/// Answers that one client may be waiting for.
const MAX_OPEN_REQUESTS: usize = 64;

/// After a wake-up by acknowledgements alone the other clients' may gather for so long, unless a tick
/// comes: a wake-up costs as much as a frame does.
const GATHER: Duration = Duration::from_millis(5);

/// How often stalled clients and unacknowledged ticks are looked at.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// How long a closed socket is kept for the other side's farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a shard is told of its clients.
#[derive(Clone, Copy, Debug)]
pub struct ShardLimits {
    /// A client that took nothing for so long is closed.
    pub evict_after: Duration,
    /// A client that acknowledged nothing for so long gets no more frames until it does.
    pub ack_window: Duration,
    /// Time that a get waits for first values, unless it says otherwise.
    pub get_timeout: Duration,
    /// Time that a put waits for its answer, unless it says otherwise.
    pub put_timeout: Duration,
    /// Requests of a client a second.
    pub requests_per_s: usize,
    /// Puts and calls of a client a second.
    pub puts_per_s: usize,
    /// New names of a client a second, and at once.
    pub new_names: (usize, usize),
}

/// A client may make the requests of so many seconds at once.
const BURST: usize = 10;

/// A client must have shown who it is by then.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

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

/// What reaches a shard from other threads.
enum Command {
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

/// A shard as other threads hold it.
#[derive(Clone)]
pub struct ShardHandle {
    shared: Arc<Shared>,
}

struct Shared {
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

impl Shared {
    fn command(&self, command: Command) {
        let mut queue = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(command);
        drop(queue);
        self.wake();
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            log::error!("a shard can't be woken: {error}");
        }
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }
}

impl ShardHandle {
    fn command(&self, command: Command) {
        self.shared.command(command);
    }

    /// Gives the shard a client whose handshake is done.
    pub fn adopt(&self, arrival: Arrival) {
        self.shared.clients.fetch_add(1, Ordering::Relaxed);
        self.command(Command::Adopt(Box::new(arrival)));
    }

    /// The large values of the client that was told this token; no answer when there is none.
    pub fn attach(&self, token: u128) -> oneshot::Receiver<StreamBody> {
        let (reply, body) = oneshot::channel();
        self.command(Command::Attach { token, reply });
        body
    }

    /// The clients that were sent most, so many at most, in any order.
    pub fn inspect(&self, limit: usize) -> oneshot::Receiver<Vec<ClientSeen>> {
        let (answer, clients) = oneshot::channel();
        self.command(Command::Inspect { limit, answer });
        clients
    }

    /// Clients that it has or is about to have.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.clients.load(Ordering::Relaxed)
    }

    /// Closes every client with 1012, evenly over this time.
    pub fn drain(&self, over: Duration) {
        self.command(Command::Drain { over });
    }

    /// The rules have changed: closes every client that has a PV which it may not read any more.
    pub fn recheck(&self) {
        self.command(Command::Recheck);
    }
}

impl FrameSink for ShardHandle {
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>) {
        self.shared.undone.fetch_add(1, Ordering::AcqRel);
        self.command(Command::Deliver {
            frames: Arc::clone(frames),
            orders,
        });
    }

    fn is_ready(&self) -> bool {
        self.shared.undone.load(Ordering::Acquire) < 2
            || self.shared.stopped.load(Ordering::Acquire)
    }

    fn round(&self) -> Duration {
        Duration::from_micros(self.shared.round_micros.load(Ordering::Relaxed))
    }
}

/// A shard's thread, and the handle to it.
pub struct Shard {
    handle: ShardHandle,
    thread: Option<JoinHandle<()>>,
}

/// What all shards share.
#[derive(Clone)]
pub struct ShardContext {
    /// Where names become PVs.
    pub registry: Arc<Registry>,
    /// Where demands go.
    pub desk: Arc<Desk>,
    /// What each client is told first.
    pub hello: Hello,
    /// Times.
    pub limits: ShardLimits,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What tells who a client is, if clients have to show it.
    pub tokens: Option<Arc<Tokens>>,
    /// How many connections each user has.
    pub users: Arc<Users>,
    /// Where attempts to write are put on record, if they are.
    pub audit: Option<Arc<Audit>>,
}

impl Shard {
    /// Starts shard number `number`.
    ///
    /// # Errors
    /// When the system gives no poll or thread.
    pub fn start(number: usize, context: ShardContext) -> io::Result<Self> {
        let poll = Poll::new()?;
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            waker: Waker::new(poll.registry(), WAKER)?,
            undone: AtomicUsize::new(0),
            round_micros: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            sleeper: OnceLock::new(),
        });
        let mut maker = FrameMaker::default();
        let hello = Arc::new(maker.answer(0, 0, &Reply::Hello(context.hello.clone())));
        let wake = {
            let shared = Arc::clone(&shared);
            Arc::new(move || shared.wake())
        };
        let run = Run {
            number,
            answerer: Answerer::new(
                Arc::clone(&context.registry),
                context.limits.get_timeout,
                context.limits.put_timeout,
                context.limits.new_names,
            ),
            operations: Operations::new(
                number,
                Arc::clone(&context.registry),
                Arc::clone(&context.desk),
                context.audit.clone(),
                wake,
            ),
            context,
            hello,
            poll,
            shared: Arc::clone(&shared),
            clients: Slab::new(),
            again: HashSet::new(),
            turns: VecDeque::new(),
            only_acks: false,
            generation: 0,
            first: 0,
            maker,
            sent_ticks: VecDeque::new(),
            overdue: 0,
            leaving: VecDeque::new(),
            started: Instant::now(),
            next_paced: None,
        };
        let thread = thread::Builder::new()
            .name(format!("shard-{number}"))
            .spawn(|| run.run())?;
        Ok(Self {
            handle: ShardHandle { shared },
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
        self.handle.command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Whether a client has shown who it is.
enum Login {
    /// Not yet.
    Awaited {
        /// At the latest.
        until: Instant,
        /// A request's number and token that wait for new keys, and which keys weren't enough.
        token: Option<(u32, String, u64)>,
    },
    /// Yes, until this time if there is one.
    Done(Option<SystemTime>),
}

impl Login {
    fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Awaited { until, .. } => now >= *until,
            Self::Done(until) => until.is_some_and(|until| SystemTime::now() >= until),
        }
    }
}

struct Client {
    id: ClientId,
    since: Instant,
    person: Arc<Person>,
    peer: Arc<Peer>,
    login: Login,
    /// Its place among its user's connections.
    seat: Option<Seat>,
    /// Requests and operations that it may still make at present.
    requests_left: Bucket,
    puts_left: Bucket,
    socket: Socket,
    session: Session,
    group: Option<usize>,
    open_requests: usize,
    large: LargeWay,
    /// Bytes that it was sent by its stream.
    streamed: u64,
    /// Set when it wants to be brought up to date at intervals only.
    pace: Option<Pace>,
    /// Updates that it wasn't sent since it was last in step.
    missed: u64,
    /// Since when it took nothing although something waits for it.
    stalled_since: Option<Instant>,
    /// Has something to write, and is in the queue of those who do.
    awaits_turn: bool,
    /// Our farewell is said; the socket is dropped at this time at the latest.
    closing: Option<Instant>,
}

impl Client {
    /// Takes a place among its user's connections, unless it has one.
    fn sit(&mut self, users: &Arc<Users>, person: &Person) -> Result<(), String> {
        if let (None, Some(user)) = (&self.seat, &person.user) {
            self.seat = Some(users.seat(user)?);
        }
        Ok(())
    }
}

/// How a client wants to be brought up to date.
#[derive(Clone, Copy)]
struct Pace {
    interval: Duration,
    /// When the next catch-up is due; `None` while nothing is new.
    due: Option<Instant>,
}

/// When a paced client is due that has something to wait for since now.
fn pace_end(start: Instant, pace: Pace, now: Instant) -> Instant {
    let interval = pace.interval.as_nanos().max(1);
    let nth = now.duration_since(start).as_nanos() / interval + 1;
    start + Duration::from_nanos(u64::try_from(interval * nth).unwrap_or(u64::MAX))
}

fn earlier(next: Option<Instant>, than: Instant) -> Option<Instant> {
    Some(next.map_or(than, |next| next.min(than)))
}

struct Run {
    number: usize,
    context: ShardContext,
    answerer: Answerer,
    operations: Operations,
    hello: Arc<Frame>,
    poll: Poll,
    shared: Arc<Shared>,
    clients: Slab<Client>,
    /// Clients whose sockets may hold more requests than their turn allowed.
    again: HashSet<usize>,
    /// Clients that have more to write than one turn allows.
    turns: VecDeque<usize>,
    /// Nothing but acknowledgements came since the last poll.
    only_acks: bool,
    generation: u64,
    /// Who is written to first, so that nobody is always last.
    first: usize,
    maker: FrameMaker,
    /// Ticks of the last ack window, and when they were written.
    sent_ticks: VecDeque<(u64, Instant)>,
    /// Last tick that every client should have acknowledged by now.
    overdue: u64,
    /// Clients to close in a drain, and when.
    leaving: VecDeque<(Instant, ClientId)>,
    /// Intervals of paced clients are counted from here, so that those of equal length end together and
    /// their catch-ups may be the same bytes.
    started: Instant,
    /// When the first of the paced clients is due.
    next_paced: Option<Instant>,
}

impl Run {
    fn run(mut self) {
        let _alive = Indispensable("shard");
        self.shared.sleeper.get_or_init(thread::current);
        let mut events = Events::with_capacity(1024);
        let mut next_check = Instant::now() + CHECK_EVERY;
        loop {
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
                    // The next piece of a large message must not wait for anybody.
                    self.only_acks &= !(event.is_writable() && self.is_blocked(event.token().0));
                    self.on_socket(event.token().0, event.is_readable(), event.is_writable());
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
            for answer in self.operations.answers(now) {
                let said = self.answer_operation(&answer);
                if self.serves(answer.client) {
                    self.settle(answer.client.place, said.map(|()| false));
                }
            }
            self.let_go(now);
            self.bring_up_paced(now);
            if now >= next_check {
                next_check = now + CHECK_EVERY;
                self.check(now);
            }
            if self.only_acks && self.again.is_empty() && self.turns.is_empty() {
                thread::park_timeout(GATHER);
            }
        }
        self.shared.stopped.store(true, Ordering::Release);
    }

    /// How long the poll may sleep.
    fn patience(&self, next_check: Instant) -> Duration {
        if !self.again.is_empty() || !self.turns.is_empty() {
            return Duration::ZERO;
        }
        let leaving = self.leaving.front().map(|(at, _)| *at);
        let next = [leaving, self.operations.next_deadline(), self.next_paced]
            .into_iter()
            .flatten()
            .fold(next_check, Instant::min);
        next.saturating_duration_since(Instant::now())
    }

    fn carry_out(&mut self) -> std::ops::ControlFlow<()> {
        loop {
            let mut queue = self
                .shared
                .commands
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let command = queue.pop_front();
            drop(queue);
            match command {
                None => return std::ops::ControlFlow::Continue(()),
                Some(Command::Stop) => return std::ops::ControlFlow::Break(()),
                Some(Command::Adopt(arrival)) => self.adopt(*arrival),
                Some(Command::Drain { over }) => self.drain(over),
                Some(Command::Recheck) => self.recheck(),
                Some(Command::Inspect { limit, answer }) => {
                    // Whoever asked may have gone in the meantime.
                    let _ = answer.send(self.inspect(limit));
                }
                Some(Command::Attach { token, reply }) => self.attach(token, reply),
                Some(Command::Streamed(id)) => self.streamed(id),
                Some(Command::Deliver { frames, orders }) => {
                    self.deliver(&frames);
                    for order in orders {
                        self.follow(order);
                    }
                    self.shared.undone.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
    }

    fn inspect(&self, limit: usize) -> Vec<ClientSeen> {
        let sent = |client: &Client| client.socket.sent_bytes() + client.streamed;
        let clients = self.clients.iter().map(|(_, client)| client);
        let mut clients: Vec<_> = clients.filter(|client| client.closing.is_none()).collect();
        if clients.len() > limit {
            clients.select_nth_unstable_by_key(limit, |client| Reverse(sent(client)));
            clients.truncate(limit);
        }
        let seen = |client: &Client| ClientSeen {
            address: client.peer.address.clone(),
            user: client.person.user.clone(),
            connected: client.since.elapsed(),
            bytes: sent(client),
            is_in_step: client.session.is_abreast(),
        };
        clients.into_iter().map(seen).collect()
    }

    fn adopt(&mut self, arrival: Arrival) {
        let Arrival {
            tcp,
            tls,
            read_ahead,
            lz4,
            peer,
        } = arrival;
        let adopted = Socket::new(tcp, tls, read_ahead).and_then(|mut socket| {
            let place = self.clients.vacant_key();
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(socket.source(), Token(place), interest)?;
            Ok(socket)
        });
        let socket = match adopted {
            Ok(socket) => socket,
            Err(error) => {
                self.shared.clients.fetch_sub(1, Ordering::Relaxed);
                log::debug!("a client was gone before it was served: {error}");
                return;
            }
        };
        self.generation += 1;
        let place = self.clients.vacant_key();
        let id = ClientId {
            shard: self.number,
            place,
            generation: self.generation,
            lz4,
        };
        let hello = if peer.person == Person::default() {
            Arc::clone(&self.hello)
        } else {
            Arc::new(self.maker.answer(0, 0, &self.welcome(&peer.person, 0)))
        };
        let (limits, now) = (self.context.limits, Instant::now());
        let seat = peer.person.user.as_ref();
        let seat = seat.map(|user| self.context.users.seat(user));
        let is_full = seat.as_ref().is_some_and(Result::is_err);
        let seat = seat.and_then(Result::ok);
        let login = match self.context.tokens {
            None => Login::Done(None),
            Some(_) => Login::Awaited {
                until: Instant::now() + LOGIN_TIMEOUT,
                token: None,
            },
        };
        self.clients.insert(Client {
            id,
            since: now,
            person: Arc::new(peer.person.clone()),
            peer: Arc::new(peer),
            login,
            seat,
            requests_left: Bucket::new(limits.requests_per_s, BURST * limits.requests_per_s, now),
            puts_left: Bucket::new(limits.puts_per_s, BURST * limits.puts_per_s, now),
            socket,
            session: Session::default(),
            group: None,
            open_requests: 0,
            large: LargeWay::Socket,
            streamed: 0,
            pace: None,
            missed: 0,
            stalled_since: None,
            awaits_turn: false,
            closing: None,
        });
        self.context.metrics.sessions_opened.inc();
        if !ECHOES {
            let said = self.clients[place].socket.answer(&hello);
            self.settle(place, said.map(|()| true));
        }
        if is_full && self.clients.contains(place) {
            return self.close(place, CloseCode::TryAgainLater);
        }
        // Requests may have come with the handshake.
        self.on_socket(place, true, false);
    }

    /// Writes a tick's frames to all who get one.
    fn deliver(&mut self, frames: &TickFrames) {
        let start = Instant::now();
        let metrics = Arc::clone(&self.context.metrics);
        let places: Vec<usize> = self.clients.iter().map(|(place, _)| place).collect();
        if places.is_empty() {
            return;
        }
        self.first = (self.first + 1) % places.len();
        let (second, first) = places.split_at(self.first);
        let (mut sent, mut updates, mut bytes) = (0_u64, 0_u64, 0_u64);
        let mut broken = Vec::new();
        for &place in first.iter().chain(second) {
            let client = &mut self.clients[place];
            let Some(group) = client.group.filter(|_| client.closing.is_none()) else {
                continue;
            };
            let (shared, set) = match frames.groups.get(group) {
                None | Some(GroupFrame::Nothing) => continue,
                Some(GroupFrame::Shared(forms, set)) => (forms.of(client.id), set),
                Some(GroupFrame::Gather(set)) => (None, set),
            };
            if client.socket.is_ready()
                && let Err(error) = client.socket.resume()
            {
                // Its turn comes now, so that nobody is behind who only waited for one.
                broken.push((place, error));
                continue;
            }
            let steps = || {
                let small = match shared {
                    Some(frame) => Some(frame.steps()),
                    None => missed(&frames.changes, frames.dirty.as_ref(), set),
                };
                let large = large_steps(&frames.large, set);
                (small.is_some() || large > 0).then(|| small.unwrap_or(0) + large)
            };
            let blocked = client.socket.is_blocked()
                || (client.large.is_busy() && large_steps(&frames.large, set) > 0);
            let sure = !blocked && client.session.is_abreast();
            let missed = if sure { None } else { steps() };
            // Nothing is missed of a tick that has nothing for the client.
            if !sure && missed.is_none() {
                continue;
            }
            let offer = client.session.offer(blocked, self.overdue);
            if offer != Offer::Send {
                client.missed += missed.or_else(steps).unwrap_or(0);
                if let Err(error) = self.hold_back(place, offer, start) {
                    broken.push((place, error));
                }
                continue;
            }
            let gathered;
            let frame = match shared {
                Some(frame) => frame,
                None => {
                    let since = client.session.synced();
                    let Some(frame) = self.maker.packing(client.id.lz4).gather(
                        &frames.changes,
                        frames.dirty.as_ref(),
                        set,
                        since,
                    ) else {
                        continue;
                    };
                    metrics.frames_encoded.inc();
                    gathered = Arc::new(frame);
                    &gathered
                }
            };
            match client.socket.send(frame) {
                Ok(Written::Refused) => {
                    client.session.refused();
                    client.missed += frame.steps() + large_steps(&frames.large, set);
                    client.stalled_since.get_or_insert(start);
                }
                Ok(_) => {
                    client.session.sent(frames.tick);
                    sent += 1;
                    updates += u64::from(frame.rows());
                    bytes += frame.length() as u64;
                    let values = frames.large.iter();
                    let values = values.filter(|value| set.contains(value.pv()));
                    client.follow_up(values, false, &mut self.maker, &metrics);
                    self.ask_turn(place);
                }
                Err(error) => broken.push((place, error)),
            }
        }
        for (place, error) in broken {
            self.part(place, &error);
        }
        metrics.frames_sent.inc_by(sent);
        metrics.updates_sent.inc_by(updates);
        metrics.bytes_sent.inc_by(bytes);
        if sent > 0 {
            let (now_ns, rows) = (wall_ns(), &frames.changes.rows);
            for row in rows.iter().step_by(rows.len() / SENT_SAMPLES + 1) {
                metrics.ages_sent.add(row.time_ns, now_ns);
            }
        }
        self.sent_ticks.push_back((frames.tick, start));
        let round = start.elapsed().as_micros() as u64;
        // One slow round must not stretch the ticks that follow.
        let before = self.shared.round_micros.load(Ordering::Relaxed);
        self.shared
            .round_micros
            .store((before * 7 + round) / 8, Ordering::Relaxed);
        while let Some(&(tick, at)) = self.sent_ticks.front()
            && start.duration_since(at) > self.context.limits.ack_window
        {
            self.overdue = tick;
            self.sent_ticks.pop_front();
        }
    }

    /// A frame isn't sent to a client: `offer` says why.
    fn hold_back(&mut self, place: usize, offer: Offer, now: Instant) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        match offer {
            Offer::Send => {}
            Offer::Wait => {
                if let Some(pace) = &mut client.pace {
                    let due = (pace.due).unwrap_or_else(|| pace_end(self.started, *pace, now));
                    pace.due = Some(due);
                    self.next_paced = earlier(self.next_paced, due);
                }
            }
            Offer::Skip => {
                self.context.metrics.frames_skipped.inc();
                client.stalled_since.get_or_insert(now);
            }
            Offer::Probe => {
                client.stalled_since.get_or_insert(now);
                let probe = Arc::new(self.maker.probe(client.session.synced()));
                client.socket.answer(&probe)?;
            }
        }
        Ok(())
    }

    /// Asks for the catch-ups of the clients whose intervals are over.
    fn bring_up_paced(&mut self, now: Instant) {
        if self.next_paced.is_none_or(|at| now < at) {
            return;
        }
        self.next_paced = None;
        let places: Vec<usize> = self.clients.iter().map(|(place, _)| place).collect();
        for place in places {
            let Some(client) = self.clients.get_mut(place) else {
                continue;
            };
            let Some(pace) = &mut client.pace else {
                continue;
            };
            match pace.due {
                None => continue,
                Some(due) if now < due => {
                    self.next_paced = earlier(self.next_paced, due);
                    continue;
                }
                Some(_) => pace.due = None,
            }
            if client.closing.is_some() {
                continue;
            }
            let blocked = client.is_blocked();
            let offer = client.session.due(blocked, self.overdue);
            if offer != Offer::Wait {
                let done = self.hold_back(place, offer, now);
                self.settle(place, done.map(|()| false));
            }
        }
    }

    /// Whether the client is still here and still served.
    fn serves(&self, id: ClientId) -> bool {
        self.clients
            .get(id.place)
            .is_some_and(|client| client.id == id && client.closing.is_none())
    }

    fn follow(&mut self, order: Order) {
        let id = order.client();
        if !self.serves(id) {
            return;
        }
        let client = &mut self.clients[id.place];
        match order {
            Order::Regroup { group, .. } => client.group = group,
            Order::Refuse { .. } => self.close(id.place, CloseCode::RightsChanged),
            Order::Answer { frame, large, .. } => {
                client.open_requests -= 1;
                let rows = frame.rows();
                let metrics = &self.context.metrics;
                let said = client.socket.answer(&frame);
                metrics.updates_sent.inc_by(u64::from(rows));
                client.follow_up(large.iter(), true, &mut self.maker, metrics);
                self.settle(id.place, said.map(|()| false));
            }
            Order::CaughtUp {
                frame, large, tick, ..
            } => {
                let said = client.socket.answer(&frame);
                client.session.caught_up(tick);
                // The frames have a row of each PV that was missed. One too many is taken off for a PV
                // that was subscribed meanwhile and has not changed since.
                let missed = std::mem::take(&mut client.missed);
                let rows = u64::from(frame.rows()) + large.len() as u64;
                let metrics = &self.context.metrics;
                metrics.skipped(client.session.cause(), missed.saturating_sub(rows));
                client.follow_up(large.iter(), false, &mut self.maker, metrics);
                metrics.catch_ups.inc();
                metrics.updates_sent.inc_by(u64::from(frame.rows()));
                self.settle(id.place, said.map(|()| true));
            }
        }
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

    fn is_blocked(&self, place: usize) -> bool {
        self.clients
            .get(place)
            .is_some_and(|client| client.socket.is_blocked())
    }

    /// Reads the requests that are there; says whether the client got on.
    fn read(&mut self, place: usize) -> Result<bool, Broken> {
        let mut heard = false;
        for _ in 0..REQUESTS_PER_TURN {
            let client = &mut self.clients[place];
            if ECHOES {
                if client.socket.echo()? {
                    continue;
                }
                return Ok(true);
            }
            let Some(bytes) = client.socket.receive()? else {
                return Ok(heard);
            };
            if client.closing.is_some() {
                continue;
            }
            self.context.metrics.requests.inc();
            if !client.requests_left.take_one(Instant::now()) {
                return Err(Broken::TooManyWaiting);
            }
            let person = match client.login {
                Login::Awaited { .. } => None,
                Login::Done(None) => Some(&client.person),
                Login::Done(_) if client.login.is_over(Instant::now()) => {
                    return Err(Broken::NotLoggedIn);
                }
                Login::Done(_) => Some(&client.person),
            };
            if bytes.is_empty() {
                if person.is_none() {
                    return Err(Broken::NotLoggedIn);
                }
                self.large_way(place)?;
                continue;
            }
            let outcome = self
                .answerer
                .take(client.id, person, &bytes)
                .map_err(|_| Broken::BadMessage)?;
            self.only_acks &= matches!(outcome, Outcome::Acknowledged(_));
            match outcome {
                Outcome::Answered(reply, to) => {
                    let synced = client.session.synced();
                    let frame = Arc::new(self.maker.answer(synced, to, &reply));
                    client.socket.answer(&frame)?;
                }
                Outcome::Demanded(demand) => {
                    if client.open_requests >= MAX_OPEN_REQUESTS {
                        self.answerer.withdraw(demand);
                        return Err(Broken::TooManyWaiting);
                    }
                    client.open_requests += 1;
                    self.context.desk.leave(demand);
                }
                Outcome::Operation(mut order) => {
                    order.too_fast = !client.puts_left.take_one(Instant::now());
                    let peer = Arc::clone(&client.peer);
                    if client.open_requests >= MAX_OPEN_REQUESTS {
                        return Err(Broken::TooManyWaiting);
                    }
                    client.open_requests += 1;
                    if let Some(answer) = self.operations.begin(order, &peer, Instant::now()) {
                        self.answer_operation(&answer)?;
                    }
                }
                Outcome::LogIn(to, token) => self.log_in(place, to, token)?,
                Outcome::Stranger => return Err(Broken::NotLoggedIn),
                Outcome::Acknowledged(tick) => heard |= client.session.acknowledged(tick),
                Outcome::Paced(interval) => {
                    client.pace = interval.map(|interval| Pace {
                        interval,
                        due: None,
                    });
                    client.session.pace(interval.is_some());
                    // What waited for the end of another interval waits for that of this one.
                    self.hold_back(place, Offer::Wait, Instant::now())?;
                }
            }
        }
        self.again.insert(place);
        Ok(heard)
    }

    /// What a client is told that the relay knows.
    fn welcome(&self, person: &Person, expires_in_ms: u64) -> Reply {
        Reply::Hello(Hello {
            authenticate: false,
            user: person.user.clone().unwrap_or_default(),
            expires_in_ms,
            ..self.context.hello.clone()
        })
    }

    /// Lets a client in that shows a good token, keeps waiting with one whose key may be on its way.
    fn log_in(&mut self, place: usize, to: u32, token: String) -> Result<(), Broken> {
        let checked = match &self.context.tokens {
            None => Err(TokenError::Refused("this relay takes no tokens".into())),
            Some(tokens) => {
                let generation = tokens.generation();
                match tokens.check(&token) {
                    Err(TokenError::UnknownKey) => {
                        let client = &mut self.clients[place];
                        if let Login::Awaited { token: waits, .. } = &mut client.login {
                            *waits = Some((to, token, generation));
                            return Ok(());
                        }
                        let why = "the token is signed by a key that isn't known";
                        Err(TokenError::Refused(why.into()))
                    }
                    other => other,
                }
            }
        };
        let client = &mut self.clients[place];
        let synced = client.session.synced();
        let is_renewal = matches!(client.login, Login::Done(_));
        let refusal = match checked {
            Ok(login) if is_renewal && login.person.user != client.person.user => {
                "the new token is of another user".to_owned()
            }
            Ok(login) if let Err(why) = client.sit(&self.context.users, &login.person) => why,
            Ok(login) => {
                let left = login.until.duration_since(SystemTime::now());
                let left = u64::try_from(left.unwrap_or_default().as_millis()).unwrap_or(0);
                log::info!("client {:?} is {}", client.id, login.person);
                client.person = Arc::new(login.person);
                client.login = Login::Done(Some(login.until));
                let person = Arc::clone(&client.person);
                let reply = self.welcome(&person, left.max(1));
                let frame = Arc::new(self.maker.answer(synced, to, &reply));
                return self.clients[place].socket.answer(&frame);
            }
            Err(TokenError::Refused(why)) => why,
            Err(TokenError::UnknownKey) => "the token's key isn't known".into(),
        };
        self.refuse(place, to, refusal).map(|_| ())
    }

    /// Tells a client why its token isn't good.
    fn refuse(&mut self, place: usize, to: u32, message: String) -> Result<bool, Broken> {
        let client = &mut self.clients[place];
        log::info!("client {:?} was not let in: {message}", client.id);
        let problem = RequestProblem::Refused;
        let reply = Reply::Error { problem, message };
        let synced = client.session.synced();
        let frame = Arc::new(self.maker.answer(synced, to, &reply));
        client.socket.answer(&frame)?;
        Err(Broken::NotLoggedIn)
    }

    /// Looks again at a token whose key wasn't known, if there are other keys by now.
    fn log_in_again(&mut self, place: usize) {
        let Some(tokens) = &self.context.tokens else {
            return;
        };
        let generation = tokens.generation();
        let client = &mut self.clients[place];
        if let Login::Awaited { token, .. } = &mut client.login
            && let Some((to, token, _)) = token.take_if(|(_, _, known)| *known != generation)
        {
            let done = self.log_in(place, to, token);
            self.settle(place, done.map(|()| true));
        }
    }

    /// Tells a client, if it is still there, what became of its put or call.
    fn answer_operation(&mut self, answer: &OpAnswer) -> Result<(), Broken> {
        let id = answer.client;
        self.context.metrics.operation_ended(answer.end.outcome);
        if !self.serves(id) {
            return Ok(());
        }
        let client = &mut self.clients[id.place];
        client.open_requests -= 1;
        let (synced, request) = (client.session.synced(), answer.request);
        let frame = if answer.is_call {
            self.maker.call_answer(synced, request, &answer.end)
        } else {
            let reply = Reply::PutDone {
                outcome: answer.end.outcome,
                message: answer.end.message.clone(),
            };
            self.maker.answer(synced, request, &reply)
        };
        client.socket.answer(&Arc::new(frame))
    }

    /// After something was done with a client: part from it, note its progress, let it catch up.
    fn settle(&mut self, place: usize, done: Result<bool, Broken>) {
        let progress = match done {
            Ok(progress) => progress,
            Err(error) => return self.part(place, &error),
        };
        let client = &mut self.clients[place];
        let blocked = client.is_blocked();
        if !blocked && !client.session.is_unheard() {
            client.stalled_since = None;
        } else if progress || client.stalled_since.is_none() {
            client.stalled_since = Some(Instant::now());
        }
        if client.closing.is_none()
            && let Some(since) = client.session.catch_up_from(blocked)
        {
            self.context.desk.leave(Demand::CatchUp {
                client: client.id,
                since,
                cause: client.session.cause(),
            });
        }
        self.ask_turn(place);
    }

    /// Ends a client's connection for a reason that it is told if possible.
    fn part(&mut self, place: usize, why: &Broken) {
        match why {
            Broken::Gone => self.remove(place, None),
            Broken::BadMessage => self.close(place, CloseCode::BadRequest),
            Broken::BadFrame => self.close(place, CloseCode::BadFrame),
            Broken::BadText => self.close(place, CloseCode::BadText),
            Broken::TooLarge => self.close(place, CloseCode::RequestTooLarge),
            Broken::TooManyWaiting => self.close(place, CloseCode::TooManyRequests),
            Broken::NotLoggedIn => self.close(place, CloseCode::NotLoggedIn),
        }
    }

    /// Behind all that this shard's clients have asked for so far.
    fn recheck(&self) {
        for (_, client) in &self.clients {
            if client.closing.is_none() {
                self.context.desk.leave(Demand::Recheck {
                    client: client.id,
                    person: Arc::clone(&client.person),
                });
            }
        }
    }

    fn close(&mut self, place: usize, code: CloseCode) {
        let client = &mut self.clients[place];
        if client.closing.is_some() {
            // It goes on breaking the rules after our farewell.
            return self.remove(place, None);
        }
        client.socket.close(code.number(), code.reason());
        client.closing = Some(Instant::now() + FAREWELL);
        self.context.metrics.closed(code);
        let id = client.id;
        log::debug!("client {id:?} closed: {}", code.reason());
        self.answerer.forget(id);
        self.operations.forget(id, Instant::now());
        self.context.desk.leave(Demand::Leave { client: id });
    }

    fn remove(&mut self, place: usize, code: Option<CloseCode>) {
        let mut client = self.clients.remove(place);
        // The socket is dropped with it; a failure here changes nothing.
        let _ = self.poll.registry().deregister(client.socket.source());
        self.shared.clients.fetch_sub(1, Ordering::Relaxed);
        self.again.remove(&place);
        if client.closing.is_none() {
            self.context
                .metrics
                .closed(code.unwrap_or(CloseCode::Normal));
            self.answerer.forget(client.id);
            self.operations.forget(client.id, Instant::now());
            self.context.desk.leave(Demand::Leave { client: client.id });
        }
    }

    fn check(&mut self, now: Instant) {
        let evict_after = self.context.limits.evict_after;
        let stalled = |since: Instant| now.duration_since(since) >= evict_after;
        let (mut gone, mut evicted, mut over) = (Vec::new(), Vec::new(), Vec::new());
        let mut waiting = Vec::new();
        for (place, client) in &mut self.clients {
            if client.large.progressed() {
                client.stalled_since = client.stalled_since.map(|_| now);
            }
            if client.closing.is_some_and(|until| now >= until) {
                gone.push(place);
            } else if client.closing.is_none() && client.stalled_since.is_some_and(stalled) {
                evicted.push(place);
            } else if client.closing.is_none() && client.login.is_over(now) {
                over.push(place);
            } else if client.closing.is_none()
                && matches!(client.login, Login::Awaited { token: Some(_), .. })
            {
                waiting.push(place);
            }
        }
        for place in over {
            let client = &mut self.clients[place];
            if let Login::Awaited { token, .. } = &mut client.login
                && let Some((to, ..)) = token.take()
            {
                let why = "the token is signed by a key that isn't known";
                let refused = self.refuse(place, to, why.into());
                self.settle(place, refused);
                continue;
            }
            self.close(place, CloseCode::NotLoggedIn);
        }
        for place in waiting {
            self.log_in_again(place);
        }
        for place in gone {
            self.remove(place, None);
        }
        for place in evicted {
            self.close(place, CloseCode::NoProgress);
        }
    }

    fn drain(&mut self, over: Duration) {
        let count = self.clients.len().max(1) as u32;
        let now = Instant::now();
        self.leaving = self
            .clients
            .iter()
            .enumerate()
            .map(|(nth, (_, client))| (now + over * nth as u32 / count, client.id))
            .collect();
    }

    fn let_go(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.leaving.front()
            && now >= at
        {
            self.leaving.pop_front();
            if self.serves(id) {
                self.close(id.place, CloseCode::ServiceRestart);
            }
        }
    }
}
