//! The command thread of a client: it owns one context of libca or pvxs and makes every call to it.
//!
//! Others send it commands through a queue. It carries them out in batches, and between two batches it
//! does what is due. It holds no lock that a callback takes, so that a call that waits for a callback
//! always returns.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::user::{ContextError, UserName, create_as};

/// A batch ends here even when more commands wait, so that the first of 100,000 PVs are searched while
/// the last ones are still being opened.
const BATCH: usize = 1_000;

/// Why a client could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system gave no thread.
    #[error("cannot start the {name} thread")]
    Thread {
        /// Name of the thread.
        name: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The EPICS library gave no context.
    #[error("cannot create a context of {library}: {reason}")]
    Context {
        /// Name of the library.
        library: &'static str,
        /// Why.
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
    /// All that is open in one context.
    type Contents<'context>: Contents<Command = Self::Command, Kept = Self::Kept>;
    /// What is opened again in the next context.
    type Kept: Default;

    fn create() -> Result<Self::Context, ContextError>;

    /// Begins with what the context before had open.
    fn open<'context>(
        &self,
        context: &'context Self::Context,
        commands: &Commands<Self::Command>,
        kept: Self::Kept,
    ) -> Self::Contents<'context>;

    /// Replaces a context in which nothing is open any more, if that can be done.
    fn replace(
        old: Self::Context,
        create: impl Fn() -> Result<Self::Context, ContextError>,
    ) -> Self::Context;

    /// What was open is closed, and no callback of it comes any more.
    fn closed(_kept: &Self::Kept) {}
}

/// All that is open in one context.
pub(crate) trait Contents {
    type Command;
    type Kept;

    fn carry_out(&mut self, command: Self::Command);

    /// Does what is due; called after each batch. Returns when something is due next without a command.
    fn turn(&mut self) -> Option<Instant>;

    /// Closes everything, and says what is to be opened again.
    fn close(self) -> Self::Kept;
}

enum Message<Command> {
    Command(Command),
    Renew,
    Stop,
}

/// The queue of a command thread. It has no limit: how much can be in it is up to the commands.
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
    /// Queues a command. False when the client is gone, which has closed everything; the command is
    /// dropped then.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.0.send(Message::Command(command)).is_ok()
    }

    /// A queue whose commands are read by a test.
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

/// A running command thread. When it is dropped, everything is closed and the last callback has
/// returned.
pub(crate) struct CommandThread<Command> {
    commands: Commands<Command>,
    thread: Option<JoinHandle<()>>,
}

impl<Command: Send + 'static> CommandThread<Command> {
    /// Starts the thread, which creates a context that presents this user to IOCs, or the process's own
    /// user.
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

    /// Opens everything again in a new context. Never waits.
    pub(crate) fn renew(&self) {
        // The thread is gone only by a bug of the library.
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

/// Body of the thread. Says through `started` whether there is a context.
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

/// Why a context is not needed any more.
enum End {
    /// The client is dropped.
    Stop,
    /// Everything is to be opened again in another context.
    Renew,
}

/// Carries out commands until the context is not needed any more.
fn serve<C: Contents>(contents: &mut C, received: &Receiver<Message<C::Command>>) -> End {
    loop {
        let first = match contents.turn() {
            None => received.recv().map_err(RecvTimeoutError::from),
            Some(due) => received.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let first = match first {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return End::Stop,
        };
        for message in first.into_iter().chain(received.try_iter()).take(BATCH) {
            match message {
                Message::Command(command) => contents.carry_out(command),
                Message::Renew => return End::Renew,
                Message::Stop => return End::Stop,
            }
        }
    }
}
