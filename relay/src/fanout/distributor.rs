//! The fan-out stage: encodes each tick once per group and answers requests between two ticks.
//!
//! Clients with the same set of PVs form a group, whose frame is made once per tick and encoding. The frame
//! of a group with one member is made by that client's shard, so that private frames are made on all cores.
//! Subscriptions, gets and catch-ups are answered between two ticks, so that an answer fits the frames
//! before and after it.

mod access_check;
mod gets;
mod groups;
mod overview;
mod snapshots;
mod subscriptions;
mod turns;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{PvId, Reply, SkipCause};
use tokio::sync::oneshot;

use self::access_check::AccessCheck;
pub use self::gets::DESCRIPTION_WAIT;
use self::gets::PendingGet;
use self::groups::Groups;
use self::overview::LastOverview;
use self::snapshots::Snapshots;
use self::turns::{Fingerprint, LOOKUP_DISCOUNT, REGROUP_DISCOUNT, Turns};
use crate::fanout::control::{ClientId, ControlQueue, ControlRequest, Overview};
use crate::fanout::dirty::Dirty;
use crate::fanout::encoding::{Encoders, Encoding, Encodings};
use crate::fanout::frame::Frame;
use crate::fanout::large::{LargeValue, LargeValues};
use crate::fanout::output::{FrameSink, GroupFrame, Order, TickFrames};
use crate::fanout::set::PvSet;
use crate::limits::subscriptions::SubscriptionLimits;
use crate::state::registry::Registry;
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// Interval between searches for monitors without clients.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How often gets that wait for first values are checked while none comes.
const GETS_EVERY: Duration = Duration::from_millis(250);

/// A frame that brings clients up to date, and the large values that follow it.
type CatchUp = (Arc<Frame>, Arc<[Arc<LargeValue>]>);

/// The catch-ups of one tick. Clients of one group that fell behind together get the same bytes.
type CatchUps = HashMap<(Option<usize>, Encoding, u64, SkipCause), CatchUp>;

/// What the requests of one tick share.
#[derive(Default)]
struct Made {
    catch_ups: CatchUps,
    snapshots: Snapshots,
    /// The receivers of overviews, and how many PVs each lists.
    overviews: Vec<(usize, oneshot::Sender<Overview>)>,
}

/// The names that a request costs a tick. One that changes a client's set makes the whole set again, however few PVs it
/// names.
fn cost(request: &ControlRequest, fingerprint: Fingerprint, groups: &Groups, made: &Made) -> usize {
    let looked_up = |names: usize| names / LOOKUP_DISCOUNT + 1;
    let regrouped = |client: ClientId| groups.set_of(client).len() / REGROUP_DISCOUNT;
    match request {
        ControlRequest::Subscribe {
            client,
            ids,
            errors,
            ..
        } => {
            let snapshots = &made.snapshots;
            let answer = snapshots.cost(client.encoding, fingerprint, ids.len());
            answer + errors.len() + regrouped(*client)
        }
        ControlRequest::Get(get) => looked_up(get.ids.len()) + get.errors.len(),
        ControlRequest::Unsubscribe { client, ids, .. } => {
            looked_up(ids.len()) + regrouped(*client)
        }
        ControlRequest::CatchUp { client, .. } | ControlRequest::Forget { client } => {
            looked_up(groups.set_of(*client).len())
        }
        _ => 0,
    }
}

/// The stage between ticks and shards.
pub struct Distributor {
    control: Arc<ControlQueue>,
    registry: Arc<Registry>,
    shards: Vec<Box<dyn FrameSink>>,
    limits: SubscriptionLimits,
    turns: Turns,
    groups: Groups,
    gets: Vec<PendingGet>,
    /// Complete gets were left for the next tick.
    has_gets: bool,
    encoders: Encoders,
    large: LargeValues,
    next_sweep: Option<Instant>,
    /// Time that the last tick took for requests after its frames had been delivered.
    took: Duration,
    access_check: AccessCheck,
    last_overview: Option<LastOverview>,
}

