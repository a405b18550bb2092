//! The sink of the ticker that publishes the PVs that other relays want, as frames of the wire.
//!
//! A shard is a range of 1,024 PV numbers. Each tick that changes one of its published PVs gives one frame, and each
//! frame names the tick of the one before it, so that a relay that misses one finds the gap. Snapshots are published
//! to the shard as well, because only there their order among the updates is certain.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use prometheus_client::metrics::counter::Counter;
use pvwire_fleet::Bus;
use pvwire_schema::encode::FrameEncoder;
use pvwire_schema::types::{ConnectionState, FrameKind, PvId, Reply};

use super::counters::FleetCounters;
use crate::fanout::dirty::Dirty;
use crate::fanout::encoding::{Encoders, Encoding};
use crate::fanout::flat::{self, FrameMaker};
use crate::fanout::frame::Frame;
use crate::fanout::large::{LargeValue, LargeValues};
use crate::fanout::set::PvSet;
use crate::ingest::Intake;
use crate::state::table::{Changes, Entry, Now, Table};
use crate::state::tick::TickSink;

/// PV numbers of one shard.
pub(super) const SHARD_PVS: u32 = 1024;

/// In place of the tick of a shard's last message: the next message shows a gap, so that other relays ask for a
/// snapshot. Ticks begin at 1.
const BROKEN: u64 = 0;

/// How often a shard without updates shows that its owner lives, and that no message was lost.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The shard of a PV.
#[must_use]
pub(super) fn shard_of(pv: PvId) -> u16 {
    (pv.0 / SHARD_PVS) as u16
}

/// What the publisher shall do from the next tick on.
#[derive(Debug)]
enum Order {
    /// Publish PVs, once more for each time they are named.
    Watch(Vec<PvId>),
    /// Publish them once less. They are held until the order is given.
    Unwatch(Vec<PvId>),
    /// Publish everything that is known of these PVs.
    Snapshot(Vec<PvId>),
    /// Publish when the descriptions of these PVs are known, in each connection.
    Describe(Vec<PvId>),
}

/// Where orders to the publisher are put.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    queue: Arc<SegQueue<Order>>,
    intake: Arc<Intake>,
}

impl Orders {
    pub(super) fn new(intake: &Arc<Intake>) -> Self {
        Self {
            queue: Arc::default(),
            intake: Arc::clone(intake),
        }
    }

    fn push(&self, order: Order) {
        self.queue.push(order);
        self.intake.wake();
    }

    pub(super) fn watch(&self, pvs: Vec<PvId>) {
        self.push(Order::Watch(pvs));
    }

    pub(super) fn unwatch(&self, pvs: Vec<PvId>) {
        self.push(Order::Unwatch(pvs));
    }

    pub(super) fn snapshot(&self, pvs: Vec<PvId>) {
        self.push(Order::Snapshot(pvs));
    }

    pub(super) fn describe(&self, pvs: Vec<PvId>) {
        self.push(Order::Describe(pvs));
    }
}

/// The published PVs of one shard.
#[derive(Debug, Default)]
struct Shard {
    /// How many relays have asked for each PV.
    wanted: HashMap<PvId, u32>,
    set: PvSet,
    /// Tick of the last message, or [`BROKEN`].
    last: u64,
    /// PVs that are published once more, because the tick may disconnect them.
    leaving: Vec<PvId>,
    /// PVs of which a snapshot is due.
    snapshot: Vec<PvId>,
    /// `wanted` has changed since `set` was made.
    is_changed: bool,
}

impl Shard {
    /// Ends the publishing of PVs.
    fn leave(&mut self) {
        for pv in mem::take(&mut self.leaving) {
            if let Some(count) = self.wanted.get_mut(&pv) {
                *count -= 1;
                if *count == 0 {
                    self.wanted.remove(&pv);
                    self.is_changed = true;
                }
            }
        }
    }
}

