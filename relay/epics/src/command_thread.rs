//! The command thread of a client: it owns one context of libca or pvxs and makes every call to it.
//!
//! Other threads send it commands through a queue. It executes them in batches and does scheduled
//! work between two batches. It holds no lock that a callback takes, so that a call that waits for
//! a callback always returns.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::memory::give_back_thread_cache;
use crate::user::{ContextError, UserName, create_as};

/// Maximum number of commands in a batch, so that the first of 100,000 PVs are searched while the
/// last ones are still being opened.
const BATCH: usize = 1_000;

/// Why a client could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system can't start a thread.
    #[error("cannot start the {name} thread")]
    Thread {
        /// Name of the thread.
        name: &'static str,
        /// The error.
        source: std::io::Error,
    },
    /// The EPICS library can't create a context.
    #[error("cannot create a context of {library}: {reason}")]
    Context {
        /// Name of the library.
        library: &'static str,
        /// The reason.
        reason: ContextError,
    },
}

/// An EPICS library, as the command thread uses it.
pub(crate) trait Library: Send + 'static {
    /// Name of the thread.
    const THREAD: &'static str;
    /// Name of the library.
    const NAME: &'static str;
    type Command: Send + 'static;
    type Context;
    /// Everything that is open in one context.
    type Contents<'context>: Contents<Command = Self::Command, Kept = Self::Kept>;
    /// What is opened again in the next context.
    type Kept: Default;

    fn create() -> Result<Self::Context, ContextError>;

    /// Starts with what was open in the previous context.
    fn open<'context>(
        &self,
        context: &'context Self::Context,
        commands: &Commands<Self::Command>,
        kept: Self::Kept,
    ) -> Self::Contents<'context>;

    /// Replaces a context in which nothing is open, if possible.
    fn replace(
        old: Self::Context,
        create: impl Fn() -> Result<Self::Context, ContextError>,
    ) -> Self::Context;

    /// Everything was closed, and no callback of it will be called.
    fn closed(_kept: &Self::Kept) {}
}

/// Everything that is open in one context.
pub(crate) trait Contents {
    type Command;
    type Kept;

    fn carry_out(&mut self, command: Self::Command);

    /// Does scheduled work; called after each batch. Returns when the next work is due if no
    /// command arrives.
    fn turn(&mut self) -> Option<Instant>;

    /// Closes everything and returns what is to be reopened.
    fn close(self) -> Self::Kept;
}

enum Message<Command> {
    Command(Command),
    Renew,
    Stop,
}

/// The queue of a command thread. It is unbounded: the commands determine how much it can contain.
pub(crate) struct Commands<Command>(Sender<Message<Command>>);

impl<Command> Clone for Commands<Command> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Command> fmt::Debug for Commands<Command> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Commands").finish_non_exhaustive()
    }
}

impl<Command> Commands<Command> {
    /// Queues a command. Returns false if the client was dropped, which has closed everything; the
    /// command is then dropped.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.0.send(Message::Command(command)).is_ok()
    }

    /// A queue whose commands a test reads.
    #[cfg(test)]
    pub(crate) fn for_test() -> (Self, impl Fn() -> Vec<Command>) {
        let (commands, received) = channel();
        let taken = move || {
            let messages = received.try_iter();
            let commands = messages.filter_map(|message| match message {
                Message::Command(command) => Some(command),
                Message::Renew | Message::Stop => None,
            });
            commands.collect()
        };
        (Self(commands), taken)
    }
}

/// A running command thread. Dropping it closes everything and waits for the last callback.
pub(crate) struct CommandThread<Command> {
    commands: Commands<Command>,
    thread: Option<JoinHandle<()>>,
}

impl<Command: Send + 'static> CommandThread<Command> {
    /// Starts the thread, which creates a context that identifies itself to IOCs as this user, or
    /// as the process's own user.
    pub(crate) fn start<L: Library<Command = Command>>(
        library: L,
        user: Option<UserName>,
    ) -> Result<Self, StartError> {
        let (sender, received) = channel();
        let commands = Commands(sender);
        let (started, answer) = sync_channel(1);
        let thread = thread::Builder::new()
            .name(L::THREAD.to_owned())
            .spawn({
                let commands = commands.clone();
                move || run(&library, user.as_ref(), &commands, &received, &started)
            })
            .map_err(|source| StartError::Thread {
                name: L::THREAD,
                source,
            })?;
        // Joins the thread if it has no context.
        let running = Self {
            commands,
            thread: Some(thread),
        };
        let answer = answer.recv().unwrap_or(Err(ContextError::ThreadEnded));
        answer.map_err(|reason| StartError::Context {
            library: L::NAME,
            reason,
        })?;
        Ok(running)
    }

    pub(crate) fn commands(&self) -> &Commands<Command> {
        &self.commands
    }

    /// Reopens everything in a new context. Does not block.
    pub(crate) fn renew(&self) {
        // The thread can have ended only because of a bug in the library.
        let _ = self.commands.0.send(Message::Renew);
    }
}

impl<Command> fmt::Debug for CommandThread<Command> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommandThread").finish_non_exhaustive()
    }
}

impl<Command> Drop for CommandThread<Command> {
    fn drop(&mut self) {
        let _ = self.commands.0.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Body of the thread. Reports through `started` whether there is a context.
fn run<L: Library>(
    library: &L,
    user: Option<&UserName>,
    commands: &Commands<L::Command>,
    received: &Receiver<Message<L::Command>>,
    started: &SyncSender<Result<(), ContextError>>,
) {
    let create = || create_as(user, L::create);
    let mut context = match create() {
        Ok(context) => context,
        Err(reason) => {
            let _ = started.send(Err(reason));
            return;
        }
    };
    if started.send(Ok(())).is_err() {
        return;
    }
    let mut kept = L::Kept::default();
    loop {
        let mut contents = library.open(&context, commands, kept);
        match serve(&mut contents, received) {
            End::Stop => return,
            End::Renew => kept = contents.close(),
        }
        context = L::replace(context, create);
        L::closed(&kept);
    }
}

/// Why a context is no longer needed.
enum End {
    /// The client was dropped.
    Stop,
    /// Everything must be reopened in another context.
    Renew,
}

/// Commands after which the allocator keeps much for the thread.
const MANY: usize = 1024;

/// The thread gives that back once no command came for this long.
const REST: Duration = Duration::from_millis(250);

/// Executes commands until the context is no longer needed.
fn serve<C: Contents>(contents: &mut C, received: &Receiver<Message<C::Command>>) -> End {
    let (mut worked, mut last) = (0, Instant::now());
    loop {
        let rests_at = (worked >= MANY).then(|| last + REST);
        let due = contents.turn();
        let first = match due.into_iter().chain(rests_at).min() {
            None => received.recv().map_err(RecvTimeoutError::from),
            Some(due) => received.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let first = match first {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return End::Stop,
        };
        if first.is_some() {
            last = Instant::now();
        } else if rests_at.is_some_and(|at| at <= Instant::now()) {
            worked = 0;
            give_back_thread_cache();
        }
        for message in first.into_iter().chain(received.try_iter()).take(BATCH) {
            worked += 1;
            match message {
                Message::Command(command) => contents.carry_out(command),
                Message::Renew => return End::Renew,
                Message::Stop => return End::Stop,
            }
        }
    }
}
