//! A Channel Access client: it monitors PVs and writes to them.
//!
//! [`Client`] is one context of libca, [`Channel`] one PV with its monitors. The events of a PV are
//! reported to the [`ChannelEvents`] that it was opened with.

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
mod follow;
mod handle;
mod lost_circuit;
mod messages;
mod name;
mod put;
mod recv;
mod sent_put;
mod shape;
mod socket;
mod timers;

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::check::seen;
use self::command::{Command, Purpose};
use self::command_thread::Libca;
pub use self::event::{
    AccessRights, Array, ChannelEvents, ChannelInfo, Limits, Metadata, NativeType, Update, Value,
    text,
};
pub use self::event::{FieldKind, FieldQuestion};
pub use self::handle::take_messages;
pub use self::messages::message;
pub use self::name::NameParts;
use self::put::Job;
pub use self::put::{Condition, Done, Held, PutError, PutValue};
pub use self::recv::{paced_reads_total, reads_total};
pub use self::socket::{circuits_cut_total, messages_withheld_total};
pub use crate::command_thread::StartError;
use crate::command_thread::{CommandThread, Commands};
use crate::ticket::Ticket;
use crate::user::UserName;

/// Longest name in bytes: it must fit into one of libca's search datagrams of 1,024 bytes with two
/// headers. Otherwise the PV would be searched for ever without a packet being sent.
pub const MAX_NAME_BYTES: usize = 950;

/// Why a name is not a valid PV name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// It is empty.
    #[error("the name of a PV is empty")]
    Empty,
    /// C would read it as a shorter name.
    #[error("the name of a PV has a NUL at byte {at}")]
    InteriorNul {
        /// Position of the NUL.
        at: usize,
    },
    /// It does not fit into a search datagram.
    #[error("the name of a PV has {length} bytes, more than {MAX_NAME_BYTES}")]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
}

/// One context of libca, and the ca-cmd thread that makes all calls to it.
///
/// Dropping it closes all channels and waits for the last callback, so it must not be dropped in a
/// callback. The environment variables of EPICS are read when it starts; see
/// [`prepare_environment`](crate::prepare_environment).
#[derive(Debug)]
pub struct Client {
    opener: Opener,
    thread: CommandThread<Command>,
}

/// Opens channels of a [`Client`] from any thread, also in callbacks. Channels of a dropped client
/// are never connected.
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
    /// When the system can't start a thread or libca can't create a context.
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
        let thread = CommandThread::start(Libca, user)?;
        let opener = Opener {
            commands: thread.commands().clone(),
            next_id: Arc::default(),
        };
        Ok(Self { opener, thread })
    }

    /// Opens a channel and its monitors. Does not block; a PV without a server is searched for
    /// until the channel is dropped.
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open(&self, name: &str, events: Arc<dyn ChannelEvents>) -> Result<Channel, BadName> {
        self.opener.open(name, events)
    }

    /// Opens a channel without monitors of its value, only to write to it. For an enumeration it
    /// still receives the choices, because [`PutValue::Text`] needs them.
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

    /// Returns an opener of further channels of this client.
    pub fn opener(&self) -> Opener {
        self.opener.clone()
    }

    /// Reopens all channels in a new context, which reads the environment variables of EPICS again
    /// and resolves the host names in them. Does not block; meanwhile the channels are
    /// disconnected, and unanswered puts end as [`PutError::Interrupted`].
    pub fn renew(&self) {
        self.thread.renew();
    }
}

impl Opener {
    /// Like [`Client::open`].
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open(&self, name: &str, events: Arc<dyn ChannelEvents>) -> Result<Channel, BadName> {
        self.open_for(Purpose::Watch, name, events)
    }

    /// Like [`Client::open_to_put`].
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open_to_put(
        &self,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        self.open_for(Purpose::Put, name, events)
    }

    /// Opens a channel and the monitor of its value, without that of its metadata.
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open_for_value(
        &self,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        self.open_for(Purpose::Value, name, events)
    }

    /// Opens a channel without monitors, to learn its type and element count.
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open_for_shape(
        &self,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        self.open_for(Purpose::Shape, name, events)
    }

    /// Opens a channel that the server sends as one string, whatever its type: for an enumeration that is the label
    /// of the choice.
    ///
    /// # Errors
    ///
    /// When the name is not a valid PV name.
    pub fn open_as_text(
        &self,
        name: &str,
        events: Arc<dyn ChannelEvents>,
    ) -> Result<Channel, BadName> {
        self.open_for(Purpose::Text, name, events)
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
        // The thread ends before the client only because of a bug in libca; the channel then
        // correctly stays unconnected.
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
/// Dropping it asks the ca-cmd thread to close it. A callback may still be called until the thread
/// has closed the channel and dropped the [`ChannelEvents`].
#[derive(Debug)]
pub struct Channel {
    id: u64,
    commands: Commands<Command>,
}

impl Channel {
    /// Writes a value as soon as the channel is connected for the first time. Does not write if the
    /// channel has been disconnected. Does not block.
    ///
    /// With `wait` the put is answered when the record and all processing that it caused have
    /// finished, otherwise as soon as the server has accepted or refused the value. In both cases
    /// the channel is read afterwards if it is readable, and the answer contains its value if that
    /// differs from the one put. Puts to one channel reach the server in the order of the calls,
    /// and a put with `wait` only after the previous one is answered. `condition` is called just
    /// before the put is sent. `done` is called once, unless the `ticket` is cancelled before the
    /// put is sent; it must be quick, like [`ChannelEvents`].
    pub fn put(
        &self,
        value: PutValue,
        wait: bool,
        ticket: Ticket,
        condition: Option<Condition>,
        done: Done,
    ) {
        let job = Job::new(value, wait, ticket, condition, done);
        // Fails if the client was dropped; the job is then dropped with the error and reports it.
        let _ = self.commands.send(Command::Put(self.id, job));
    }

    /// Stops the values of this connection; those of the next connection arrive again. Does not
    /// block.
    pub fn stop_updates(&self) {
        // Fails if the client was dropped.
        let _ = self.commands.send(Command::StopUpdates(self.id));
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Fails if the client was dropped, which has closed the channel.
        let _ = self.commands.send(Command::Close(self.id));
    }
}
