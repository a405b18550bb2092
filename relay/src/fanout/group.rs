//! Who gets which bytes of a tick?
//!
//! Clients with the same set of PVs form a group; its frame is encoded once per tick however many
//! they are. A group of one is left to the client's shard, so that private frames are made on all
//! cores. Subscriptions, gets and catching up are answered here too, between two ticks, so that an
//! answer and the frames around it fit each other.

mod judge;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use pvwire_schema::types::{
    ConnectionState, FrameKind, NameError, NameProblem, PvId, Reply, SkipCause,
};
use slab::Slab;

use self::judge::Judge;
use crate::access::rule::Identity;
use crate::fanout::dirty::Dirty;
use crate::fanout::frame::{Frame, FrameMaker};
use crate::fanout::large::{LargeValue, LargeValues};
use crate::fanout::set::PvSet;
use crate::ingest::{Intake, RowValue};
use crate::limits::memory::Owner;
use crate::limits::subscriptions::SubscriptionLimits;
use crate::state::registry::Registry;
use crate::state::table::{Changes, MAX_VALUE_BYTES, Now, Table, bytes_of};
use crate::state::tick::TickSink;

/// How often monitors that nobody holds are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// After so many bytes were copied into answers to gets, the other gets wait for the next tick: to copy more
/// would hold up everybody's updates.
const GET_BYTES_PER_TICK: usize = 8 << 20;

/// How long a get waits for descriptions after it has everything else: longer than an IOC takes to
/// answer, and short for the servers that have none.
const DESCRIPTION_WAIT: Duration = Duration::from_secs(2);

/// A client, as its shard knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Which shard.
    pub shard: usize,
    /// Its place there.
    pub place: usize,
    /// Tells it from clients that had the place before.
    pub generation: u64,
    /// It wants columns packed.
    pub lz4: bool,
}

/// Is told the latest value of a PV, if there is one.
pub struct Peeked(pub Box<Peek>);

type Peek = dyn FnOnce(Option<&RowValue>) + Send;

impl fmt::Debug for Peeked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Peeked")
    }
}

/// What a shard wants of this stage, on behalf of a client.
#[derive(Debug)]
pub enum Demand {
    /// These PVs from now on. `ids` are acquired, one per name, `NONE` where there is an error.
    Subscribe {
        /// Who.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
        /// Names that were refused.
        errors: Vec<NameError>,
    },
    /// These no longer.
    Unsubscribe {
        /// Who.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
    },
    /// These once. `ids` as in `Subscribe`.
    Get {
        /// Who.
        client: ClientId,
        /// The request's number.
        request: u32,
        /// The PVs.
        ids: Vec<PvId>,
        /// Those of them whose description is wanted and comes apart from the metadata.
        described: Vec<PvId>,
        /// Names that were refused.
        errors: Vec<NameError>,
        /// When to stop waiting for first values.
        deadline: Instant,
        /// As the client asked, for the message.
        timeout: Duration,
        /// Whom the answer is charged to.
        owner: Arc<Owner>,
    },
    /// All that changed since a tick, in one frame.
    CatchUp {
        /// Who.
        client: ClientId,
        /// The last tick that the client is in step with.
        since: u64,
        /// Why it is so far back.
        cause: SkipCause,
    },
    /// Whether the client may still read all that it has.
    Recheck {
        /// Which client.
        client: ClientId,
        /// Who it is.
        identity: Arc<Identity>,
    },
    /// What a client may not read, by the rules that hold now.
    Judged {
        /// Which client.
        client: ClientId,
        /// The PVs.
        denied: Arc<PvSet>,
    },
    /// The client is gone.
    Leave {
        /// Who.
        client: ClientId,
    },
    /// What is going on, for the status page.
    Inspect {
        /// Most PVs to list.
        limit: usize,
        /// Where the answer goes.
        answer: tokio::sync::oneshot::Sender<Overview>,
    },
    /// The latest value of a PV that is held.
    Peek {
        /// The PV.
        pv: PvId,
        /// Learns it.
        answer: Peeked,
    },
}

/// What is going on.
#[derive(Debug, Default)]
pub struct Overview {
    /// PVs in each connection state.
    pub connecting: usize,
    /// See `connecting`.
    pub not_found: usize,
    /// See `connecting`.
    pub connected: usize,
    /// See `connecting`.
    pub disconnected: usize,
    /// Different sets of PVs that clients hold.
    pub groups: usize,
    /// The first PVs by name: name, state, clients that hold it, updates in its present epoch.
    pub pvs: Vec<(Arc<str>, ConnectionState, usize, u32)>,
}

/// Where shards leave their demands.
#[derive(Debug)]
pub struct ControlQueue {
    queue: SegQueue<Demand>,
    intake: Arc<Intake>,
}

