//! What the fan-out stage gives the shards: the frames of a tick, and what to send each client after them.

use std::sync::Arc;
use std::time::Duration;

use crate::fanout::control::ClientId;
use crate::fanout::dirty::Dirty;
use crate::fanout::frame::Frame;
use crate::fanout::large::LargeValue;
use crate::fanout::set::PvSet;
use crate::state::table::Changes;

/// What a group gets of one tick.
#[derive(Clone, Debug)]
pub enum GroupFrame {
    /// Nothing changed for it, or there is no such group.
    Nothing,
    /// The same bytes for all its members, and then the large values of this set.
    Shared(Forms, Arc<PvSet>),
    /// Its one member's shard makes the frame; large values follow as well.
    Gather(Arc<PvSet>),
}

/// One frame in the forms that somebody wants.
#[derive(Clone, Debug, Default)]
pub struct Forms {
    /// As it is.
    pub(super) plain: Option<Arc<Frame>>,
    /// With packed columns.
    pub(super) lz4: Option<Arc<Frame>>,
}

impl Forms {
    /// The form for this client; `None` when nobody of its kind was there.
    #[must_use]
    pub fn of(&self, client: ClientId) -> Option<&Arc<Frame>> {
        if client.lz4 { &self.lz4 } else { &self.plain }.as_ref()
    }
}

/// One tick as the shards get it.
#[derive(Debug)]
pub struct TickFrames {
    /// Number of the tick.
    pub tick: u64,
    /// What it brought.
    pub changes: Arc<Changes>,
    /// Its rows by PV, when several groups gather theirs.
    pub dirty: Option<Dirty>,
    /// The updates that travel in frames of their own, in order.
    pub large: Vec<Arc<LargeValue>>,
    /// By group number.
    pub groups: Vec<GroupFrame>,
}

/// What a shard must do for one client, after the tick's frames.
#[derive(Debug)]
pub enum Order {
    /// Send this answer, which brings the client's newest PVs (or nothing) to the tick.
    Answer {
        /// To whom.
        client: ClientId,
        /// The bytes.
        frame: Arc<Frame>,
        /// Large values that it leaves out, which are to follow it.
        large: Arc<[Arc<LargeValue>]>,
    },
    /// From the next tick on the client is in this group, or in none.
    Regroup {
        /// Who.
        client: ClientId,
        /// Its group's number.
        group: Option<usize>,
    },
    /// Send this; then the client is in step with the tick again.
    CaughtUp {
        /// To whom.
        client: ClientId,
        /// The bytes.
        frame: Arc<Frame>,
        /// Large values that it leaves out, which are to follow it.
        large: Arc<[Arc<LargeValue>]>,
        /// The tick.
        tick: u64,
    },
    /// Close it: it has a PV that it may not read any more.
    Refuse {
        /// Who.
        client: ClientId,
    },
}

impl Order {
    /// Whom it concerns.
    #[must_use]
    pub fn client(&self) -> ClientId {
        match self {
            Self::Answer { client, .. }
            | Self::Regroup { client, .. }
            | Self::CaughtUp { client, .. }
            | Self::Refuse { client } => *client,
        }
    }
}

/// A shard as this stage sees it.
pub trait FrameSink: Send {
    /// Takes one tick: frames first, orders after. Never waits.
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>);

    /// Whether it has done all but the last delivery.
    fn is_ready(&self) -> bool;

    /// How long its last round of writing took.
    fn round(&self) -> Duration;
}
