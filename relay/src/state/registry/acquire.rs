//! Acquires PVs for requests, which may name thousands of them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use pvwire_schema::types::{Filter, NameProblem, PvId};

use super::open::{OpenPvs, Shows, Slot};
use super::{Refusal, Registry};
use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::config::Access;
use crate::ingest::{FilteredLine, Form};
use crate::limits::connections::SharedBudgets;
use crate::limits::memory::{Owner, PvCharge};
use crate::limits::subscriptions::NewNames;
use crate::state::filter::FilterKey;

/// PVs that are acquired before other threads get their turn.
const NAMES_PER_LOCK: usize = 128;

/// The filter of a PV, its form for the clients of a door, and the client that asks for it.
pub(super) type Narrowed<'a> = (Filter, Option<Arc<Form>>, &'a SharedBudgets);

impl Registry {
    /// The lock for one of many steps. Others go first, because a lock that is released is not given to the thread
    /// that has waited for it, and ticks must not wait for a request with thousands of names.
    pub(super) fn lock_step(&self) -> MutexGuard<'_, OpenPvs> {
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
        let asked: Vec<_> = names.iter().map(|name| (&**name, None)).collect();
        self.acquire_each(&asked, identity, owner, room)
    }

    /// Like `acquire` for `caller`. With a filter it is for a subscription, to which the caps of `max_rate` apply.
    pub fn acquire_filtered(
        &self,
        names: &[String],
        filter: Option<Filter>,
        caller: &Caller,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let narrowed = filter.map(|filter| (filter, None, &caller.rates));
        let asked = names.iter().map(|name| (&**name, narrowed.clone()));
        self.acquire_each(
            &asked.collect::<Vec<_>>(),
            &caller.identity,
            &caller.owner,
            room,
        )
    }

    /// Like `acquire_filtered`, with a filter and a form for each PV.
    pub fn acquire_forms(
        &self,
        asked: &[(String, Filter, Arc<Form>)],
        caller: &Caller,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let asked = asked.iter().map(|(name, filter, form)| {
            let narrowed = (*filter, Some(Arc::clone(form)), &caller.rates);
            (&**name, Some(narrowed))
        });
        self.acquire_each(
            &asked.collect::<Vec<_>>(),
            &caller.identity,
            &caller.owner,
            room,
        )
    }

    fn acquire_each(
        &self,
        names: &[(&str, Option<Narrowed<'_>>)],
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let mut acquired: Vec<Option<Result<PvId, Refusal>>> = Vec::with_capacity(names.len());
        let mut whole = String::new();
        for some in names.chunks(NAMES_PER_LOCK) {
            self.read_inputs(some.iter().map(|(name, _)| *name));
            let mut open = self.lock_step();
            let rules = self.rules();
            acquired.extend(some.iter().map(|(name, narrowed)| {
                let permitted = self.named(name).map_err(Refusal::from).and_then(|named| {
                    self.permit_named(&named, &rules, identity, Access::Read)?;
                    named.write_whole(&mut whole);
                    Ok(())
                });
                if let Err(refusal) = permitted {
                    return Some(Err(refusal));
                }
                let base = Self::acquire_open(&mut open, &whole, owner)?;
                Some(self.narrow(&mut open, base, (name, narrowed.clone()), owner))
            }));
            self.close_ended(&mut open);
        }
        let mut new: Vec<_> = (acquired.iter_mut().zip(names))
            .filter(|(acquired, _)| acquired.is_none())
            .collect();
        let fresh = room.fresh;
        let is_crowd = new.len() > fresh;
        if is_crowd {
            room.fresh = 0;
        }
        for some in new.chunks_mut(NAMES_PER_LOCK) {
            self.read_inputs(some.iter().map(|(_, (name, _))| *name));
            let mut open = self.lock_step();
            for (acquired, (name, narrowed)) in some {
                // The rules may have changed between two steps.
                let permitted = self.permit(name, identity, Access::Read);
                let base = permitted.and_then(|()| self.acquire_one(&mut open, name, owner, room));
                let narrow = |base| self.narrow(&mut open, base, (name, narrowed.clone()), owner);
                **acquired = Some(base.and_then(narrow));
            }
            self.close_ended(&mut open);
        }
        if is_crowd {
            room.fresh = fresh;
        }
        let acquired = acquired.into_iter();
        acquired
            .map(|each| each.expect("a name that isn't open was opened or refused"))
            .collect()
    }

    /// Has sources read the inputs of PVs, which may take long, before the lock is taken: they keep those of the last PVs.
    fn read_inputs<'a>(&self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if let Ok((_, bare, source)) = self.source_of(name) {
                source.inputs(bare);
            }
        }
    }

    /// The PV that a request gets for a PV that it holds: this one, or a filtered PV of it.
    fn narrow(
        &self,
        open: &mut OpenPvs,
        base: PvId,
        (name, narrowed): (&str, Option<Narrowed<'_>>),
        owner: &Arc<Owner>,
    ) -> Result<PvId, Refusal> {
        let Some(requested) = narrowed else {
            return Ok(base);
        };
        let adds = requested.1.is_some() || requested.0 != Filter::ALL;
        self.capped(name, requested).map_or(Ok(base), |narrowed| {
            self.acquire_filter(open, base, narrowed, adds, owner)
        })
    }

    /// Acquires a filtered PV of a PV that is held. The hold of the PV passes to the filtered PV. `is_requested`: the
    /// client asks for a filter or a form, whose numbers are limited.
    fn acquire_filter(
        &self,
        open: &mut OpenPvs,
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
            own_holders: 0,
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
