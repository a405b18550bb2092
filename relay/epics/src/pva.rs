//! A pvAccess client: it monitors, reads and writes PVs, and calls services.
//!
//! [`Client`] is one context of pvxs, [`Monitor`] one monitored PV. The events of a PV are reported
//! to the [`PvaEvents`] that it was opened with. Plain records are reported as numbers and arrays,
//! all other structures as a tree of [`Node`]s.

mod array;
mod callback;
mod command;
mod command_thread;
mod event;
mod handle;
mod isolation;
mod items;
mod monitor_state;
mod node;
mod operation;
mod pacing;
mod questions;
mod refusals;
mod request;
mod search_replies;
mod servers;
mod socket_calls;
mod suspects;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::array::ElementType;
pub use self::array::SharedArray;
use self::command::Command;
use self::command_thread::Pvxs;
pub use self::event::{Limits, Metadata, PvaEvents, TypeInfo, Update, Value, ValueKind, memory};
pub use self::node::{Node, NodeValue};
use self::operation::{Done, OperationState};
use self::request::Request;
pub use self::request::{OpError, PutOptions, PutValue};
pub use self::servers::ServerFound;
use self::servers::{SERVER, Servers};
pub use crate::ca::BadName;
use crate::ca::MAX_NAME_BYTES;
pub use crate::command_thread::StartError;
use crate::command_thread::{CommandThread, Commands};
use crate::guard::guard;
use crate::ticket::Ticket;
use crate::user::UserName;

