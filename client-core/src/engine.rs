//! One client of one relay, for programs that embed the engine.
//!
//! An [`Engine`] does no I/O and reads no clock. The program around it holds the connection: it
//! passes each message to [`Engine::receive`], sends what [`Engine::requests`] returns, and reads
//! PVs with [`Engine::read`]. Everything that can be done for many PVs takes and returns many.

mod computed;
mod link;
mod operations;
mod pulse;
mod requests;
mod view;

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

pub use pvwire_schema::types::{
    Array, Filter, Hello, Metadata, NameError, Node, Outcome, PutValue, Severity, ValueType,
};

pub use self::link::ReceiveError;
pub use self::operations::Ticket;
pub use self::pulse::NoAnswer;
pub use self::requests::{AnswerPage, AskError, CallError, Got, Put, PutDone, PutError};
pub use self::view::{Alarm, State, TimeStamp, Value, View};

use self::computed::{Computed, is_computed};
use self::operations::{Operations, PreparedPut};
use self::pulse::Pulse;
use crate::ingest::Session;
use crate::select::execute::Held;
use crate::store::{Slot, part};

/// A PV that an [`Engine`] holds, from [`Engine::open`] to [`Engine::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pv {
    slot: Slot,
    /// Distinguishes the PV from earlier ones with the same slot.
    opening: u32,
}

/// A PV that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The PV.
    pub pv: Pv,
    /// What changed: a combination of the constants of [`crate::store::part`].
    pub parts: u32,
}

/// Something that happened on the connection, or the answer to an operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The relay accepted the connection; PVs are being subscribed.
    Opened(Hello),
    /// The relay requires a token: call [`Engine::authenticate`].
    TokenWanted,
    /// A get was answered.
    Got(Ticket, Got),
    /// A put ended. Each put has one outcome.
    Put(Ticket, Result<PutDone, PutError>),
    /// A call of a service ended, with the service's answer.
    Called(Ticket, Result<Node, CallError>),
    /// A page of the answer to a question, or why it is missing. An error is the last event of its question.
    Page(Ticket, Result<AnswerPage, AskError>),
}

/// State of the connection as the engine knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Link {
    /// There is no connection.
    #[default]
    Lost,
    /// The relay has not yet sent Hello, or requires a token.
    Opening,
    Open,
}

/// Whether a PV's description is requested. Channel Access reads it separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Description {
    #[default]
    NotWanted,
    Wanted,
    Requested,
}

/// Where the values of a PV come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Relay,
    Local,
    Formula,
}

/// What the engine knows of a slot in addition to the store.
#[derive(Debug, Default)]
struct Opened {
    filter: Filter,
    opening: u32,
    is_open: bool,
    origin: Origin,
    /// Whether the values come from the relay, those of a formula through its inputs.
    needs_relay: bool,
    description: Description,
}

/// One client of one relay; see the [module](self).
///
/// Several engines in one process are independent. Times are passed in as `now`. They are compared
/// with each other and with the relay's clock; if the clock is set back, acknowledgements and pings
/// continue from the new time.
#[derive(Debug, Default)]
pub struct Engine {
    session: Session,
    /// Arrays and structures of the open PVs.
    held: Held,
    computed: Computed,
    link: Link,
    /// By slot.
    pvs: Vec<Opened>,
    /// PVs to be subscribed, in order.
    wanted: Vec<Slot>,
    /// Closed PVs whose slots are released when no Subscribe is open.
    closed: Vec<Slot>,
    /// Number of the open Subscribe.
    subscribing: Option<u32>,
    interval: Duration,
    silent_since: Option<SystemTime>,
    /// Whether `silent_since` changed since the last [`Engine::changes`].
    silence_changed: bool,
    /// A token to be sent when there is a connection.
    token: Option<String>,
    operations: Operations,
    pulse: Pulse,
    /// Requests that wait for nothing else.
    outgoing: Vec<Vec<u8>>,
    events: Vec<Event>,
}

impl Engine {
    /// An engine without a connection and without PVs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens PVs, all with the same filter, and returns them in the order of their names. A name
    /// that is refused gets the state [`State::Refused`].
    ///
    /// Names of formulas (`` =`A` * 2 ``) and local PVs (`loc://x(1)`) are not sent to the relay.
    /// The engine opens a formula's inputs, with the formula's filter, and evaluates the formula in
    /// [`Engine::changes`].
    pub fn open<N: AsRef<str>>(
        &mut self,
        names: impl IntoIterator<Item = N>,
        filter: Filter,
        now: SystemTime,
    ) -> Vec<Pv> {
        let names = names.into_iter();
        names
            .map(|name| self.open_one(name.as_ref(), filter, now))
            .collect()
    }

