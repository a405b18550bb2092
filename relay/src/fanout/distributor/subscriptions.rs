//! Subscriptions of clients, within what one client may have.

use std::mem;

use pvwire_schema::types::{ConnectionState, NameError, NameProblem, PvId, Reply};

use super::{Distributor, held};
use crate::fanout::control::ClientId;
use crate::fanout::set::PvSet;
use crate::limits::subscriptions::SubscriptionLimits;
use crate::state::table::{Now, Table};

impl Distributor {
    pub(super) fn subscribe(
        &mut self,
        client: ClientId,
        mut ids: Vec<PvId>,
        mut errors: Vec<NameError>,
        table: &Table,
        now: Now,
    ) -> (Option<usize>, Vec<PvId>, Reply) {
        let before = self.set_of(client);
        let state = |id: PvId| table.entry(id).connection.state;
        let in_vain = |id: &&PvId| state(**id) == ConnectionState::NotFound;
        let is_there = |id: PvId| {
            let state = state(id);
            matches!(
                state,
                ConnectionState::Connected | ConnectionState::Disconnected
            )
        };
        // Counted when it matters: a page's names are all there, mostly.
        let mut may_search = None;
        let loads = self.registry.loads(&ids);
        let mut load = self.load_of(client, &loads);
        let mut wanted = before.ids().to_vec();
        let mut fresh = Vec::new();
        let (mut surplus, mut vain) = (Vec::new(), Vec::new());
        let mut seen = std::collections::HashSet::new();
        for (index, id) in ids.iter_mut().enumerate() {
            if *id == PvId::NONE {
                continue;
            }
            if before.contains(*id) || seen.contains(id) {
                surplus.push(*id);
                if seen.insert(*id) {
                    fresh.push(*id);
                }
                continue;
            }
            let SubscriptionLimits {
                subscriptions,
                unresolved,
                load: most,
            } = self.limits;
            let refusal = if wanted.len() >= subscriptions {
                surplus.push(*id);
                let message = format!("a client may subscribe {subscriptions} PVs");
                Some((NameProblem::TooManySubscriptions, message))
            } else if !is_there(*id)
                && !*may_search.get_or_insert_with(|| {
                    before.ids().iter().filter(in_vain).take(unresolved).count() < unresolved
                })
            {
                vain.push(*id);
                let message = format!(
                    "{unresolved} of your names are not found, and this one isn't known: unsubscribe \
                     some first (max_unresolved)"
                );
                Some((NameProblem::TooManyPvs, message))
            } else if loads[index] > 0 && load + loads[index] > most {
                vain.push(*id);
                // Other clients may want what it makes.
                self.next_sweep = None;
                Some((
                    NameProblem::TooManyPvs,
                    too_much_load(load + loads[index], most),
                ))
            } else {
                None
            };
            if let Some((problem, message)) = refusal {
                let index = index as u32;
                errors.push(NameError {
                    index,
                    problem,
                    message,
                });
                *id = PvId::NONE;
                continue;
            }
            seen.insert(*id);
            fresh.push(*id);
            wanted.push(*id);
            load += loads[index];
        }
        self.registry.release(surplus, now.instant);
        self.registry.discard(vain, now.instant);
        let group = self.regroup(client, PvSet::new(wanted));
        (group, fresh, Reply::Subscribed { ids, errors })
    }

    /// What the relay makes a second for the simulated PVs that a client has or waits for. Looked up only
    /// when it asks for others, which make these `loads`.
    pub(super) fn load_of(&self, client: ClientId, loads: &[u64]) -> u64 {
        if loads.iter().all(|load| *load == 0) {
            return 0;
        }
        let gets = self.gets.iter().filter(|get| get.client == client);
        let mut ids = self.set_of(client).ids().to_vec();
        ids.extend(gets.flat_map(|get| held(&get.ids)));
        self.registry.loads(&ids).iter().sum()
    }

    pub(super) fn unsubscribe(
        &mut self,
        client: ClientId,
        ids: &[PvId],
        now: Now,
    ) -> Option<usize> {
        let before = self.set_of(client);
        let unwanted = PvSet::new(
            ids.iter()
                .copied()
                .filter(|id| before.contains(*id))
                .collect(),
        );
        let rest = before
            .ids()
            .iter()
            .copied()
            .filter(|id| !unwanted.contains(*id))
            .collect();
        self.registry
            .release(unwanted.ids().iter().copied(), now.instant);
        self.regroup(client, PvSet::new(rest))
    }

    pub(super) fn forget(&mut self, client: ClientId, now: Now) {
        let set = self.set_of(client);
        self.regroup(client, PvSet::default());
        self.registry
            .release(set.ids().iter().copied(), now.instant);
        let (gone, stay) = mem::take(&mut self.gets)
            .into_iter()
            .partition(|get| get.client == client);
        self.gets = stay;
        for get in gone {
            self.registry.release(held(&get.ids), now.instant);
        }
    }
}

pub(super) fn too_much_load(load: u64, most: u64) -> String {
    format!(
        "with this PV your simulated PVs make {load} elements a second, and one client's may make \
         {most}: unsubscribe some first"
    )
}