/// One context of pvxs, and the pva-cmd thread that creates and ends everything in it.
///
/// Dropping it closes all monitors, ends all operations as [`Disconnected`](OpError::Disconnected)
/// and waits for the last callback, so it must not be dropped in a callback. The environment
/// variables of EPICS are read when it starts; see
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
    /// When the system can't start a thread or pvxs can't create a context.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(None)
    }

    /// Like [`start`](Self::start), but identifies itself to IOCs as this user.
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

    /// Opens a monitor of the whole structure. Does not block; a PV without a server is searched
    /// for until the monitor is dropped.
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open(&self, name: &str, events: Arc<dyn PvaEvents>) -> Result<Monitor, BadName> {
        check(name)?;
        let id = self.next_id();
        let commands = self.thread.commands().clone();
        let name = name.to_owned();
        // The thread ends before the client only because of a bug in pvxs; the PV then correctly
        // stays unconnected.
        let _ = commands.send(Command::Open { id, name, events });
        Ok(Monitor { id, commands })
    }

    /// Reads the whole structure of a PV once. `done` is called exactly once, from any thread,
    /// possibly from this one before the call returns.
    pub fn get(
        &self,
        name: &str,
        timeout: Duration,
        done: impl FnOnce(Result<Node, OpError>) + Send + 'static,
    ) {
        let ticket = Ticket::default();
        // A get changes nothing, so it counts as sent.
        ticket.begin();
        self.operate(name, Ok(Request::Get), timeout, ticket, answer(done));
    }

    /// Writes a value to the field `value` of a PV. `done` is called exactly once, as for
    /// [`get`](Self::get). The field is read afterwards, and `done` receives its value if that
    /// differs from the one put.
    ///
    /// The value is never sent twice: if the connection breaks after it was sent, the put ends as
    /// [`Disconnected`](OpError::Disconnected). If it was never sent, the put ends as
    /// [`NotConnected`](OpError::NotConnected).
    pub fn put(
        &self,
        name: &str,
        value: PutValue,
        options: PutOptions,
        done: impl FnOnce(Result<Option<Node>, OpError>) + Send + 'static,
    ) {
        self.put_field(name, "value", value, options, Ticket::default(), done);
    }

    /// Like [`put`](Self::put), for a field of a PV's structure, given as a path of names separated
    /// by dots. If the `ticket` is cancelled before the value is sent, nothing is sent.
    pub fn put_field(
        &self,
        name: &str,
        field: &str,
        value: PutValue,
        options: PutOptions,
        ticket: Ticket,
        done: impl FnOnce(Result<Option<Node>, OpError>) + Send + 'static,
    ) {
        let request = value.check().map(|()| Request::Put {
            field: field.to_owned(),
            value,
            wait: options.wait,
        });
        self.operate(name, request, options.timeout, ticket, Box::new(done));
    }

    /// Calls the service of a PV with named arguments in an NTURI. `done` is called exactly once,
    /// as for [`get`](Self::get).
    ///
    /// The service is never called twice: if the connection breaks before the answer, the call ends
    /// as [`Disconnected`](OpError::Disconnected). If the `ticket` is cancelled before the service
    /// is found, nothing is sent. The returned value can end the call early.
    pub fn rpc(
        &self,
        name: &str,
        arguments: Vec<(String, PutValue)>,
        timeout: Duration,
        ticket: Ticket,
        done: impl FnOnce(Result<Node, OpError>) + Send + 'static,
    ) -> Stop {
        let checked = arguments.iter().try_for_each(|(_, value)| value.check());
        let request = checked.map(|()| Request::Call {
            server: String::new(),
            arguments,
        });
        Stop {
            id: self.operate(name, request, timeout, ticket, answer(done)),
            commands: self.thread.commands().clone(),
        }
    }

    /// Reports servers from now on, for as long as the client exists: all that answer one search, those that send
    /// beacons later, and the name servers of the configuration. `report` is called on the thread of pvxs and must
    /// not wait. After a [`renew`](Self::renew) servers are reported again.
    pub fn discover(&self, report: impl Fn(ServerFound) + Send + Sync + 'static) {
        let servers = Arc::new(Servers::new(Box::new(report)));
        // Fails only because of a bug in pvxs; then no server is found.
        let _ = self.thread.commands().send(Command::Discover(servers));
    }

    /// Asks a server, by its address and port, for the names of its PVs. `done` is called exactly once, as for
    /// [`get`](Self::get).
    pub fn list_names(
        &self,
        server: &str,
        timeout: Duration,
        done: impl FnOnce(Result<Vec<String>, OpError>) + Send + 'static,
    ) {
        let request = Request::Call {
            server: server.to_owned(),
            arguments: vec![("op".to_owned(), PutValue::Text("channels".to_owned()))],
        };
        let done: Done = Box::new(move |answer| done(answer.and_then(servers::listed)));
        self.operate(SERVER, Ok(request), timeout, Ticket::default(), done);
    }

    /// Reopens all monitors in a new context, which reads the environment variables of EPICS again
    /// and resolves the host names in them. Does not block; meanwhile the PVs are disconnected, and
    /// unfinished operations end as [`OpError::Disconnected`].
    pub fn renew(&self) {
        self.thread.renew();
    }

    /// Starts an operation, or ends it at once if its request or name is invalid.
    fn operate(
        &self,
        name: &str,
        request: Result<Request, OpError>,
        timeout: Duration,
        ticket: Ticket,
        done: Done,
    ) -> u64 {
        let id = self.next_id();
        let commands = self.thread.commands();
        let ended = commands.clone();
        let done = Box::new(move |result| {
            guard("completion", || done(result));
            // Fails if the client was dropped, which ends all operations.
            let _ = ended.send(Command::Done(id));
        });
        let state = Arc::new(OperationState::new(ticket, done));
        let named = check(name).map_err(|bad| OpError::Invalid(bad.to_string()));
        match request.and_then(|request| named.map(|()| request)) {
            Ok(request) => {
                let name = name.to_owned();
                // A command that can't be queued is dropped, which completes the operation.
                let _ = commands.send(Command::Operate {
                    id,
                    name,
                    request,
                    timeout,
                    state,
                });
            }
            Err(invalid) => state.complete(Err(invalid)),
        }
        id
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Ends a call early.
#[derive(Clone, Debug)]
pub struct Stop {
    id: u64,
    commands: Commands<Command>,
}

impl Stop {
    /// Ends the call, and also stops the service if it is processing the call; has no effect if the
    /// call has ended. The call ends as [`Disconnected`](OpError::Disconnected), or as
    /// [`NotConnected`](OpError::NotConnected) if nothing was sent. Does not block.
    pub fn stop(&self) {
        // Fails if the client was dropped, which has ended the call.
        let _ = self.commands.send(Command::Cancel(self.id));
    }
}

/// An open monitor.
///
/// Dropping it asks the pva-cmd thread to close it; until then events may still arrive.
#[derive(Debug)]
pub struct Monitor {
    id: u64,
    commands: Commands<Command>,
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Fails if the client was dropped, which has closed the monitor.
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

/// Receives the result of an operation whose answer always is a structure.
fn answer(done: impl FnOnce(Result<Node, OpError>) + Send + 'static) -> Done {
    Box::new(|result| {
        done(result.and_then(|node| {
            node.ok_or_else(|| OpError::Remote("the answer is empty".to_owned()))
        }));
    })
}
