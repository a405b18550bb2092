//! Who gets which bytes of a tick?
//!
//! Clients with the same set of PVs form a group; its frame is encoded once per tick however many
//! they are. A group of one is left to the client's shard, so that private frames are made on all
//! cores. Subscriptions, gets and catching up are answered here too, between two ticks, so that an
//! answer and the frames around it fit each other.

mod access_check;
mod gets;
mod groups;
mod overview;
mod subscriptions;

use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{FrameKind, PvId, Reply, SkipCause};
use slab::Slab;

use self::access_check::Judge;
use self::gets::PendingGet;
use self::groups::Group;
use crate::fanout::control::{ClientId, ControlQueue, Demand};
use crate::fanout::dirty::Dirty;
use crate::fanout::flat::FrameMaker;
use crate::fanout::frame::Frame;
use crate::fanout::large::{LargeValue, LargeValues};
use crate::fanout::output::{FrameSink, GroupFrame, Order, TickFrames};
use crate::fanout::set::PvSet;
use crate::limits::subscriptions::SubscriptionLimits;
use crate::state::registry::Registry;
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// How often monitors that nobody holds are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A frame that brings clients up to date, and the large values that it leaves out.
type CatchUp = (Arc<Frame>, Arc<[Arc<LargeValue>]>);

/// The stage between ticks and shards.
pub struct Distributor {
    control: Arc<ControlQueue>,
    registry: Arc<Registry>,
    shards: Vec<Box<dyn FrameSink>>,
    limits: SubscriptionLimits,
    collected: Vec<Demand>,
    members: HashMap<ClientId, usize>,
    groups: Slab<Group>,
    by_set: HashMap<Arc<PvSet>, usize>,
    gets: Vec<PendingGet>,
    /// Some gets have all they wait for, and wait for the next tick.
    has_gets: bool,
    maker: FrameMaker,
    large: LargeValues,
    next_sweep: Option<Instant>,
    judge: Judge,
}

