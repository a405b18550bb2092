//! Commands of the ca-cmd thread, which alone calls libca.

use std::ffi::CString;
use std::sync::Arc;

use super::event::ChannelEvents;
use super::field::FieldKind;
use super::put::Job;
use super::sent_put::SentPut;

/// Purpose of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To see its values, and perhaps to write to it.
    Watch,
    /// To write to it alone.
    Put,
}

/// A command for the ca-cmd thread.
///
/// An open channel has at most four of them in the queue beside its puts; the caller decides how many
/// channels and puts there are.
pub(super) enum Command {
    /// Open a channel.
    Open {
        id: u64,
        purpose: Purpose,
        name: CString,
        events: Arc<dyn ChannelEvents>,
    },
    /// The channel of this id was connected: subscribe, if need be.
    Connected(u64),
    /// Something that puts to the channel of this id wait for may have come.
    ResumePuts(u64),
    /// Write to the channel of this id.
    Put(u64, Job),
    /// The question of this number for the channel of this id is answered.
    Field(u64, u32, FieldKind),
    /// End the subscription of values of the channel of this id until it connects again.
    StopUpdates(u64),
    /// Read what the channel of this id holds after a put.
    ReadBack(u64, Arc<SentPut>),
    /// Close the channel of this id.
    Close(u64),
}
