//! Subscriptions of clients, within the limits of one client.

use std::mem;
use std::sync::Arc;

use pvwire_schema::types::{ConnectionState, NameError, NameProblem, PvId, Reply};

use super::{Distributor, held};
use crate::fanout::control::ClientId;
use crate::fanout::set::PvSet;
use crate::limits::subscriptions::SubscriptionLimits;
use crate::state::table::{Now, Table};

/// The result of a request to subscribe.
pub(super) struct Subscribed {
    /// The client's group from now on.
    pub(super) group: Option<usize>,
    /// The same with its PVs, if a client without PVs that makes the same request joins it, too.
    pub(super) joined: Option<(usize, Arc<PvSet>)>,
    /// The PVs whose values the answer brings.
    pub(super) fresh: Vec<PvId>,
    pub(super) reply: Reply,
}

/// PVs that a request names, one bit for each: their numbers are small.
#[derive(Default)]
struct Seen(Vec<u64>);

impl Seen {
    /// Adds a PV; returns whether it is new.
    fn insert(&mut self, id: PvId) -> bool {
        let (word, bit) = (id.index() / 64, 1 << (id.index() % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn remove(&mut self, id: PvId) {
        self.0[id.index() / 64] &= !(1 << (id.index() % 64));
    }
}

/// A client's use of its limits while its request to subscribe is carried out, PV by PV.
struct Subscriber<'a> {
    limits: SubscriptionLimits,
    table: &'a Table,
    before: Arc<PvSet>,
    /// Its PVs, those of the request included.
    wanted: Vec<PvId>,
    /// Elements per second of its simulated PVs.
    load: u64,
    /// Whether it may search for further names. Determined when needed, because most requests name
    /// only known PVs.
    may_search: Option<bool>,
}

/// A refused PV: why, and whether its monitor is closed at once.
struct Refusal {
    problem: NameProblem,
    message: String,
    discard: bool,
}

impl Subscriber<'_> {
    fn state(&self, id: PvId) -> ConnectionState {
        self.table.entry(id).connection.state
    }

    fn is_known(&self, id: PvId) -> bool {
        let state = self.state(id);
        matches!(
            state,
            ConnectionState::Connected | ConnectionState::Disconnected
        )
    }

    fn may_search(&mut self) -> bool {
        if let Some(known) = self.may_search {
            return known;
        }
        let most = self.limits.unresolved;
        let not_found = |id: &&PvId| self.state(**id) == ConnectionState::NotFound;
        let unresolved = self.before.ids().iter().filter(not_found).take(most);
        *self.may_search.insert(unresolved.count() < most)
    }

    /// Adds a PV that makes `load` elements per second.
    fn add(&mut self, id: PvId, load: u64) -> Result<(), Refusal> {
        let SubscriptionLimits {
            subscriptions,
            unresolved,
            load: most,
        } = self.limits;
        if self.wanted.len() >= subscriptions {
            return Err(Refusal {
                problem: NameProblem::TooManySubscriptions,
                message: format!("a client may subscribe {subscriptions} PVs"),
                discard: false,
            });
        }
        let refused = |message| Refusal {
            problem: NameProblem::TooManyPvs,
            message,
            discard: true,
        };
        if !self.is_known(id) && !self.may_search() {
            return Err(refused(format!(
                "{unresolved} of your names are not found, and this one isn't known: unsubscribe \
                 some first (max_unresolved)"
            )));
        }
        if load > 0 && self.load + load > most {
            return Err(refused(too_much_load(self.load + load, most)));
        }
        self.wanted.push(id);
        self.load += load;
        Ok(())
    }
}

impl Distributor {
    /// Subscribes the PVs that the client may have and releases the others.
    pub(super) fn subscribe(
        &mut self,
        client: ClientId,
        mut ids: Vec<PvId>,
        mut errors: Vec<NameError>,
        table: &Table,
        now: Now,
    ) -> Subscribed {
        let before = self.groups.set_of(client);
        let has_new = held(&ids).any(|id| !before.contains(id));
        let loads = if has_new {
            self.registry.loads(&ids)
        } else {
            vec![0; ids.len()]
        };
        let is_bounded = loads.iter().any(|load| *load > 0);
        let mut subscriber = Subscriber {
            limits: self.limits,
            table,
            wanted: before.ids().to_vec(),
            before: Arc::clone(&before),
            load: self.load_of(client, &loads),
            may_search: None,
        };
        let (mut fresh, mut seen) = (Vec::with_capacity(ids.len()), Seen::default());
        let (mut surplus, mut discarded) = (Vec::new(), Vec::new());
        for (index, (id, load)) in ids.iter_mut().zip(loads).enumerate() {
            if *id == PvId::NONE {
                continue;
            }
            let is_first = seen.insert(*id);
            if before.contains(*id) || !is_first {
                surplus.push(*id);
                if is_first {
                    fresh.push(*id);
                }
                continue;
            }
            match subscriber.add(*id, load) {
                Ok(()) => fresh.push(*id),
                Err(refusal) => {
                    // The request may name it again, and is refused again.
                    seen.remove(*id);
                    // The next sweep comes at once, because other clients may need the load of the
                    // discarded PV.
                    if refusal.discard && load > 0 {
                        self.next_sweep = None;
                    }
                    let back = [&mut surplus, &mut discarded];
                    back[usize::from(refusal.discard)].push(*id);
                    *id = PvId::NONE;
                    errors.push(NameError {
                        index: index as u32,
                        problem: refusal.problem,
                        message: refusal.message,
                    });
                }
            }
        }
        self.registry.release(surplus, now.instant);
        self.registry.discard(discarded, now.instant);
        let group = if subscriber.wanted.len() == before.len() {
            self.groups.group_of(client)
        } else {
            self.groups.regroup(client, PvSet::new(subscriber.wanted))
        };
        let is_plain = before.is_empty() && !is_bounded && fresh.len() == ids.len();
        let joined = group.filter(|_| is_plain);
        Subscribed {
            group,
            joined: joined.map(|number| (number, self.groups.set_of(client))),
            fresh,
            reply: Reply::Subscribed { ids, errors },
        }
    }

