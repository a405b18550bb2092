//! All rings, the numbers and names of their PVs, and the bound of their memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Alarm, BlobValue, Connection, ConnectionState, PvId, Skips};
use slab::Slab;
use smallvec::SmallVec;

use super::disk::batch::Piece;
use super::disk::restore::Restore;
use super::numbering::LeftOut;
use super::ring::{Numbered, Pushed, Ring, RingView};
use super::sequel::Sequel;
use super::{GapCause, HistoryOptions, MAX_TEXT_BYTES, PastSample, PastValue, Position};
use crate::ingest::RowValue;
use crate::state::table::{ChangedRow, Changes, Lifecycle};

/// Memory of fewer rings is not worth freeing.
const MANY: usize = 1024;

/// Updates whose memory is read before they are added.
const TOGETHER: usize = 32;

/// One tick for the rings.
#[derive(Debug)]
pub(super) struct Tick {
    pub(super) changes: Arc<Changes>,
    /// The relay's clock, in nanoseconds past the POSIX epoch.
    pub(super) now_ns: i64,
    /// Set if ticks before this one were discarded.
    pub(super) missed: Option<Missed>,
}

/// What discarded ticks have changed, besides values.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// When the first of them was discarded.
    pub(super) since_ns: i64,
    /// PVs that were opened or closed.
    pub(super) lifecycles: Vec<Lifecycle>,
    pub(super) alarms: Vec<(PvId, Alarm)>,
    pub(super) connections: Vec<(PvId, Connection)>,
    /// PVs whose metadata changed, and whether these say why the PV has no value.
    pub(super) without_value: Vec<(PvId, bool)>,
    /// The last updates of PVs, that of the tick after them included.
    pub(super) positions: Vec<(PvId, Position)>,
}

/// An open PV. What each update changes comes first, in one line of the cache.
#[derive(Debug)]
#[repr(C, align(64))]
struct Followed {
    /// Present from its first value that can be kept.
    ring: Option<usize>,
    /// Its last update.
    position: Position,
    /// What its ring doesn't have since its newest sample, up to this update.
    left_out: LeftOut,
    alarm: Alarm,
    /// The last value was of a kind that isn't kept, and its past says so.
    is_unkept: bool,
    /// It stays monitored while it has a past.
    is_held: bool,
    /// When it was disconnected; `None` while it is connected.
    lost_ns: Option<i64>,
    is_readable: bool,
    /// Its server is connected and sends no value.
    is_without_value: bool,
    name: Arc<str>,
    keep: Duration,
}

/// The rings.
#[derive(Debug)]
pub(super) struct Store {
    options: HistoryOptions,
    rings: Slab<Ring>,
    by_name: HashMap<Arc<str>, usize>,
    /// By the PV's number. Those of which nothing is kept may be many.
    followed: Vec<Option<Box<Followed>>>,
    /// All rings by whether they are [`Ring::is_lasting`] and the orders of their oldest chunks: the first ones are
    /// removed first.
    oldest: BTreeMap<(bool, u64), usize>,
    next_order: u64,
    bytes: usize,
    samples: usize,
    pub(super) samples_total: u64,
    pub(super) evicted_total: u64,
    pub(super) tick: u64,
    /// PVs that have connected and are to stay monitored.
    pub(super) to_hold: Vec<Arc<str>>,
    /// Rings that have something new for the disk; `None` without one.
    for_disk: Option<Vec<usize>>,
    /// Slots that wait for the disk, but whose rings were removed.
    empty_waiting: HashSet<usize>,
    /// Above the numbers of all samples that were removed with their rings.
    next_start: u64,
}

impl Store {
    pub(super) fn new(options: HistoryOptions) -> Self {
        Self {
            options,
            rings: Slab::new(),
            by_name: HashMap::new(),
            followed: Vec::new(),
            oldest: BTreeMap::new(),
            next_order: 0,
            bytes: 0,
            samples: 0,
            samples_total: 0,
            evicted_total: 0,
            tick: 0,
            to_hold: Vec::new(),
            for_disk: None,
            empty_waiting: HashSet::new(),
            next_start: 0,
        }
    }