/// The sink.
pub struct Publisher {
    bus: Arc<dyn Bus>,
    orders: Orders,
    shards: BTreeMap<u16, Shard>,
    maker: FrameMaker,
    encoder: FrameEncoder,
    large: LargeValues,
    encoders: Encoders,
    plain: Encoding,
    probed: Option<Instant>,
    /// PVs of which relays want the description.
    described: HashSet<PvId>,
    /// Those of them whose description was not yet published in this connection.
    undescribed: HashSet<PvId>,
    made: Counter,
    counters: Arc<FleetCounters>,
}

impl Publisher {
    pub(super) fn new(bus: Arc<dyn Bus>, orders: Orders, counters: Arc<FleetCounters>) -> Self {
        let encodings = flat::encodings();
        Self {
            bus,
            orders,
            shards: BTreeMap::new(),
            maker: FrameMaker::default(),
            encoder: FrameEncoder::new(),
            large: LargeValues::new(&encodings),
            encoders: encodings.encoders(),
            plain: encodings.all()[0],
            probed: None,
            described: HashSet::new(),
            undescribed: HashSet::new(),
            made: Counter::default(),
            counters,
        }
    }

    fn take(&mut self, order: Order) {
        let (Order::Watch(pvs) | Order::Unwatch(pvs) | Order::Snapshot(pvs) | Order::Describe(pvs)) =
            &order;
        for &pv in pvs {
            let shard = self.shards.entry(shard_of(pv)).or_default();
            match &order {
                Order::Watch(_) => {
                    *shard.wanted.entry(pv).or_default() += 1;
                    shard.is_changed = true;
                }
                Order::Unwatch(_) => shard.leaving.push(pv),
                Order::Snapshot(_) => {
                    shard.snapshot.push(pv);
                    if self.described.contains(&pv) {
                        self.undescribed.insert(pv);
                    }
                }
                Order::Describe(_) => {
                    self.described.insert(pv);
                    self.undescribed.insert(pv);
                }
            }
        }
    }

    /// What the tick brought for the published PVs.
    fn publish_changes(&mut self, table: &Table, changes: &Arc<Changes>) {
        let mut changes = Arc::clone(changes);
        let large = self.large.of_tick(table, &mut changes);
        let tick = changes.tick;
        let dirty = (self.shards.len() > 1).then(|| Dirty::new(&changes.rows));
        let out = Out(&*self.bus, &self.counters);
        for (number, shard) in &mut self.shards {
            let frame = (self.maker).gather(&changes, dirty.as_ref(), &shard.set, shard.last);
            let Some(frame) = frame else { continue };
            out.send(*number, frame);
            shard.last = tick;
            let wanted = large.iter().filter(|value| shard.set.contains(value.pv()));
            for value in wanted {
                let frame = large_frame(value, false, (self.plain, &mut self.encoders), &self.made);
                if !out.share(*number, &frame) {
                    shard.last = BROKEN;
                }
            }
        }
    }

    /// Everything that is known of the PVs that relays have newly asked for, or have missed updates of.
    fn publish_snapshots(&mut self, table: &Table, tick: u64) {
        let out = Out(&*self.bus, &self.counters);
        for (number, shard) in &mut self.shards {
            let mut ids = mem::take(&mut shard.snapshot);
            ids.retain(|pv| shard.wanted.contains_key(pv));
            ids.sort_unstable();
            ids.dedup();
            if ids.is_empty() {
                continue;
            }
            if shard.last != tick {
                // Updates go on after this tick.
                out.link(*number, &mut self.encoder, (tick, shard.last));
                shard.last = tick;
            }
            let errors = Vec::new();
            let reply = Reply::Subscribed {
                ids: ids.clone(),
                errors,
            };
            let parts = (table, ids.as_slice());
            let frame = (self.maker).reply_with(FrameKind::Snapshot, tick, 0, &reply, parts);
            out.send(*number, frame);
            self.counters.snapshots_out.fetch_add(1, Ordering::Relaxed);
            for value in &*self.large.changed(table, &ids, 0) {
                let frame = large_frame(value, true, (self.plain, &mut self.encoders), &self.made);
                if !out.share(*number, &frame) {
                    shard.last = BROKEN;
                }
            }
        }
    }

