//! The part of the ca-cmd thread that is specific to libca: the channels of one context, and the
//! execution of commands.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::channel_state::ChannelState;
use super::circuit::Circuits;
use super::command::{Command, Purpose};
use super::handle::{Context, OpenChannel};
use super::shape::TextForm;
use crate::command_thread::{Commands, Contents, Library};
use crate::guard::guard;
use crate::liveness::{Duty, OnCircuit, Watch, report};
use crate::memory::shrink;
use crate::silence::{Step, Unconnected, silent_server};
use crate::user::ContextError;

/// Interval between attempts to create a replacement context.
const RETRY: Duration = Duration::from_secs(1);

/// libca, for the command thread.
pub(super) struct Libca;

impl Library for Libca {
    const THREAD: &'static str = "ca-cmd";
    const NAME: &'static str = "libca";
    type Command = Command;
    type Context = Context;
    type Contents<'context> = Channels<'context>;
    type Kept = Vec<ToOpen>;

    fn create() -> Result<Context, ContextError> {
        Context::create().map_err(|refused| ContextError::Library(refused.to_string()))
    }

    fn open<'context>(
        &self,
        context: &'context Context,
        commands: &Commands<Command>,
        kept: Vec<ToOpen>,
    ) -> Channels<'context> {
        let mut channels = Channels {
            context,
            commands: commands.clone(),
            open: HashMap::new(),
            circuits: Circuits::default(),
            later: HashMap::new(),
            order: VecDeque::new(),
            unconnected: Unconnected::default(),
            watch: Watch::default(),
        };
        for channel in kept {
            channels.ask(channel);
        }
        channels
    }

    /// libca has at most one context per thread, so the old one is destroyed first.
    fn replace(old: Context, create: impl Fn() -> Result<Context, ContextError>) -> Context {
        drop(old);
        loop {
            match create() {
                Ok(context) => return context,
                Err(reason) => log::error!("no new context of libca yet: {reason}"),
            }
            thread::sleep(RETRY);
        }
    }
}

/// The arguments for opening a channel.
pub(super) struct ToOpen {
    purpose: Purpose,
    name: CString,
    state: Arc<ChannelState>,
}

impl ToOpen {
    /// Closes a channel, so that it can be opened again. Its sink sees a loss of the connection.
    fn close(channel: OpenChannel<'_>) -> Self {
        let to_open = Self {
            purpose: channel.purpose(),
            name: channel.c_name(),
            state: Arc::clone(channel.state()),
        };
        // The caller's code in a put may panic when it is called; no callback follows.
        guard("close", || drop(channel));
        guard("disconnected", || to_open.state.closed());
        to_open
    }
}

/// The channels of one context.
pub(super) struct Channels<'context> {
    context: &'context Context,
    /// For the states of channels.
    commands: Commands<Command>,
    open: HashMap<u64, OpenChannel<'context>>,
    circuits: Circuits,
    /// Channels that will be searched after others are found, by id.
    later: HashMap<u64, ToOpen>,
    /// The same channels in order, including some that were opened or given up meanwhile.
    order: VecDeque<u64>,
    unconnected: Unconnected,
    watch: Watch,
}

impl Contents for Channels<'_> {
    type Command = Command;
    type Kept = Vec<ToOpen>;

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Open {
                id,
                purpose,
                name,
                events,
            } => self.ask(ToOpen {
                purpose,
                state: Arc::new(ChannelState::new(
                    id,
                    events,
                    self.commands.clone(),
                    TextForm::of(purpose, &name),
                )),
                name,
            }),
            Command::Connected(id) => self.on_connected(id),
            Command::ResumePuts(id) => {
                self.with(id, OpenChannel::send_puts);
                self.if_lost(id);
            }
            // The caller's code in the put may panic when it is called.
            Command::Put(id, job) => guard("put", || match self.now(id) {
                Some(channel) => {
                    channel.put(job);
                    channel.send_puts();
                }
                None => drop(job),
            }),
            Command::Field(id, question, kind) => {
                self.with(id, |channel| channel.field_told(question, kind));
            }
            Command::StopUpdates(id) => self.with(id, OpenChannel::stop_updates),
            // Closing a channel has already ended its puts.
            Command::ReadBack(id, put) => self.with(id, |channel| {
                channel.read_back(&put);
                channel.send_puts();
            }),
            // The caller's sink may be dropped here and may panic.
            Command::Close(id) => guard("close", || self.close_one(id)),
        }
    }

    fn turn(&mut self) -> Option<Instant> {
        self.look();
        self.check_unconnected();
        let due = self.open_some().into_iter();
        let due = due.chain(self.watch.next()).chain(self.unconnected.next());
        let due = due.min();
        self.context.flush();
        due
    }

    /// Closes the channels; their sinks see a loss of the connection.
    fn close(self) -> Vec<ToOpen> {
        let open = self.open.into_values().map(ToOpen::close);
        open.chain(self.later.into_values()).collect()
    }
}

