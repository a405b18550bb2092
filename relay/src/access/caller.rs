//! Who makes a request: the identity that rules decide by, and the budgets that the request draws on.
//!
//! A `Caller` is made once for each session and for each request by plain HTTP.

use std::sync::Arc;

use crate::access::auth::Peer;
use crate::access::rule::Identity;
use crate::limits::connections::SharedBudgets;
use crate::limits::cpu::CpuShare;
use crate::limits::memory::Owner;

/// The client of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The client, as its handshake or request describes it.
    pub peer: Arc<Peer>,
    /// Its identity: that of the handshake, until it logs in.
    pub identity: Arc<Identity>,
    /// The owner of the memory that the relay holds for it, with its CPU budgets.
    pub owner: Arc<Owner>,
    /// The rates that it shares with other connections of its address and user.
    pub rates: SharedBudgets,
}

impl Caller {
    /// The client that a handshake or request describes.
    #[must_use]
    pub fn new(peer: Peer, owner: Arc<Owner>, rates: SharedBudgets) -> Self {
        Self {
            identity: Arc::new(peer.identity.clone()),
            peer: Arc::new(peer),
            owner,
            rates,
        }
    }

    /// Its CPU budgets.
    #[must_use]
    pub fn cpu(&self) -> &CpuShare {
        self.owner.cpu()
    }
}
