//! PVs that the relay keeps open for itself: those of `history`, and the recorded ones of a replay. No client has asked for
//! them.

use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::PvId;

use super::{Refusal, Registry};
use crate::limits::memory::Owner;
use crate::limits::subscriptions::NewNames;

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
