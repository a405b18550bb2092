//! Commands of the ca-cmd thread, the only thread that calls libca.

use std::ffi::CString;
use std::sync::Arc;

use super::event::ChannelEvents;
use super::event::FieldKind;
use super::put::Job;
use super::sent_put::SentPut;

/// Purpose of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To monitor its values, and possibly to write to it.
    Watch,
    /// To monitor its values without metadata.
    Value,
    /// To monitor its values as strings, without metadata.
    Text,
    /// To learn its type and element count.
    Shape,
    /// Only to write to it.
    Put,
}

/// A command for the ca-cmd thread.
///
/// Apart from puts, an open channel has at most four commands in the queue; the caller decides how
/// many channels and puts there are.
pub(super) enum Command {
    /// Open a channel.
    Open {
        id: u64,
        purpose: Purpose,
        name: CString,
        events: Arc<dyn ChannelEvents>,
    },
    /// The channel with this id was connected: subscribe if necessary.
    Connected(u64),
    /// A condition that puts to the channel with this id are waiting for may be met.
    ResumePuts(u64),
    /// Write to the channel with this id.
    Put(u64, Job),
    /// The question with this number for the channel with this id was answered.
    Field(u64, u32, FieldKind),
    /// End the subscription of values of the channel with this id until it connects again.
    StopUpdates(u64),
    /// Read the value of the channel with this id after a put.
    ReadBack(u64, Arc<SentPut>),
    /// Close the channel with this id.
    Close(u64),
}
