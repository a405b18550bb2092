//! pvAccess: a source whose PVs are structures, or fields of them, monitored by pvxs.
//!
//! `pva://NAME/a/b` is the field `a.b` of the structure `NAME`, see [`name`]. All PVs of one structure share one
//! monitor, which is closed and opened again when another field is subscribed.

mod field;
pub mod name;
mod servers;
mod value;
mod wiring;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pvwire_epics::UserName;
use pvwire_epics::pva::{self, OpError};
use pvwire_schema::types::Outcome;

use super::directory::Directory;
use super::operation::InUse;
use super::user::{ContextError, UserClient, UserClients, as_user, no_context};
use super::{
    Call, Event, FormAnswer, Forms, Line, Monitor, OpDone, OpEnd, OpTicket, OpenError, Put, Queue,
    Source,
};
use crate::limits::ContextLimits;
use servers::ServerLists;
use value::{node, op_end, put_value};
use wiring::{Events, Wiring};

/// Time limit of the look for a display form that another source needs. It is made once for each
/// connection, and an IOC that starts may be found late by pvAccess. Nothing waits for it.
const FORM_WITHIN: Duration = Duration::from_secs(60);

/// The pvAccess client context of the relay, and those of users that write.
pub struct PvaSource {
    shared: Arc<Shared>,
}

struct Shared {
    client: pva::Client,
    channels: Mutex<HashMap<String, Channel>>,
    next: AtomicU64,
    users: UserClients<PvaUser>,
}

/// A context of pvxs that presents a user.
struct PvaUser(pva::Client);

impl UserClient for PvaUser {
    fn start(user: UserName) -> Result<Self, ContextError> {
        let client = pva::Client::start_as(user);
        client
            .map(Self)
            .map_err(|error| ContextError::Library(error.to_string()))
    }

    fn renew(&self) {
        self.0.renew();
    }
}

/// The one monitor of a structure, and the PVs that it serves.
struct Channel {
    _monitor: pva::Monitor,
    wirings: Vec<(u64, Arc<Wiring>)>,
}

impl PvaSource {
    /// Starts pvxs.
    ///
    /// # Errors
    /// When pvxs can't create its context.
    pub fn start() -> Result<Self, pva::StartError> {
        let shared = Shared {
            client: pva::Client::start()?,
            channels: Mutex::default(),
            next: AtomicU64::new(0),
            users: UserClients::new("pva-users", ContextLimits::default()),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }
}

impl PvaSource {
    /// The names that the servers list, from now on.
    #[must_use]
    pub fn directory(&self) -> Arc<dyn Directory> {
        let lists = Arc::new(ServerLists::default());
        lists.follow(&self.shared);
        lists
    }

    /// Asks by pvAccess what other sources need.
    #[must_use]
    pub fn forms(&self) -> Arc<dyn Forms> {
        Arc::clone(&self.shared) as _
    }
}

impl Forms for Shared {
    fn ask(&self, name: &str, answer: FormAnswer) {
        (self.client).get(name, FORM_WITHIN, move |structure| {
            answer(structure.ok().as_ref().and_then(form_of));
        });
    }
}

/// The display form in a structure.
fn form_of(structure: &pva::Node) -> Option<String> {
    if let Some(pva::NodeValue::Text(_)) = structure.get("value").map(|value| &value.value) {
        return Some("String".to_owned());
    }
    let pva::NodeValue::TextArray(choices) = &structure.get("display/form/choices")?.value else {
        return None;
    };
    match &structure.get("display/form/index")?.value {
        pva::NodeValue::Number(_, index) => choices.get(*index as usize).cloned(),
        _ => None,
    }
}

impl Shared {
    fn channels(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        // Every change under the lock is complete.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for PvaSource {
    fn scheme(&self) -> &'static str {
        "pva"
    }

    /// `Queue` has no influence: the client paces pvxs, so that no name delays the others.
    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let (structure, path) = name::split(name);
        let structure = &*structure;
        let wiring = Arc::new(Wiring::new(line, path));
        wiring.line.event(Event::Queued);
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut channels = self.shared.channels();
        let before = channels.get(structure).map(|channel| &channel.wirings);
        let mut wirings = before.cloned().unwrap_or_default();
        wirings.push((id, Arc::clone(&wiring)));
        let of_all = wirings.iter().map(|(_, wiring)| Arc::clone(wiring));
        let events = Arc::new(Events::new(of_all.collect()));
        // Dropped first: the same thread closes it before it opens the other.
        channels.remove(structure);
        let monitor = self
            .shared
            .client
            .open(structure, events)
            .map_err(OpenError::name)?;
        let channel = Channel {
            _monitor: monitor,
            wirings,
        };
        channels.insert(structure.to_owned(), channel);
        Ok(Box::new(PvaMonitor {
            shared: Arc::clone(&self.shared),
            structure: structure.to_owned(),
            id,
            wiring,
        }))
    }

