//! The PVs that other relays want from this one: it holds them for as long as they renew their interest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_fleet::{MemberId, Refusal, Refusals};
use pvwire_schema::types::PvId;

use super::edge::OwnerOf;
use super::message::{Grant, Granted, Interest};
use super::name_budget::NameBudget;
use super::publisher::{Orders, PUBLISHED_PVS};
use crate::limits::memory::{Memory, MemoryLimits, Owner};
use crate::limits::subscriptions::{FRESH_NAMES, NewNames};
use crate::state::registry::Registry;

/// The interest of a relay that says nothing for this time ends.
const LASTS: Duration = Duration::from_secs(15);

/// After this time other relays know that a PV is not published any more.
const LEAVES_AFTER: Duration = Duration::from_secs(2);

/// A relay that still follows a PV after it has moved to another owner is left after this time.
const FOLLOWS_AFTER_MOVE: Duration = Duration::from_secs(12);

/// Maximum number of PVs that one other relay can want.
const MOST_PVS: usize = 1_000_000;

/// What one relay wants.
struct Wants {
    /// The PVs, which the registry holds, with their keys.
    pvs: HashMap<PvId, String>,
    until: Instant,
    names: NameBudget,
}

impl Wants {
    /// Takes out the PVs that the relay no longer wants.
    fn leave(&mut self, interest: &Interest) -> Vec<PvId> {
        let mut dropped = Vec::new();
        if interest.reset {
            dropped.extend(self.pvs.drain().map(|(pv, _)| pv));
        }
        if let Some(keep) = &interest.keep {
            let keep: HashSet<u32> = keep.iter().copied().collect();
            let others = |pv: &PvId, _: &mut String| !keep.contains(&pv.0);
            dropped.extend(self.pvs.extract_if(others).map(|(pv, _)| pv));
        }
        let given_up = interest.drop.iter().copied().map(PvId);
        dropped.extend(given_up.filter(|pv| self.pvs.remove(pv).is_some()));
        dropped
    }
}

/// See the module.
pub(super) struct Interests {
    me: MemberId,
    registry: Arc<Registry>,
    orders: Orders,
    /// Pays for the memory of the PVs.
    owner: Arc<Owner>,
    relays: HashMap<MemberId, Wants>,
    /// Names without a server that one relay may want.
    max_unresolved: usize,
    refusals: Arc<Refusals>,
    /// [`MOST_PVS`], except in tests.
    pub(super) most_pvs: usize,
    /// PVs that have moved to another owner, until when they are published.
    moved: HashMap<(MemberId, PvId), Instant>,
    /// PVs that are not published any more, and when the hold on them ends.
    leaving: VecDeque<(Instant, Vec<PvId>)>,
}

impl Interests {
    pub(super) fn new(
        me: MemberId,
        registry: Arc<Registry>,
        orders: Orders,
        (max_unresolved, refusals): (usize, Arc<Refusals>),
    ) -> Self {
        Self {
            max_unresolved,
            refusals,
            me,
            registry,
            orders,
            // The relays of its clients have limited them.
            owner: Memory::new(MemoryLimits::NONE).owner("", None),
            relays: HashMap::new(),
            most_pvs: MOST_PVS,
            moved: HashMap::new(),
            leaving: VecDeque::new(),
        }
    }

