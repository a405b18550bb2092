//! Puts by Channel Access: in the relay's context or that of a user, and of texts of any length.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pvwire_epics::ca::{self, AccessRights, ChannelEvents, ChannelInfo, Held, PutError};
use pvwire_epics::{Ticket, UserName};
use pvwire_schema::types::Outcome;

use super::field_query::{FieldQueries, FieldQuery, What};
use super::value::held_value;
use super::wiring::Wiring;
use super::{LONG_WITHIN, field};
use crate::ingest::operation::InUse;
use crate::ingest::user::{ContextError, UserClient, UserClients, as_user, no_context};
use crate::ingest::{OpDone, OpEnd, OpTicket};

/// A put, with everything that is needed to answer it or to send it to another name.
pub(super) struct PutOrder {
    pub(super) value: ca::PutValue,
    pub(super) wait: bool,
    pub(super) user: Option<String>,
    pub(super) wiring: Arc<Wiring>,
    pub(super) users: Arc<UserClients<CaUser>>,
    pub(super) done: OpDone,
}

impl PutOrder {
    /// Sends it in the context of its user, to the PV of this name.
    pub(super) fn put_as(
        self,
        users: &UserClients<CaUser>,
        user: &str,
        name: String,
        ticket: OpTicket,
        condition: ca::Condition,
    ) {
        let whom = user.to_owned();
        let job = move |client: Result<(&mut CaUser, InUse), ContextError>| {
            let queries = &self.wiring.queries;
            let opened = client.and_then(|(client, in_use)| {
                let channel = client.channel(&name, queries)?;
                let uses = vec![in_use, Arc::clone(&channel.in_use)];
                Ok((channel, uses))
            });
            let (channel, uses) = match opened {
                Ok(opened) => opened,
                Err(why) => return (self.done)(no_context(&whom, &why)),
            };
            if !ticket.keep(uses) {
                return;
            }
            let (value, wait, of_put) = (self.value.clone(), self.wait, ticket.of_library());
            let done = Box::new(move |result| {
                ticket.release();
                self.ended(result);
            });
            (channel.channel).put(value, wait, of_put, Some(condition), done);
        };
        users.run(user, Box::new(job));
    }

    /// Reports the result. A text that is too long for a string of Channel Access is put to the
    /// PV's name for long strings instead.
    pub(super) fn ended(self, result: Result<Option<Held>, PutError>) {
        if let Err(PutError::LongText { length }) = result
            && let Some(name) = field::long_name(&self.wiring.name)
        {
            let queries = Arc::clone(&self.wiring.queries);
            queries.ask(FieldQuery {
                name: name.clone(),
                what: What::Shape,
                within: LONG_WITHIN,
                late: None,
                is_urgent: true,
                answer: Box::new(move |found| match found.map(|found| found.count) {
                    // One byte is for the final NUL.
                    Some(count) if (length as u64) < u64::from(count) => self.put_long(name),
                    Some(count) => {
                        let room = count.saturating_sub(1);
                        let why = format!("too long: {length} bytes, at most {room}");
                        self.told(Err(PutError::BadValue(why)));
                    }
                    None => self.told(Err(PutError::LongText { length })),
                }),
            });
            return;
        }
        self.told(result);
    }

    /// Sends it to the name that takes a text of any length.
    fn put_long(self, name: String) {
        if let Some(user) = self.user.clone() {
            let users = Arc::clone(&self.users);
            let ticket = OpTicket::default();
            return self.put_as(&users, &user, name, ticket, Box::new(|| true));
        }
        self.put_by(name, Ticket::default(), None);
    }

    /// Sends it to another name, by a channel that is open until it has ended.
    pub(super) fn put_by(self, name: String, ticket: Ticket, condition: Option<ca::Condition>) {
        let state = UserChannelState::new(&name, &self.wiring.queries);
        let opener = self.wiring.queries.opener().clone();
        let channel = match opener.open_to_put(&name, Arc::new(state)) {
            Ok(channel) => Arc::new(channel),
            Err(bad) => return self.told(Err(PutError::BadValue(bad.to_string()))),
        };
        let (value, wait) = (self.value.clone(), self.wait);
        // Keeps the channel open until the put has ended.
        let open = Arc::clone(&channel);
        let done = Box::new(move |result| {
            drop(open);
            self.told(result);
        });
        channel.put(value, wait, ticket, condition, done);
    }