impl Distributor {
    /// A stage without clients.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn new(
        control: Arc<ControlQueue>,
        registry: Arc<Registry>,
        shards: Vec<Box<dyn FrameSink>>,
        limits: SubscriptionLimits,
        encodings: &Encodings,
    ) -> io::Result<Self> {
        Ok(Self {
            access_check: AccessCheck::start(Arc::clone(&registry), Arc::clone(&control))?,
            control,
            registry,
            shards,
            limits,
            turns: Turns::default(),
            groups: Groups::new(encodings),
            gets: Vec::new(),
            has_gets: false,
            encoders: encodings.encoders(),
            large: LargeValues::new(encodings),
            next_sweep: None,
            took: Duration::ZERO,
            last_overview: None,
        })
    }

    /// Whether a client subscribes, or waits for, one of these PVs.
    fn holds_any(&self, client: ClientId, pvs: &PvSet) -> bool {
        let mut gets = self.gets.iter().filter(|get| get.client == client);
        self.groups.set_of(client).meets(pvs)
            || gets.any(|get| held(&get.ids).any(|id| pvs.contains(id)))
    }

    /// Carries out the requests whose turn it is; returns the orders for each shard.
    fn carry_out(&mut self, table: &Table, now: Now, tick: u64) -> Vec<Vec<Order>> {
        let mut orders: Vec<Vec<Order>> = Vec::new();
        orders.resize_with(self.shards.len(), Vec::new);
        self.turns.begin();
        // Gets that the last tick left and other requests come first in turn, because they share its work.
        if self.has_gets && tick.is_multiple_of(2) {
            self.answer_gets(table, now, tick, &mut orders);
        }
        self.take_turns(table, now, tick, &mut orders);
        self.answer_gets(table, now, tick, &mut orders);
        orders
    }

    /// Carries out requests of clients until the tick has done enough.
    fn take_turns(&mut self, table: &Table, now: Now, tick: u64, orders: &mut [Vec<Order>]) {
        let mut made = Made::default();
        loop {
            let cost = |request: &ControlRequest, fingerprint| {
                cost(request, fingerprint, &self.groups, &made)
            };
            let Some(request) = self.turns.next(cost) else {
                return self.answer_overviews(table, made.overviews, now.instant);
            };
            let ordered = self.order(request, table, now, tick, &mut made);
            for order in ordered.into_iter().flatten() {
                orders[order.client().shard].push(order);
            }
        }
    }

    /// Carries out one request.
    fn order(
        &mut self,
        request: ControlRequest,
        table: &Table,
        now: Now,
        tick: u64,
        made: &mut Made,
    ) -> [Option<Order>; 3] {
        match request {
            ControlRequest::Subscribe {
                client,
                request,
                ids,
                errors,
                owner,
            } => {
                let at = (table, now, tick);
                let asked = (client, request);
                return self.answer_subscribe(
                    asked,
                    (ids, errors),
                    &owner,
                    at,
                    &mut made.snapshots,
                );
            }
            ControlRequest::Unsubscribe {
                client,
                request,
                ids,
            } => {
                let group = self.unsubscribe(client, &ids, now);
                let encoder = self.encoders.of(client.encoding);
                let frame = encoder.answer(tick, request, &Reply::Unsubscribed { ids });
                let answer = Order::Answer {
                    client,
                    frame: Arc::new(frame),
                    large: Arc::default(),
                };
                return [Some(answer), Some(Order::Regroup { client, group }), None];
            }
            ControlRequest::Get(get) => self.get(PendingGet::from(*get), now),
            ControlRequest::CatchUp {
                client,
                since,
                cause,
            } => {
                let (frame, large) =
                    self.catch_up(client, (since, cause), table, tick, &mut made.catch_ups);
                let caught_up = Order::CaughtUp {
                    client,
                    frame,
                    large,
                    tick,
                };
                return [Some(caught_up), None, None];
            }
            ControlRequest::CheckAccess { client, identity } => {
                self.access_check.ask(client, identity);
            }
            ControlRequest::Denied { client, denied } => {
                let refuse = self.holds_any(client, &denied);
                return [refuse.then_some(Order::Refuse { client }), None, None];
            }
            ControlRequest::Forget { client } => self.forget(client, now),
            ControlRequest::Read(read) => read.run(table),
            ControlRequest::Sets { clients, answer } => {
                let sets = clients.iter().map(|client| self.groups.set_of(*client));
                // The receiver may be gone meanwhile.
                let _ = answer.send(sets.collect());
            }
            ControlRequest::Overview { limit, answer } => made.overviews.push((limit, answer)),
        }
        [None, None, None]
    }

    /// Everything that changed for a client since it was last in step.
    fn catch_up(
        &mut self,
        client: ClientId,
        (since, cause): (u64, SkipCause),
        table: &Table,
        tick: u64,
        made: &mut CatchUps,
    ) -> CatchUp {
        let group = self.groups.group_of(client);
        let key = (group, client.encoding, since, cause);
        let make = || {
            let set = self.groups.set_of(client);
            let encoder = self.encoders.of(client.encoding);
            let frame = encoder.catch_up(table, &set, (since, cause), tick);
            (Arc::new(frame), self.large.changed(table, set.ids(), since))
        };
        made.entry(key).or_insert_with(make).clone()
    }
}

