//! In which order are the calls to libca made, and by whom?
//!
//! By the ca-cmd thread alone. It holds no lock that a callback takes, so that a call that waits
//! for a running callback cannot wait for ever.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use super::StartError;
use super::channel_state::ChannelState;
use super::handle::{Context, OpenChannel, Purpose};
use super::put::Job;
use crate::guard::guard;
use crate::user::{UserName, create_as};

/// A batch ends here even when more commands wait, so that the first ones of 100,000 channels are
/// sent while the last ones are still being opened.
const BATCH: usize = 1_000;

/// Between two tries to create a context that takes the place of another.
const RETRY: Duration = Duration::from_secs(1);

/// What the ca-cmd thread is asked to do.
///
/// The queue of commands has no limit of its own; there are never more than four for an open
/// channel beside its puts, and the number of channels and puts is the caller's.
pub(super) enum Command {
    /// Open a channel.
    Open {
        purpose: Purpose,
        name: CString,
        state: Arc<ChannelState>,
    },
    /// The channel of this id was connected: subscribe, if need be.
    Connected(u64),
    /// Something that puts to the channel of this id wait for may have come.
    ResumePuts(u64),
    /// Write to the channel of this id.
    Put(u64, Job),
    /// Close the channel of this id.
    Close(u64),
    /// Open all channels anew, in a new context.
    Renew,
    /// Close all and end.
    Stop,
}

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

/// What it takes to open a channel anew.
struct Reopen {
    purpose: Purpose,
    name: CString,
    state: Arc<ChannelState>,
}

/// Why a context is not needed any more.
enum End {
    /// Nobody wants the client.
    Stop,
    /// Another is to have these channels.
    Renew(Vec<Reopen>),
}

/// Does what is asked for with one context, beginning with these channels.
fn serve(context: &Context, commands: &Receiver<Command>, begin: Vec<Reopen>) -> End {
    let mut channels = HashMap::new();
    for each in begin {
        open(context, &mut channels, each.purpose, &each.name, each.state);
    }
    context.flush();
    while let Ok(first) = commands.recv() {
        let batch = std::iter::once(first)
            .chain(commands.try_iter())
            .take(BATCH);
        for command in batch {
            match command {
                Command::Open {
                    purpose,
                    name,
                    state,
                } => open(context, &mut channels, purpose, &name, state),
                Command::Connected(id) => {
                    if let Some(channel) = channels.get_mut(&id) {
                        subscribe(channel);
                        guard("put", || channel.send_puts());
                    }
                }
                Command::ResumePuts(id) => {
                    if let Some(channel) = channels.get_mut(&id) {
                        guard("put", || channel.send_puts());
                    }
                }
                // What the caller gave with a put may panic when it is told.
                Command::Put(id, job) => guard("put", || match channels.get_mut(&id) {
                    Some(channel) => {
                        channel.put(job);
                        channel.send_puts();
                    }
                    None => drop(job),
                }),
                // The caller's sink may be dropped here, and may panic at that.
                Command::Close(id) => guard("close", || drop(channels.remove(&id))),
                Command::Renew => return End::Renew(close_all(channels)),
                Command::Stop => return End::Stop,
            }
        }
        context.flush();
    }
    End::Stop
}

/// Closes the channels, which their sinks take for a loss of the connection.
fn close_all(channels: HashMap<u64, OpenChannel<'_>>) -> Vec<Reopen> {
    let close = |channel: OpenChannel<'_>| {
        let reopen = Reopen {
            purpose: channel.purpose(),
            name: channel.c_name(),
            state: channel.state(),
        };
        // What the caller gave with a put may panic when it is told; no callback comes after this.
        guard("close", || drop(channel));
        guard("disconnected", || reopen.state.closed());
        reopen
    };
    channels.into_values().map(close).collect()
}

fn open<'context>(
    context: &'context Context,
    channels: &mut HashMap<u64, OpenChannel<'context>>,
    purpose: Purpose,
    name: &CString,
    state: Arc<ChannelState>,
) {
    let id = state.id();
    match OpenChannel::open(context, purpose, name, state) {
        Ok(channel) => {
            channels.insert(id, channel);
        }
        Err(refused) => log::error!("cannot open a channel to {name:?}: {refused}"),
    }
}

fn subscribe(channel: &mut OpenChannel<'_>) {
    if log::log_enabled!(log::Level::Debug) {
        log::debug!("{} is connected to {}", channel.name(), channel.host());
    }
    if let Err(refused) = channel.subscribe() {
        log::error!("cannot subscribe to {}: {refused}", channel.name());
    }
}
