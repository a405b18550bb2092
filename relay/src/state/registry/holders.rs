//! Holders of PVs that are no clients of this relay: PVs that are computed from others, which hold their inputs for as
//! long as they are open; other relays, whose rules have decided who may read; and the relay itself, which keeps open
//! the PVs of `history` and the recorded ones of a replay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::PvId;

use super::open::{OpenPvs, Shows, Slot};
use super::{Refusal, Registry};
use crate::limits::memory::Owner;
use crate::limits::subscriptions::NewNames;

impl Registry {
    /// Acquires the inputs of a PV, all or none. They count as new names like others.
    pub(super) fn acquire_inputs(
        &self,
        open: &mut OpenPvs,
        names: &[String],
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Result<Vec<PvId>, Refusal> {
        let mut inputs = Vec::new();
        for name in names {
            match self.acquire_one(open, name, owner, room) {
                Ok(id) => inputs.push(id),
                Err(refusal) => {
                    for id in inputs {
                        open.release_one(id, Instant::now(), self.linger);
                    }
                    return Err(refusal.of_input(name));
                }
            }
        }
        Ok(inputs)
    }

    /// Elements per second that the relay makes for each of these PVs, which are held or `NONE`.
    pub fn loads(&self, ids: &[PvId]) -> Vec<u64> {
        let open = self.lock();
        let load = |id: &PvId| match *id {
            PvId::NONE => 0,
            id => open.load(id),
        };
        ids.iter().map(load).collect()
    }
}

impl Refusal {
    /// The same for a PV of which this is an input.
    pub(super) fn of_input(self, name: &str) -> Self {
        Self {
            problem: self.problem,
            message: format!("its input {name}: {}", self.message),
        }
    }
}

impl OpenPvs {
    /// Elements per second that the relay makes for a PV and its inputs.
    fn load(&self, pv: PvId) -> u64 {
        let (slot, monitor) = self.monitored(pv);
        let inputs = slot.inputs().iter().map(|input| self.load(*input));
        monitor.load() + inputs.sum::<u64>()
    }

    /// Releases the inputs of a PV that is closed.
    pub(super) fn release_inputs(&mut self, closed: &Slot, now: Instant, linger: Duration) {
        for input in closed.inputs() {
            self.release_one(*input, now, linger);
        }
    }

    /// Adds the names by which rules decide who may read a PV: its own, or those of its inputs.
    pub(super) fn names_to_judge(&self, slot: &Slot, names: &mut Vec<Arc<str>>) {
        if let Shows::Filtered { base, .. } = &slot.shows {
            return self.names_to_judge(self.slot(*base), names);
        }
        if slot.inputs().is_empty() {
            names.push(Arc::clone(&slot.name));
        }
        for input in slot.inputs() {
            self.names_to_judge(self.slot(*input), names);
        }
    }
}

impl Slot {
    /// The PVs from which it is computed.
    fn inputs(&self) -> &[PvId] {
        match &self.shows {
            Shows::Pv { inputs, .. } => inputs,
            Shows::Filtered { .. } => &[],
        }
    }
}

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
