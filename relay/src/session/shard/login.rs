//! Who is a client, and until when does the relay believe it?

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Hello, Reply, RequestProblem};

use super::Run;
use super::client::Client;
use crate::access::auth::{KeyNumber, Keys, TokenError};
use crate::access::rule::Identity;
use crate::fanout::control::Demand;
use crate::session::socket::Broken;

/// A client must have shown who it is by then.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What a client is told whose token's key doesn't come.
const UNKNOWN_KEY: &str = "the token is signed by a key that isn't known";

/// Whether a client has shown who it is.
pub(super) enum Login {
    /// Not yet.
    Awaited {
        /// At the latest.
        until: Instant,
        /// What it showed, while its key may be on its way.
        token: Option<WaitingToken>,
    },
    /// Yes.
    Done(Option<Shown>),
}

/// When a good token expires.
pub(super) struct Shown {
    until: SystemTime,
    /// Without this key it is good no more.
    key: KeyNumber,
}

/// A token that waits for other keys.
pub(super) struct WaitingToken {
    /// The request's number.
    to: u32,
    token: String,
    /// Which keys weren't enough.
    generation: u64,
}

impl Login {
    /// Of a client that has to show a token.
    pub(super) fn awaited(now: Instant) -> Self {
        Self::Awaited {
            until: now + LOGIN_TIMEOUT,
            token: None,
        }
    }

    /// Whether it took too long, or was good until now.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Awaited { until, .. } => now >= *until,
            Self::Done(shown) => shown.as_ref().is_some_and(Shown::is_over),
        }
    }

    /// Whether it was shown by a key that is no longer one of these.
    pub(super) fn lost_its_key(&self, keys: &Keys) -> bool {
        matches!(self, Self::Done(Some(shown)) if !keys.has(shown.key))
    }

    /// Whether a token waits for other keys.
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
    fn is_over(&self) -> bool {
        SystemTime::now() >= self.until
    }
}

impl Client {
    /// Who asks; nobody while it hasn't shown who it is.
    pub(super) fn known(&self) -> Result<Option<&Arc<Identity>>, Broken> {
        match &self.login {
            Login::Awaited { .. } => Ok(None),
            Login::Done(Some(shown)) if shown.is_over() => Err(Broken::NotLoggedIn),
            Login::Done(_) => Ok(Some(&self.identity)),
        }
    }
}

impl Run {
    /// What a client is told that the relay knows.
    pub(super) fn welcome(&self, identity: &Identity, expires_in_ms: u64) -> Reply {
        Reply::Hello(Hello {
            authenticate: false,
            user: identity.user.clone().unwrap_or_default(),
            expires_in_ms,
            ..self.context.hello.clone()
        })
    }

    /// Lets a client in that shows a good token, keeps waiting with one whose key may be on its way.
    pub(super) fn log_in(&mut self, place: usize, to: u32, token: String) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        let checked = match &self.context.tokens {
            None => Err(TokenError::Refused("this relay takes no tokens".into())),
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
        let refusal = match checked {
            Ok(login) if is_renewal && login.identity.user != client.identity.user => {
                "the new token is of another user".to_owned()
            }
            Ok(login)
                if let Err(why) = client.take_permit(&self.context.users, &login.identity) =>
            {
                return Err(self.refuse(place, to, why.to_string(), Broken::TooManyConnections));
            }
            Ok(login) if let Err(why) = client.draw_on(&self.context.callers, &login.identity) => {
                return Err(self.refuse(place, to, why.to_string(), Broken::TooManyConnections));
            }
            Ok(login) => {
                let left = login.until.duration_since(SystemTime::now());
                let left = u64::try_from(left.unwrap_or_default().as_millis()).unwrap_or(0);
                log::info!("client {:?} is {}", client.id, login.identity);
                let synced = client.session.synced();
                let identity = Arc::new(login.identity);
                client.identity = Arc::clone(&identity);
                if let (false, Some(user)) = (is_renewal, &identity.user) {
                    client.owner = client.owner.with_user(user);
                }
                client.login = Login::Done(Some(Shown {
                    until: login.until,
                    key: login.key,
                }));
                let reply = self.welcome(&identity, left.max(1));
                let frame = Arc::new(self.maker.answer(synced, to, &reply));
                self.clients[place].socket.answer(&frame)?;
                return if is_renewal {
                    self.judge_again(place, identity)
                } else {
                    Ok(())
                };
            }
            Err(TokenError::Refused(why)) => why,
            Err(TokenError::UnknownKey) => UNKNOWN_KEY.to_owned(),
        };
        Err(self.refuse(place, to, refusal, Broken::NotLoggedIn))
    }

    /// A client's new token may give it other rights: what it has and what waits is judged by them.
    fn judge_again(&mut self, place: usize, identity: Arc<Identity>) -> Result<(), Broken> {
        let client = self.clients[place].id;
        for refused in self.operations.renew(client, &identity, Instant::now()) {
            self.answer_operation(&refused)?;
        }
        self.context
            .control
            .leave(Demand::Recheck { client, identity });
        Ok(())
    }

    /// Looks again at a token whose key wasn't known, if there are other keys by now.
    pub(super) fn log_in_again(&mut self, place: usize) {
        let Some(tokens) = &self.context.tokens else {
            return;
        };
        let generation = tokens.keys().generation();
        let waiting = self.clients[place].login.waiting_token();
        let other_keys = |waiting: &mut WaitingToken| waiting.generation != generation;
        if let Some(shown) = waiting.and_then(|waiting| waiting.take_if(other_keys)) {
            let done = self.log_in(place, shown.to, shown.token);
            self.settle(place, done.map(|()| true));
        }
    }

    /// A client's time to show who it is, or its token's, is over.
    pub(super) fn end_login(&mut self, place: usize) {
        let waiting = self.clients[place].login.waiting_token();
        match waiting.and_then(Option::take) {
            None => self.close(place, CloseCode::NotLoggedIn),
            Some(shown) => {
                let refused =
                    self.refuse(place, shown.to, UNKNOWN_KEY.to_owned(), Broken::NotLoggedIn);
                self.settle(place, Err(refused));
            }
        }
    }

    /// Tells a client why it isn't let in, and says what ends its connection.
    fn refuse(&mut self, place: usize, to: u32, message: String, ends: Broken) -> Broken {
        let client = &mut self.clients[place];
        log::info!("client {:?} was not let in: {message}", client.id);
        let problem = RequestProblem::Refused;
        let reply = Reply::Error { problem, message };
        let synced = client.session.synced();
        let frame = Arc::new(self.maker.answer(synced, to, &reply));
        let said = client.socket.answer(&frame);
        said.err().unwrap_or(ends)
    }
}
