//! Logging in: who a client is, and how long its token holds.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Hello, Reply, RequestProblem};

use super::Run;
use crate::access::auth::{self, KeyNumber, Keys, TokenError, TokenRefusal};
use crate::access::rule::Identity;
use crate::fanout::control::ControlRequest;
use crate::fanout::frame::Frame;
use crate::limits::lines::Lines;
use crate::session::peers::Invitation;
use crate::session::socket::Disconnect;

/// Time in which a client must log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Refusal of a token whose key is still unknown at the deadline.
const UNKNOWN_KEY: &str = "the token is signed by a key that isn't known";

/// Lines of the log about refused log-ins, and as many about changed groups: a second, and at once.
const LINES_PER_S: usize = 5;
const LINES_AT_ONCE: usize = 100;

/// What the shard remembers of the log-ins of its clients.
pub(super) struct Logins {
    /// Generation of the keys with which clients' tokens were last checked.
    keys_seen: Option<u64>,
    /// The list of relays that connected clients got last.
    relays_told: Vec<String>,
    /// Lines of the log.
    changes: Lines,
    refusals: Lines,
}

impl Logins {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            keys_seen: None,
            relays_told: Vec::new(),
            changes: Lines::new(LINES_PER_S, LINES_AT_ONCE, now),
            refusals: Lines::new(LINES_PER_S, LINES_AT_ONCE, now),
        }
    }

    /// Whether these keys are others than at the last call.
    pub(super) fn are_new(&mut self, keys: &Keys) -> bool {
        self.keys_seen.replace(keys.generation()) != Some(keys.generation())
    }
}

/// Whether a client has logged in.
pub(super) enum Login {
    /// Not yet.
    Awaited {
        /// Deadline.
        until: Instant,
        /// Its token, while the token's key may still become known.
        token: Option<WaitingToken>,
    },
    /// Yes; with a token if tokens are required.
    Done(Option<Shown>),
}

/// The expiry of a valid token.
pub(super) struct Shown {
    until: SystemTime,
    /// The key that it was signed with; without it the token is no longer valid.
    key: KeyNumber,
}

/// A token that waits for new keys.
pub(super) struct WaitingToken {
    /// The request's number.
    to: u32,
    token: String,
    /// Generation of the keys that it was checked with.
    generation: u64,
}

impl Login {
    /// A client that has to log in.
    pub(super) fn awaited(now: Instant) -> Self {
        Self::Awaited {
            until: now + LOGIN_TIMEOUT,
            token: None,
        }
    }

    /// A client whose token is valid.
    pub(super) fn of(login: &auth::Login) -> Self {
        Self::Done(Some(Shown {
            until: login.until,
            key: login.key,
        }))
    }

    /// Whether the time for logging in is over, or the token has expired.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Awaited { until, .. } => now >= *until,
            Self::Done(shown) => shown.as_ref().is_some_and(Shown::is_over),
        }
    }

    /// Whether its token's key is no longer among these.
    pub(super) fn lost_its_key(&self, keys: &Keys) -> bool {
        matches!(self, Self::Done(Some(shown)) if !keys.has(shown.key))
    }

    /// Whether a token waits for new keys.
    pub(super) fn awaits_key(&self) -> bool {
        matches!(self, Self::Awaited { token: Some(_), .. })
    }

    fn waiting_token(&mut self) -> Option<&mut Option<WaitingToken>> {
        match self {
            Self::Awaited { token, .. } => Some(token),
            Self::Done(_) => None,
        }
    }
}

impl Shown {
    pub(super) fn is_over(&self) -> bool {
        SystemTime::now() >= self.until
    }
}

impl Run {
    /// The greeting to a client whose identity is known.
    pub(super) fn welcome(&self, identity: &Identity, expires_in_ms: u64) -> Reply {
        let Invitation { relays, crowded } = self.context.peers.invite();
        Reply::Hello(Hello {
            relays,
            crowded,
            authenticate: false,
            user: identity.user.clone().unwrap_or_default(),
            expires_in_ms,
            ..self.context.hello.clone()
        })
    }

