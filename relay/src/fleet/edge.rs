//! The PVs that are open at this relay: its own, and the ones that other relays feed.
//!
//! PVs are requested from owners in batches, one batch at a time for each owner. The answer has the owner's numbers; then
//! this relay follows the shards of these numbers and asks for a snapshot, which comes in order among the updates.

mod moves;
mod silence;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::{AskError, Bus, Kind, MemberId};
use pvwire_schema::decode;
use pvwire_schema::types::{Expected, PvId};

use self::moves::Move;
use super::command::FleetCommand;
use super::counters::{FleetCounters, Unread};
use super::message::{Grant, Granted};
use super::peer::{Fed, Follow, Peer};
use super::publisher::{PUBLISHED_PVS, shard_of};
use super::pv::FleetPv;
use crate::ingest::Intake;
use crate::ingest::feed::Feed;
use crate::ops::latency::wall_ns;

/// How long an owner may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// An owner that answers nothing for this time is lost. It keeps PVs for longer.
const LOST_AFTER: Duration = Duration::from_secs(9);

/// Time before a failed request is repeated.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Time before a PV is requested again from an owner that refused it.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Time before a missing snapshot is requested again.
const SNAPSHOT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often PVs are counted, for metrics and announcements.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// Where a PV is monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// No relay holds it.
    Nowhere,
    /// This relay holds it.
    Here,
    /// This relay asks another for it.
    Asking(MemberId),
    /// Another relay holds it under this number.
    Fed(MemberId, PvId),
}

impl Place {
    fn owner(self, me: MemberId) -> Option<MemberId> {
        match self {
            Self::Nowhere => None,
            Self::Here => Some(me),
            Self::Asking(owner) | Self::Fed(owner, _) => Some(owner),
        }
    }
}

struct PvEntry {
    pv: Arc<FleetPv>,
    place: Place,
    /// Set while it moves.
    next: Option<Move>,
}

impl PvEntry {
    /// Its owner, or the one that it moves to.
    fn target(&self, me: MemberId) -> Option<MemberId> {
        let next = self.next.as_ref().map(|next| next.place);
        next.unwrap_or(self.place).owner(me)
    }

    /// Whether it is or will be fed or requested here.
    fn places(&self) -> impl Iterator<Item = Place> {
        [Some(self.place), self.next.as_ref().map(|next| next.place)]
            .into_iter()
            .flatten()
    }

    fn uses(&self, owner: MemberId) -> bool {
        self.places().any(|place| match place {
            Place::Asking(of) | Place::Fed(of, _) => of == owner,
            Place::Nowhere | Place::Here => false,
        })
    }

    fn asks(&self, owner: MemberId) -> bool {
        self.places().any(|place| place == Place::Asking(owner))
    }
}

/// See the module.
pub(super) struct Edge {
    bus: Arc<dyn Bus>,
    me: MemberId,
    pvs: HashMap<u64, PvEntry>,
    /// The numbers of PVs by the hashes of their keys: keys are long, and there may be a million.
    by_key: HashMap<u64, u64>,
    hashes: RandomState,
    peers: HashMap<MemberId, Peer>,
    /// PVs that move to another owner.
    moving: HashSet<u64>,
    /// Keys of the PVs that move to this relay.
    arriving: HashSet<String>,
    commands: Sender<FleetCommand>,
    counters: Arc<FleetCounters>,
    intake: Arc<Intake>,
    /// Requests so far.
    requests: u64,
    /// When PVs were last counted.
    counted: Option<Instant>,
    /// Whether one has been opened, closed or moved since.
    is_uncounted: bool,
    /// An owner doesn't announce itself any more: it is checked often whether it still sends messages.
    suspects: bool,
    unread: Unread,
}

/// Says which relay owns a PV.
pub(super) type OwnerOf<'a> = &'a dyn Fn(&str) -> Option<MemberId>;