    fn told(self, result: Result<Option<Held>, PutError>) {
        let end = match result {
            Ok(None) => OpEnd::DONE,
            Ok(Some(held)) => OpEnd::holds(held_value(held, &self.value)),
            Err(error) => put_end(&error),
        };
        let unsure = matches!(
            end.outcome,
            Outcome::Done | Outcome::Interrupted | Outcome::Unknown
        );
        if end.outcome != Outcome::Changed {
            self.wiring.last_put.end(unsure, Instant::now());
        }
        (self.done)(match &self.user {
            Some(user) => as_user(user, end),
            None => end,
        });
    }
}

/// Maximum number of channels of one user.
const MAX_USER_CHANNELS: usize = 256;

/// A context of libca that presents a user, with the channels that the user has written to.
pub(super) struct CaUser {
    channels: HashMap<String, UserChannel>,
    client: ca::Client,
}

struct UserChannel {
    channel: ca::Channel,
    state: Arc<UserChannelState>,
    in_use: InUse,
    used: Instant,
}

impl UserClient for CaUser {
    fn start(user: UserName) -> Result<Self, ContextError> {
        Ok(Self {
            channels: HashMap::new(),
            client: ca::Client::start_as(user)
                .map_err(|error| ContextError::Library(error.to_string()))?,
        })
    }

    fn renew(&self) {
        self.client.renew();
    }
}

impl CaUser {
    /// The user's channel to a PV, opened if necessary. It may still be about to connect.
    fn channel(
        &mut self,
        name: &str,
        queries: &Arc<FieldQueries>,
    ) -> Result<&mut UserChannel, ContextError> {
        let is_lost = |open: &UserChannel| open.state.lost.load(Ordering::Acquire);
        if self.channels.get(name).is_some_and(is_lost) {
            // libca searches for a lost server less and less often, but for a new channel at once.
            self.channels.remove(name);
        }
        if !self.channels.contains_key(name) {
            if self.channels.len() >= MAX_USER_CHANNELS {
                let free = self.channels.iter();
                let free = free.filter(|(_, open)| Arc::strong_count(&open.in_use) == 1);
                let oldest = free.min_by_key(|(_, open)| open.used);
                let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                    return Err(ContextError::TooManyPvs(MAX_USER_CHANNELS));
                };
                self.channels.remove(&oldest);
            }
            let state = Arc::new(UserChannelState::new(name, queries));
            let channel = (self.client.open_to_put(name, Arc::clone(&state) as _))
                .map_err(|error| ContextError::Library(error.to_string()))?;
            let open = UserChannel {
                channel,
                state,
                in_use: InUse::default(),
                used: Instant::now(),
            };
            self.channels.insert(name.to_owned(), open);
        }
        let open = self.channels.get_mut(name);
        let open = open.expect("it was found or inserted");
        open.used = Instant::now();
        Ok(open)
    }
}

/// What the relay must know of a channel that it only writes to.
struct UserChannelState {
    /// It was connected and has been lost.
    lost: AtomicBool,
    name: String,
    queries: Arc<FieldQueries>,
}

impl UserChannelState {
    fn new(name: &str, queries: &Arc<FieldQueries>) -> Self {
        Self {
            lost: AtomicBool::new(false),
            name: name.to_owned(),
            queries: Arc::clone(queries),
        }
    }
}

impl ChannelEvents for UserChannelState {
    fn connected(&self, _: ChannelInfo) {
        self.lost.store(false, Ordering::Release);
    }

    fn disconnected(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn access_rights(&self, _: AccessRights) {}

    fn metadata(&self, _: ca::Metadata) {}

    fn update(&self, _: ca::Update<'_>) {}

    fn field_wanted(&self, question: ca::FieldQuestion) {
        field::find(&self.queries, &self.name, question);
    }
}

pub(super) fn put_end(error: &PutError) -> OpEnd {
    let outcome = match error {
        PutError::BadValue(_) | PutError::LongText { .. } => Outcome::BadValue,
        PutError::NoAccess => Outcome::NoAccess,
        PutError::NotConnected => Outcome::NotConnected,
        PutError::Changed => Outcome::Changed,
        PutError::Failed(_) => Outcome::Failed,
        PutError::Interrupted => Outcome::Interrupted,
        PutError::Unsure(_) => Outcome::Unknown,
        _ => Outcome::Unknown,
    };
    OpEnd::failed(outcome, error.to_string())
}