    /// Elements per second of the simulated PVs that a client has or waits for; 0 when its request adds none,
    /// as `loads` says.
    pub(super) fn load_of(&self, client: ClientId, loads: &[u64]) -> u64 {
        if loads.iter().all(|load| *load == 0) {
            return 0;
        }
        let gets = self.gets.iter().filter(|get| get.client == client);
        let mut ids = self.groups.set_of(client).ids().to_vec();
        ids.extend(gets.flat_map(|get| held(&get.ids)));
        self.registry.loads(&ids).iter().sum()
    }

    /// Ends subscriptions; returns the client's group.
    pub(super) fn unsubscribe(
        &mut self,
        client: ClientId,
        ids: &[PvId],
        now: Now,
    ) -> Option<usize> {
        let before = self.groups.set_of(client);
        let subscribed = ids.iter().copied().filter(|id| before.contains(*id));
        let ended = PvSet::new(subscribed.collect());
        if ended.is_empty() {
            return self.groups.group_of(client);
        }
        let kept = before.ids().iter().copied();
        let kept = kept.filter(|id| !ended.contains(*id)).collect();
        self.registry
            .release(ended.ids().iter().copied(), now.instant);
        self.groups.regroup(client, PvSet::new(kept))
    }

    /// Releases everything that a client held.
    pub(super) fn forget(&mut self, client: ClientId, now: Now) {
        let set = self.groups.set_of(client);
        self.groups.regroup(client, PvSet::default());
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

/// Why a simulated PV is refused.
pub(super) fn too_much_load(load: u64, most: u64) -> String {
    format!(
        "with this PV your simulated PVs make {load} elements a second, and one client's may make \
         {most}: unsubscribe some first"
    )
}