    fn call(&self, name: &str, call: Call, done: OpDone) -> OpTicket {
        // A service has no fields.
        let name = &*name::unescaped(name);
        let arguments = call.arguments.into_iter();
        let arguments = arguments.map(|(name, value)| (name, put_value(value)));
        let ended = |result: Result<pva::Node, OpError>| match result {
            Ok(answer) => OpEnd {
                result: Some(node(&answer)),
                ..OpEnd::DONE
            },
            Err(error) => op_end(&error),
        };
        let (ticket, arguments) = (OpTicket::default(), arguments.collect());
        let Some(user) = call.user else {
            let client = &self.shared.client;
            let ended = move |result| done(ended(result));
            let of_call = ticket.of_library();
            ticket.called(client.rpc(name, arguments, call.timeout, of_call, ended));
            return ticket;
        };
        let (name, timeout) = (name.to_owned(), call.timeout);
        let job = {
            let (user, ticket) = (user.clone(), ticket.clone());
            move |client: Result<(&mut PvaUser, InUse), ContextError>| match client {
                Ok((client, in_use)) => {
                    let ended = move |result| {
                        drop(in_use);
                        done(as_user(&user, ended(result)));
                    };
                    let of_call = ticket.of_library();
                    ticket.called((client.0).rpc(&name, arguments, timeout, of_call, ended));
                }
                Err(why) => done(no_context(&user, &why)),
            }
        };
        self.shared.users.run(&user, Box::new(job));
        ticket
    }

    fn renew(&self) {
        self.shared.client.renew();
        self.shared.users.renew();
    }
}

struct PvaMonitor {
    shared: Arc<Shared>,
    structure: String,
    id: u64,
    wiring: Arc<Wiring>,
}

impl Monitor for PvaMonitor {
    fn put(&self, put: Put, done: OpDone) -> OpTicket {
        let wiring = &self.wiring;
        if let Some(end) = wiring.unfit() {
            done(end);
        } else if wiring.was_connected.load(Ordering::Acquire)
            && !wiring.is_connected.load(Ordering::Acquire)
        {
            done(OpEnd::failed(Outcome::NotConnected, "not connected"));
        } else if let Some(user) = put.user.clone() {
            return self.put_as(user, put, done);
        } else if !wiring.begin(put.expected) {
            done(OpEnd::failed(Outcome::Changed, "the PV has changed since"));
        } else {
            let ticket = OpTicket::default();
            let (client, of_put) = (&self.shared.client, ticket.of_library());
            let tried = Arc::clone(wiring);
            let ended = move |end: OpEnd| {
                tried.has_tried(end.outcome);
                done(end);
            };
            wiring.put(client, &self.structure, put, of_put, Box::new(ended));
            return ticket;
        }
        OpTicket::ended()
    }
}

impl PvaMonitor {
    /// Writes through the context of a user.
    fn put_as(&self, user: String, put: Put, done: OpDone) -> OpTicket {
        let ticket = OpTicket::default();
        let (structure, wiring) = (self.structure.clone(), Arc::clone(&self.wiring));
        let (whom, of_put) = (user.clone(), ticket.of_library());
        let job = move |client: Result<(&mut PvaUser, InUse), ContextError>| {
            let (client, in_use) = match client {
                Ok(client) => client,
                Err(why) => return done(no_context(&user, &why)),
            };
            if !wiring.begin(put.expected) {
                return done(OpEnd::failed(Outcome::Changed, "the PV has changed since"));
            }
            let ended = move |end| {
                drop(in_use);
                done(as_user(&user, end));
            };
            wiring.put(&client.0, &structure, put, of_put, Box::new(ended));
        };
        self.shared.users.run(&whom, Box::new(job));
        ticket
    }
}

impl Drop for PvaMonitor {
    fn drop(&mut self) {
        let mut channels = self.shared.channels();
        if let Some(channel) = channels.get_mut(&self.structure) {
            channel.wirings.retain(|(id, _)| *id != self.id);
            if channel.wirings.is_empty() {
                channels.remove(&self.structure);
            }
        }
    }
}