    /// Takes what a disk has, which from now on gets what is added. Until now no PV with a past is monitored.
    pub(super) fn restore(&mut self, restore: Restore, now_ns: i64) {
        let seen_ns = restore.seen_ns;
        self.for_disk = Some(Vec::new());
        for restored in restore.into_rings() {
            let name = Arc::clone(&restored.name);
            let (keep, is_held) = self.options.of(&name);
            let Some(content) = restored.into_content() else {
                continue;
            };
            self.next_start = self.next_start.max(content.next);
            if keep.is_zero() {
                continue;
            }
            if is_held {
                self.to_hold.push(Arc::clone(&name));
            }
            let entry = self.rings.vacant_entry();
            let index = entry.key();
            let ring = entry.insert(Ring::new(Arc::clone(&name), keep, index, 0));
            ring.is_lasting |= is_held;
            ring.restore(content);
            // The newest samples may have been written after all was.
            let from_ns = ring.last_ns().map_or(seen_ns, |last| last.max(seen_ns));
            ring.begin_gap(GapCause::NotMonitored, from_ns);
            self.bytes += ring.bytes();
            self.samples += ring.len();
            self.by_name.insert(name, index);
            self.queue(index);
        }
        let rings = self.rings.iter_mut();
        let mut ages: Vec<_> = rings.flat_map(|(_, ring)| ring.ages_mut()).collect();
        ages.sort_by_key(|age| age.last_ns);
        for age in ages {
            age.order = self.next_order;
            self.next_order += 1;
        }
        let oldest = |(index, ring): (usize, &Ring)| Some((ring.oldest()?, index));
        self.oldest = self.rings.iter().filter_map(oldest).collect();
        self.expire(now_ns);
        self.bound();
        self.to_hold.retain(|name| self.by_name.contains_key(name));
    }

    /// A ring has something new for the disk.
    fn queue(&mut self, ring: usize) {
        if let Some(waiting) = &mut self.for_disk
            && self.rings[ring].queue()
        {
            waiting.push(ring);
        }
    }