    /// Says which descriptions are known. A description is a part of the metadata, which doesn't tell an empty one
    /// from one that is still read.
    fn publish_described(&mut self, table: &Table, changes: &Changes) {
        if !self.described.is_empty() {
            let again = changes.connections.iter().map(|(pv, _)| *pv);
            let again = again.filter(|pv| self.described.contains(pv));
            self.undescribed.extend(again);
        }
        if self.undescribed.is_empty() {
            return;
        }
        let mut known = BTreeMap::<u16, Vec<PvId>>::new();
        self.undescribed.retain(|pv| {
            let entry = table.get(*pv);
            let is_known = entry.is_some_and(Entry::is_described);
            if is_known {
                known.entry(shard_of(*pv)).or_default().push(*pv);
            }
            let state = entry.map(|entry| entry.connection.state);
            // It is looked at again when it has connected.
            !is_known && state == Some(ConnectionState::Connected)
        });
        let out = Out(&*self.bus, &self.counters);
        for (shard, ids) in known {
            let errors = Vec::new();
            self.encoder.begin(FrameKind::Answer, changes.tick, 0);
            self.encoder.reply(0, &Reply::Got { ids, errors });
            out.message(shard, &mut self.encoder);
        }
    }

    fn probe(&mut self, now: Instant) {
        if (self.probed).is_some_and(|at| now.duration_since(at) < PROBE_EVERY) {
            return;
        }
        self.probed = Some(now);
        self.large.sweep();
        let shards = &self.shards;
        let is_wanted = |pv: &PvId| {
            let shard = shards.get(&shard_of(*pv));
            shard.is_some_and(|shard| shard.wanted.contains_key(pv))
        };
        self.described.retain(is_wanted);
        let out = Out(&*self.bus, &self.counters);
        for (number, shard) in &self.shards {
            let last = shard.last;
            out.link(*number, &mut self.encoder, (last, last));
        }
    }
}

fn large_frame(
    value: &LargeValue,
    is_first: bool,
    (plain, encoders): (Encoding, &mut Encoders),
    made: &Counter,
) -> Arc<Frame> {
    value.frame(is_first, plain, encoders, made)
}

/// The bus, with counters.
struct Out<'a>(&'a dyn Bus, &'a FleetCounters);

impl Out<'_> {
    /// Sends a frame that names its tick.
    fn send(&self, shard: u16, frame: Frame) {
        let _ = self.share(shard, &Arc::new(frame));
    }

    /// Returns false if the bus refuses the frame. The frame after one that names its tick shows the gap; a large
    /// value names none.
    fn share(&self, shard: u16, frame: &Arc<Frame>) -> bool {
        let pieces = frame.pieces();
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        let is_taken = self.0.publish(shard, &pieces);
        self.count(length);
        is_taken
    }

    /// An update without content, which says that nothing was published between two ticks.
    fn link(&self, shard: u16, encoder: &mut FrameEncoder, (tick, before): (u64, u64)) {
        encoder.begin(FrameKind::Update, tick, before);
        self.message(shard, encoder);
    }

    fn message(&self, shard: u16, encoder: &mut FrameEncoder) {
        let message = bytes::Bytes::copy_from_slice(encoder.finish());
        let length = message.len() as u64;
        self.0.publish(shard, &[message]);
        self.count(length);
    }

    fn count(&self, length: u64) {
        self.1.frames_out.fetch_add(1, Ordering::Relaxed);
        self.1.bytes_out.fetch_add(length, Ordering::Relaxed);
    }
}

impl TickSink for Publisher {
    fn has_work(&self) -> bool {
        !self.orders.queue.is_empty()
    }

    fn collect(&mut self) {
        while let Some(order) = self.orders.queue.pop() {
            self.take(order);
        }
        for shard in self.shards.values_mut() {
            if mem::take(&mut shard.is_changed) {
                shard.set = PvSet::new(shard.wanted.keys().copied().collect());
            }
        }
        self.shards.retain(|_, shard| !shard.wanted.is_empty());
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, now: Now) {
        if self.shards.is_empty() {
            return;
        }
        if !changes.is_empty() {
            self.publish_changes(table, changes);
        }
        self.publish_snapshots(table, changes.tick);
        self.publish_described(table, changes);
        self.shards.values_mut().for_each(Shard::leave);
        self.probe(now.instant);
    }
}
