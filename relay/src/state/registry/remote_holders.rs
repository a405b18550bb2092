//! PVs that other relays want from this one. Their rules have decided who may read.

use std::sync::Arc;

use pvwire_schema::types::PvId;

use super::{Refusal, Registry};
use crate::limits::memory::Owner;
use crate::limits::subscriptions::NewNames;

impl Registry {
    /// Source and key of a name, which are the same for all names of one PV.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn shared_key(&self, name: &str) -> Result<String, Refusal> {
        Ok(self.named(name)?.whole())
    }

    /// Acquires a PV for another relay. It must be released.
    ///
    /// # Errors
    /// Why the PV can't be opened.
    pub fn acquire_for_relay(
        &self,
        name: &str,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Result<PvId, Refusal> {
        self.acquire_one(&mut self.lock(), name, owner, room)
    }
}