impl ControlQueue {
    /// An empty control, whose demands wake the tick thread.
    #[must_use]
    pub fn new(intake: Arc<Intake>) -> Arc<Self> {
        Arc::new(Self {
            queue: SegQueue::new(),
            intake,
        })
    }

    /// Leaves a demand. What a client may have open at a time is bounded by its session.
    pub fn leave(&self, demand: Demand) {
        self.queue.push(demand);
        self.intake.wake();
    }
}

/// What a group gets of one tick.
#[derive(Clone, Debug)]
pub enum GroupFrame {
    /// Nothing changed for it, or there is no such group.
    Nothing,
    /// The same bytes for all its members, and then the large values of this set.
    Shared(Forms, Arc<PvSet>),
    /// Its one member's shard makes the frame; large values follow as well.
    Gather(Arc<PvSet>),
}

/// One frame in the forms that somebody wants.
#[derive(Clone, Debug, Default)]
pub struct Forms {
    /// As it is.
    plain: Option<Arc<Frame>>,
    /// With packed columns.
    lz4: Option<Arc<Frame>>,
}

impl Forms {
    /// The form for this client; `None` when nobody of its kind was there.
    #[must_use]
    pub fn of(&self, client: ClientId) -> Option<&Arc<Frame>> {
        if client.lz4 { &self.lz4 } else { &self.plain }.as_ref()
    }
}

/// One tick as the shards get it.
#[derive(Debug)]
pub struct TickFrames {
    /// Number of the tick.
    pub tick: u64,
    /// What it brought.
    pub changes: Arc<Changes>,
    /// Its rows by PV, when several groups gather theirs.
    pub dirty: Option<Dirty>,
    /// The updates that travel in frames of their own, in order.
    pub large: Vec<Arc<LargeValue>>,
    /// By group number.
    pub groups: Vec<GroupFrame>,
}

/// What a shard must do for one client, after the tick's frames.
#[derive(Debug)]
pub enum Order {
    /// Send this answer, which brings the client's newest PVs (or nothing) to the tick.
    Answer {
        /// To whom.
        client: ClientId,
        /// The bytes.
        frame: Arc<Frame>,
        /// Large values that it leaves out, which are to follow it.
        large: Arc<[Arc<LargeValue>]>,
    },
    /// From the next tick on the client is in this group, or in none.
    Regroup {
        /// Who.
        client: ClientId,
        /// Its group's number.
        group: Option<usize>,
    },
    /// Send this; then the client is in step with the tick again.
    CaughtUp {
        /// To whom.
        client: ClientId,
        /// The bytes.
        frame: Arc<Frame>,
        /// Large values that it leaves out, which are to follow it.
        large: Arc<[Arc<LargeValue>]>,
        /// The tick.
        tick: u64,
    },
    /// Close it: it has a PV that it may not read any more.
    Refuse {
        /// Who.
        client: ClientId,
    },
}

impl Order {
    /// Whom it concerns.
    #[must_use]
    pub fn client(&self) -> ClientId {
        match self {
            Self::Answer { client, .. }
            | Self::Regroup { client, .. }
            | Self::CaughtUp { client, .. }
            | Self::Refuse { client } => *client,
        }
    }
}

/// A shard as this stage sees it.
pub trait FrameSink: Send {
    /// Takes one tick: frames first, orders after. Never waits.
    fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>);

    /// Whether it has done all but the last delivery.
    fn is_ready(&self) -> bool;

    /// How long its last round of writing took.
    fn round(&self) -> Duration;
}

struct Group {
    set: Arc<PvSet>,
    members: usize,
    /// Those of them that want columns packed.
    packed: usize,
    /// Tick of its last shared frame; 0 when the last one was none.
    last_tick: u64,
}

/// A frame that brings clients up to date, and the large values that it leaves out.
type CatchUp = (Arc<Frame>, Arc<[Arc<LargeValue>]>);

struct PendingGet {
    client: ClientId,
    request: u32,
    ids: Vec<PvId>,
    /// Those of them whose description is waited for.
    described: Vec<PvId>,
    errors: Vec<NameError>,
    deadline: Instant,
    timeout: Duration,
    owner: Arc<Owner>,
    /// When to stop waiting for descriptions, once nothing else is.
    describe_until: Option<Instant>,
}

