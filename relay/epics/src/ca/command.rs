//! Commands of the ca-cmd thread, which alone calls libca.

use std::ffi::CString;
use std::sync::Arc;

use super::field::FieldKind;
use super::put::Job;
use super::sent_put::SentPut;

/// What a channel is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To see its values, and perhaps to write to it.
    Watch,
    /// To write to it alone.
    Put,
}

/// What the ca-cmd thread is asked to do.
///
/// The queue of commands has no limit of its own; there are never more than four for an open
/// channel beside its puts, and the number of channels and puts is the caller's.
pub(super) enum Command<State> {
    /// Open a channel.
    Open {
        purpose: Purpose,
        name: CString,
        state: Arc<State>,
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
    /// Open all channels anew, in a new context.
    Renew,
    /// Close all and end.
    Stop,
}