    /// Tells all clients of pvwire's own protocol where the relays of the fleet are, if that has changed.
    pub(super) fn tell_relays(&mut self, now: Instant) {
        let Some(relays) = self.context.peers.news(&self.logins.relays_told, now) else {
            return;
        };
        self.logins.relays_told.clone_from(&relays);
        let reply = Reply::Relays { relays };
        let frames: Vec<_> = (self.context.encodings.all().iter())
            .map(|encoding| self.deliveries.answer(*encoding, (0, 0), &reply))
            .collect();
        for slot in 0..self.clients.capacity() {
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            let is_known = matches!(client.known(), Ok(Some(_)));
            if is_known && client.door.is_none() && !client.is_closing() {
                let frame = &frames[client.id.encoding.index()];
                let said = client.socket.answer(frame);
                self.finish_turn(slot, said.map(|()| false));
            }
        }
    }

    /// Checks a client's token. A token with an unknown key waits, because its key may become
    /// known.
    pub(super) fn log_in(&mut self, slot: usize, to: u32, token: String) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        let checked = match &self.context.tokens {
            None => Err(TokenRefusal::NotTaken.into()),
            Some(tokens) => {
                let generation = tokens.keys().generation();
                match (tokens.check(&token), client.login.waiting_token()) {
                    (Err(TokenError::UnknownKey), Some(waiting)) => {
                        *waiting = Some(WaitingToken {
                            to,
                            token,
                            generation,
                        });
                        return Ok(());
                    }
                    (checked, _) => checked,
                }
            }
        };
        let is_renewal = matches!(client.login, Login::Done(_));
        let (refusal, ends) = match checked {
            Ok(login) => match self.objection(slot, &login, is_renewal) {
                None => return self.admit(slot, to, login, is_renewal),
                Some(objection) => objection,
            },
            Err(TokenError::Refused(why)) => (why.to_string(), Disconnect::NotLoggedIn),
            Err(TokenError::UnknownKey) => (UNKNOWN_KEY.to_owned(), Disconnect::NotLoggedIn),
        };
        Err(self.refuse(slot, to, refusal, ends))
    }

    /// Why a client can't become the user of a valid token, and how its connection ends; `None` if it can.
    fn objection(
        &mut self,
        slot: usize,
        login: &auth::Login,
        is_renewal: bool,
    ) -> Option<(String, Disconnect)> {
        let client = &mut self.clients[slot];
        let identity = &login.identity;
        if is_renewal && identity.user != client.caller.identity.user {
            let why = "the new token is of another user".to_owned();
            return Some((why, Disconnect::NotLoggedIn));
        }
        let too_many = |why: String| (why, Disconnect::TooManyConnections);
        if let Err(why) = client.take_permit(&self.context.users, identity) {
            return Some(too_many(why.to_string()));
        }
        let drawn = client.draw_on(&self.context.callers, identity);
        drawn.err().map(|why| too_many(why.to_string()))
    }

    /// Logs in a client of a door by the token in a message, and answers with `greeting`. A client whose token is refused
    /// is closed with `code`. Without `auth = jwt` tokens have no meaning.
    pub(super) fn log_in_by_door(
        &mut self,
        slot: usize,
        token: &str,
        code: u16,
        greeting: Frame,
    ) -> Result<(), Disconnect> {
        if let Some(tokens) = self.context.tokens.clone() {
            let is_renewal = matches!(self.clients[slot].login, Login::Done(Some(_)));
            let admitted = match tokens.check(token) {
                Err(why) => Err(why.to_string()),
                Ok(login) => match self.objection(slot, &login, is_renewal) {
                    Some((why, _)) => Err(why),
                    None => Ok(login),
                },
            };
            match admitted {
                Ok(login) => {
                    let identity = Arc::new(login.identity.clone());
                    self.admit(slot, 0, login, is_renewal)?;
                    if !is_renewal {
                        self.renew_access(slot, identity)?;
                    }
                }
                Err(why) => {
                    self.log_refusal(slot, &why);
                    return Err(self.dismiss(slot, code, why));
                }
            }
        }
        self.clients[slot].socket.answer(&Arc::new(greeting))
    }

    /// Logs in a client whose token is valid.
    fn admit(
        &mut self,
        slot: usize,
        to: u32,
        login: auth::Login,
        is_renewal: bool,
    ) -> Result<(), Disconnect> {
        let left = login.until.duration_since(SystemTime::now());
        let left = u64::try_from(left.unwrap_or_default().as_millis()).unwrap_or(0);
        let expiry = Login::of(&login);
        let identity = Arc::new(login.identity);
        let reply = self.welcome(&identity, left.max(1));
        let client = &mut self.clients[slot];
        // What may change a client's access costs more than its token does.
        let is_same = is_renewal && client.caller.identity == identity;
        let line = format_args!("client {} logged in: {identity}", client.id);
        match is_renewal {
            false => log::info!("{line}"),
            true if is_same => {}
            true => (self.logins.changes).say(log::Level::Info, line, Instant::now()),
        }
        client.caller.identity = Arc::clone(&identity);
        if let (false, Some(user)) = (is_renewal, &identity.user) {
            client.caller.owner = client.caller.owner.with_user(user);
        }
        client.login = expiry;
        let about = (client.session.synced(), to);
        let frame = self.deliveries.answer(client.id.encoding, about, &reply);
        client.socket.answer(&frame)?;
        if is_renewal && !is_same {
            self.renew_access(slot, identity)?;
        }
        Ok(())
    }

    /// A new token may change a client's access: checks what the client holds and its puts that
    /// wait.
    fn renew_access(&mut self, slot: usize, identity: Arc<Identity>) -> Result<(), Disconnect> {
        let client = self.clients[slot].id;
        for refused in self.operations.renew(client, &identity, Instant::now()) {
            self.answer_operation(&refused)?;
        }
        self.context
            .control
            .push(ControlRequest::CheckAccess { client, identity });
        Ok(())
    }

    /// Checks a token with an unknown key again if there are new keys.
    pub(super) fn log_in_again(&mut self, slot: usize) {
        let Some(tokens) = &self.context.tokens else {
            return;
        };
        let generation = tokens.keys().generation();
        let waiting = self.clients[slot].login.waiting_token();
        let has_new_keys = |waiting: &mut WaitingToken| waiting.generation != generation;
        if let Some(shown) = waiting.and_then(|waiting| waiting.take_if(has_new_keys)) {
            let done = self.log_in(slot, shown.to, shown.token);
            self.finish_turn(slot, done.map(|()| true));
        }
    }

    /// The time for logging in is over, or the token has expired.
    pub(super) fn end_login(&mut self, slot: usize) {
        let waiting = self.clients[slot].login.waiting_token();
        match waiting.and_then(Option::take) {
            None => self.close(slot, CloseCode::NotLoggedIn),
            Some(shown) => {
                let refused = self.refuse(
                    slot,
                    shown.to,
                    UNKNOWN_KEY.to_owned(),
                    Disconnect::NotLoggedIn,
                );
                self.finish_turn(slot, Err(refused));
            }
        }
    }

    /// Answers why a client can't log in; returns the reason that ends its connection.
    fn refuse(&mut self, slot: usize, to: u32, message: String, ends: Disconnect) -> Disconnect {
        self.log_refusal(slot, &message);
        let client = &mut self.clients[slot];
        let problem = RequestProblem::Refused;
        let reply = Reply::Error { problem, message };
        let about = (client.session.synced(), to);
        let frame = self.deliveries.answer(client.id.encoding, about, &reply);
        let said = client.socket.answer(&frame);
        said.err().unwrap_or(ends)
    }

    /// Logs that a client can't log in, unless there were too many.
    fn log_refusal(&mut self, slot: usize, why: &str) {
        let line = format_args!("client {} was refused: {why}", self.clients[slot].id);
        let refusals = &mut self.logins.refusals;
        refusals.say(log::Level::Info, line, Instant::now());
    }
}
