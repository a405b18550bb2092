//! What the fan-out stage gives the shards: the frames of a tick, and what to send each client after them.

use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::NameError;

use crate::fanout::control::ClientId;
use crate::fanout::dirty::Dirty;
use crate::fanout::encoding::SharedFrames;
use crate::fanout::frame::Frame;
use crate::fanout::large::LargeValue;
use crate::fanout::set::PvSet;
use crate::state::table::Changes;

/// What a group gets of one tick.
#[derive(Clone, Debug)]
pub enum GroupFrame {
    /// Nothing changed for the group, or there is no such group.
    Nothing,
    /// The same bytes for all members with the same encoding; then the large values of this set follow.
    Shared(SharedFrames, Arc<PvSet>),
    /// The group has one member, whose shard makes the frame; large values follow as well.
    Gather(Arc<PvSet>),
}

/// One tick as the shards get it.
#[derive(Debug)]
pub struct TickFrames {
    /// Number of the tick.
    pub tick: u64,
    /// What changed.
    pub changes: Arc<Changes>,
    /// Index of its rows by PV, when the frames of several groups are made by shards.
    pub dirty: Option<Dirty>,
    /// The large values, in order; each has its own frame.
    pub large: Vec<Arc<LargeValue>>,
    /// The frame of each group, by the group's number.
    pub groups: Vec<GroupFrame>,
}

/// What a shard does for one client after the tick's frames.
#[derive(Debug)]
pub enum Order {
    /// Send this answer. If it has values, they are those of the tick.
    Answer {
        /// The client.
        client: ClientId,
        /// The bytes.
        frame: Arc<Frame>,
        /// Large values that are not in the answer and follow it.
        large: Arc<[Arc<LargeValue>]>,
    },
    /// Tell the client of a door which names of its open request are refused. Its answer follows.
    Refused {
        /// The client.
        client: ClientId,
        /// The names, by their index in the request.
        errors: Vec<NameError>,
    },
    /// Move the client to this group, or to none, from the next tick on.
    Regroup {
        /// The client.
        client: ClientId,
        /// The group's number.
        group: Option<usize>,
    },
    /// Send this catch-up; then the client is in step with the tick again.
    CaughtUp {
        /// The client.
        client: ClientId,
        /// The bytes.
        frame: Arc<Frame>,
        /// Large values that are not in the answer and follow it.
        large: Arc<[Arc<LargeValue>]>,
        /// The tick.
        tick: u64,
    },
    /// Close the client: it holds a PV that it may no longer read.
    Refuse {
        /// The client.
        client: ClientId,
    },
}

impl Order {
    /// The client.
    #[must_use]
    pub fn client(&self) -> ClientId {
        match self {
            Self::Answer { client, .. }
            | Self::Regroup { client, .. }
            | Self::Refused { client, .. }
            | Self::CaughtUp { client, .. }
            | Self::Refuse { client } => *client,
        }
    }
}

/// A shard, as the fan-out stage sees it.
pub trait FrameSink: Send {
    /// Takes one tick: frames first, then orders. Doesn't wait.
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>);

    /// Takes orders that follow the frames of this tick, which are delivered. Doesn't wait.
    fn follow(&self, tick: u64, orders: Vec<Order>);

    /// Whether the shard has done all deliveries except the last one.
    fn is_ready(&self) -> bool;

    /// How long its last round of writing took.
    fn round(&self) -> Duration;
}
