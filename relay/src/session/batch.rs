//! Batches of clients: puts and reads that belong together and wait for several PVs.
//!
//! A shard only begins them. They are carried out in `queries`, because HTTP requests ask for the same.

use tokio::sync::mpsc::UnboundedSender;

use crate::access::caller::Caller;
use crate::fanout::control::ClientId;
use crate::session::operation::{Action, Ends};
use crate::state::batch::{Batch, Respond};

/// A batch of a shard's client.
pub struct ClientBatch {
    /// The client.
    pub client: ClientId,
    /// Who it is.
    pub caller: Caller,
    /// The batch.
    pub batch: Batch,
    /// Writes the response.
    pub respond: Respond,
}

/// Where shards send batches. A client's budget of open requests bounds them.
pub type Batches = UnboundedSender<ClientBatch>;

/// Puts of a batch, which a shard carries out in this order.
pub struct Puts {
    /// The client, which may be one that no shard has. Its puts that were not sent end with it.
    pub client: ClientId,
    /// Who makes them.
    pub caller: Caller,
    /// The puts with the names of the PVs.
    pub actions: Vec<(String, Action)>,
    /// Refuse values outside the control limits of their PVs.
    pub within_limits: bool,
    /// Receives the outcomes.
    pub ends: Ends,
}