impl<'context> Channels<'context> {
    /// Applies a function to an open channel, for its puts or subscriptions.
    fn with(&mut self, id: u64, body: impl FnOnce(&mut OpenChannel<'context>)) {
        if let Some(channel) = self.open.get_mut(&id) {
            guard("put", || body(channel));
        }
    }

    fn on_connected(&mut self, id: u64) {
        let Some(channel) = self.connected(id) else {
            return;
        };
        subscribe(channel);
        let circuit = (channel.purpose() == Purpose::Watch)
            .then(|| channel.state().circuit())
            .flatten();
        guard("put", || channel.send_puts());
        if let Some(circuit) = circuit {
            self.watch.add(&circuit, id, Instant::now());
        }
    }

    /// Probes quiet circuits, and reports servers that have stopped answering or answer again.
    fn look(&mut self) {
        for (circuit, duty) in self.watch.look(Instant::now()) {
            let is_of = |channel: &&OpenChannel<'_>| channel.state().is_on(&circuit);
            match duty {
                Duty::Probe(id) => {
                    let last = self.open.get(&id).filter(is_of);
                    // The last channel may be closed.
                    let channel = last.or_else(|| self.open.values().find(is_of));
                    if channel.is_some_and(|channel| channel.state().probe()) {
                        self.watch.probed(&circuit);
                    }
                }
                // Everything received on the circuit was already counted.
                Duty::Doubt => {}
                Duty::Unresponsive | Duty::Responsive => {
                    let states = self.open.values().map(|channel| &**channel.state());
                    report(states, &circuit, duty == Duty::Responsive);
                }
            }
        }
    }

    /// A channel that is lost may still be on its circuit: libca keeps one that doesn't respond,
    /// and would find its PVs nowhere else. Such a channel is searched again. Its puts have ended:
    /// libca reports the loss of the circuit to them first.
    fn if_lost(&mut self, id: u64) {
        let Some(channel) = self
            .open
            .get(&id)
            .filter(|channel| channel.state().is_lost())
        else {
            return;
        };
        if channel.host().is_none() {
            self.unconnected.add(id, Instant::now());
        } else if !channel.state().has_puts() {
            self.search_again(id);
        }
    }

    /// Closes a channel and searches it again. A circuit without channels ends.
    fn search_again(&mut self, id: u64) {
        if let Some(mut channel) = self.open.remove(&id) {
            self.circuits.closed(id, &mut channel.place);
            self.unconnected.closed(id);
            self.ask(ToOpen::close(channel));
        }
    }

    /// Reports servers that have answered searches and don't connect channels.
    fn check_unconnected(&mut self) {
        let now = Instant::now();
        for id in self.unconnected.due(now) {
            let Some(channel) = self.open.get(&id) else {
                continue;
            };
            if channel.state().is_connected() {
                self.unconnected.closed(id);
                continue;
            }
            let server = channel.host();
            let step = self.unconnected.checked(id, server.clone(), now);
            if step == Step::SearchAgain {
                self.search_again(id);
                continue;
            }
            let Some(what) = step.report() else {
                continue;
            };
            guard("reason", || {
                let reason = silent_server(&server.unwrap_or_default(), what);
                channel.state().on_reason(&reason);
            });
        }
    }

    /// Queues a channel until it may be opened.
    fn ask(&mut self, channel: ToOpen) {
        let id = channel.state.id();
        self.order.push_back(id);
        self.later.insert(id, channel);
    }

    /// Opens as many channels as may be searched now; returns when to check again at the latest, if
    /// any remain.
    fn open_some(&mut self) -> Option<Instant> {
        if self.later.is_empty() {
            return None;
        }
        let now = Instant::now();
        while let Some(&id) = self.order.front() {
            if let Err(until) = self.circuits.may_search(now) {
                return Some(until);
            }
            self.order.pop_front();
            if let Some(channel) = self.later.remove(&id) {
                self.search(channel, now);
            }
        }
        // Frees the memory of a long queue.
        (self.later, self.order) = Default::default();
        None
    }

    fn search(&mut self, channel: ToOpen, now: Instant) {
        let ToOpen {
            purpose,
            name,
            state,
        } = channel;
        let id = state.id();
        let place = self.circuits.search(id, now);
        match OpenChannel::open(self.context, purpose, place, &name, state) {
            Ok(channel) => {
                self.open.insert(id, channel);
                self.unconnected.add(id, now);
            }
            Err(refused) => log::error!("cannot open a channel to {name:?}: {refused}"),
        }
    }

    /// The channel with this id, opened before its turn if necessary.
    fn now(&mut self, id: u64) -> Option<&mut OpenChannel<'context>> {
        if let Some(channel) = self.later.remove(&id) {
            self.search(channel, Instant::now());
        }
        self.open.get_mut(&id)
    }

    /// The channel with this id, which is connected.
    fn connected(&mut self, id: u64) -> Option<&mut OpenChannel<'context>> {
        let channel = self.open.get_mut(&id)?;
        if let Some(server) = channel.host() {
            self.circuits.connected(id, &mut channel.place, &server);
            self.unconnected.connected(id, &server, Instant::now());
        }
        Some(channel)
    }

    fn close_one(&mut self, id: u64) {
        self.later.remove(&id);
        if let Some(mut channel) = self.open.remove(&id) {
            self.circuits.closed(id, &mut channel.place);
            self.unconnected.closed(id);
        }
        shrink(&mut self.open);
    }
}

fn subscribe(channel: &mut OpenChannel<'_>) {
    if log::log_enabled!(log::Level::Debug) {
        let host = channel.host().unwrap_or_default();
        log::debug!("{} is connected to {host}", channel.name());
    }
    if let Err(refused) = channel.subscribe() {
        log::error!("cannot subscribe to {}: {refused}", channel.name());
    }
}
