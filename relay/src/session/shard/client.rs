//! One client of a shard: its state, the way of its large values, and whether it has stalled or is being closed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::SkipCause;

use super::ShardLimits;
use super::delivery::Feed;
use super::door::Door;
use super::handle::{ClientSeen, DoorClientSeen};
use super::login::Login;
use super::questions::Questions;
use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::fanout::control::ClientId;
use crate::fanout::door_session::DoorSession;
use crate::fanout::frame::Frame;
use crate::fanout::large::LargeValue;
use crate::limits::connections::{Callers, Permit, Stay, TooMany, TooManyConnections, Users};
use crate::limits::memory::Charge;
use crate::limits::requests::RequestBudget;
use crate::session::socket::{Disconnect, Socket};
use crate::session::step::Session;
use crate::session::stream::StreamSender;

/// How long a socket is kept after the close frame: the client reads it, and what it still sends is
/// dropped.
const LINGER: Duration = Duration::from_secs(1);

/// Answers up to this length are not charged: so few of them can wait that their memory doesn't matter, and a client
/// whose budget is used up is still answered when it checks its connection.
const MOST_UNCHARGED: usize = 1 << 10;

/// A message that isn't whole is charged from this length on.
const MOST_UNCHARGED_BEGUN: usize = 4 << 10;

/// Result of a client's heartbeat check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// It has sent something, or has time left.
    Fine,
    /// It gets a ping now.
    Ping,
    /// It didn't answer its ping.
    Gone,
}

pub(super) struct Client {
    pub(super) id: ClientId,
    since: Instant,
    pub(super) login: Login,
    pub(super) caller: Caller,
    /// Its share of the limits of connections and clients.
    _stay: Option<Stay>,
    /// Its share of its user's limit of connections.
    permit: Option<Permit>,
    pub(super) budget: RequestBudget,
    pub(super) socket: Socket,
    /// What has come of a long message.
    unfinished: Option<Charge>,
    pub(super) session: Session,
    pub(super) feed: Feed,
    pub(super) large: LargeWay,
    /// Large values whose frames are being made on another thread, the oldest first.
    pub(super) unmade: VecDeque<Unmade>,
    /// Set for a client of a door.
    pub(super) door: Option<Door>,
    /// Set while answers to questions of it are not complete.
    pub(super) questions: Option<Box<Questions>>,
    /// Bytes that were sent over its stream.
    pub(super) streamed: u64,
    /// It is in the queue for a turn of reading.
    pub(super) awaits_reading: bool,
    /// When its turn of reading was put off.
    pub(super) rests_since: Option<Instant>,
    /// It is in the queue for a turn of writing.
    pub(super) awaits_turn: bool,
    /// Bytes that it had sent at the last check.
    heard: u64,
    /// When it got a ping, if it has sent nothing since.
    pinged: Option<Instant>,
    /// Since when it has taken nothing although something waits for it.
    stalled_since: Option<Instant>,
    /// The close frame is sent or queued; the socket is dropped at this time.
    closing: Option<Instant>,
}

impl Client {
    /// The client with its identity; `None` until it has logged in.
    pub(super) fn known(&self) -> Result<Option<&Caller>, Disconnect> {
        match &self.login {
            Login::Awaited { .. } => Ok(None),
            Login::Done(Some(shown)) if shown.is_over() => Err(Disconnect::NotLoggedIn),
            Login::Done(_) => Ok(Some(&self.caller)),
        }
    }

    pub(super) fn new(
        id: ClientId,
        (caller, stay): (Caller, Option<Stay>),
        login: Login,
        socket: Socket,
        limits: ShardLimits,
        now: Instant,
    ) -> Self {
        Self {
            id,
            since: now,
            login,
            caller,
            _stay: stay,
            permit: None,
            budget: RequestBudget::new(limits.requests, now),
            socket,
            unfinished: None,
            session: Session::default(),
            feed: Feed::default(),
            large: LargeWay::Socket,
            unmade: VecDeque::new(),
            door: None,
            questions: None,
            streamed: 0,
            awaits_reading: false,
            rests_since: None,
            awaits_turn: false,
            heard: 0,
            pinged: None,
            stalled_since: None,
            closing: None,
        }
    }