    fn open_one(&mut self, name: &str, filter: Filter, now: SystemTime) -> Pv {
        let slot = self.session.live.add(name);
        if self.pvs.len() <= slot as usize {
            self.pvs.resize_with(slot as usize + 1, Opened::default);
        }
        let opening = self.pvs[slot as usize].opening.wrapping_add(1);
        self.pvs[slot as usize] = Opened {
            filter,
            opening,
            is_open: true,
            ..Opened::default()
        };
        let origin = self.open_computed(slot, name, filter, now);
        if origin == Origin::Relay {
            self.wanted.push(slot);
            self.pvs[slot as usize].needs_relay = true;
        }
        self.pvs[slot as usize].origin = origin;
        Pv { slot, opening }
    }

    /// Closes PVs. The relay ends their subscriptions when no other open PV has the same name.
    pub fn close(&mut self, pvs: &[Pv]) {
        for pv in pvs {
            if self.is_open(*pv) {
                self.pvs[pv.slot as usize].is_open = false;
                self.closed.push(pv.slot);
                self.held.clear(pv.slot);
                self.close_computed(pv.slot);
            }
        }
        self.wanted.retain(|slot| self.pvs[*slot as usize].is_open);
    }

    /// The present state of a PV; `None` if it was closed.
    #[must_use]
    pub fn read(&self, pv: Pv) -> Option<View<'_>> {
        let store = &self.session.live;
        let view = || {
            let needs_relay = self.pvs[pv.slot as usize].needs_relay;
            let silent_since = self.silent_since.filter(|_| needs_relay);
            View::new(
                store.name(pv.slot),
                store,
                pv.slot,
                &self.held,
                silent_since.map_or(f64::NAN, epoch_ms),
            )
        };
        self.is_open(pv).then(view)
    }

    /// The PVs that changed since this was last called. Formulas whose inputs changed are evaluated
    /// now, once for all their changes.
    pub fn changes(&mut self) -> Vec<Change> {
        self.evaluate();
        self.report_silence();
        let store = &mut self.session.live;
        let changed = store.dirty().iter().filter_map(|slot| {
            let opened = self.pvs.get(*slot as usize)?;
            let pv = Pv {
                slot: *slot,
                opening: opened.opening,
            };
            let parts = store.pvs[*slot as usize].parts;
            opened.is_open.then_some(Change { pv, parts })
        });
        let changes = changed.collect();
        store.clear_dirty();
        changes
    }

    /// What happened since this was last called, in order.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Requests descriptions of PVs that are served by Channel Access; they appear in the PVs'
    /// metadata. PVs of pvAccess have them without a request.
    pub fn describe(&mut self, pvs: &[Pv]) {
        for pv in pvs {
            if self.is_open(*pv) {
                let description = &mut self.pvs[pv.slot as usize].description;
                if *description == Description::NotWanted {
                    *description = Description::Wanted;
                }
            }
        }
    }

    /// Requests updates at this interval only, as a hidden page does; zero requests every update
    /// again. Holds for later connections too.
    pub fn pace(&mut self, interval: Duration) {
        self.interval = interval;
        if self.link == Link::Open {
            self.outgoing.push(self.session.pace(millis(interval)));
        }
    }

    /// Identifies the user, when the relay requires it or before a token expires. Without a
    /// connection the token waits for the next one.
    pub fn authenticate(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    /// Reads PVs once, without a subscription. The relay waits up to `timeout` for PVs that are not
    /// connected. With `describe`, includes descriptions that Channel Access reads separately. The
    /// answer is an [`Event::Got`]; without a connection the get waits for the next one.
    pub fn get<N: Into<String>>(
        &mut self,
        names: impl IntoIterator<Item = N>,
        timeout: Duration,
        describe: bool,
    ) -> Ticket {
        let names = names.into_iter().map(Into::into).collect();
        let timeout_ms = millis(timeout);
        self.operations
            .get(names, timeout_ms, describe, &mut self.events)
    }

    /// Writes PVs, in order, and returns a ticket for each. With `all_permitted` the relay writes
    /// nothing unless all of the PVs may be written; a group with local PVs or formulas, which the
    /// relay doesn't know, then fails as a whole with [`PutError::Withheld`]. Each put ends with one
    /// [`Event::Put`]. Puts are not kept for a later connection: without a connection they fail at
    /// once. Puts with and without [`Put::check_limits`] are sent in separate messages, but with `all_permitted` limits
    /// are checked for all of them if for one. Otherwise local PVs are written at once, without the relay, regardless of
    /// [`Put::only_if`].
    pub fn put(
        &mut self,
        puts: impl IntoIterator<Item = Put>,
        all_permitted: bool,
        now: SystemTime,
    ) -> Vec<Ticket> {
        let puts: Vec<Put> = puts.into_iter().collect();
        let is_mixed = all_permitted && puts.iter().any(|put| is_computed(&put.name));
        let mut waiting = Vec::new();
        for put in puts {
            let only_if = put.only_if.map(|pv| self.is_open(pv).then_some(pv.slot));
            let done = if is_mixed {
                Some(Err(PutError::Withheld))
            } else {
                self.put_computed(&put.name, &put.value, now)
            };
            waiting.push(PreparedPut { put, only_if, done });
        }
        let connected = self.link != Link::Lost;
        self.operations
            .put(waiting, all_permitted, connected, &mut self.events)
    }

    /// Calls a pvAccess service with these arguments. Ends with one [`Event::Called`]; without a
    /// connection it fails at once.
    pub fn call(
        &mut self,
        name: &str,
        arguments: Vec<(String, PutValue)>,
        timeout: Duration,
    ) -> Ticket {
        let connected = self.link != Link::Lost;
        let timeout_ms = millis(timeout);
        self.operations
            .call(name, arguments, timeout_ms, connected, &mut self.events)
    }

    /// Asks a service of the relay. Each page of the answer is an [`Event::Page`]; the last one
    /// says so. Without a connection the question fails at once.
    pub fn ask(&mut self, service: &str, question: impl Into<Vec<u8>>) -> Ticket {
        let connected = self.link != Link::Lost;
        (self.operations).ask(service, question.into(), connected, &mut self.events)
    }

    /// Ends a question before its last page. No further page of it is reported.
    pub fn cancel(&mut self, question: Ticket) {
        if let Some(request) = self.operations.cancel(question) {
            self.outgoing.push(self.session.cancel(request));
        }
    }

    /// Records that a connection to the relay was made. The subprotocol is `pvwire.v1`.
    pub fn connected(&mut self, now: SystemTime) {
        self.link = Link::Opening;
        self.pulse.start(now);
    }

    /// Records that the connection was lost: the values of the relay's PVs are outdated from now
    /// on. Puts and calls end; PVs and gets are requested again on the next connection.
    pub fn disconnected(&mut self, now: SystemTime) {
        let heard_ms = self.pulse.heard().map_or(f64::NAN, epoch_ms);
        self.session.relay_lost(epoch_ms(now), heard_ms);
        self.link = Link::Lost;
        self.set_silent_since(None);
        self.subscribing = None;
        self.outgoing.clear();
        self.operations.lost(&mut self.events);
    }

    /// The requests to send now, in this order.
    ///
    /// # Errors
    /// The relay does not answer: close the connection, report this with
    /// [`Engine::disconnected`] and connect again.
    pub fn requests(&mut self, now: SystemTime) -> Result<Vec<Vec<u8>>, NoAnswer> {
        if self.link == Link::Lost {
            // Without a connection no PV has an id: there is nothing to unsubscribe.
            self.release(&mut Vec::new());
            return Ok(Vec::new());
        }
        self.pulse.check(now)?;
        let mut requests = Vec::new();
        if let Some(token) = self.token.take() {
            requests.push(self.session.authenticate(token));
        }
        requests.append(&mut self.outgoing);
        if self.link == Link::Open {
            self.release(&mut requests);
            self.subscribe(&mut requests);
            self.describe_wanted(&mut requests);
            self.operations
                .send(&mut self.session, &mut requests, &mut self.events);
            self.pulse.requests(now, &mut self.session, &mut requests);
            self.set_silent_since(self.pulse.silent_since(now));
        }
        Ok(requests)
    }

    /// The latest time for the next call of [`Engine::requests`], if no message arrives and nothing
    /// is opened or written before; `None` without a connection.
    #[must_use]
    pub fn due(&self) -> Option<SystemTime> {
        let is_silent = self.silent_since.is_some();
        let due = || self.pulse.due(self.link == Link::Open, is_silent);
        (self.link != Link::Lost).then(due)
    }

    /// The time of the relay's last message, if the relay had not answered a ping when
    /// [`Engine::requests`] was last called and no message has arrived since. Meanwhile the state
    /// of its PVs is [`State::Unresponsive`].
    #[must_use]
    pub fn silent_since(&self) -> Option<SystemTime> {
        self.silent_since
    }

    fn set_silent_since(&mut self, silent_since: Option<SystemTime>) {
        self.silence_changed |= self.silent_since != silent_since;
        self.silent_since = silent_since;
    }

    /// Reports the PVs of a relay that became silent or answers again as changed.
    fn report_silence(&mut self) {
        if !std::mem::take(&mut self.silence_changed) {
            return;
        }
        for (slot, opened) in self.pvs.iter().enumerate() {
            if opened.is_open && opened.needs_relay {
                self.session.live.touch(slot as Slot, part::CONNECTION);
            }
        }
    }

    /// The number of updates received and the number of values skipped, of all PVs.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        let store = &self.session.live;
        (store.updates_total(), store.skipped_total())
    }

    fn is_open(&self, pv: Pv) -> bool {
        let opened = self.pvs.get(pv.slot as usize);
        opened.is_some_and(|opened| opened.is_open && opened.opening == pv.opening)
    }
}

/// Milliseconds past the POSIX epoch.
fn epoch_ms(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64() * 1e3)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
