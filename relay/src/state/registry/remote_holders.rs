//! Holders of PVs that are no clients of this relay: other relays, whose rules have decided who may read, and the relay
//! itself, which keeps open the PVs of `history` and the recorded ones of a replay.

use std::sync::Arc;
use std::time::Instant;

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

impl Registry {
    /// Acquires a PV for the relay itself, which is not one of its clients. `release_own` releases it.
    ///
    /// # Errors
    /// Why the PV can't be opened.
    pub fn acquire_own(&self, name: &str, owner: &Arc<Owner>) -> Result<PvId, Refusal> {
        let mut room = NewNames { fresh: 0, new: 1 };
        let mut open = self.lock();
        let id = self.acquire_one(&mut open, name, owner, &mut room)?;
        open.slot_mut(id).own_holders += 1;
        Ok(id)
    }

    /// Releases PVs of `acquire_own`, once for each time they were acquired.
    ///
    /// # Panics
    /// When a PV is released more often than it was acquired.
    pub fn release_own(&self, ids: &[PvId], now: Instant) {
        let mut open = self.lock();
        for id in ids {
            open.slot_mut(*id).own_holders -= 1;
        }
        drop(open);
        self.release(ids.iter().copied(), now);
    }
}
