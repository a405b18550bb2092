//! The queue of the requests that shards make for their clients, and of the status page.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use pvwire_schema::types::{ConnectionState, NameError, PvId, SkipCause};

use crate::access::rule::Identity;
use crate::fanout::set::PvSet;
use crate::ingest::{Intake, RowValue};
use crate::limits::memory::Owner;

/// A client, as its shard knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Which shard.
    pub shard: usize,
    /// Its place there.
    pub place: usize,
    /// Tells it from clients that had the place before.
    pub generation: u64,
    /// It wants columns packed.
    pub lz4: bool,
}

/// Is told the latest value of a PV, if there is one.
pub struct Peeked(pub Box<Peek>);

type Peek = dyn FnOnce(Option<&RowValue>) + Send;

impl fmt::Debug for Peeked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Peeked")
    }
}

/// What a shard wants of this stage, on behalf of a client.
#[derive(Debug)]
pub enum Demand {
    /// These PVs from now on. `ids` are acquired, one per name, `NONE` where there is an error.
    Subscribe {
        /// Who.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
        /// Names that were refused.
        errors: Vec<NameError>,
    },
    /// These no longer.
    Unsubscribe {
        /// Who.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
    },
    /// These once. `ids` as in `Subscribe`.
    Get {
        /// Who.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
        /// Those of them whose description is wanted and comes apart from the metadata.
        described: Vec<PvId>,
        /// Names that were refused.
        errors: Vec<NameError>,
        /// When to stop waiting for first values.
        deadline: Instant,
        /// As the client asked, for the message.
        timeout: Duration,
        /// Whom the answer is charged to.
        owner: Arc<Owner>,
    },
    /// All that changed since a tick, in one frame.
    CatchUp {
        /// Who.
        client: ClientId,
        /// The last tick that the client is in step with.
        since: u64,
        /// Why it is so far back.
        cause: SkipCause,
    },
    /// Whether the client may still read all that it has.
    Recheck {
        /// Which client.
        client: ClientId,
        /// Who it is.
        identity: Arc<Identity>,
    },
    /// What a client may not read, by the rules that hold now.
    Judged {
        /// Which client.
        client: ClientId,
        /// The PVs.
        denied: Arc<PvSet>,
    },
    /// The client is gone.
    Leave {
        /// Who.
        client: ClientId,
    },
    /// What is going on, for the status page.
    Inspect {
        /// Most PVs to list.
        limit: usize,
        /// Where the answer goes.
        answer: tokio::sync::oneshot::Sender<Overview>,
    },
    /// The latest value of a PV that is held.
    Peek {
        /// The PV.
        pv: PvId,
        /// Learns it.
        answer: Peeked,
    },
}

/// What is going on.
#[derive(Debug, Default)]
pub struct Overview {
    /// PVs in each connection state.
    pub connecting: usize,
    /// See `connecting`.
    pub not_found: usize,
    /// See `connecting`.
    pub connected: usize,
    /// See `connecting`.
    pub disconnected: usize,
    /// Different sets of PVs that clients hold.
    pub groups: usize,
    /// The first PVs by name: name, state, clients that hold it, updates in its present epoch.
    pub pvs: Vec<(Arc<str>, ConnectionState, usize, u32)>,
}

/// Where shards leave their demands.
#[derive(Debug)]
pub struct ControlQueue {
    pub(super) queue: SegQueue<Demand>,
    intake: Arc<Intake>,
}

impl ControlQueue {
    /// An empty control, whose demands wake the tick thread.
    #[must_use]
    pub fn new(intake: Arc<Intake>) -> Arc<Self> {
        Arc::new(Self {
            queue: SegQueue::new(),
            intake,
        })
    }

    /// Leaves a demand. What a client may have open at a time is bounded by its session.
    pub fn leave(&self, demand: Demand) {
        self.queue.push(demand);
        self.intake.wake();
    }
}
