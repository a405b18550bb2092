//! A client of pvAccess: it watches, fetches, puts and calls PVs.
//!
//! [`Client`] is one context of pvxs, [`Monitor`] one PV that is watched. What happens to a PV is
//! told to the [`PvaEvents`] that it was opened with. Plain records come as numbers and arrays, all
//! other structures as a tree of [`Node`]s.

mod array;
mod callback;
mod command;
mod command_thread;
mod element;
mod event;
mod handle;
mod isolation;
mod items;
mod monitor_state;
mod node;
mod operation;
mod pacing;
mod request;
mod suspects;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::array::SharedArray;
use self::command::{Command, NewOperation};
use self::command_thread::Pvxs;
pub use self::element::ElementType;
pub use self::event::{Limits, Metadata, PvaEvents, TypeInfo, Update, Value, ValueKind, memory};
pub use self::node::{Node, NodeValue};
use self::request::{Completion, Request};
pub use self::request::{Gate, OpError, PutOptions, PutValue};
pub use crate::ca::BadName;
use crate::ca::MAX_NAME_BYTES;
pub use crate::command_thread::StartError;
use crate::command_thread::{CommandThread, Commands};
use crate::user::UserName;

/// One context of pvxs, and the pva-cmd thread that creates and ends what is in it.
///
/// When it is dropped it closes all monitors, ends all operations as
/// [`Disconnected`](OpError::Disconnected) and waits for the last callback, so it must not be
/// dropped in one. The environment variables of EPICS are read when it starts; see
/// [`prepare_environment`](crate::prepare_environment).
#[derive(Debug)]
pub struct Client {
    next_id: AtomicU64,
    thread: CommandThread<Command>,
}