impl TickSink for Distributor {
    fn has_work(&self) -> bool {
        self.has_gets || !self.turns.is_empty() || !self.control.queue.is_empty()
    }

    fn needs_tick_at(&self, now: Instant) -> Option<Instant> {
        let sweep = self.next_sweep.unwrap_or(now);
        if self.gets.is_empty() {
            return Some(sweep);
        }
        Some(sweep.min(now + GETS_EVERY))
    }

    fn round(&self) -> Duration {
        self.shards
            .iter()
            .map(|shard| shard.round())
            .max()
            .unwrap_or_default()
    }

    fn took_for_requests(&self) -> Duration {
        self.took
    }

    fn is_ready(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_ready())
    }

    fn collect(&mut self) {
        while let Some(request) = self.control.queue.pop() {
            if let ControlRequest::Forget { client } = request {
                let acquired = self.turns.withdraw(client);
                self.registry.release(acquired, Instant::now());
            }
            self.turns.push(request);
        }
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, now: Now) {
        let mut changes = Arc::clone(changes);
        let tick = changes.tick;
        let large = self.large.of_tick(table, &mut changes);
        for door in self.groups.doors() {
            self.encoders.of(door).begin(table, &changes, now);
        }
        let groups = self.groups.frames(&changes, &mut self.encoders);
        let idle = groups
            .iter()
            .all(|frame| matches!(frame, GroupFrame::Nothing));
        let gathers = |frame: &&GroupFrame| matches!(frame, GroupFrame::Gather(_));
        // For one set, a scan of all rows costs less than sorting them.
        let dirty = (groups.iter().filter(gathers).count() > 1).then(|| Dirty::new(&changes.rows));
        let frames = Arc::new(TickFrames {
            tick,
            changes,
            dirty,
            large,
            groups,
        });
        // Updates don't wait for what others have asked for.
        let has_requests = !self.turns.is_empty() || !self.gets.is_empty();
        let goes_first = !idle && has_requests;
        if goes_first {
            for shard in &self.shards {
                shard.deliver(&frames, Vec::new());
            }
        }
        let begun = goes_first.then(Instant::now);
        let orders = self.carry_out(table, now, tick);
        self.took = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        if self.next_sweep.is_none_or(|at| now.instant >= at) {
            let (_, is_more) = self.registry.sweep(now.instant);
            let rest = if is_more { Duration::ZERO } else { SWEEP_EVERY };
            self.next_sweep = Some(now.instant + rest);
            self.large.sweep();
            self.groups.sweep(table, &mut self.encoders);
        }
        for (shard, orders) in self.shards.iter().zip(orders) {
            if !goes_first && (!idle || !orders.is_empty()) {
                shard.deliver(&frames, orders);
            } else if !orders.is_empty() {
                shard.follow(tick, orders);
            }
        }
    }
}

/// The PVs of a request, without the names that were refused.
fn held(ids: &[PvId]) -> impl Iterator<Item = PvId> + '_ {
    ids.iter().copied().filter(|id| *id != PvId::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::flat;
    use crate::limits::memory::Owner;

    #[test]
    fn request_that_changes_a_large_set_costs_more_than_the_pv_that_it_names() {
        let mut groups = Groups::new(&flat::encodings());
        let client = |index| ClientId {
            shard: 0,
            index,
            generation: 1,
            encoding: Encoding::default(),
        };
        let set = |pvs| PvSet::new((0..pvs).map(PvId).collect());
        groups.regroup(client(1), set(20_000));
        groups.regroup(client(2), set(10));
        let ids = || vec![PvId(30_000)];
        let subscribe = |index| ControlRequest::Subscribe {
            client: client(index),
            request: 1,
            ids: ids(),
            errors: Vec::new(),
            owner: Owner::unlimited(),
        };
        let unsubscribe = |index| ControlRequest::Unsubscribe {
            client: client(index),
            request: 1,
            ids: ids(),
        };
        let cost = |request| cost(&request, 0, &groups, &Made::default());
        for (large, small) in [
            (cost(subscribe(1)), cost(subscribe(2))),
            (cost(unsubscribe(1)), cost(unsubscribe(2))),
        ] {
            assert!(large >= 300 && small <= 3, "{large} {small}");
        }
    }
}
