//! The sink of the ticker that publishes the PVs that other relays want, as frames of the wire.
//!
//! A shard is a range of 1,024 PV numbers. Each tick that changes one of its published PVs gives one frame, and each
//! frame names the tick of the one before it, so that a relay that misses one finds the gap. Snapshots are published
//! to the shard as well, because only there their order among the updates is certain.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_queue::SegQueue;
use prometheus_client::metrics::counter::Counter;
use pvwire_fleet::Bus;
use pvwire_schema::encode::FrameEncoder;
use pvwire_schema::types::{ConnectionState, FrameKind, PvId, Reply};

use super::counters::FleetCounters;
use super::name_budget::Unresolved;
use crate::fanout::encoding::{Encoders, Encoding};
use crate::fanout::flat::{self, FrameMaker};
use crate::fanout::frame::Frame;
use crate::fanout::large::{LargeValue, LargeValues};
use crate::fanout::set::PvSet;
use crate::ingest::Intake;
use crate::state::table::{ChangedRow, Changes, Entry, Now, Table};
use crate::state::tick::TickSink;

/// PV numbers of one shard.
pub(super) const SHARD_PVS: u32 = 1024;

/// In place of the tick of a shard's last message: the next message shows a gap, so that other relays ask for a
/// snapshot. Ticks begin at 1.
const BROKEN: u64 = 0;

/// A shard without a message for this time shows that its owner lives, and that no message was lost.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// Interval between searches for what is no longer in use.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// PVs with numbers from here on have no shard, and are not published.
pub(super) const PUBLISHED_PVS: u32 = SHARD_PVS << u16::BITS;

/// The shard of a PV with a number below [`PUBLISHED_PVS`].
#[must_use]
pub(super) fn shard_of(pv: PvId) -> u16 {
    (pv.0 / SHARD_PVS) as u16
}

/// What the publisher shall do from the next tick on.
#[derive(Debug)]
enum Order {
    /// Publish PVs, once more for each time they are named.
    Watch(Vec<PvId>),
    /// Decrements the PVs' publish count. The caller keeps the PVs until then.
    Unwatch(Vec<PvId>),
    /// Publish everything that is known of these PVs.
    Snapshot(Vec<PvId>),
    /// Publish when the descriptions of these PVs are known, in each connection.
    Describe(Vec<PvId>),
    /// Count those of these PVs that no server has.
    Count(Vec<PvId>, Unresolved),
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

    pub(super) fn count(&self, pvs: Vec<PvId>, unresolved: Unresolved) {
        self.push(Order::Count(pvs, unresolved));
    }
}

/// The published PVs of one shard.
#[derive(Debug, Default)]
struct Shard {
    /// Number of relays that requested each PV.
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
    /// When its last message was sent.
    sent: Option<Instant>,
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

/// The rows of one tick by shard: indices of rows that follow each other.
#[derive(Debug, Default)]
struct Runs(Vec<Vec<Range<usize>>>);

impl Runs {
    /// Finds the rows of the shards below `shards`.
    fn find(&mut self, rows: &[ChangedRow], shards: usize) {
        self.0.iter_mut().for_each(Vec::clear);
        self.0.resize_with(shards, Vec::new);
        let mut end = 0;
        // PVs that are not published have other numbers.
        let shard = |row: &ChangedRow| row.pv.0 / SHARD_PVS;
        for run in rows.chunk_by(|row, next| shard(row) == shard(next)) {
            let start = end;
            end += run.len();
            if let Some(runs) = self.0.get_mut(shard(&run[0]) as usize) {
                runs.push(start..end);
            }
        }
    }