    /// Lets a client of a door talk as its protocol does.
    pub(super) fn open_door(&mut self, session: Box<dyn DoorSession>) {
        self.door = Some(Door::new(session, self.since));
        self.session = Session::without_acknowledgements();
    }

    /// Counts this connection among those of `identity`'s user, unless it is counted already.
    pub(super) fn take_permit(
        &mut self,
        users: &Arc<Users>,
        identity: &Identity,
    ) -> Result<(), TooManyConnections> {
        if let (None, Some(user)) = (&self.permit, &identity.user) {
            self.permit = Some(users.permit(user)?);
        }
        Ok(())
    }

    /// Sends an answer that was made for this client alone, charged to it until it is sent.
    pub(super) fn answer_charged(&mut self, frame: Frame) -> Result<(), Disconnect> {
        let length = frame.length();
        let frame = if length <= MOST_UNCHARGED {
            frame
        } else {
            let charge = self.caller.owner.charge(length);
            frame.charged(charge.map_err(|_| Disconnect::TooManyWaiting)?)
        };
        self.socket.answer(&Arc::new(frame))
    }

    /// Charges what has come of a message that isn't whole: many clients could hold much memory by messages that they
    /// never end.
    pub(super) fn charge_unfinished(&mut self) -> Result<(), Disconnect> {
        let bytes = self.socket.unfinished_bytes();
        if bytes <= MOST_UNCHARGED_BEGUN {
            self.unfinished = None;
            return Ok(());
        }
        let charged = match &mut self.unfinished {
            Some(charge) => charge.resize(bytes),
            None => {
                let charge = self.caller.owner.charge(bytes);
                charge.map(|charge| self.unfinished = Some(charge))
            }
        };
        charged.map_err(|_| Disconnect::TooManyWaiting)
    }

    /// Whether bytes wait for the client, or it waits for a frame.
    pub(super) fn is_blocked(&self) -> bool {
        self.socket.is_blocked() || self.large.is_busy() || !self.unmade.is_empty()
    }

    /// Its user is known: the user's budgets count from now on.
    pub(super) fn draw_on(
        &mut self,
        callers: &Callers,
        identity: &Identity,
    ) -> Result<(), TooMany> {
        let Some(user) = identity
            .user
            .as_ref()
            .filter(|_| !self.caller.rates.has_user())
        else {
            return Ok(());
        };
        callers.logged_in(&mut self.caller.rates, user, Instant::now())
    }

    /// Number of bytes that wait for the client.
    pub(super) fn held_bytes(&self) -> usize {
        self.socket.held_bytes() + self.large.held_bytes()
    }

    /// Notes that something couldn't be sent to the client.
    pub(super) fn stall(&mut self, now: Instant) {
        self.stalled_since.get_or_insert(now);
    }

    /// Notes whether the client made progress.
    pub(super) fn note_progress(&mut self, progress: bool, blocked: bool) {
        if !blocked && !self.session.is_unacknowledged() {
            self.stalled_since = None;
        } else if progress || self.stalled_since.is_none() {
            self.stalled_since = Some(Instant::now());
        }
    }

    /// The heartbeat check: whether the client has sent something since the last one.
    pub(super) fn silence(&mut self, patience: Duration, now: Instant) -> Silence {
        let received = self.socket.received_bytes();
        // A client that doesn't take what waits for it is checked for stalls instead, and one whose message is being
        // read can't be noticed.
        let is_busy = self.socket.is_blocked() || self.is_being_read() || self.awaits_reading;
        if self.is_closing() || is_busy || received != self.heard {
            self.heard = received;
            self.pinged = None;
            return Silence::Fine;
        }
        match self.pinged {
            None => {
                self.pinged = Some(now);
                Silence::Ping
            }
            Some(since) if now.saturating_duration_since(since) >= patience => Silence::Gone,
            Some(_) => Silence::Fine,
        }
    }