    /// The rings that have something new for the disk, for [`Self::take_new`].
    pub(super) fn take_queue(&mut self) -> Vec<usize> {
        self.for_disk
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// What is new in these rings.
    pub(super) fn take_new(&mut self, rings: &[usize]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for index in rings {
            match self.rings.get_mut(*index) {
                Some(ring) => ring.give(false, &mut pieces),
                // It was removed meanwhile.
                None => {
                    self.empty_waiting.remove(index);
                }
            }
        }
        pieces
    }

    /// Above the slots of all rings.
    pub(super) fn slots(&self) -> usize {
        self.rings
            .iter()
            .next_back()
            .map_or(0, |(last, _)| last + 1)
    }

    /// All of the ring in a slot, if there is one.
    pub(super) fn take_whole(&mut self, slot: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(ring) = self.rings.get_mut(slot) {
            ring.give(true, &mut pieces);
        }
        pieces
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    /// Number of PVs with a past.
    pub(super) fn rings(&self) -> usize {
        self.rings.len()
    }

    /// Names of the PVs that are monitored from the start.
    pub(super) fn names(&self) -> Vec<String> {
        self.options.names().map(str::to_owned).collect()
    }

    /// The past of a PV, and its last update if it is open.
    pub(super) fn view(&self, name: &str) -> Option<(RingView, Option<Position>)> {
        let ring = &self.rings[*self.by_name.get(name)?];
        let followed = ring.pv.and_then(|pv| self.followed(pv));
        Some((ring.view(), followed.map(|followed| followed.position)))
    }

    /// What follows an update of a PV; `None` if nothing is kept of the PV.
    pub(super) fn sequel(&self, name: &str, after: Position) -> Option<Sequel> {
        let ring = &self.rings[*self.by_name.get(name)?];
        let followed = ring.pv.and_then(|pv| self.followed(pv));
        let rest = followed.map_or_else(LeftOut::default, |followed| followed.left_out);
        Some(ring.sequel(after, rest, followed.map(|followed| followed.position)))
    }

    /// Applies one tick.
    pub(super) fn take(&mut self, tick: &Tick) {
        let (changes, now_ns) = (&*tick.changes, tick.now_ns);
        if let Some(missed) = &tick.missed {
            self.catch_up(missed, now_ns);
        }
        // Numbers of PVs are reused: what comes before an opening belongs to another PV.
        let opened: HashSet<PvId> = changes.lifecycles.iter().map(|each| each.pv).collect();
        let is_opened = |pv: &PvId| !opened.is_empty() && opened.contains(pv);
        for (pv, metadata) in &changes.metadata {
            self.take_epoch(*pv, metadata.epoch);
            if !is_opened(pv) {
                self.take_absence(*pv, !metadata.missing_field.is_empty(), now_ns);
            }
        }
        if let Some(missed) = &tick.missed {
            self.count_lost(missed, changes);
        }
        let first_values: HashSet<PvId> = changes.first_values.iter().copied().collect();
        let (mut row, mut large, mut connection) = (0, 0, 0);
        let metadata = changes.metadata.iter().filter(|(pv, _)| is_opened(pv));
        let metadata: HashMap<PvId, _> = metadata.map(|(pv, metadata)| (*pv, metadata)).collect();
        for lifecycle in &changes.lifecycles {
            let before = lifecycle.before;
            self.take_connections(&changes.connections[connection..before.connection], now_ns);
            self.take_rows(
                changes,
                (row..before.row, large..before.large),
                &first_values,
                now_ns,
            );
            (row, large, connection) = (before.row, before.large, before.connection);
            self.live(lifecycle, now_ns);
            if let Some(metadata) = metadata.get(&lifecycle.pv) {
                self.take_epoch(lifecycle.pv, metadata.epoch);
                self.take_absence(lifecycle.pv, !metadata.missing_field.is_empty(), now_ns);
            }
        }
        self.take_connections(&changes.connections[connection..], now_ns);
        let rest = (row..changes.rows.len(), large..changes.large.len());
        self.take_rows(changes, rest, &first_values, now_ns);
        for (pv, position) in tick.missed.iter().flat_map(|missed| &missed.positions) {
            if let Some(followed) = self.followed_mut(*pv) {
                followed.position = *position;
            }
        }
        self.tick = changes.tick;
        self.bound();
        if !changes.lifecycles.is_empty() {
            self.shrink();
        }
    }

    /// Frees the memory of rings and open PVs, if most are gone.
    fn shrink(&mut self) {
        while self
            .followed
            .pop_if(|followed| followed.is_none())
            .is_some()
        {}
        if self.followed.capacity() > MANY.max(4 * self.followed.len()) {
            self.followed.shrink_to(2 * self.followed.len());
        }
        if self.rings.capacity() > MANY.max(8 * self.rings.len()) {
            self.rings.shrink_to_fit();
            self.by_name.shrink_to_fit();
            self.empty_waiting.shrink_to_fit();
        }
    }

    fn catch_up(&mut self, missed: &Missed, now_ns: i64) {
        for lifecycle in &missed.lifecycles {
            self.live(lifecycle, now_ns);
        }
        for (pv, is_without_value) in &missed.without_value {
            self.take_absence(*pv, *is_without_value, now_ns);
        }
        self.take_connections(&missed.connections, now_ns);
        for (pv, alarm) in &missed.alarms {
            if let Some(followed) = self.followed_mut(*pv) {
                followed.alarm = *alarm;
            }
        }
        let followed = self.followed.iter().flatten();
        let rings: Vec<usize> = followed.filter_map(|followed| followed.ring).collect();
        for index in rings {
            let ring = &mut self.rings[index];
            let before = ring.bytes();
            ring.add_lost(missed.since_ns, now_ns);
            self.bytes = self.bytes + ring.bytes() - before;
            self.queue(index);
        }
    }

    /// Counts the updates of discarded ticks: those of a PV up to its last one, without the ones of this tick.
    fn count_lost(&mut self, missed: &Missed, changes: &Changes) {
        let rows = changes.rows.iter().map(|row| (row.pv, row.skips));
        let large = changes.large.iter().map(|row| (row.pv, row.skips));
        let mut of_tick: HashMap<PvId, u32> = HashMap::new();
        for (pv, skips) in rows.chain(large) {
            let count = of_tick.entry(pv).or_default();
            *count = count.wrapping_add(1).wrapping_add(skips.total());
        }
        // What this tick opened has no earlier updates.
        let new = changes.lifecycles.iter().map(|lifecycle| lifecycle.pv);
        let new: HashSet<PvId> = new.collect();
        for (pv, last) in missed.positions.iter().filter(|(pv, _)| !new.contains(pv)) {
            let Some(followed) = self.followed_mut(*pv) else {
                continue;
            };
            let of_tick = of_tick.get(pv).copied().unwrap_or(0);
            let before = Position {
                sequence: last.sequence.wrapping_sub(of_tick),
                ..*last
            };
            let known = match followed.position.epoch == before.epoch {
                true => followed.position,
                false => Position {
                    sequence: 0,
                    ..before
                },
            };
            let lost = before.ahead_of(known);
            followed.left_out.lost = followed.left_out.lost.saturating_add(lost);
            followed.left_out.begin_epoch(before.epoch);
            followed.position = before;
        }
    }

    fn followed(&self, pv: PvId) -> Option<&Followed> {
        self.followed.get(pv.index())?.as_deref()
    }

    fn followed_mut(&mut self, pv: PvId) -> Option<&mut Followed> {
        self.followed.get_mut(pv.index())?.as_deref_mut()
    }

    /// Updates are numbered from 1 in each epoch.
    fn take_epoch(&mut self, pv: PvId, epoch: u32) {
        if let Some(followed) = self.followed_mut(pv)
            && followed.position.epoch != epoch
        {
            followed.position = Position { epoch, sequence: 0 };
            followed.left_out.begin_epoch(epoch);
        }
    }

    /// A PV was opened or closed.
    fn live(&mut self, lifecycle: &Lifecycle, now_ns: i64) {
        let index = lifecycle.pv.index();
        if let Some(Some(followed)) = self.followed.get(index)
            && let Some(index) = followed.ring
        {
            if followed.is_held || !self.rings[index].ends_with_its_pv() {
                let ring = &mut self.rings[index];
                ring.begin_gap(GapCause::NotMonitored, now_ns);
                ring.pv = None;
                ring.rest = followed.left_out;
                self.queue(index);
            } else {
                while self.rings.contains(index) {
                    self.evict(index);
                }
            }
        }
        if index >= self.followed.len() {
            self.followed.resize_with(index + 1, || None);
        }
        self.followed[index] = lifecycle.opened.as_ref().and_then(|name| {
            let (keep, is_held) = self.options.of(name);
            let ring = self.by_name.get(name).copied();
            let rest = ring.map_or_else(LeftOut::default, |ring| self.rings[ring].rest);
            let followed = Followed {
                name: Arc::clone(name),
                keep,
                is_held,
                ring,
                alarm: Alarm::NONE,
                lost_ns: Some(now_ns),
                is_readable: true,
                is_without_value: false,
                position: Position::default(),
                left_out: rest.opened(),
                is_unkept: false,
            };
            (!keep.is_zero()).then(|| Box::new(followed))
        });
        if let Some(Some(followed)) = self.followed.get(index)
            && let Some(ring) = followed.ring
        {
            self.rings[ring].pv = Some(lifecycle.pv);
        }
    }

    fn take_connections(&mut self, connections: &[(PvId, Connection)], now_ns: i64) {
        for (pv, connection) in connections {
            let Some(Some(followed)) = self.followed.get_mut(pv.index()) else {
                continue;
            };
            let is_connected = connection.state == ConnectionState::Connected;
            let is_heard = is_connected && connection.heard_ns == 0;
            if is_connected && followed.lost_ns.is_some() && followed.is_held {
                self.to_hold.push(Arc::clone(&followed.name));
            }
            let lost_ns = if is_connected {
                connection.heard_ns
            } else {
                connection.since_ns
            };
            followed.lost_ns = (!is_heard).then_some(lost_ns);
            followed.is_readable = connection.read;
            self.begin_or_end_gap(*pv, now_ns);
        }
    }

    /// The metadata of a PV say why it has no value, or no longer do.
    fn take_absence(&mut self, pv: PvId, is_without_value: bool, now_ns: i64) {
        if let Some(followed) = self.followed_mut(pv)
            && followed.is_without_value != is_without_value
        {
            followed.is_without_value = is_without_value;
            self.begin_or_end_gap(pv, now_ns);
        }
    }

    /// Without a value that its server sends now, a PV has a gap.
    fn begin_or_end_gap(&mut self, pv: PvId, now_ns: i64) {
        let Some(Some(followed)) = self.followed.get(pv.index()) else {
            return;
        };
        let Some(index) = followed.ring else {
            return;
        };
        let is_absent = !followed.is_readable || followed.is_without_value;
        let ring = &mut self.rings[index];
        let before = ring.bytes();
        match followed.lost_ns.or_else(|| is_absent.then_some(now_ns)) {
            Some(from_ns) => ring.begin_gap(GapCause::Disconnected, from_ns),
            None => ring.end_gap(now_ns),
        }
        self.bytes = self.bytes + ring.bytes() - before;
        self.queue(index);
    }

    fn take_rows(
        &mut self,
        changes: &Changes,
        (rows, large): (std::ops::Range<usize>, std::ops::Range<usize>),
        first_values: &HashSet<PvId>,
        now_ns: i64,
    ) {
        let is_first = |pv: &PvId| !first_values.is_empty() && first_values.contains(pv);
        // Updates of which nothing is kept are passed over at once: they may be most.
        let mut kept = SmallVec::<[&ChangedRow; TOGETHER]>::new();
        let mut rows = changes.rows[rows].iter();
        loop {
            let follows = |row: &&ChangedRow| self.followed(row.pv).is_some();
            kept.clear();
            kept.extend(rows.by_ref().filter(follows).take(TOGETHER));
            if kept.is_empty() {
                break;
            }
            self.prefetch(&kept);
            for row in &kept {
                let time = (row.time_ns, now_ns);
                self.push(
                    row.pv,
                    time,
                    &row.value,
                    row.alarm,
                    row.skips,
                    is_first(&row.pv),
                );
            }
        }
        for row in &changes.large[large] {
            let (latest, time) = (&row.latest, (row.latest.time_ns, now_ns));
            let alarm = Some(latest.alarm);
            self.push(
                row.pv,
                time,
                &latest.value,
                alarm,
                row.skips,
                is_first(&row.pv),
            );
        }
    }

    /// Reads what these updates will change: their PVs are touched seldom, and so the processor waits for the memory of all
    /// of them at once.
    fn prefetch(&self, rows: &[&ChangedRow]) {
        let rings = rows
            .iter()
            .filter_map(|row| self.followed(row.pv)?.ring)
            .collect::<SmallVec<[usize; TOGETHER]>>();
        let rings = rings.into_iter().filter_map(|ring| self.rings.get(ring));
        black_box(rings.map(Ring::prefetch).fold(0, i64::wrapping_add));
    }

    fn push(
        &mut self,
        pv: PvId,
        (time_ns, now_ns): (i64, i64),
        value: &RowValue,
        alarm: Option<Alarm>,
        skips: Skips,
        is_first: bool,
    ) {
        let Some(Some(followed)) = self.followed.get_mut(pv.index()) else {
            return;
        };
        followed.alarm = alarm.unwrap_or(followed.alarm);
        let ahead = skips.total().wrapping_add(1);
        followed.position.sequence = followed.position.sequence.wrapping_add(ahead);
        let (value, is_stand_in) = match past_value(value) {
            Some(value) => {
                followed.is_unkept = false;
                (value, false)
            }
            // What was kept before holds no longer.
            None if followed.ring.is_some() && !followed.is_unkept => {
                followed.is_unkept = true;
                (PastValue::Number(f64::NAN), true)
            }
            None => {
                followed.left_out.add_unkept(ahead);
                return;
            }
        };
        let sample = PastSample {
            time_ns,
            value,
            alarm: followed.alarm,
            skips,
        };
        let numbered = Numbered {
            position: followed.position,
            left_out: match is_stand_in {
                true => LeftOut::default(),
                false => followed.left_out,
            },
            is_stand_in,
        };
        let index = match followed.ring {
            Some(ring) => ring,
            None => self.begin_ring(pv),
        };
        let ring = &mut self.rings[index];
        let before = ring.bytes();
        let pushed = ring.push(sample, numbered, now_ns, self.next_order, is_first);
        self.bytes = self.bytes + ring.bytes() - before;
        if pushed == Pushed::BegunChunk {
            self.oldest
                .extend(ring.oldest().map(|oldest| (oldest, index)));
            self.next_order += 1;
        }
        let added = pushed != Pushed::Repeated;
        self.samples += usize::from(added);
        self.samples_total += u64::from(added);
        self.queue(index);
        if let Some(followed) = self.followed_mut(pv) {
            match pushed {
                _ if is_stand_in => followed.left_out.add_unkept(ahead),
                Pushed::Repeated => followed.left_out.add_repeated(skips.total()),
                _ => followed.left_out = LeftOut::default(),
            }
        }
    }

    /// Makes the ring of an open PV that has none.
    #[cold]
    fn begin_ring(&mut self, pv: PvId) -> usize {
        let entry = self.rings.vacant_entry();
        let index = entry.key();
        let followed = self.followed[pv.index()].as_deref_mut();
        let followed = followed.expect("only open PVs have updates");
        followed.ring = Some(index);
        let name = Arc::clone(&followed.name);
        let ring = Ring::new(Arc::clone(&name), followed.keep, index, self.next_start);
        let ring = entry.insert(ring);
        ring.is_lasting |= followed.is_held;
        ring.pv = Some(pv);
        if self.empty_waiting.remove(&index) {
            ring.queue();
        }
        self.bytes += ring.bytes();
        self.by_name.insert(name, index);
        index
    }

    /// Removes the oldest chunks, first those of PVs that the relay makes, until the rest is within the bound.
    fn bound(&mut self) {
        while self.bytes > self.options.max_bytes
            && let Some((_, ring)) = self.oldest.first_key_value()
        {
            let ring = *ring;
            self.evict(ring);
        }
    }

    /// Removes the oldest chunk of a ring.
    fn evict(&mut self, index: usize) {
        let ring = &mut self.rings[index];
        let before = ring.bytes();
        if let Some(oldest) = ring.oldest() {
            self.oldest.remove(&oldest);
        }
        if let Some(samples) = ring.evict() {
            self.bytes = self.bytes + ring.bytes() - before;
            self.samples -= samples;
            self.evicted_total += samples as u64;
        }
        self.oldest
            .extend(ring.oldest().map(|oldest| (oldest, index)));
        if ring.is_empty() {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: usize) {
        let ring = self.rings.remove(index);
        if ring.is_queued() {
            self.empty_waiting.insert(index);
        }
        self.next_start = self.next_start.max(ring.next_number());
        self.bytes -= ring.bytes();
        self.by_name.remove(&ring.name);
        let followed = ring.pv.and_then(|pv| self.followed_mut(pv));
        if let Some(followed) = followed.filter(|followed| followed.ring == Some(index)) {
            followed.ring = None;
        }
    }

    /// Removes chunks and gaps that are older than their PVs are kept. Values that still hold remain.
    pub(super) fn expire(&mut self, now_ns: i64) {
        let rings: Vec<usize> = self.rings.iter().map(|(index, _)| index).collect();
        for index in rings {
            while self
                .rings
                .get(index)
                .is_some_and(|ring| ring.has_expired(now_ns))
            {
                self.evict(index);
            }
            if let Some(ring) = self.rings.get_mut(index) {
                let before = ring.bytes();
                let removed = ring.keep_newest(now_ns);
                self.samples -= removed;
                self.evicted_total += removed as u64;
                ring.expire_gaps(now_ns);
                self.bytes = self.bytes + ring.bytes() - before;
            }
        }
    }

    /// PVs that stay monitored and have been disconnected for longer than they are kept.
    pub(super) fn lost_for_long(&self, now_ns: i64) -> Vec<Arc<str>> {
        let is_lost = |followed: &&Followed| {
            let since = followed
                .lost_ns
                .map(|lost_ns| now_ns.saturating_sub(lost_ns));
            followed.is_held
                && since.is_some_and(|ns| {
                    u128::try_from(ns).is_ok_and(|ns| ns > followed.keep.as_nanos())
                })
        };
        let followed = self.followed.iter().filter_map(Option::as_deref);
        let lost = followed.filter(is_lost);
        lost.map(|followed| Arc::clone(&followed.name)).collect()
    }
}

/// The value, if it is kept.
fn past_value(value: &RowValue) -> Option<PastValue> {
    match value {
        RowValue::Number(number) => Some(PastValue::Number(*number)),
        RowValue::Blob(blob) => match &**blob {
            BlobValue::Int64(number) => Some(PastValue::Int64(*number)),
            BlobValue::UInt64(number) => Some(PastValue::UInt64(*number)),
            BlobValue::Text(text) if text.len() <= MAX_TEXT_BYTES => {
                Some(PastValue::Text(text.as_str().into()))
            }
            _ => None,
        },
        RowValue::Structure { .. } => None,
    }
}
