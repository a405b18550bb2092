//! In which order are the calls to libca made, and by whom?
//!
//! By the ca-cmd thread alone. It holds no lock that a callback takes, so that a call that waits
//! for a running callback cannot wait for ever.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::StartError;
use super::channel_state::{ChannelState, Command};
use super::circuit::Circuits;
use super::command::Purpose;
use super::handle::{Context, OpenChannel};
use crate::guard::guard;
use crate::liveness::{Duty, Watch};
use crate::user::{UserName, create_as};

/// A batch ends here even when more commands wait, so that the first ones of 100,000 channels are
/// sent while the last ones are still being opened.
const BATCH: usize = 1_000;

/// Between two tries to create a context that takes the place of another.
const RETRY: Duration = Duration::from_secs(1);

/// Body of the ca-cmd thread. Says through `started` whether there is a context.
pub(super) fn run(
    user: Option<&UserName>,
    commands: &Receiver<Command>,
    started: &SyncSender<Result<(), StartError>>,
) {
    let create = || {
        create_as(user, || {
            Context::create().map_err(|refused| refused.to_string())
        })
    };
    let context = create();
    let answer = context
        .as_ref()
        .map(|_| ())
        .map_err(|reason| StartError::Context(reason.clone()));
    let started = started.send(answer);
    let (Ok(mut context), Ok(())) = (context, started) else {
        return;
    };
    let mut channels = Vec::new();
    while let End::Renew(open) = serve(&context, commands, channels) {
        channels = open;
        // libca has one context for each thread at most.
        drop(context);
        context = loop {
            match create() {
                Ok(context) => break context,
                Err(reason) => log::error!("no new context of libca yet: {reason}"),
            }
            thread::sleep(RETRY);
        };
    }
}

/// What it takes to open a channel.
struct ToOpen {
    purpose: Purpose,
    name: CString,
    state: Arc<ChannelState>,
}

/// Why a context is not needed any more.
enum End {
    /// The client is dropped.
    Stop,
    /// Another context is to have these channels.
    Renew(Vec<ToOpen>),
}

/// The channels of one context.
struct Channels<'context> {
    context: &'context Context,
    open: HashMap<u64, OpenChannel<'context>>,
    circuits: Circuits,
    /// Those that are searched when others have been found, by id.
    later: HashMap<u64, ToOpen>,
    /// The same in order, with some that were opened or given up meanwhile.
    order: VecDeque<u64>,
}

