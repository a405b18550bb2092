//! Errands of clients: puts and reads that belong together and wait for several PVs.
//!
//! A shard only begins them. The HTTP server's thread carries them out, because HTTP requests ask for the same.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use crate::access::auth::Peer;
use crate::access::rule::Identity;
use crate::fanout::control::ClientId;
use crate::fanout::dialogue::{Errand, Respond};
use crate::limits::connections::Caller;
use crate::limits::memory::Owner;
use crate::session::operation::{Action, Ends};

/// Who asks.
#[derive(Clone)]
pub struct Asker {
    /// The client, as its handshake or request describes it.
    pub peer: Arc<Peer>,
    /// Its identity.
    pub identity: Arc<Identity>,
    /// The owner of the memory that the relay holds for it.
    pub owner: Arc<Owner>,
}

/// An errand of a shard's client.
pub struct Order {
    /// The client.
    pub client: ClientId,
    /// Who it is.
    pub asker: Asker,
    /// The budgets that it shares with other connections of its address and user.
    pub caller: Caller,
    /// The errand.
    pub errand: Errand,
    /// Writes the response.
    pub respond: Respond,
}

/// Where shards send errands. A client's budget of open requests bounds them.
pub type Orders = UnboundedSender<Order>;

/// Puts of an errand, which a shard carries out in this order.
pub struct Puts {
    /// The client, if a shard has one; its puts that wait end with it.
    pub client: Option<ClientId>,
    /// Who asks.
    pub asker: Asker,
    /// The puts with the names of the PVs.
    pub actions: Vec<(String, Action)>,
    /// Receives the outcomes.
    pub ends: Ends,
}