impl Edge {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        me: MemberId,
        commands: Sender<FleetCommand>,
        counters: Arc<FleetCounters>,
        intake: Arc<Intake>,
    ) -> Self {
        Self {
            bus,
            me,
            pvs: HashMap::new(),
            by_key: HashMap::new(),
            hashes: RandomState::new(),
            peers: HashMap::new(),
            moving: HashSet::new(),
            arriving: HashSet::new(),
            commands,
            counters,
            intake,
            requests: 0,
            counted: None,
            is_uncounted: true,
            suspects: false,
            unread: Unread::default(),
        }
    }

    /// This relay continues under another id.
    pub(super) fn rename(&mut self, me: MemberId) {
        self.me = me;
    }

    /// A client wants a PV.
    pub(super) fn opened(&mut self, pv: Arc<FleetPv>, owner_of: OwnerOf<'_>, now: Instant) {
        if pv.is_closed() {
            return;
        }
        let number = pv.number;
        drop(Feed::new(pv.base.succeed()));
        let place = Place::Nowhere;
        let next = None;
        self.is_uncounted = true;
        self.by_key.insert(self.hashes.hash_one(&pv.key), number);
        self.pvs.insert(number, PvEntry { pv, place, next });
        self.assign(number, owner_of, now);
    }

    /// No client wants a PV any more.
    pub(super) fn closed(&mut self, number: u64) {
        self.end_move(number);
        self.is_uncounted = true;
        let Some(entry) = self.pvs.remove(&number) else {
            return;
        };
        // It may have been opened again.
        let hash = self.hashes.hash_one(&entry.pv.key);
        if self.by_key.get(&hash) == Some(&number) {
            self.by_key.remove(&hash);
        }
        if let Place::Fed(owner, id) = entry.place {
            self.unfollow(owner, id);
        }
    }

    fn unfollow(&mut self, owner: MemberId, id: PvId) -> Option<Fed> {
        let peer = self.peers.get_mut(&owner)?;
        let fed = peer.fed.remove(id)?;
        peer.drops.push(id);
        let shard = shard_of(id);
        if let Some(follow) = peer.shards.get_mut(&shard) {
            follow.pvs -= 1;
            if follow.pvs == 0 {
                peer.shards.remove(&shard);
                self.bus.follow(owner, shard, false);
            }
        }
        Some(fed)
    }

    pub(super) fn described(&mut self, number: u64) {
        let entry = self.pvs.get(&number);
        for place in entry.into_iter().flat_map(PvEntry::places) {
            if let Place::Fed(owner, id) = place
                && let Some(peer) = self.peers.get_mut(&owner)
            {
                peer.describes.push(id);
            }
        }
    }

    /// Opens a PV here, or queues a request to its owner.
    fn assign(&mut self, number: u64, owner_of: OwnerOf<'_>, now: Instant) {
        self.is_uncounted = true;
        let Some(entry) = self.pvs.get_mut(&number) else {
            return;
        };
        entry.place = match owner_of(&entry.pv.key) {
            None => Place::Nowhere,
            Some(owner) if owner == self.me => {
                entry.pv.open();
                Place::Here
            }
            Some(owner) => {
                Self::want(&mut self.peers, owner, number, now);
                Place::Asking(owner)
            }
        };
    }

    fn want(peers: &mut HashMap<MemberId, Peer>, owner: MemberId, number: u64, now: Instant) {
        let peer = peers.entry(owner).or_insert_with(|| Peer::new(now));
        peer.wanted.insert((now, number));
    }

    /// Ends the present feed of a PV: it is disconnected until another feeds it.
    fn detach(&mut self, number: u64) {
        self.end_move(number);
        self.is_uncounted = true;
        let Some(entry) = self.pvs.get_mut(&number) else {
            return;
        };
        let place = mem::replace(&mut entry.place, Place::Nowhere);
        let pv = Arc::clone(&entry.pv);
        match place {
            Place::Here => pv.close(),
            Place::Fed(owner, id) => {
                let heard = (self.peers.get(&owner))
                    .and_then(|peer| peer.shards.get(&shard_of(id)))
                    .map(|follow| follow.heard_ns);
                if let Some(fed) = self.unfollow(owner, id) {
                    heard.into_iter().for_each(|at_ns| fed.feed.heard(at_ns));
                }
            }
            Place::Nowhere | Place::Asking(_) => return,
        }
        drop(Feed::new(pv.base.succeed()));
    }

    /// The owners of PVs may have changed. PVs of a live owner move without a gap.
    pub(super) fn reassign(
        &mut self,
        owner_of: OwnerOf<'_>,
        is_live: impl Fn(MemberId) -> bool,
        now: Instant,
    ) {
        let me = self.me;
        let mut moved: Vec<_> = (self.pvs.iter())
            .map(|(number, entry)| (*number, entry, owner_of(&entry.pv.key)))
            .filter(|(_, entry, owner)| entry.target(me) != *owner)
            .map(|(number, entry, owner)| (number, entry.place, owner))
            .collect();
        // As clients opened them: what one IOC updates together then lies together in memory.
        moved.sort_unstable_by_key(|(number, ..)| *number);
        for (number, place, owner) in moved {
            let was_placed = place != Place::Nowhere;
            (self.counters.moves).fetch_add(u64::from(was_placed), Ordering::Relaxed);
            self.end_move(number);
            let is_fed = match place {
                Place::Here => true,
                Place::Fed(owner, _) => is_live(owner),
                Place::Nowhere | Place::Asking(_) => false,
            };
            match owner {
                Some(_) if place.owner(me) == owner => {}
                Some(owner) if is_fed => self.begin_move(number, owner, now),
                _ => {
                    self.detach(number);
                    self.assign(number, owner_of, now);
                }
            }
        }
        let pvs = &self.pvs;
        // Other PVs need no message: their owner drops interest that is not renewed.
        self.peers
            .retain(|owner, peer| peer.is_busy() || pvs.values().any(|entry| entry.uses(*owner)));
    }

    /// The owner is lost, or its state is unknown: disconnects its PVs and requests them again.
    pub(super) fn lose(&mut self, owner: MemberId, owner_of: OwnerOf<'_>, now: Instant) {
        let mut lost: Vec<_> = (self.pvs.iter())
            .filter(|(_, entry)| entry.uses(owner))
            .map(|(number, entry)| (*number, entry.place))
            .collect();
        lost.sort_unstable_by_key(|(number, _)| *number);
        let is_fed = |place| match place {
            Place::Here => true,
            Place::Fed(of, _) => of != owner,
            Place::Nowhere | Place::Asking(_) => false,
        };
        for (number, place) in &lost {
            if is_fed(*place) {
                self.end_move(*number);
            } else {
                self.detach(*number);
            }
        }
        self.peers.remove(&owner);
        for (number, place) in lost {
            let to = owner_of(&self.pvs[&number].pv.key);
            match to {
                Some(to) if is_fed(place) && place.owner(self.me) != Some(to) => {
                    self.begin_move(number, to, now);
                }
                _ if is_fed(place) => {}
                _ => self.assign(number, owner_of, now),
            }
        }
        if let Some(peer) = self.peers.get_mut(&owner) {
            peer.rests_until = now + AGAIN_AFTER;
        }
    }

    /// The bus is lost.
    pub(super) fn lose_all(&mut self, owner_of: OwnerOf<'_>, now: Instant) {
        for owner in self.peers.keys().copied().collect::<Vec<_>>() {
            self.lose(owner, owner_of, now);
        }
    }

    /// The bus has dropped messages of any shards.
    pub(super) fn gap_everywhere(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            for shard in peer.shards.keys().copied().collect::<Vec<_>>() {
                self.counters.gaps.fetch_add(1, Ordering::Relaxed);
                peer.lost(shard, now);
            }
        }
    }

    /// Messages of a shard were lost.
    pub(super) fn gap(&mut self, owner: MemberId, shard: u16, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&owner)
            && peer.shards.contains_key(&shard)
        {
            self.counters.gaps.fetch_add(1, Ordering::Relaxed);
            peer.lost(shard, now);
        }
    }

    /// A message of an owner.
    pub(super) fn message(&mut self, owner: MemberId, shard: u16, message: &Bytes, now: Instant) {
        let counters = &self.counters;
        counters.frames_in.fetch_add(1, Ordering::Relaxed);
        (counters.bytes_in).fetch_add(message.len() as u64, Ordering::Relaxed);
        let Some(peer) = self.peers.get_mut(&owner) else {
            return;
        };
        let Some(follow) = peer.shards.get_mut(&shard) else {
            return;
        };
        (follow.heard, follow.heard_ns) = (now, wall_ns());
        peer.heard();
        let is_in_order = match decode::frame(message) {
            Ok(frame) => {
                if frame.numbers_len() + frame.blobs_len() > 0 {
                    self.intake.begin_gathered();
                }
                peer.take(shard, &frame, message)
            }
            Err(error) => {
                let what = format_args!("relay {owner} sent a message that can't be read: {error}");
                self.unread.warn(what, now);
                counters.damaged.fetch_add(1, Ordering::Relaxed);
                false
            }
        };
        if !is_in_order {
            counters.gaps.fetch_add(1, Ordering::Relaxed);
            peer.lost(shard, now);
        }
    }

    /// An owner's answer to the request that was under way. Returns false if the owner must be asked for all PVs
    /// again.
    pub(super) fn answered(
        &mut self,
        owner: MemberId,
        number: u64,
        answer: Result<Granted, AskError>,
        now: Instant,
    ) -> bool {
        let peer = self.peers.get_mut(&owner);
        // The answer to a request before the owner was lost says nothing of the present one.
        let Some(peer) = peer.filter(|peer| peer.asking == Some(number)) else {
            return true;
        };
        peer.asking = None;
        let requested = mem::take(&mut peer.requested);
        let answer = answer.ok();
        let is_complete = |granted: &Granted| granted.pvs.len() == requested.len();
        let Some(granted) = answer.filter(is_complete) else {
            // It is not known what the owner has taken of the request.
            peer.rests_until = now + AGAIN_AFTER;
            peer.verifies = true;
            let again = requested.into_iter().map(|number| (now, number));
            peer.wanted.extend(again);
            return now.duration_since(peer.answered) < LOST_AFTER;
        };
        peer.answered = now;
        let mut shards = BTreeSet::new();
        let mut taken = Vec::new();
        for (number, grant) in requested.into_iter().zip(granted.pvs) {
            let entry = self.pvs.get(&number).filter(|entry| entry.asks(owner));
            match (entry, grant) {
                (None, Grant::Held(id)) => peer.drops.push(PvId(id)),
                (None, _) => {}
                (Some(_), Grant::Elsewhere) => {
                    peer.wanted.insert((now + AGAIN_AFTER, number));
                }
                (Some(entry), Grant::Refused(reason)) => {
                    if entry.next.is_none() {
                        Feed::new(entry.pv.base.succeed()).refused(reason);
                    }
                    peer.wanted.insert((now + REFUSED_AGAIN_AFTER, number));
                }
                (Some(_), Grant::Held(id)) if id < PUBLISHED_PVS => {
                    taken.push((number, PvId(id)));
                }
                (Some(_), Grant::Held(_)) => {
                    // No relay grants it.
                    peer.wanted.insert((now + REFUSED_AGAIN_AFTER, number));
                }
            }
        }
        for (number, id) in taken {
            shards.extend(self.take(owner, number, id, now));
        }
        let Some(peer) = self.peers.get_mut(&owner) else {
            return true;
        };
        for shard in shards {
            peer.ask_for_snapshot(shard, now);
        }
        let agrees = granted.held == peer.fed.len() + peer.drops.len();
        peer.verifies |= !agrees;
        agrees || !mem::take(&mut peer.is_verifying)
    }

    /// An owner feeds a PV under its number `id`. Returns the shard.
    fn take(&mut self, owner: MemberId, number: u64, id: PvId, now: Instant) -> Option<u16> {
        let place = Place::Fed(owner, id);
        self.is_uncounted = true;
        let entry = self.pvs.get_mut(&number)?;
        let is_described = entry.pv.is_described();
        let feed = if entry.next.is_some() {
            self.feed_next(number, place)?
        } else {
            entry.place = place;
            Feed::new(entry.pv.base.succeed())
        };
        let peer = self.peers.get_mut(&owner)?;
        if is_described {
            peer.describes.push(id);
        }
        let is_in_step = false;
        peer.fed.insert(id, Fed { feed, is_in_step });
        let shard = shard_of(id);
        let follow = peer.shards.entry(shard).or_insert_with(|| {
            self.bus.follow(owner, shard, true);
            Follow {
                pvs: 0,
                last: None,
                heard: now,
                heard_ns: wall_ns(),
                awaits_since: None,
                snapshot_requested: None,
            }
        });
        follow.pvs += 1;
        Some(shard)
    }

    /// Sends the requests that are due.
    pub(super) fn ask(&mut self, now: Instant) {
        let pvs = &self.pvs;
        for (owner, peer) in &mut self.peers {
            let name = |number: u64| {
                let entry = pvs.get(&number)?;
                entry.asks(*owner).then(|| entry.pv.whole_name())
            };
            self.requests += 1;
            let number = self.requests;
            let Some(interest) = peer.request(number, now, name) else {
                continue;
            };
            let body = serde_json::to_vec(&interest).expect("names can be written as JSON");
            let (commands, owner) = (self.commands.clone(), *owner);
            let answer = move |answer: Result<Bytes, AskError>| {
                let answer = answer.map(|bytes| {
                    // An answer that can't be read grants nothing.
                    serde_json::from_slice(&bytes).unwrap_or_default()
                });
                let _ = commands.send(FleetCommand::Granted(owner, number, answer));
            };
            let (kind, answer) = (Kind::Interest, Box::new(answer));
            (self.bus).ask(owner, kind, body.into(), ANSWER_TIMEOUT, answer);
        }
    }

    /// When something is due if nothing comes before, or never; `None` while something is under way, which is looked
    /// at often.
    pub(super) fn next_work(&self, now: Instant) -> Option<Option<Instant>> {
        if !self.moving.is_empty() || self.suspects {
            return None;
        }
        let dues = self.peers.values().map(|peer| peer.next_work(now));
        let dues = dues.collect::<Option<Vec<_>>>()?;
        Some(dues.into_iter().flatten().min())
    }

    /// Number of PVs that this relay holds.
    pub(super) fn owned(&self) -> u64 {
        self.counters.pvs_owned.load(Ordering::Relaxed)
    }

    /// Whether no PV is monitored here.
    pub(super) fn holds_nothing(&self) -> bool {
        self.pvs.values().all(|entry| entry.place != Place::Here)
    }

    fn count(&self) {
        let (mut here, mut nowhere, mut fed, mut twice) = (0, 0, 0, 0);
        for entry in self.pvs.values() {
            let is_moving = entry.next.is_some();
            twice += u64::from(is_moving && entry.places().any(|place| place == Place::Here));
            match entry.place {
                Place::Here => here += 1,
                Place::Nowhere => nowhere += 1,
                Place::Fed(..) => fed += 1,
                Place::Asking(_) => {}
            }
        }
        let counters = &self.counters;
        counters.pvs_owned.store(here, Ordering::Relaxed);
        counters.pvs_without_owner.store(nowhere, Ordering::Relaxed);
        counters.pvs_fed.store(fed, Ordering::Relaxed);
        (counters.pvs_with_two_owners).store(twice, Ordering::Relaxed);
    }

    /// The owner of an open PV, and what a put's condition means there. `Err` if this relay has never shown the
    /// update that the condition names.
    pub(super) fn to_put(
        &self,
        number: u64,
        expected: Option<Expected>,
    ) -> Option<(MemberId, Result<Option<Expected>, ()>)> {
        let entry = self.pvs.get(&number)?;
        let owner = entry.place.owner(self.me)?;
        let Some(expected) = expected else {
            return Some((owner, Ok(None)));
        };
        let there = match entry.place {
            Place::Fed(owner, id) => (self.peers.get(&owner))
                .and_then(|peer| peer.fed.get(id))
                .and_then(|fed| fed.feed.expected_there(expected)),
            _ => None,
        };
        Some((owner, there.map(Some).ok_or(())))
    }

    /// Whether a PV is open here.
    pub(super) fn is_open(&self, key: &str) -> bool {
        self.open(key).is_some()
    }

    /// The owner of a PV that is open here, if there is one.
    pub(super) fn owner_of_open(&self, key: &str) -> Option<MemberId> {
        self.open(key)?.place.owner(self.me)
    }

    /// The number that the owner of an open PV has for an update that clients see here.
    pub(super) fn number_there(&self, key: &str, update: Expected) -> Option<Expected> {
        let Place::Fed(owner, id) = self.open(key)?.place else {
            return None;
        };
        let fed = self.peers.get(&owner)?.fed.get(id)?;
        fed.feed.number_there(update)
    }

    fn open(&self, key: &str) -> Option<&PvEntry> {
        let number = self.by_key.get(&self.hashes.hash_one(key))?;
        let entry = self.pvs.get(number)?;
        (entry.pv.key == key).then_some(entry)
    }
}
