//! One request's client: the messages that it exchanges with the relay, and what it knows of its PV.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pvwire_core::engine::{
    self, Engine, Event, Filter, NoAnswer, Node, Put, PutDone, PutError, Pv, ReceiveError, State,
    View,
};
use pvwire_core::select::execute::{Program, Value};
use pvwire_schema::decode;
use pvwire_schema::types::{NameError, NameProblem, Reply, SkipCause};

use crate::put::PutBody;

/// What is known of a PV at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The relay hasn't said yet, or it is connected and its first value has not arrived.
    Awaited,
    /// It is searched and not found yet, with the reason if a server has it that can't be reached.
    Searched(String),
    /// It is connected and has a value.
    Current,
    /// Its server can't be reached or doesn't respond: the last value, if there is one, is outdated.
    Outdated,
    /// It is not found, with the reason if its server exists.
    NotFound(String),
    /// It is connected, and its server can't send the value, for this reason.
    Unsent(String),
    /// It is connected, and its IOC doesn't let the relay read it.
    Unreadable,
    /// The relay refuses the name to this client, for this reason.
    Refused(NameProblem, String),
}

/// A client with one PV.
#[derive(Debug)]
pub struct Talk {
    engine: Engine,
    pv: Option<Pv>,
    token: Option<String>,
    user: Option<String>,
    wants_token: bool,
    refusal: Option<String>,
    /// The relay answered the subscription.
    is_subscribed: bool,
    refused: Option<NameError>,
    put: Option<Result<PutDone, PutError>>,
    waits_for_description: bool,
}

impl Talk {
    /// A client that has just connected. It proves its identity by `token` if the relay asks for one.
    #[must_use]
    pub fn new(token: Option<String>, now: SystemTime) -> Self {
        let mut engine = Engine::new();
        engine.connected(now);
        Self {
            engine,
            pv: None,
            token,
            user: None,
            wants_token: false,
            refusal: None,
            is_subscribed: false,
            refused: None,
            put: None,
            waits_for_description: false,
        }
    }

    /// Subscribes a PV, with at least `interval` between two updates.
    pub fn open(&mut self, name: &str, interval: Duration, now: SystemTime) {
        let filter = Filter {
            min_interval_ms: u32::try_from(interval.as_millis()).unwrap_or(u32::MAX),
            ..Filter::ALL
        };
        self.pv = self.engine.open([name], filter, now).pop();
    }

    /// Requests the PV's description, which Channel Access reads separately; it arrives as a change.
    pub fn describe(&mut self) {
        self.engine.describe(self.pv.as_slice());
    }

    /// Reads the description of the PV of this name, which is open. The relay waits for it up to `timeout`.
    pub fn read_description(&mut self, name: &str, timeout: Duration) {
        self.waits_for_description = true;
        self.engine.get([name], timeout, true);
    }

    /// Whether the description has still to come.
    #[must_use]
    pub fn waits_for_description(&self) -> bool {
        self.waits_for_description
    }

    /// Writes a PV.
    pub fn put(&mut self, name: &str, body: PutBody, now: SystemTime) {
        let put = Put {
            wait: body.wait,
            check_limits: body.check_limits,
            timeout: body.timeout,
            ..Put::new(name, body.value)
        };
        self.engine.put([put], false, now);
    }

    /// Takes the result of the put, once there is one.
    pub fn take_put(&mut self) -> Option<Result<PutDone, PutError>> {
        self.put.take()
    }

    /// Takes a message of the relay.
    ///
    /// # Errors
    /// When the message can't be applied; the connection then ends.
    pub fn receive(&mut self, message: Bytes, now: SystemTime) -> Result<(), ReceiveError> {
        if !self.is_subscribed {
            self.note_reply(&message);
        }
        self.engine.receive(message, now)?;
        for event in self.engine.events() {
            match event {
                Event::Opened(hello) => {
                    self.user = Some(hello.user).filter(|user| !user.is_empty())
                }
                Event::TokenWanted => match self.token.take() {
                    Some(token) => self.engine.authenticate(&token),
                    None => self.wants_token = true,
                },
                Event::Got(..) => self.waits_for_description = false,
                Event::Put(_, result) => self.put = Some(result),
                _ => {}
            }
        }
        Ok(())
    }

    /// The engine keeps the text of a refusal and not its kind.
    fn note_reply(&mut self, message: &[u8]) {
        match decode::frame(message).ok().and_then(|frame| frame.reply()) {
            Some(Reply::Subscribed { mut errors, .. }) => {
                self.is_subscribed = true;
                self.refused = errors.pop();
            }
            Some(Reply::Error { message, .. }) => self.refusal = Some(message),
            _ => {}
        }
    }

    /// The messages to send now.
    ///
    /// # Errors
    /// The relay doesn't answer; the connection then ends.
    pub fn requests(&mut self, now: SystemTime) -> Result<Vec<Vec<u8>>, NoAnswer> {
        self.engine.requests(now)
    }

    /// The latest time for the next call of [`Talk::requests`].
    #[must_use]
    pub fn due(&self) -> Option<SystemTime> {
        self.engine.due()
    }

    /// Whether the relay asks for a token that the client doesn't have.
    #[must_use]
    pub fn lacks_token(&self) -> bool {
        self.wants_token
    }

    /// Whether the relay has answered the subscription.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.is_subscribed
    }

    /// The user, once the relay has said it.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Why the relay refused a request as a whole, such as a token.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Whether something of the PV has changed since this was last called.
    pub fn take_change(&mut self) -> bool {
        !self.engine.changes().is_empty()
    }

    /// The number of updates that have happened since the PV was opened: those that arrived, and those that the relay
    /// left out for another reason than the client's interval.
    #[must_use]
    pub fn updates(&self) -> u64 {
        let skipped = self.view().into_iter().flat_map(|view| view.skipped());
        let skipped = skipped.filter(|(cause, _)| *cause != SkipCause::Filter);
        self.engine.totals().0 + skipped.map(|(_, count)| count).sum::<u64>()
    }

    /// The value, if it is a structure.
    #[must_use]
    pub fn structure(&self) -> Option<Node> {
        match self.view()?.value()? {
            engine::Value::Structure(node) => Some(node.clone()),
            _ => None,
        }
    }

    fn view(&self) -> Option<View<'_>> {
        self.engine.read(self.pv?)
    }

    /// What is known of the PV.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if let Some(NameError {
            problem, message, ..
        }) = &self.refused
        {
            return Standing::Refused(*problem, message.clone());
        }
        let Some(view) = self.view().filter(|_| self.is_subscribed) else {
            return Standing::Awaited;
        };
        let reason = || {
            let metadata = view.metadata();
            metadata.map_or_else(String::new, |known| known.missing_field.clone())
        };
        match view.state() {
            State::Connected if !view.is_readable() => Standing::Unreadable,
            State::Connected if view.value().is_some() => Standing::Current,
            State::Connected => match view.metadata() {
                Some(known) if !known.missing_field.is_empty() => {
                    Standing::Unsent(known.missing_field.clone())
                }
                _ => Standing::Awaited,
            },
            State::Unresponsive | State::Disconnected | State::RelayLost => Standing::Outdated,
            State::NotFound => Standing::NotFound(reason()),
            State::Connecting => Standing::Searched(reason()),
            _ => Standing::Awaited,
        }
    }

    /// The PV's fields that a selection selects.
    #[must_use]
    pub fn select(&self, selection: &Program) -> Value {
        self.view()
            .map_or(Value::Null, |view| view.select(selection))
    }
}
