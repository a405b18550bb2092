//! Acquires PVs for requests, which may name thousands of them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use pvwire_schema::types::{Filter, NameProblem, PvId};

use super::open::{Open, Shows, Slot};
use super::{Refusal, Registry};
use crate::access::rule::Identity;
use crate::config::Access;
use crate::ingest::{FilteredLine, Form};
use crate::limits::connections::Caller;
use crate::limits::memory::{Owner, PvCharge};
use crate::limits::subscriptions::NewNames;
use crate::state::filter::FilterKey;

/// PVs that are acquired before other threads get their turn.
const NAMES_PER_LOCK: usize = 128;

/// The filter of a PV, its form for the clients of a door, and the client that asks for it.
pub(super) type Narrowed<'a> = (Filter, Option<Arc<Form>>, &'a Caller);

impl Registry {
    /// The lock for one of many steps. Others go first, because a lock that is released is not given to the thread
    /// that has waited for it, and ticks must not wait for a request with thousands of names.
    fn lock_step(&self) -> MutexGuard<'_, Open> {
        while self.waiting.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires PVs that `identity` may read, and opens those that aren't open. Each `Ok` must be
    /// released. All updates pass. Up to `room.fresh` new names, which is counted down, are searched in
    /// `Queue::Front`; if there are more, all new names are searched in `Queue::Crowd`. Memory is
    /// charged to the `owner`.
    pub fn acquire(
        &self,
        names: &[String],
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        self.acquire_filtered(names, None, identity, owner, room)
    }

    /// Like `acquire` for a subscription, with an update filter and the client that requests it. The caps of
    /// `max_rate` apply.
    pub fn acquire_filtered(
        &self,
        names: &[String],
        filter: Option<(Filter, &Caller)>,
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let narrowed = filter.map(|(filter, caller)| (filter, None, caller));
        let asked = names.iter().map(|name| (&**name, narrowed.clone()));
        self.acquire_each(&asked.collect::<Vec<_>>(), identity, owner, room)
    }

    /// Like `acquire_filtered`, with a filter and a form for each PV.
    pub fn acquire_forms(
        &self,
        asked: &[(String, Filter, Arc<Form>)],
        caller: &Caller,
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let asked = asked.iter().map(|(name, filter, form)| {
            let narrowed = (*filter, Some(Arc::clone(form)), caller);
            (&**name, Some(narrowed))
        });
        self.acquire_each(&asked.collect::<Vec<_>>(), identity, owner, room)
    }

    fn acquire_each(
        &self,
        names: &[(&str, Option<Narrowed<'_>>)],
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let fresh = room.fresh;
        let mut new = 0;
        for some in names.chunks(NAMES_PER_LOCK) {
            let open = self.lock_step();
            new += some
                .iter()
                .filter(|(name, _)| !self.is_open(&open, name))
                .count();
            if new > fresh {
                break;
            }
        }
        let is_crowd = new > fresh;
        if is_crowd {
            room.fresh = 0;
        }
        let mut acquired = Vec::with_capacity(names.len());
        for some in names.chunks(NAMES_PER_LOCK) {
            let mut open = self.lock_step();
            let acquire = |(name, narrowed): &(&str, Option<Narrowed<'_>>)| {
                self.permit(name, identity, Access::Read)?;
                let base = self.acquire_one(&mut open, name, owner, room)?;
                let Some(requested) = narrowed.clone() else {
                    return Ok(base);
                };
                let adds = requested.1.is_some() || requested.0 != Filter::ALL;
                self.capped(name, requested).map_or(Ok(base), |narrowed| {
                    self.acquire_filter(&mut open, base, narrowed, adds, owner)
                })
            };
            acquired.extend(some.iter().map(acquire));
            self.close_ended(&mut open);
        }
        if is_crowd {
            room.fresh = fresh;
        }
        acquired
    }

    /// Acquires a filtered PV of a PV that is held. The hold of the PV passes to the filtered PV. `is_requested`: the
    /// client asks for a filter or a form, whose numbers are limited.
    fn acquire_filter(
        &self,
        open: &mut Open,
        base: PvId,
        (filter, form, caller): Narrowed<'_>,
        is_requested: bool,
        owner: &Arc<Owner>,
    ) -> Result<PvId, Refusal> {
        let key = FilterKey::new(filter, form.clone());
        let place = (base, key.clone());
        if let Some(&id) = open.by_filter.get(&place) {
            // The filtered PV holds it already.
            open.slot_mut(base).holders -= 1;
            open.slot_mut(id).holders += 1;
            return Ok(id);
        }
        let id = open.free_number();
        if is_requested && let Err(error) = open.check_filters(base, form.is_some(), caller) {
            open.give_back(id);
            open.release_one(base, Instant::now(), self.linger);
            return Err(Refusal {
                problem: NameProblem::TooManyFilters,
                message: error.to_string(),
            });
        }
        let slot = open.slot_mut(base);
        let (name, puts) = (Arc::clone(&slot.name), slot.puts);
        let Shows::Pv {
            filtered, charge, ..
        } = &mut slot.shows
        else {
            unreachable!("a name stands for a PV");
        };
        // Its value may differ from that of the PV.
        let charge = match PvCharge::open(owner, charge.value_bytes()) {
            Ok(charge) => charge,
            Err(too_much) => {
                open.give_back(id);
                open.release_one(base, Instant::now(), self.linger);
                return Err(too_much.into());
            }
        };
        filtered.push(id);
        let line = FilteredLine::open(&self.intake, id, base, (filter, form), Some(charge));
        let slot = Slot {
            name,
            holders: 1,
            idle_since: None,
            puts,
            shows: Shows::Filtered {
                base,
                key,
                caller: caller.clone(),
                _line: line,
            },
        };
        open.by_filter.insert(place, id);
        open.insert(id, slot);
        Ok(id)
    }
}