    /// Whether the client has taken nothing for `evict_after`.
    pub(super) fn has_stalled(&mut self, evict_after: Duration, now: Instant) -> bool {
        // What it has acknowledged may lie in a socket that the shard doesn't read yet.
        let is_unread = self.awaits_reading && !self.socket.is_blocked();
        if self.large.progressed() || is_unread || !self.unmade.is_empty() {
            self.stalled_since = self.stalled_since.map(|_| now);
        }
        self.stalled_since
            .is_some_and(|since| now.duration_since(since) >= evict_after)
    }

    /// Whether a message of it is being read on another thread.
    pub(super) fn is_being_read(&self) -> bool {
        (self.door.as_ref()).is_some_and(|with| with.is_being_read)
    }

    /// Sends the close frame.
    pub(super) fn close(&mut self, code: CloseCode) {
        self.questions = None;
        let with = self.door.as_mut();
        match with.and_then(Door::take_close_frame) {
            Some((code, reason)) => self.socket.close(code, &reason),
            None => self.socket.close(code.number(), code.reason()),
        }
        self.closing = Some(Instant::now() + LINGER);
    }

    /// Whether the client is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Whether the client has had its time to read the close frame.
    pub(super) fn is_closed_for_good(&self, now: Instant) -> bool {
        self.closing.is_some_and(|until| now >= until)
    }

    /// Bytes of frames that were sent to it.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.socket.sent_bytes() + self.streamed
    }

    /// How long it has been connected.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// The frame as this client gets it: a door's clients may share a frame that isn't addressed to them yet.
    pub(super) fn addressed(&self, frame: &Arc<Frame>) -> Arc<Frame> {
        let with = self.door.as_ref();
        let own = with.and_then(|with| with.session.addressed(frame));
        own.map_or_else(|| Arc::clone(frame), Arc::new)
    }

    /// Whether it misses ticks because it is too slow.
    pub(super) fn is_behind(&self) -> bool {
        self.session.is_behind() && self.session.cause() == SkipCause::Behind
    }

    /// As the status page shows it.
    pub(super) fn seen(&self) -> ClientSeen {
        ClientSeen {
            id: self.id.to_string(),
            client: Some(self.id),
            address: self.caller.peer.address.clone(),
            user: self.caller.identity.user.clone(),
            connected: self.age(),
            bytes: self.sent_bytes(),
            is_in_step: self.session.is_in_step(),
            is_behind: self.is_behind(),
            unsent: self.feed.unsent(self.held_bytes()),
            pv: None,
        }
    }

    /// Notes that a client of a door was sent something.
    pub(super) fn note_sent(&mut self, now: Instant) {
        if let Some(with) = &mut self.door {
            with.sent = now;
        }
    }

    /// As the pages of its door show it; `None` if it is not a client of a door.
    pub(super) fn seen_by_door(&self, names: usize) -> Option<DoorClientSeen> {
        let with = self.door.as_ref()?;
        Some(DoorClientSeen {
            client: self.id,
            since: self.since,
            heard: with.heard,
            sent: with.sent,
            held_bytes: self.held_bytes(),
            names: with.session.held(names),
        })
    }
}

/// Large values whose frames are not all made.
pub(super) struct Unmade {
    pub(super) values: Arc<[Arc<LargeValue>]>,
    pub(super) is_first: bool,
}

/// The way of a client's large values.
pub(super) enum LargeWay {
    /// On the WebSocket, with all other messages.
    Socket,
    /// On the WebSocket; the client was offered a stream and got its token.
    Offered(u128),
    /// On the WebSocket; the stream is connected.
    Fetched(StreamSender),
    /// On the stream, which the client has confirmed.
    Stream(StreamSender),
}

impl LargeWay {
    /// Whether the stream holds bytes that the client has yet to take.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.is_busy())
    }

    /// Bytes that wait in the stream.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.held_bytes(),
            _ => 0,
        }
    }

    /// Whether the client has taken bytes since the last call.
    pub(super) fn progressed(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.progressed())
    }
}
