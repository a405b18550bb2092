//! The open PVs of the registry: numbers, holders, lingers and filtered PVs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::PvId;

use crate::ingest::{FilteredLine, Monitor};
use crate::limits::connections::Caller;
use crate::limits::memory::PvCharge;
use crate::limits::subscriptions::{
    MAX_FILTERS, MAX_FILTERS_PER_ACCOUNT, MAX_FILTERS_PER_CONNECTION,
};
use crate::state::filter::FilterKey;

/// A PV whose value takes more bytes is closed sooner after its last client left, because other clients
/// may need the memory.
const LINGERING_BYTES: usize = 4 << 10;

/// How long such a PV stays open.
const SHORT_LINGER: Duration = Duration::from_secs(1);

/// Why a filter can't be added to a PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooManyFilters {
    #[error("this PV has {MAX_FILTERS} different filters already: use one that other screens have")]
    Pv,
    #[error(
        "your connection has added {MAX_FILTERS_PER_CONNECTION} different filters to this PV: unsubscribe one \
         of them first"
    )]
    Connection,
    #[error(
        "connections of your address or user have added {MAX_FILTERS_PER_ACCOUNT} different filters to this \
         PV: use one of them"
    )]
    Account,
}

/// The open PVs and their holders.
#[derive(Default)]
pub(super) struct Open {
    pub(super) by_name: HashMap<Arc<str>, PvId>,
    pub(super) by_filter: HashMap<(PvId, FilterKey), PvId>,
    pub(super) slots: Vec<Option<Slot>>,
    pub(super) free: Vec<PvId>,
    /// PVs without holders, by the time of their release.
    pub(super) lingering: Vec<(Instant, PvId)>,
}

impl Open {
    pub(super) fn slot(&self, pv: PvId) -> &Slot {
        self.slots[pv.index()].as_ref().expect("a held PV is open")
    }

    pub(super) fn slot_mut(&mut self, pv: PvId) -> &mut Slot {
        self.slots[pv.index()].as_mut().expect("a held PV is open")
    }

    /// The slot and monitor of a PV, also for the number of a filtered PV of it.
    pub(super) fn monitored(&self, pv: PvId) -> (&Slot, &dyn Monitor) {
        let slot = self.slot(pv);
        match &slot.shows {
            Shows::Pv { monitor, .. } => (slot, monitor.as_ref()),
            Shows::Filtered { base, .. } => self.monitored(*base),
        }
    }

    pub(super) fn free_number(&mut self) -> PvId {
        (self.free.pop()).unwrap_or(PvId(self.slots.len() as u32))
    }

    /// Takes back a number that was not used.
    pub(super) fn give_back(&mut self, id: PvId) {
        if id.index() < self.slots.len() {
            self.free.push(id);
        }
    }

    pub(super) fn insert(&mut self, id: PvId, slot: Slot) {
        match self.slots.get_mut(id.index()) {
            Some(free) => *free = Some(slot),
            None => self.slots.push(Some(slot)),
        }
    }

    /// Whether this client may add one more filter to a PV.
    pub(super) fn check_filters(&self, base: PvId, caller: &Caller) -> Result<(), TooManyFilters> {
        let Shows::Pv { filtered, .. } = &self.slot(base).shows else {
            unreachable!("a name stands for a PV");
        };
        let added_by = |fits: &dyn Fn(&Caller) -> bool| {
            let shown = filtered.iter().map(|pv| &self.slot(*pv).shows);
            let fit =
                |shows: &&Shows| matches!(shows, Shows::Filtered { caller, .. } if fits(caller));
            shown.filter(fit).count()
        };
        if filtered.len() >= MAX_FILTERS {
            Err(TooManyFilters::Pv)
        } else if added_by(&|other| other.is(caller)) >= MAX_FILTERS_PER_CONNECTION {
            Err(TooManyFilters::Connection)
        } else if added_by(&|other| other.shares_account_with(caller)) >= MAX_FILTERS_PER_ACCOUNT {
            Err(TooManyFilters::Account)
        } else {
            Ok(())
        }
    }

    pub(super) fn release_one(&mut self, id: PvId, now: Instant, linger: Duration) {
        let slot = self.slot_mut(id);
        slot.holders = (slot.holders)
            .checked_sub(1)
            .expect("released once per acquire");
        if slot.holders > 0 {
            return;
        }
        let (base, key) = match &slot.shows {
            Shows::Pv { charge, .. } => {
                let is_large = charge.value_bytes() > LINGERING_BYTES;
                let early = if is_large {
                    linger.saturating_sub(SHORT_LINGER)
                } else {
                    Duration::ZERO
                };
                let since = now.checked_sub(early).unwrap_or(now);
                slot.idle_since = Some(since);
                self.lingering.push((since, id));
                return;
            }
            Shows::Filtered { base, key, .. } => (*base, key.clone()),
        };
        // No linger: opening a filtered PV again costs the IOC nothing.
        self.by_filter.remove(&(base, key));
        if let Shows::Pv { filtered, .. } = &mut self.slot_mut(base).shows {
            filtered.retain(|pv| *pv != id);
        }
        // Dropping the slot tells the tick thread, before the number is reused.
        self.slots[id.index()] = None;
        self.free.push(id);
        self.release_one(base, now, linger);
    }
}

/// An open PV or filtered PV.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) holders: usize,
    /// When the last holder left; `None` while it has holders.
    pub(super) idle_since: Option<Instant>,
    /// Whether the rules let any client write it.
    pub(super) puts: bool,
    pub(super) shows: Shows,
}

/// What the number of a slot stands for.
pub(super) enum Shows {
    /// A PV, and its filtered PVs.
    Pv {
        monitor: Box<dyn Monitor>,
        charge: Arc<PvCharge>,
        /// See [`crate::ingest::Line::opening`].
        opening: u32,
        filtered: Vec<PvId>,
    },
    /// A PV through a filter.
    Filtered {
        base: PvId,
        key: FilterKey,
        /// The client that added it.
        caller: Caller,
        _line: FilteredLine,
    },
}