impl Distributor {
    /// A stage without clients.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(
        control: Arc<ControlQueue>,
        registry: Arc<Registry>,
        shards: Vec<Box<dyn FrameSink>>,
        limits: SubscriptionLimits,
    ) -> io::Result<Self> {
        Ok(Self {
            judge: Judge::start(Arc::clone(&registry), Arc::clone(&control))?,
            control,
            registry,
            shards,
            limits,
            collected: Vec::new(),
            members: HashMap::new(),
            groups: Slab::new(),
            by_set: HashMap::new(),
            gets: Vec::new(),
            has_gets: false,
            maker: FrameMaker::default(),
            large: LargeValues::default(),
            next_sweep: None,
        })
    }

    /// Whether a client subscribes, or waits for, one of these PVs.
    fn holds_any(&self, client: ClientId, pvs: &PvSet) -> bool {
        let mut gets = self.gets.iter().filter(|get| get.client == client);
        self.set_of(client).meets(pvs) || gets.any(|get| held(&get.ids).any(|id| pvs.contains(id)))
    }

    fn fulfil(&mut self, table: &Table, now: Now, tick: u64) -> Vec<Vec<Order>> {
        let mut orders: Vec<Vec<Order>> = Vec::new();
        orders.resize_with(self.shards.len(), Vec::new);
        // Clients of one group that fell behind together are caught up by the same bytes.
        let mut catch_ups: HashMap<(usize, bool, u64, SkipCause), CatchUp> = HashMap::new();
        for demand in mem::take(&mut self.collected) {
            match demand {
                Demand::Subscribe {
                    client,
                    request,
                    ids,
                    errors,
                } => {
                    let (group, fresh, reply) = self.subscribe(client, ids, errors, table, now);
                    let parts = (table, fresh.as_slice());
                    let frame = self.maker.packing(client.lz4).reply_with(
                        FrameKind::Snapshot,
                        tick,
                        request,
                        &reply,
                        parts,
                    );
                    let frame = Arc::new(frame);
                    let large = self.large.changed(table, &fresh, 0);
                    orders[client.shard].push(Order::Answer {
                        client,
                        frame,
                        large,
                    });
                    orders[client.shard].push(Order::Regroup { client, group });
                }
                Demand::Unsubscribe {
                    client,
                    request,
                    ids,
                } => {
                    let group = self.unsubscribe(client, &ids, now);
                    let frame = self
                        .maker
                        .answer(tick, request, &Reply::Unsubscribed { ids });
                    let (frame, large) = (Arc::new(frame), Arc::default());
                    orders[client.shard].push(Order::Answer {
                        client,
                        frame,
                        large,
                    });
                    orders[client.shard].push(Order::Regroup { client, group });
                }
                Demand::Get {
                    client,
                    request,
                    ids,
                    described,
                    errors,
                    deadline,
                    timeout,
                    owner,
                } => {
                    let get = PendingGet {
                        client,
                        request,
                        ids,
                        described,
                        errors,
                        deadline,
                        timeout,
                        owner,
                        describe_until: None,
                    };
                    self.get(get, now);
                }
                Demand::CatchUp {
                    client,
                    since,
                    cause,
                } => {
                    let group = self.members.get(&client).copied();
                    let key = (group.unwrap_or(usize::MAX), client.lz4, since, cause);
                    let (frame, large) = match catch_ups.get(&key) {
                        Some(made) => made.clone(),
                        None => {
                            let set = self.set_of(client);
                            let behind = (since, cause);
                            let maker = self.maker.packing(client.lz4);
                            let frame = Arc::new(maker.catch_up(table, &set, behind, tick));
                            let made = (frame, self.large.changed(table, set.ids(), since));
                            catch_ups.insert(key, made.clone());
                            made
                        }
                    };
                    orders[client.shard].push(Order::CaughtUp {
                        client,
                        frame,
                        large,
                        tick,
                    });
                }
                Demand::Recheck { client, identity } => self.judge.ask(client, identity),
                Demand::Judged { client, denied } => {
                    if self.holds_any(client, &denied) {
                        orders[client.shard].push(Order::Refuse { client });
                    }
                }
                Demand::Leave { client } => self.forget(client, now),
                Demand::Peek { pv, answer } => {
                    let entry = table.get(pv);
                    (answer.0)(
                        entry.and_then(|entry| entry.latest.as_ref().map(|latest| &latest.value)),
                    );
                }
                Demand::Inspect { limit, answer } => {
                    // Whoever asked may have gone in the meantime.
                    let _ = answer.send(self.overview(table, limit));
                }
            }
        }
        orders
    }
}

impl TickSink for Distributor {
    fn has_work(&self) -> bool {
        self.has_gets || !self.control.queue.is_empty()
    }

    fn round(&self) -> Duration {
        self.shards
            .iter()
            .map(|shard| shard.round())
            .max()
            .unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_ready())
    }

    fn collect(&mut self) {
        while let Some(demand) = self.control.queue.pop() {
            self.collected.push(demand);
        }
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, now: Now) {
        let mut changes = Arc::clone(changes);
        let tick = changes.tick;
        let large = self.large.of_tick(table, &mut changes);
        let groups = self.group_frames(&changes);
        let mut orders = self.fulfil(table, now, tick);
        self.answer_gets(table, now, tick, &mut orders);
        if self.next_sweep.is_none_or(|at| now.instant >= at) {
            self.next_sweep = Some(now.instant + SWEEP_EVERY);
            self.registry.sweep(now.instant);
            self.large.sweep();
        }
        let idle = groups
            .iter()
            .all(|frame| matches!(frame, GroupFrame::Nothing));
        let gathers = |frame: &&GroupFrame| matches!(frame, GroupFrame::Gather(_));
        // For one set to look at all rows costs less than to sort them.
        let dirty = (groups.iter().filter(gathers).count() > 1).then(|| Dirty::new(&changes.rows));
        let frames = Arc::new(TickFrames {
            tick,
            changes,
            dirty,
            large,
            groups,
        });
        for (shard, orders) in self.shards.iter().zip(orders) {
            if !idle || !orders.is_empty() {
                shard.deliver(&frames, orders);
            }
        }
    }
}

fn held(ids: &[PvId]) -> impl Iterator<Item = PvId> + '_ {
    ids.iter().copied().filter(|id| *id != PvId::NONE)
}
