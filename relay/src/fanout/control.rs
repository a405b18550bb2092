//! The queue of the requests that shards make for their clients, and of the status page.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use pvwire_schema::types::{ConnectionState, NameError, PvId, SkipCause};

use crate::access::rule::Identity;
use crate::fanout::encoding::Encoding;
use crate::fanout::set::PvSet;
use crate::ingest::Intake;
use crate::limits::memory::Owner;
use crate::state::table::{Entry, Table};

/// A client, as its shard knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Number of its shard.
    pub shard: usize,
    /// Its index in the shard.
    pub index: usize,
    /// Distinguishes it from clients that had the same index before.
    pub generation: u64,
    /// The form of its messages.
    pub encoding: Encoding,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shard,
            index,
            generation,
            ..
        } = self;
        write!(f, "{shard}.{index}.{generation}")
    }
}

/// Reads the table once, between two ticks. It must be short: updates wait for it.
pub struct TableRead(Box<dyn FnOnce(&Table) + Send>);

impl TableRead {
    /// Calls `read` with the table.
    pub fn new(read: impl FnOnce(&Table) + Send + 'static) -> Self {
        Self(Box::new(read))
    }

    pub(super) fn run(self, table: &Table) {
        (self.0)(table);
    }
}

impl fmt::Debug for TableRead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TableRead")
    }
}

/// A request to the fan-out stage, answered between two ticks.
#[derive(Debug)]
pub enum ControlRequest {
    /// Subscribes PVs. `ids` are acquired, one for each name, and `NONE` for a name with an error.
    Subscribe {
        /// The client.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
        /// Names that were refused.
        errors: Vec<NameError>,
        /// The owner of the answer's memory.
        owner: Arc<Owner>,
    },
    /// Ends subscriptions.
    Unsubscribe {
        /// The client.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
    },
    /// Reads PVs once.
    Get(Box<Get>),
    /// Sends everything that changed since a tick in one frame.
    CatchUp {
        /// The client.
        client: ClientId,
        /// The last tick that the client was in step with.
        since: u64,
        /// Why the client is behind.
        cause: SkipCause,
    },
    /// Checks whether the client may still read the PVs that it holds.
    CheckAccess {
        /// The client.
        client: ClientId,
        /// Its identity.
        identity: Arc<Identity>,
    },
    /// The PVs that a client may not read under the present rules: the result of `CheckAccess`.
    Denied {
        /// The client.
        client: ClientId,
        /// The PVs.
        denied: Arc<PvSet>,
    },
    /// The client is gone.
    Forget {
        /// The client.
        client: ClientId,
    },
    /// Describes the present state for the status page.
    Overview {
        /// Maximum number of PVs to list.
        limit: usize,
        /// Receives the answer.
        answer: tokio::sync::oneshot::Sender<Overview>,
    },
    /// Reads what is known of PVs, which may be closed meanwhile.
    Read(TableRead),
    /// Lists the PVs that clients subscribe.
    Sets {
        /// The clients.
        clients: Vec<ClientId>,
        /// Receives a set for each of them.
        answer: tokio::sync::oneshot::Sender<Vec<Arc<PvSet>>>,
    },
}

impl ControlRequest {
    /// The client whose request it is.
    #[must_use]
    pub fn client(&self) -> Option<ClientId> {
        match self {
            Self::Subscribe { client, .. }
            | Self::Unsubscribe { client, .. }
            | Self::CatchUp { client, .. }
            | Self::CheckAccess { client, .. }
            | Self::Denied { client, .. }
            | Self::Forget { client } => Some(*client),
            Self::Get(get) => Some(get.client),
            Self::Overview { .. } | Self::Read(_) | Self::Sets { .. } => None,
        }
    }
}

/// PVs to be read once.
#[derive(Debug)]
pub struct Get {
    /// The client.
    pub client: ClientId,
    /// The request's number.
    pub request: u32,
    /// The PVs, as in `ControlRequest::Subscribe`.
    pub ids: Vec<PvId>,
    /// The PVs whose description is wanted and comes separately from the metadata.
    pub described: Vec<PvId>,
    /// Names that were refused.
    pub errors: Vec<NameError>,
    /// When to stop waiting for first values.
    pub deadline: Instant,
    /// The time-out that the client asked for, for messages.
    pub timeout: Duration,
    /// The owner of the answer's memory.
    pub owner: Arc<Owner>,
}

/// PVs and groups, as the status page shows them.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// PVs in the connection state `Connecting`.
    pub connecting: usize,
    /// PVs in the connection state `NotFound`.
    pub not_found: usize,
    /// PVs in the connection state `Connected`.
    pub connected: usize,
    /// PVs in the connection state `Disconnected`.
    pub disconnected: usize,
    /// Different sets of PVs that clients hold.
    pub groups: usize,
    /// The first PVs by name.
    pub pvs: Vec<ListedPv>,
    /// The PVs with the most bytes received, and their bytes, in descending order.
    pub largest: Vec<(Arc<str>, u64)>,
    /// The servers of PVs, in descending order of their bytes.
    pub servers: Vec<ServerTraffic>,
    /// The sources of PVs, by name.
    pub sources: Vec<SourceTraffic>,
}

/// A PV on the status page.
#[derive(Clone, Debug)]
pub struct ListedPv {
    /// Its name with its source.
    pub name: Arc<str>,
    /// Its connection state.
    pub state: ConnectionState,
    /// Clients that hold it.
    pub holders: usize,
    /// Updates in its present epoch.
    pub updates: u32,
    /// Bytes of the values received since it was opened.
    pub bytes: u64,
    /// Host and port of its server.
    pub server: Option<Arc<str>>,
}

impl ListedPv {
    /// The PV of a name, from its entry in the table.
    #[must_use]
    pub fn new(name: Arc<str>, holders: usize, entry: &Entry) -> Self {
        Self {
            name,
            state: entry.connection.state,
            holders,
            updates: entry.latest.as_ref().map_or(0, |latest| latest.sequence),
            bytes: entry.bytes_received(),
            server: entry.server.clone(),
        }
    }
}

/// What came from one server.
#[derive(Clone, Debug, Default)]
pub struct ServerTraffic {
    /// Host and port.
    pub name: Arc<str>,
    /// Open PVs that are or were last connected to it.
    pub pvs: usize,
    /// Those of them that are connected.
    pub connected: usize,
    /// Bytes of the values of these PVs.
    pub bytes: u64,
}

/// What came from one source.
#[derive(Clone, Debug, Default)]
pub struct SourceTraffic {
    /// Its name, as before `://` in the names of PVs.
    pub name: String,
    /// Open PVs.
    pub pvs: usize,
    /// Those of them that are connected.
    pub connected: usize,
    /// Updates of these PVs, each since it was last connected.
    pub updates: u64,
    /// Bytes of the values of these PVs.
    pub bytes: u64,
}

/// The queue of requests to the fan-out stage.
#[derive(Debug)]
pub struct ControlQueue {
    pub(super) queue: SegQueue<ControlRequest>,
    intake: Arc<Intake>,
}

impl ControlQueue {
    /// An empty queue; each request wakes the tick thread.
    #[must_use]
    pub fn new(intake: Arc<Intake>) -> Arc<Self> {
        Arc::new(Self {
            queue: SegQueue::new(),
            intake,
        })
    }

    /// Adds a request. A session bounds the open requests of its client.
    pub fn push(&self, request: ControlRequest) {
        self.queue.push(request);
        self.intake.wake();
    }
}