impl Client {
    /// Starts the pva-cmd thread and creates its context.
    ///
    /// # Errors
    ///
    /// When the system gives no thread or pvxs no context.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(None)
    }

    /// The same, presenting itself to IOCs as this user.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and when the program doesn't export the symbol `osiGetUserName`.
    pub fn start_as(user: UserName) -> Result<Self, StartError> {
        Self::start_with(Some(user))
    }

    fn start_with(user: Option<UserName>) -> Result<Self, StartError> {
        Ok(Self {
            next_id: AtomicU64::new(0),
            thread: CommandThread::start(Pvxs::default(), user)?,
        })
    }

    /// Opens a monitor of the whole structure. Never waits; a PV that no server has is searched
    /// until the monitor is dropped.
    ///
    /// # Errors
    ///
    /// When the name cannot be that of a PV.
    pub fn open(&self, name: &str, events: Arc<dyn PvaEvents>) -> Result<Monitor, BadName> {
        check(name)?;
        let id = self.next_id();
        let commands = self.thread.commands().clone();
        let name = name.to_owned();
        // The thread ends before the client only by a bug of pvxs; the PV then stays unconnected,
        // which is true.
        let _ = commands.send(Command::Open { id, name, events });
        Ok(Monitor { id, commands })
    }

    /// Fetches the whole structure of a PV once. `done` is called exactly once, from any thread,
    /// also from this one before the call returns.
    pub fn get(
        &self,
        name: &str,
        timeout: Duration,
        done: impl FnOnce(Result<Node, OpError>) + Send + 'static,
    ) {
        self.operate(name, Request::Get, timeout, None, answer(done));
    }

    /// Puts a value to the field `value` of a PV. `done` is called exactly once, as for
    /// [`get`](Self::get). The field is read afterwards, and `done` learns what it holds if that is not
    /// what was put.
    ///
    /// It is never put twice: when the connection breaks after the value was sent, it ends as
    /// [`Disconnected`](OpError::Disconnected). When it was never sent it ends as
    /// [`NotConnected`](OpError::NotConnected).
    pub fn put(
        &self,
        name: &str,
        value: PutValue,
        options: PutOptions,
        done: impl FnOnce(Result<Option<Node>, OpError>) + Send + 'static,
    ) {
        self.put_field(name, "value", value, options, Box::new(|| true), done);
    }

    /// Puts a value to a field of a PV's structure, named by the names on the way to it with dots
    /// between, like [`put`](Self::put). `gate` is asked right before the value is sent; when it says
    /// no, nothing is.
    pub fn put_field(
        &self,
        name: &str,
        field: &str,
        value: PutValue,
        options: PutOptions,
        gate: Gate,
        done: impl FnOnce(Result<Option<Node>, OpError>) + Send + 'static,
    ) {
        let done = Completion::new(done);
        if let Err(invalid) = value.check() {
            done.complete(Err(invalid));
            return;
        }
        let request = Request::Put {
            field: field.to_owned(),
            value,
            wait: options.wait,
        };
        self.operate(name, request, options.timeout, Some(gate), done);
    }

    /// Calls the procedure that a PV offers, with named arguments in an NTURI. `done` is called
    /// exactly once, as for [`get`](Self::get).
    ///
    /// It is never called twice: when the connection breaks before the answer, it ends as
    /// [`Disconnected`](OpError::Disconnected). `gate` is asked when the service is found; when it says no,
    /// nothing is sent. What is returned ends the call before its time.
    pub fn rpc(
        &self,
        name: &str,
        arguments: Vec<(String, PutValue)>,
        timeout: Duration,
        gate: Gate,
        done: impl FnOnce(Result<Node, OpError>) + Send + 'static,
    ) -> Stop {
        let done = answer(done);
        let stop = |id| Stop {
            id,
            commands: self.thread.commands().clone(),
        };
        let invalid = arguments.iter().find_map(|(_, value)| value.check().err());
        if let Some(invalid) = invalid {
            done.complete(Err(invalid));
            return stop(self.next_id());
        }
        let request = Request::Call { arguments };
        stop(self.operate(name, request, timeout, Some(gate), done))
    }

    /// Opens all monitors again in a new context, which reads the environment variables of EPICS again
    /// and looks up the host names in them. Never waits; meanwhile the PVs are disconnected, and
    /// operations that aren't done end as [`OpError::Disconnected`].
    pub fn renew(&self) {
        self.thread.renew();
    }

    fn operate(
        &self,
        name: &str,
        request: Request,
        timeout: Duration,
        gate: Option<Gate>,
        done: Completion,
    ) -> u64 {
        let id = self.next_id();
        if let Err(bad) = check(name) {
            done.complete(Err(OpError::Invalid(bad.to_string())));
            return id;
        }
        let command = Command::Operate(NewOperation {
            id,
            name: name.to_owned(),
            request,
            timeout,
            gate,
            completion: done,
        });
        // A command that isn't taken is dropped, which completes the operation.
        let _ = self.thread.commands().send(command);
        id
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Ends a call before its time.
#[derive(Clone, Debug)]
pub struct Stop {
    id: u64,
    commands: Commands<Command>,
}

impl Stop {
    /// Ends the call, at the service too if it works on it; nothing if it has ended. The call ends as
    /// [`Disconnected`](OpError::Disconnected), or as [`NotConnected`](OpError::NotConnected) when nothing
    /// was sent. Never waits.
    pub fn stop(&self) {
        // Fails when the client is gone, which has ended it.
        let _ = self.commands.send(Command::Cancel(self.id));
    }
}

/// An open monitor.
///
/// Dropping it asks the pva-cmd thread to close it; until that is done an event may still come.
#[derive(Debug)]
pub struct Monitor {
    id: u64,
    commands: Commands<Command>,
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Fails when the client is gone, which has closed the monitor.
        let _ = self.commands.send(Command::Close(self.id));
    }
}

fn check(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(BadName::TooLong { length: name.len() });
    }
    match name.find('\0') {
        Some(at) => Err(BadName::InteriorNul { at }),
        None => Ok(()),
    }
}

/// A completion for what always answers with a structure.
fn answer(done: impl FnOnce(Result<Node, OpError>) + Send + 'static) -> Completion {
    Completion::new(|result| {
        done(result.and_then(|node| {
            node.ok_or_else(|| OpError::Remote("the answer is empty".to_owned()))
        }));
    })
}
