//! Commands of the pva-cmd thread, the only thread that creates and ends monitors and operations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::PvaEvents;
use super::operation::OperationState;
use super::request::Request;
use super::servers::Servers;
use super::suspects::Verdict;

/// A command for the pva-cmd thread.
///
/// The queue is unbounded: an open monitor has at most a few commands in it and an operation two,
/// and the caller decides how many monitors and operations there are.
pub(super) enum Command {
    /// Open a monitor.
    Open {
        id: u64,
        name: String,
        events: Arc<dyn PvaEvents>,
    },
    /// The monitor with this id is connected.
    Connected(u64),
    /// The monitor with this id has lost its connection.
    Lost(u64),
    /// The monitor with this id has its first value.
    Settled(u64),
    /// The connection to this server broke before the monitor with this id had its first value.
    Broken(u64, String),
    /// At this time the monitor with this id, which had values, was disconnected from this server.
    BrokenLater(u64, String, Instant),
    /// The check of the monitor with this id has ended.
    Checked(u64, Verdict),
    /// Values of the monitor with this id are refused for this reason.
    Unreadable(u64, String),
    /// The monitor with this id is dead; whether it was refused, before it had a value.
    Failed(u64, bool),
    /// Close the monitor with this id.
    Close(u64),
    /// Start an operation. If the command is dropped before, the operation ends as
    /// [`Disconnected`](super::OpError::Disconnected).
    Operate {
        id: u64,
        name: String,
        request: Request,
        timeout: Duration,
        state: Arc<OperationState>,
    },
    /// Report servers.
    Discover(Arc<Servers>),
    /// The operation with this id has ended.
    Done(u64),
    /// Cancel the operation with this id.
    Cancel(u64),
}