impl PendingGet {
    /// Whether descriptions are still to be waited for, when everything else is there.
    fn waits_for_description(&mut self, table: &Table, now: Now) -> bool {
        let is_open =
            |id: &PvId| table.entry(*id).is_complete() && !table.entry(*id).is_described();
        if !self.described.iter().any(is_open) {
            return false;
        }
        let until = *(self.describe_until).get_or_insert(now.instant + DESCRIPTION_WAIT);
        now.instant < until
    }
}

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

    /// Encodes what each group gets.
    fn group_frames(&mut self, changes: &Changes) -> Vec<GroupFrame> {
        let numbers = self
            .groups
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0);
        let mut frames = vec![GroupFrame::Nothing; numbers];
        if changes.is_empty() {
            return frames;
        }
        for (number, group) in &mut self.groups {
            frames[number] = if group.members == 1 {
                group.last_tick = 0;
                GroupFrame::Gather(Arc::clone(&group.set))
            } else {
                let mut make = |packing: bool| {
                    let maker = self.maker.packing(packing);
                    let frame = maker.update(changes, &group.set, group.last_tick);
                    frame.map(Arc::new)
                };
                let plain = (group.packed < group.members).then(|| make(false));
                let lz4 = (group.packed > 0).then(|| make(true));
                let (plain, lz4) = (plain.flatten(), lz4.flatten());
                if plain.is_none() && lz4.is_none() {
                    GroupFrame::Nothing
                } else {
                    group.last_tick = changes.tick;
                    GroupFrame::Shared(Forms { plain, lz4 }, Arc::clone(&group.set))
                }
            };
        }
        frames
    }

    /// Whether a client subscribes, or waits for, one of these PVs.
    fn holds_any(&self, client: ClientId, pvs: &PvSet) -> bool {
        let mut gets = self.gets.iter().filter(|get| get.client == client);
        self.set_of(client).meets(pvs) || gets.any(|get| held(&get.ids).any(|id| pvs.contains(id)))
    }

    fn set_of(&self, client: ClientId) -> Arc<PvSet> {
        let group = self
            .members
            .get(&client)
            .map(|number| &self.groups[*number]);
        group
            .map(|group| Arc::clone(&group.set))
            .unwrap_or_default()
    }

    /// Moves a client to the group of `set`; says which that is.
    fn regroup(&mut self, client: ClientId, set: PvSet) -> Option<usize> {
        if let Some(number) = self.members.remove(&client) {
            let group = &mut self.groups[number];
            group.members -= 1;
            group.packed -= usize::from(client.lz4);
            if group.members == 0 {
                let group = self.groups.remove(number);
                self.by_set.remove(&group.set);
            }
        }
        if set.is_empty() {
            return None;
        }
        let number = match self.by_set.get(&set) {
            Some(number) => *number,
            None => {
                let set = Arc::new(set);
                let group = Group {
                    set: Arc::clone(&set),
                    members: 0,
                    packed: 0,
                    last_tick: 0,
                };
                let number = self.groups.insert(group);
                self.by_set.insert(set, number);
                number
            }
        };
        self.groups[number].members += 1;
        self.groups[number].packed += usize::from(client.lz4);
        self.members.insert(client, number);
        Some(number)
    }

    fn subscribe(
        &mut self,
        client: ClientId,
        mut ids: Vec<PvId>,
        mut errors: Vec<NameError>,
        table: &Table,
        now: Now,
    ) -> (Option<usize>, Vec<PvId>, Reply) {
        let before = self.set_of(client);
        let state = |id: PvId| table.entry(id).channel.state;
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
    fn load_of(&self, client: ClientId, loads: &[u64]) -> u64 {
        if loads.iter().all(|load| *load == 0) {
            return 0;
        }
        let gets = self.gets.iter().filter(|get| get.client == client);
        let mut ids = self.set_of(client).ids().to_vec();
        ids.extend(gets.flat_map(|get| held(&get.ids)));
        self.registry.loads(&ids).iter().sum()
    }

    /// Keeps a get that waits for first values, without the PVs that are too much for its client.
    fn get(&mut self, mut get: PendingGet, now: Now) {
        let loads = self.registry.loads(&get.ids);
        let mut load = self.load_of(get.client, &loads);
        let mut surplus = Vec::new();
        for (index, (id, more)) in get.ids.iter_mut().zip(loads).enumerate() {
            if more > 0 && load + more > self.limits.load {
                surplus.push(std::mem::replace(id, PvId::NONE));
                get.errors.push(NameError {
                    index: index as u32,
                    problem: NameProblem::TooManyPvs,
                    message: too_much_load(load + more, self.limits.load),
                });
            } else {
                load += more;
            }
        }
        if !surplus.is_empty() {
            self.next_sweep = None;
        }
        self.registry.discard(surplus, now.instant);
        self.gets.push(get);
    }

    fn unsubscribe(&mut self, client: ClientId, ids: &[PvId], now: Now) -> Option<usize> {
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

    fn forget(&mut self, client: ClientId, now: Now) {
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

    /// Answers the gets that have all they wait for, or waited long enough.
    fn answer_gets(&mut self, table: &Table, now: Now, tick: u64, orders: &mut [Vec<Order>]) {
        let pending = mem::take(&mut self.gets);
        let mut copied = 0;
        self.has_gets = false;
        for mut get in pending {
            let complete = |id: PvId| table.entry(id).is_complete();
            let is_denied = |id: PvId| {
                let channel = table.entry(id).channel;
                channel.state == ConnectionState::Connected && !channel.read
            };
            let settled =
                |id: PvId| complete(id) || is_denied(id) || table.entry(id).missing().is_some();
            let all = held(&get.ids).all(settled) && !get.waits_for_description(table, now);
            if (!all && now.instant < get.deadline) || copied > GET_BYTES_PER_TICK {
                self.has_gets |= all;
                self.gets.push(get);
                continue;
            }
            self.registry.release(held(&get.ids), now.instant);
            let (mut told, mut room) = (HashSet::new(), MAX_VALUE_BYTES);
            let mut charge = get.owner.charge(0).ok();
            for (index, id) in get.ids.iter_mut().enumerate() {
                if *id != PvId::NONE && complete(*id) && told.insert(*id) {
                    let latest = table.entry(*id).latest.as_ref();
                    let bytes = latest.map_or(0, |latest| bytes_of(&latest.value));
                    let fits = match (room.checked_sub(bytes), &mut charge) {
                        (None, _) => Err(format!(
                            "the values have more than {MAX_VALUE_BYTES} bytes together: get fewer \
                             PVs at a time"
                        )),
                        (Some(rest), Some(charge)) if bytes > 0 => charge
                            .resize(charge.bytes() + bytes)
                            .map(|()| rest)
                            .map_err(|too_much| too_much.to_string()),
                        (Some(rest), _) => Ok(rest),
                    };
                    match fits {
                        Ok(rest) => room = rest,
                        Err(message) => {
                            told.remove(id);
                            get.errors.push(NameError {
                                index: index as u32,
                                problem: NameProblem::TooManyPvs,
                                message,
                            });
                            *id = PvId::NONE;
                        }
                    }
                }
                if *id != PvId::NONE && !complete(*id) {
                    let waited = get.timeout.as_millis();
                    let entry = table.entry(*id);
                    let timed_out = |message| (NameProblem::TimedOut, message);
                    let (problem, message) = match (entry.missing(), entry.channel.state) {
                        (Some(missing), _) => (NameProblem::NoSuchField, missing.to_owned()),
                        (None, ConnectionState::Connected) if is_denied(*id) => (
                            NameProblem::NotAllowed,
                            "no read access: the IOC doesn't let the relay read this PV".into(),
                        ),
                        (None, ConnectionState::Connected) => {
                            timed_out(format!("connected, but no value within {waited} ms"))
                        }
                        (None, ConnectionState::Disconnected) => timed_out("disconnected".into()),
                        (None, ConnectionState::Connecting | ConnectionState::NotFound) => {
                            timed_out(format!("not found within {waited} ms"))
                        }
                    };
                    get.errors.push(NameError {
                        index: index as u32,
                        problem,
                        message,
                    });
                    *id = PvId::NONE;
                }
            }
            let mut ids: Vec<PvId> = held(&get.ids).collect();
            ids.sort_unstable();
            ids.dedup();
            let reply = Reply::Got {
                ids: get.ids,
                errors: get.errors,
            };
            let parts = (table, ids.as_slice());
            let frame = self.maker.packing(get.client.lz4).reply_with(
                FrameKind::Answer,
                tick,
                get.request,
                &reply,
                parts,
            );
            copied += frame.copied();
            let frame = charge.into_iter().fold(frame, Frame::charged);
            let (client, frame) = (get.client, Arc::new(frame));
            let large = Arc::default();
            orders[client.shard].push(Order::Answer {
                client,
                frame,
                large,
            });
        }
    }

    fn overview(&self, table: &Table, limit: usize) -> Overview {
        let mut overview = Overview {
            groups: self.groups.len(),
            ..Overview::default()
        };
        for entry in (self.registry.open_pvs().into_iter()).filter_map(|id| table.get(id)) {
            *match entry.channel.state {
                ConnectionState::Connecting => &mut overview.connecting,
                ConnectionState::NotFound => &mut overview.not_found,
                ConnectionState::Connected => &mut overview.connected,
                ConnectionState::Disconnected => &mut overview.disconnected,
            } += 1;
        }
        if limit == 0 {
            return overview;
        }
        for (name, id, holders) in self.registry.list(limit) {
            let Some(entry) = table.get(id) else { continue };
            let updates = entry.latest.as_ref().map_or(0, |latest| latest.sequence);
            overview
                .pvs
                .push((name, entry.channel.state, holders, updates));
        }
        overview
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
        let tick = changes.tick;
        let mut changes = Arc::clone(changes);
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

fn too_much_load(load: u64, most: u64) -> String {
    format!(
        "with this PV your simulated PVs make {load} elements a second, and one client's may make \
         {most}: unsubscribe some first"
    )
}
