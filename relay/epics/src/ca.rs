//! A client of Channel Access: it watches PVs and writes to them.
//!
//! [`Client`] is one context of libca, [`Channel`] one PV with its monitors. What happens to a PV
//! is told to the [`ChannelEvents`] that it was opened with.

mod asked;
mod callback;
mod channel_state;
mod check;
mod circuit;
mod command;
mod command_thread;
mod dbr;
mod encode;
mod event;
mod field;
mod follow;
mod handle;
mod messages;
mod put;
mod recv;
mod sent_put;
mod shape;
mod thread_circuit;

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::check::passes;
use self::command::{Command, Purpose};
use self::command_thread::Libca;
pub use self::event::{
    AccessRights, Array, ChannelEvents, ChannelInfo, Limits, Metadata, NativeType, Update, Value,
    text,
};
pub use self::field::{FieldKind, FieldQuestion};
pub use self::handle::take_messages;
pub use self::messages::message;
use self::put::Job;
pub use self::put::{Condition, Done, Held, PutError, PutValue};
pub use self::recv::{circuits_cut_total, paced_reads_total, reads_total};
pub use crate::command_thread::StartError;
use crate::command_thread::{CommandThread, Commands};
use crate::ticket::Ticket;
use crate::user::UserName;

/// Longest name in bytes: it must fit one of libca's search datagrams of 1,024 bytes with two
/// headers, or the PV would be searched for ever without a packet being sent.
pub const MAX_NAME_BYTES: usize = 950;

/// Why a name cannot be that of a PV.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// Nothing to search for.
    #[error("the name of a PV is empty")]
    Empty,
    /// C would take it for a shorter name.
    #[error("the name of a PV has a NUL at byte {at}")]
    InteriorNul {
        /// Where.
        at: usize,
    },
    /// It fits no search datagram.
    #[error("the name of a PV has {length} bytes, more than {MAX_NAME_BYTES}")]
    TooLong {
        /// Bytes.
        length: usize,
    },
}

/// One context of libca, and the ca-cmd thread that makes every call to it.
///
/// When it is dropped it closes all channels and waits for the last callback, so it must not be
/// dropped in a callback. The environment variables of EPICS are read when it starts; see
/// [`prepare_environment`](crate::prepare_environment).
#[derive(Debug)]
pub struct Client {
    opener: Opener,
    thread: CommandThread<Command>,
}

/// Opens channels of a [`Client`] from anywhere, in callbacks too. Those of a client that is gone are
/// never connected.
#[derive(Clone, Debug)]
pub struct Opener {
    commands: Commands<Command>,
    next_id: Arc<AtomicU64>,
}

impl Client {
    /// Starts the ca-cmd thread and creates its context.
    ///
    /// # Errors
    ///
    /// When the system gives no thread or libca no context.
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
        let thread = CommandThread::start(Libca, user)?;
        let opener = Opener {
            commands: thread.commands().clone(),
            next_id: Arc::default(),
        };
        Ok(Self { opener, thread })
    }

    /// Opens a channel and its monitors. Never waits; a PV that no server has is searched until
    /// the channel is dropped.
    ///
    /// # Errors
    ///
    /// When the name cannot be that of a PV.
    pub fn open(&self, name: &str, events: Arc<dyn ChannelEvents>) -> Result<Channel, BadName> {
        self.opener.open(name, events)
    }

    /// Opens a channel without monitors of its value: only to write to it. Of an enumeration it
    /// learns the choices all the same, as [`PutValue::Text`] asks for them.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_to_put(
        &self,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        self.opener.open_to_put(name, events)
    }

    /// What opens further channels of this client.
    pub fn opener(&self) -> Opener {
        self.opener.clone()
    }

    /// Opens all channels again in a new context, which reads the environment variables of EPICS again
    /// and looks up the host names in them. Never waits; meanwhile the channels are disconnected, and
    /// puts without an answer end as [`PutError::Interrupted`].
    pub fn renew(&self) {
        self.thread.renew();
    }
}

impl Opener {
    /// As [`Client::open`].
    ///
    /// # Errors
    ///
    /// When the name cannot be that of a PV.
    pub fn open(&self, name: &str, events: Arc<dyn ChannelEvents>) -> Result<Channel, BadName> {
        self.open_for(Purpose::Watch, name, events)
    }

    /// As [`Client::open_to_put`].
    ///
    /// # Errors
    ///
    /// When the name cannot be that of a PV.
    pub fn open_to_put(
        &self,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        self.open_for(Purpose::Put, name, events)
    }

    fn open_for(
        &self,
        purpose: Purpose,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        if name.is_empty() {
            return Err(BadName::Empty);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(BadName::TooLong { length: name.len() });
        }
        let name = CString::new(name).map_err(|nul| BadName::InteriorNul {
            at: nul.nul_position(),
        })?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let commands = self.commands.clone();
        // The thread ends before the client only by a bug of libca; the channel then stays
        // unconnected, which is true.
        let _ = commands.send(Command::Open {
            id,
            purpose,
            name,
            events,
        });
        Ok(Channel { id, commands })
    }
}

/// An open channel.
///
/// Dropping it asks the ca-cmd thread to close it. Once that is done no callback comes any more and
/// the [`ChannelEvents`] are dropped; until then one may still come.
#[derive(Debug)]
pub struct Channel {
    id: u64,
    commands: Commands<Command>,
}

impl Channel {
    /// Writes a value as soon as the channel is connected for the first time, and not at all once
    /// it is disconnected. Never waits.
    ///
    /// With `wait` the answer comes when the record and all that it set off have finished
    /// processing, else as soon as the server has taken or refused the value. Either way the channel
    /// is read afterwards, if it may be, and the answer says what it holds if that is something else.
    /// Puts to one channel reach the server in the order of the calls, and one with `wait` only when
    /// the one before it is answered. `condition` is asked just before the put is sent. `done` is called
    /// once, unless [`Ticket::cancel`] says that nothing will be written; it must be quick, as
    /// [`ChannelEvents`] must.
    pub fn put(
        &self,
        value: PutValue,
        wait: bool,
        condition: Option<Condition>,
        done: Done,
    ) -> Ticket {
        let (job, ticket) = Job::new(value, wait, condition, done);
        // Fails when the client is gone; the job is dropped with the error and says so.
        let _ = self.commands.send(Command::Put(self.id, job));
        ticket
    }

    /// Wants no values of this connection any more; those of the next one come. Never waits.
    pub fn stop_updates(&self) {
        // Fails when the client is gone.
        let _ = self.commands.send(Command::StopUpdates(self.id));
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Fails when the client is gone, which has closed the channel.
        let _ = self.commands.send(Command::Close(self.id));
    }
}