    /// Does what another relay asks for.
    pub(super) fn requested(
        &mut self,
        from: MemberId,
        interest: &Interest,
        owner_of: OwnerOf<'_>,
        now: Instant,
    ) -> Granted {
        let until = now + LASTS;
        let relay = self.relays.entry(from).or_insert_with(|| Wants {
            pvs: HashMap::new(),
            until,
            names: NameBudget::new(self.max_unresolved),
        });
        relay.until = until;
        let dropped = relay.leave(interest);
        let ends = now + LEAVES_AFTER + self.registry.linger();
        if let Some(unresolved) = relay.names.leave(dropped.len(), ends) {
            self.orders.count(dropped.clone(), unresolved);
        }

        // As for a client: many names at once are searched separately.
        let is_crowd = interest.add.len() > FRESH_NAMES;
        let mut added = Vec::new();
        let mut too_many = 0;
        let mut grant = |name: &String| {
            let key = match self.registry.shared_key(name) {
                Ok(key) => key,
                Err(refusal) => return Grant::Refused(refusal.message),
            };
            if owner_of(&key) != Some(self.me) {
                return Grant::Elsewhere;
            }
            if relay.pvs.len() >= self.most_pvs {
                let why = format!(
                    "the relay that owns this PV shares at most {} PVs with one relay",
                    self.most_pvs
                );
                return Grant::Refused(why);
            }
            match relay.names.check(now) {
                Ok(()) => {}
                // It asks again in a moment, when it is known how many of the names servers have.
                Err(true) => return Grant::Elsewhere,
                Err(false) => {
                    too_many += 1;
                    return Grant::Refused(format!(
                        "the relay that owns this PV already searches for {} names for the relay of this client, \
                         and no server has them (max_unresolved)",
                        self.max_unresolved
                    ));
                }
            }
            let mut room = NewNames {
                fresh: usize::from(!is_crowd),
                new: 1,
            };
            match (self.registry).acquire_for_relay(name, &self.owner, &mut room) {
                Err(refusal) => Grant::Refused(refusal.message),
                Ok(pv) if pv.0 >= PUBLISHED_PVS => {
                    self.registry.release([pv], now);
                    let why = format!(
                        "the relay that owns this PV has more than {PUBLISHED_PVS} PVs open"
                    );
                    Grant::Refused(why)
                }
                Ok(pv) => {
                    // It may have moved away and come back.
                    self.moved.remove(&(from, pv));
                    if relay.pvs.insert(pv, key).is_none() {
                        relay.names.add();
                        added.push(pv);
                    } else {
                        self.registry.release([pv], now);
                    }
                    Grant::Held(pv.0)
                }
            }
        };
        let pvs: Vec<_> = interest.add.iter().map(&mut grant).collect();
        let held = relay.pvs.len();
        if !added.is_empty() {
            self.orders.watch(added);
        }
        if let Some(unresolved) = relay.names.count(now) {
            let pvs = relay.pvs.keys().copied().collect();
            self.orders.count(pvs, unresolved);
        }
        if too_many > 0 {
            let what = format_args!("the search for {too_many} names for relay {from}");
            self.refusals.note(Refusal::Budget, what);
        }
        self.release(dropped, now);
        let known = |ids: &[u32], relay: &Wants| {
            let ids = ids.iter().copied().map(PvId);
            ids.filter(|pv| relay.pvs.contains_key(pv))
                .collect::<Vec<_>>()
        };
        let relay = &self.relays[&from];
        let described = known(&interest.describe, relay);
        if !described.is_empty() {
            self.registry.describe(&described);
            self.orders.describe(described);
        }
        let due = known(&interest.snapshot, relay);
        if !due.is_empty() {
            self.orders.snapshot(due);
        }
        Granted { pvs, held }
    }

    /// This relay continues under another id.
    pub(super) fn rename(&mut self, me: MemberId) {
        self.me = me;
    }

    /// Ends the publishing of PVs, and a while later the hold on them: until then no other PV has their numbers.
    fn release(&mut self, pvs: Vec<PvId>, now: Instant) {
        if !pvs.is_empty() {
            self.orders.unwatch(pvs.clone());
            self.leaving.push_back((now + LEAVES_AFTER, pvs));
        }
    }

    /// Ends interest that was not renewed.
    pub(super) fn expire(&mut self, now: Instant) {
        let expired = self.relays.extract_if(|_, relay| relay.until <= now);
        let pvs = expired.flat_map(|(_, relay)| relay.pvs.into_keys());
        let mut pvs: Vec<_> = pvs.collect();
        for ((relay, pv), _) in self.moved.extract_if(|_, until| *until <= now) {
            let relay = self.relays.get_mut(&relay);
            pvs.extend(relay.and_then(|relay| relay.pvs.remove(&pv)).map(|_| pv));
        }
        self.release(pvs, now);
        while let Some((_, left)) = self.leaving.pop_front_if(|(at, _)| *at <= now) {
            self.registry.release(left, now);
        }
    }

    /// Ends interest in PVs that no relay owns any more. Those of another owner are published until each relay has
    /// moved them.
    pub(super) fn keep_owned(&mut self, owner_of: OwnerOf<'_>, now: Instant) {
        let mut lost = Vec::new();
        let until = now + FOLLOWS_AFTER_MOVE;
        for (from, relay) in &mut self.relays {
            let is_lost = |pv: &PvId, key: &mut String| {
                let owner = owner_of(key);
                let place = (*from, *pv);
                if owner == Some(self.me) || owner.is_none() {
                    self.moved.remove(&place);
                } else {
                    self.moved.entry(place).or_insert(until);
                }
                owner.is_none()
            };
            lost.extend(relay.pvs.extract_if(is_lost).map(|(pv, _)| pv));
        }
        self.release(lost, now);
    }

    /// Whether a live relay wants anything. A lost one can't say that it has found another owner.
    pub(super) fn are_live(&self, is_live: impl Fn(MemberId) -> bool) -> bool {
        let mut relays = self.relays.iter();
        relays.any(|(relay, wants)| !wants.pvs.is_empty() && is_live(*relay))
    }
}