/// Does what is asked for with one context, beginning with these channels.
fn serve(context: &Context, commands: &Receiver<Command>, begin: Vec<ToOpen>) -> End {
    let mut channels = Channels {
        context,
        open: HashMap::new(),
        circuits: Circuits::default(),
        later: HashMap::new(),
        order: VecDeque::new(),
    };
    for each in begin {
        channels.ask(each);
    }
    let mut watch = Watch::default();
    loop {
        let until = channels.open_some().into_iter().chain(watch.next()).min();
        context.flush();
        let first = match until {
            None => commands.recv().map_err(RecvTimeoutError::from),
            Some(until) => commands.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        let first = match first {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return End::Stop,
        };
        look(&mut watch, &channels.open);
        let batch = first.into_iter().chain(commands.try_iter()).take(BATCH);
        for command in batch {
            match command {
                Command::Open {
                    purpose,
                    name,
                    state,
                } => channels.ask(ToOpen {
                    purpose,
                    name,
                    state,
                }),
                Command::Connected(id) => {
                    if let Some(channel) = channels.connected(id) {
                        subscribe(channel);
                        if channel.purpose() == Purpose::Watch
                            && let Some(circuit) = channel.state().circuit()
                        {
                            watch.add(&circuit, id, Instant::now());
                        }
                        guard("put", || channel.send_puts());
                    }
                }
                Command::ResumePuts(id) => {
                    if let Some(channel) = channels.open.get_mut(&id) {
                        guard("put", || channel.send_puts());
                    }
                }
                // What the caller gave with a put may panic when it is told.
                Command::Put(id, job) => guard("put", || match channels.now(id) {
                    Some(channel) => {
                        channel.put(job);
                        channel.send_puts();
                    }
                    None => drop(job),
                }),
                Command::Field(id, question, kind) => {
                    if let Some(channel) = channels.open.get_mut(&id) {
                        guard("put", || channel.field_told(question, kind));
                    }
                }
                Command::StopUpdates(id) => {
                    if let Some(channel) = channels.open.get_mut(&id) {
                        channel.stop_updates();
                    }
                }
                // A channel that is closed has ended its puts.
                Command::ReadBack(id, put) => {
                    if let Some(channel) = channels.open.get_mut(&id) {
                        guard("put", || {
                            channel.read_back(&put);
                            channel.send_puts();
                        });
                    }
                }
                // The caller's sink may be dropped here, and may panic at that.
                Command::Close(id) => guard("close", || channels.close(id)),
                Command::Renew => return End::Renew(channels.close_all()),
                Command::Stop => return End::Stop,
            }
        }
    }
}

/// Asks circuits that are quiet, and tells the channels of those that don't answer, or do again.
fn look(watch: &mut Watch, channels: &HashMap<u64, OpenChannel<'_>>) {
    for (circuit, duty) in watch.look(Instant::now()) {
        let is_of = |channel: &&OpenChannel<'_>| {
            (channel.state().circuit()).is_some_and(|own| Arc::ptr_eq(&own, &circuit))
        };
        match duty {
            Duty::Probe(id) => {
                let last = channels.get(&id).filter(is_of);
                // That one may be closed, or not be readable.
                let mut asked = (last.into_iter()).chain(channels.values().filter(is_of));
                if asked.any(OpenChannel::probe) {
                    watch.probed(&circuit);
                }
            }
            // All that comes by it was counted.
            Duty::Doubt => {}
            Duty::Unresponsive | Duty::Responsive => {
                let answers = duty == Duty::Responsive;
                for channel in channels.values() {
                    guard("circuit", || channel.state().on_circuit(&circuit, answers));
                }
            }
        }
    }
}

impl<'context> Channels<'context> {
    /// Opens a channel when its turn comes.
    fn ask(&mut self, channel: ToOpen) {
        let id = channel.state.id();
        self.order.push_back(id);
        self.later.insert(id, channel);
    }

    /// Opens as many as may be searched now; says when to look again at the latest, if some are left.
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
        // Very many may have waited.
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
            }
            Err(refused) => log::error!("cannot open a channel to {name:?}: {refused}"),
        }
    }

    /// The channel of this id, opened out of turn if need be.
    fn now(&mut self, id: u64) -> Option<&mut OpenChannel<'context>> {
        if let Some(channel) = self.later.remove(&id) {
            self.search(channel, Instant::now());
        }
        self.open.get_mut(&id)
    }

    /// The channel of this id, which is connected.
    fn connected(&mut self, id: u64) -> Option<&mut OpenChannel<'context>> {
        let channel = self.open.get_mut(&id)?;
        if let Some(server) = channel.host() {
            self.circuits.connected(id, &mut channel.place, &server);
        }
        Some(channel)
    }

    fn close(&mut self, id: u64) {
        self.later.remove(&id);
        if let Some(mut channel) = self.open.remove(&id) {
            self.circuits.closed(id, &mut channel.place);
        }
    }

    /// Closes the channels, which their sinks take for a loss of the connection.
    fn close_all(self) -> Vec<ToOpen> {
        let close = |channel: OpenChannel<'_>| {
            let to_open = ToOpen {
                purpose: channel.purpose(),
                name: channel.c_name(),
                state: channel.state(),
            };
            // What the caller gave with a put may panic when it is told; no callback comes after this.
            guard("close", || drop(channel));
            guard("disconnected", || to_open.state.closed());
            to_open
        };
        let open = self.open.into_values().map(close);
        open.chain(self.later.into_values()).collect()
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
