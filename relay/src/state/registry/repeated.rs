//! Acquires the PVs of a request again, for an equal request of another client: when many clients come back at the same
//! time, each names the same thousands of PVs, whose names and rules need not be looked up for each of them.

use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::PvId;

use super::open::Shows;
use super::{Registry, Rules};
use crate::access::rule::Identity;
use crate::limits::memory::Owner;

/// PVs that are acquired again before other threads get their turn. Each costs a tenth of one whose name is looked up.
const PVS_PER_LOCK: usize = 1_024;

/// The PVs that a request has acquired, without filters, and for whom.
#[derive(Debug)]
pub struct AcquiredPvs {
    /// Each with the number of its opening: a number may stand for another PV later.
    pvs: Box<[(PvId, u32)]>,
    identity: Identity,
    rules: Arc<Rules>,
}

impl AcquiredPvs {
    /// Number of PVs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pvs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pvs.is_empty()
    }

    /// Whether a client with this identity has acquired them.
    #[must_use]
    pub fn is_for(&self, identity: &Identity) -> bool {
        self.identity == *identity
    }
}

impl Registry {
    /// The present rules, by which `acquired` is checked later.
    pub fn rules_now(&self) -> Arc<Rules> {
        self.rules()
    }

    /// Notes held PVs that `identity` has acquired since the rules were `rules`; `None` if one of them is a filtered PV.
    pub fn acquired(
        &self,
        ids: &[PvId],
        identity: &Identity,
        rules: Arc<Rules>,
    ) -> Option<AcquiredPvs> {
        let open = self.lock();
        let opening = |id: &PvId| match open.slot(*id).shows {
            Shows::Pv { opening, .. } => Some((*id, opening)),
            Shows::Filtered { .. } => None,
        };
        Some(AcquiredPvs {
            pvs: ids.iter().map(opening).collect::<Option<_>>()?,
            identity: identity.clone(),
            rules,
        })
    }

    /// Acquires PVs again, for a client with this identity. `None`, and nothing is acquired, if it is another identity,
    /// the rules have changed, or a PV is no longer open.
    pub fn acquire_again(
        &self,
        acquired: &AcquiredPvs,
        identity: &Identity,
        owner: &Arc<Owner>,
    ) -> Option<Vec<PvId>> {
        if !acquired.is_for(identity) {
            return None;
        }
        let mut ids = Vec::with_capacity(acquired.pvs.len());
        for some in acquired.pvs.chunks(PVS_PER_LOCK) {
            let mut open = self.lock_step();
            let is_known = Arc::ptr_eq(&acquired.rules, &self.rules());
            let pvs = some.iter().filter(|_| is_known);
            let acquire = |(id, opening): &(PvId, u32)| {
                let slot = open.slots.get_mut(id.index())?.as_mut()?;
                let slot = slot.is_opening(*opening).then_some(slot)?;
                slot.hold(owner);
                Some(*id)
            };
            let before = ids.len();
            ids.extend(pvs.map_while(acquire));
            if ids.len() - before < some.len() {
                drop(open);
                self.release(ids, Instant::now());
                return None;
            }
        }
        Some(ids)
    }
}