    fn of(&self, shard: u16) -> &[Range<usize>] {
        self.0.get(usize::from(shard)).map_or(&[], Vec::as_slice)
    }
}

/// A message for the bus.
struct Message {
    shard: u16,
    segments: [Bytes; 3],
    /// It names no tick, so the message after it does not show that it is missing.
    is_large: bool,
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
    runs: Runs,
    out: Out,
    swept: Option<Instant>,
    /// PVs of which relays want the description.
    described: HashSet<PvId>,
    /// Those of them whose description was not yet published in this connection.
    undescribed: HashSet<PvId>,
    /// PVs of which those without a server are counted in the next tick.
    counts: Vec<(Vec<PvId>, Unresolved)>,
    made: Counter,
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
            runs: Runs::default(),
            out: Out::new(counters),
            swept: None,
            described: HashSet::new(),
            undescribed: HashSet::new(),
            counts: Vec::new(),
            made: Counter::default(),
        }
    }

    fn take(&mut self, order: Order) {
        let pvs = match &order {
            Order::Count(pvs, unresolved) => {
                return (self.counts).push((pvs.clone(), Arc::clone(unresolved)));
            }
            Order::Watch(pvs)
            | Order::Unwatch(pvs)
            | Order::Snapshot(pvs)
            | Order::Describe(pvs) => pvs,
        };
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
                Order::Count(..) => {}
            }
        }
    }

    /// What the tick brought for the published PVs.
    fn publish_changes(&mut self, table: &Table, changes: &Arc<Changes>) {
        let mut changes = Arc::clone(changes);
        let large = self.large.of_tick(table, &mut changes);
        let tick = changes.tick;
        let shards = (self.shards.keys().next_back()).map_or(0, |last| usize::from(*last) + 1);
        self.runs.find(&changes.rows, shards);
        let has_others = !(changes.metadata.is_empty() && changes.connections.is_empty());
        for (number, shard) in &mut self.shards {
            let runs = self.runs.of(*number);
            if runs.is_empty() && large.is_empty() && !has_others {
                continue;
            }
            let frame = (self.maker).update_of_runs(&changes, runs, &shard.set, shard.last);
            let Some(frame) = frame else { continue };
            self.out.frame(*number, frame);
            shard.last = tick;
            let wanted = large.iter().filter(|value| shard.set.contains(value.pv()));
            for value in wanted {
                let encoding = (self.plain, &mut self.encoders);
                self.out
                    .large(*number, large_frame(value, false, encoding, &self.made));
            }
        }
    }

    /// Snapshots of the PVs that relays have newly requested, or have missed updates of.
    fn publish_snapshots(&mut self, table: &Table, tick: u64) {
        for (number, shard) in &mut self.shards {
            let mut ids = mem::take(&mut shard.snapshot);
            ids.retain(|pv| shard.wanted.contains_key(pv));
            ids.sort_unstable();
            ids.dedup();
            if ids.is_empty() {
                continue;
            }
            if shard.last != tick {
                // Updates continue after this tick.
                self.out
                    .link(*number, &mut self.encoder, (tick, shard.last));
                shard.last = tick;
            }
            let errors = Vec::new();
            let reply = Reply::Subscribed {
                ids: ids.clone(),
                errors,
            };
            let parts = (table, ids.as_slice());
            let frame = (self.maker).reply_with(FrameKind::Snapshot, tick, 0, &reply, parts);
            self.out.frame(*number, frame);
            (self.out.counters.snapshots_out).fetch_add(1, Ordering::Relaxed);
            for value in &*self.large.changed(table, &ids, 0) {
                let encoding = (self.plain, &mut self.encoders);
                self.out
                    .large(*number, large_frame(value, true, encoding, &self.made));
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
            // It is handled when it has connected.
            !is_known && state == Some(ConnectionState::Connected)
        });
        for (shard, ids) in known {
            let errors = Vec::new();
            self.encoder.begin(FrameKind::Answer, changes.tick, 0);
            self.encoder.reply(0, &Reply::Got { ids, errors });
            self.out.message(shard, &mut self.encoder);
        }
    }

    /// Counts the PVs that no server has.
    fn count_unresolved(&mut self, table: &Table) {
        for (pvs, unresolved) in self.counts.drain(..) {
            let is_unresolved = |pv: &&PvId| {
                let state = table.get(**pv).map(|entry| entry.connection.state);
                !matches!(
                    state,
                    Some(ConnectionState::Connected | ConnectionState::Disconnected)
                )
            };
            // Each count has a separate slot.
            let _ = unresolved.set(pvs.iter().filter(is_unresolved).count());
        }
    }

    /// Sends an empty message to the shards that have had none for a while.
    fn probe(&mut self, now: Instant) {
        for message in &self.out.messages {
            if let Some(shard) = self.shards.get_mut(&message.shard) {
                shard.sent = Some(now);
            }
        }
        for (number, shard) in &mut self.shards {
            if (shard.sent).is_none_or(|at| now.duration_since(at) >= PROBE_AFTER) {
                shard.sent = Some(now);
                let last = shard.last;
                self.out.link(*number, &mut self.encoder, (last, last));
            }
        }
    }

    fn sweep(&mut self, now: Instant) {
        if (self.swept).is_some_and(|at| now.duration_since(at) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.large.sweep();
        let shards = &self.shards;
        let is_wanted = |pv: &PvId| {
            let shard = shards.get(&shard_of(*pv));
            shard.is_some_and(|shard| shard.wanted.contains_key(pv))
        };
        self.described.retain(is_wanted);
    }

    /// Gives the bus the tick's messages, one right after the other: its thread wakes up once for all of them.
    fn send(&mut self) {
        for message in self.out.messages.drain(..) {
            let used = if message.segments[1].is_empty() { 1 } else { 3 };
            let is_taken = (self.bus).publish(message.shard, &message.segments[..used]);
            // The frame after one that names its tick shows the gap.
            if !is_taken
                && message.is_large
                && let Some(shard) = self.shards.get_mut(&message.shard)
            {
                shard.last = BROKEN;
            }
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

/// The messages of a tick, with counters.
struct Out {
    messages: Vec<Message>,
    counters: Arc<FleetCounters>,
}

impl Out {
    fn new(counters: Arc<FleetCounters>) -> Self {
        Self {
            messages: Vec::new(),
            counters,
        }
    }

    /// A frame that names its tick.
    fn frame(&mut self, shard: u16, frame: Frame) {
        self.add(shard, Arc::new(frame).pieces(), false);
    }

    /// The frame of a large value.
    fn large(&mut self, shard: u16, frame: Arc<Frame>) {
        self.add(shard, frame.pieces(), true);
    }

    /// An update without content, which says that nothing was published between two ticks.
    fn link(&mut self, shard: u16, encoder: &mut FrameEncoder, (tick, before): (u64, u64)) {
        encoder.begin(FrameKind::Update, tick, before);
        self.message(shard, encoder);
    }

    fn message(&mut self, shard: u16, encoder: &mut FrameEncoder) {
        let message = Bytes::copy_from_slice(encoder.finish());
        self.add(shard, [message, Bytes::new(), Bytes::new()], false);
    }

    fn add(&mut self, shard: u16, segments: [Bytes; 3], is_large: bool) {
        let length = segments.iter().map(|segment| segment.len() as u64).sum();
        self.counters.frames_out.fetch_add(1, Ordering::Relaxed);
        (self.counters.bytes_out).fetch_add(length, Ordering::Relaxed);
        self.messages.push(Message {
            shard,
            segments,
            is_large,
        });
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
        self.count_unresolved(table);
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
        self.sweep(now.instant);
        self.send();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::RowValue;
    use pvwire_schema::types::Skips;

    #[test]
    fn frames_of_shards_have_the_rows_that_a_search_of_all_rows_finds() {
        let row = |(place, pv): (usize, u32)| ChangedRow {
            pv: PvId(pv),
            time_ns: place as i64,
            value: RowValue::Number(place as f64),
            alarm: None,
            detail: None,
            skips: Skips::NONE,
        };
        // Sorted, mixed, and of shards that aren't published.
        let pvs = [1, 2, 3, 1030, 2, 2050, 1, 1, 1030, 9000, 3000, 5, 70_000];
        let changes = Changes {
            tick: 7,
            rows: pvs.into_iter().enumerate().map(row).collect(),
            ..Changes::default()
        };
        let (mut maker, mut runs) = (FrameMaker::default(), Runs::default());
        for _ in 0..2 {
            runs.find(&changes.rows, 4);
            for (shard, wanted) in [
                (0, vec![1, 2, 5]),
                (1, vec![1030]),
                (2, vec![2051]),
                (9, vec![]),
            ] {
                let set = PvSet::new(wanted.into_iter().map(PvId).collect());
                let frame = maker.update_of_runs(&changes, runs.of(shard), &set, 6);
                let expected = maker.update(&changes, &set, 6);
                let bytes = |frame: Option<Frame>| frame.map(|frame| frame.bytes().to_vec());
                assert_eq!(bytes(frame), bytes(expected), "{shard}");
            }
        }
    }
}
