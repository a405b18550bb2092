//! The open PVs of the registry: numbers, holders, lingers and filtered PVs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::PvId;

use crate::ingest::{FilteredLine, Monitor};
use crate::limits::connections::SharedBudgets;
use crate::limits::memory::{Owner, PvCharge};
use crate::limits::subscriptions::{
    MAX_FILTERS, MAX_FILTERS_PER_ACCOUNT, MAX_FILTERS_PER_CONNECTION, MAX_FORMS,
    MAX_FORMS_PER_ACCOUNT, MAX_FORMS_PER_CONNECTION,
};
use crate::state::filter::FilterKey;

/// A PV whose value takes more bytes is closed sooner after its last client left, because other clients
/// may need the memory.
const LINGERING_BYTES: usize = 4 << 10;

/// How long such a PV stays open.
const SHORT_LINGER: Duration = Duration::from_secs(1);

/// Slots of which the memory is worth to be freed.
const MANY: usize = 1_024;

/// Why a filter or a form can't be added to a PV.
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
    #[error(
        "this PV is subscribed under {MAX_FORMS} different names already: use one that other clients use"
    )]
    FormsOfPv,
    #[error(
        "your connection has subscribed this PV under {MAX_FORMS_PER_CONNECTION} different names: clear one of \
         them first"
    )]
    FormsOfConnection,
    #[error(
        "connections of your address or user have subscribed this PV under {MAX_FORMS_PER_ACCOUNT} different \
         names: use one of them"
    )]
    FormsOfAccount,
}

/// The open PVs and their holders.
#[derive(Default)]
pub(super) struct OpenPvs {
    pub(super) by_name: HashMap<Arc<str>, PvId>,
    pub(super) by_filter: HashMap<(PvId, FilterKey), PvId>,
    pub(super) slots: Vec<Option<Slot>>,
    pub(super) free: Vec<PvId>,
    /// PVs without holders, by the time of their release.
    pub(super) lingering: Vec<(Instant, PvId)>,
    /// PVs without holders that don't linger.
    pub(super) ended: Vec<PvId>,
}

impl OpenPvs {
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

    /// Clients that hold a PV, those of its filtered PVs included.
    pub(super) fn holders_of(&self, pv: PvId) -> usize {
        let slot = self.slot(pv);
        let Shows::Pv { filtered, .. } = &slot.shows else {
            return slot.holders;
        };
        // Each filtered PV is a holder itself.
        let through: usize = filtered.iter().map(|pv| self.slot(*pv).holders).sum();
        slot.holders - slot.own_holders - filtered.len() + through
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

    /// Frees the memory of slots at the end, if most PVs were closed.
    pub(super) fn shrink(&mut self) {
        if self.slots.capacity() < MANY || self.slots.last().is_some_and(Option::is_some) {
            return;
        }
        let last = self.slots.iter().rposition(Option::is_some);
        let used = last.map_or(0, |last| last + 1);
        if used < self.slots.capacity() / 4 {
            self.slots.truncate(used);
            self.slots.shrink_to(2 * used);
            self.free.retain(|id| id.index() < used);
            self.free.shrink_to(2 * used);
            self.lingering.retain(|(_, id)| id.index() < used);
            self.lingering.shrink_to(2 * used);
            self.ended.retain(|id| id.index() < used);
            self.by_name.shrink_to(2 * used);
            self.by_filter.shrink_to(2 * used);
        }
    }

    pub(super) fn insert(&mut self, id: PvId, slot: Slot) {
        match self.slots.get_mut(id.index()) {
            Some(free) => *free = Some(slot),
            None => self.slots.push(Some(slot)),
        }
    }

    /// Whether this client may add one more filter to a PV, or one more form: each has limits of its kind.
    pub(super) fn check_filters(
        &self,
        base: PvId,
        is_form: bool,
        caller: &SharedBudgets,
    ) -> Result<(), TooManyFilters> {
        let limits = if is_form {
            [
                (MAX_FORMS, TooManyFilters::FormsOfPv),
                (MAX_FORMS_PER_CONNECTION, TooManyFilters::FormsOfConnection),
                (MAX_FORMS_PER_ACCOUNT, TooManyFilters::FormsOfAccount),
            ]
        } else {
            [
                (MAX_FILTERS, TooManyFilters::Pv),
                (MAX_FILTERS_PER_CONNECTION, TooManyFilters::Connection),
                (MAX_FILTERS_PER_ACCOUNT, TooManyFilters::Account),
            ]
        };
        let counts = self.filtered(base, is_form, caller).into_iter();
        let mut exceeded = counts
            .zip(limits)
            .filter(|(count, (most, _))| count >= most);
        exceeded.next().map_or(Ok(()), |(_, (_, error))| Err(error))
    }

    /// The filtered PVs of a PV with a form, or without one: all, those that this client added, and those of its
    /// address or user.
    fn filtered(&self, base: PvId, with_form: bool, caller: &SharedBudgets) -> [usize; 3] {
        let Shows::Pv { filtered, .. } = &self.slot(base).shows else {
            unreachable!("a name stands for a PV");
        };
        let mut counts = [0; 3];
        for pv in filtered {
            let Shows::Filtered {
                caller: by, key, ..
            } = &self.slot(*pv).shows
            else {
                continue;
            };
            if key.has_form() == with_form {
                let fits = [true, by.is(caller), by.shares_account_with(caller)];
                for (count, fits) in counts.iter_mut().zip(fits) {
                    *count += usize::from(fits);
                }
            }
        }
        counts
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
            Shows::Pv { monitor, .. } if !monitor.lingers() => {
                self.ended.push(id);
                return;
            }
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
    /// Those of them that are the relay itself.
    pub(super) own_holders: usize,
    /// When the last holder left; `None` while it has holders.
    pub(super) idle_since: Option<Instant>,
    /// Whether the rules let any client write it.
    pub(super) puts: bool,
    pub(super) shows: Shows,
}

impl Slot {
    /// One more holder.
    pub(super) fn hold(&mut self, owner: &Arc<Owner>) {
        self.holders += 1;
        self.idle_since = None;
        if let Shows::Pv { charge, .. } = &self.shows
            && charge.may_need_others()
        {
            charge.join(owner);
        }
    }

    /// Whether it is a PV, and of this opening of its number.
    pub(super) fn is_opening(&self, number: u32) -> bool {
        matches!(self.shows, Shows::Pv { opening, .. } if opening == number)
    }
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
        /// The PVs from which it is computed, which it holds.
        inputs: Vec<PvId>,
    },
    /// A PV through a filter.
    Filtered {
        base: PvId,
        key: FilterKey,
        /// The client that added it, until it removes it.
        caller: SharedBudgets,
        _line: FilteredLine,
    },
}
