//! One owner as its edge sees it: PVs requested from it, and frames received.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::members::SILENT_AFTER;
use pvwire_schema::decode::FrameView;
use pvwire_schema::types::{FrameKind, PvId, Reply};

use super::by_number::ByNumber;
use super::message::Interest;
use super::publisher::shard_of;
use crate::ingest::feed::{self, Feed, Feeds};

/// A PV that an owner feeds.
#[derive(Debug)]
pub(super) struct Fed {
    pub(super) feed: Feed,
    /// Whether a snapshot has come since the last gap.
    pub(super) is_in_step: bool,
}

/// The PVs that are in step, or the ones that are not.
struct InStep<'a>(&'a mut ByNumber<Fed>, bool);

impl Feeds for InStep<'_> {
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed> {
        let fed = self.0.get_mut(pv)?;
        (fed.is_in_step == self.1).then_some(&mut fed.feed)
    }
}

/// An owner without a message for this time is lost. It publishes every second.
const SILENCE: Duration = Duration::from_secs(3);

/// Interest is renewed this often.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// Names in one request.
const MOST_NAMES: usize = 1_000;

/// A shard of an owner.
pub(super) struct Follow {
    pub(super) pvs: usize,
    /// Tick of the last message; `None` until the next snapshot.
    pub(super) last: Option<u64>,
    pub(super) heard: Instant,
    pub(super) heard_ns: i64,
    /// Since when PVs wait for a snapshot.
    pub(super) awaits_since: Option<Instant>,
    /// When it was last requested.
    pub(super) snapshot_requested: Option<Instant>,
}

/// A relay that holds PVs of this one.
pub(super) struct Peer {
    /// PVs to ask for, and when.
    pub(super) wanted: BTreeSet<(Instant, u64)>,
    /// PVs of the request that is under way.
    pub(super) requested: Vec<u64>,
    /// Number of that request.
    pub(super) asking: Option<u64>,
    /// The next request makes the owner forget earlier ones.
    pub(super) resets: bool,
    /// The next request names all PVs that the owner feeds, because the two may disagree.
    pub(super) verifies: bool,
    /// The request that is under way does so.
    pub(super) is_verifying: bool,
    /// When an answer last came.
    pub(super) answered: Instant,
    pub(super) drops: Vec<PvId>,
    pub(super) describes: Vec<PvId>,
    /// Each once, however many messages were lost.
    pub(super) snapshots: BTreeSet<PvId>,
    pub(super) fed: ByNumber<Fed>,
    pub(super) shards: BTreeMap<u16, Follow>,
    /// When the last request was sent to it.
    pub(super) sent: Option<Instant>,
    /// No request before this time.
    pub(super) rests_until: Instant,
    /// It has been silent for a while: its PVs are shown as unresponsive.
    is_unheard: bool,
}

impl Peer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            wanted: BTreeSet::new(),
            requested: Vec::new(),
            asking: None,
            resets: true,
            verifies: false,
            is_verifying: false,
            answered: now,
            drops: Vec::new(),
            describes: Vec::new(),
            snapshots: BTreeSet::new(),
            fed: ByNumber::default(),
            shards: BTreeMap::new(),
            sent: None,
            rests_until: now,
            is_unheard: false,
        }
    }

    /// The next request, if one is due.
    pub(super) fn request(
        &mut self,
        number: u64,
        now: Instant,
        name: impl Fn(u64) -> Option<String>,
    ) -> Option<Interest> {
        if self.asking.is_some() || now < self.rests_until {
            return None;
        }
        let mut interest = Interest::default();
        while interest.add.len() < MOST_NAMES
            && let Some((_, pv)) = self.wanted.first().copied().filter(|(at, _)| *at <= now)
        {
            self.wanted.pop_first();
            if let Some(name) = name(pv) {
                interest.add.push(name);
                self.requested.push(pv);
            }
        }
        let numbers = |pvs: &mut Vec<PvId>| mem::take(pvs).into_iter().map(|pv| pv.0).collect();
        interest.drop = numbers(&mut self.drops);
        interest.describe = numbers(&mut self.describes);
        let snapshots = mem::take(&mut self.snapshots).into_iter();
        interest.snapshot = snapshots.map(|pv| pv.0).collect();
        let is_empty = interest.add.is_empty()
            && interest.drop.is_empty()
            && interest.describe.is_empty()
            && interest.snapshot.is_empty();
        let is_empty = is_empty && !self.verifies;
        let is_renewed = (self.sent).is_some_and(|at| now.duration_since(at) < RENEW_EVERY);
        if is_empty && (is_renewed || self.fed.is_empty()) {
            return None;
        }
        interest.reset = mem::take(&mut self.resets);
        self.is_verifying = mem::take(&mut self.verifies);
        interest.keep = (self.is_verifying).then(|| self.fed.iter().map(|(pv, _)| pv.0).collect());
        self.sent = Some(now);
        self.asking = Some(number);
        Some(interest)
    }

    /// Whether a message to its owner, or its answer, is still open.
    pub(super) fn is_busy(&self) -> bool {
        self.asking.is_some() || !self.drops.is_empty()
    }

    /// Requests the snapshot of PVs of a shard that wait for it.
    pub(super) fn ask_for_snapshot(&mut self, shard: u16, now: Instant) {
        let Some(follow) = self.shards.get_mut(&shard) else {
            return;
        };
        let waiting = (self.fed.of_shard(shard)).filter(|(_, fed)| !fed.is_in_step);
        self.snapshots.extend(waiting.map(|(pv, _)| pv));
        follow.snapshot_requested = Some(now);
        follow.awaits_since.get_or_insert(now);
    }

    /// Messages of a shard were lost: its PVs wait for a snapshot.
    pub(super) fn lost(&mut self, shard: u16, now: Instant) {
        if let Some(follow) = self.shards.get_mut(&shard) {
            follow.last = None;
        }
        self.fed.each_of_shard(shard, |fed| fed.is_in_step = false);
        self.ask_for_snapshot(shard, now);
    }

    /// Takes one message of a shard. Returns false if messages before it were lost.
    pub(super) fn take(&mut self, shard: u16, frame: &FrameView<'_>, message: &Bytes) -> bool {
        let Some(follow) = self.shards.get_mut(&shard) else {
            return true;
        };
        let fed = &mut self.fed;
        match frame.kind() {
            FrameKind::Update | FrameKind::CatchUp => {
                let Some(last) = follow.last else {
                    // The snapshot is on its way.
                    return true;
                };
                if frame.prev_tick() != last {
                    return false;
                }
                follow.last = Some(frame.tick());
                feed::apply(frame, message, &mut InStep(fed, true))
            }
            FrameKind::Snapshot => {
                let Some(Reply::Subscribed { ids, .. }) = frame.reply() else {
                    // A large value of PVs that the snapshot before named.
                    return feed::apply(frame, message, &mut InStep(fed, true));
                };
                if follow.last.is_some_and(|last| last != frame.tick()) {
                    return false;
                }
                follow.last = Some(frame.tick());
                let is_whole = feed::apply(frame, message, &mut InStep(fed, false));
                for pv in ids {
                    if let Some(fed) = fed.get_mut(pv) {
                        fed.is_in_step = true;
                    }
                }
                if fed.of_shard(shard).all(|(_, fed)| fed.is_in_step) {
                    (follow.awaits_since, follow.snapshot_requested) = (None, None);
                }
                is_whole
            }
            FrameKind::Answer => {
                if let Some(Reply::Got { ids, .. }) = frame.reply() {
                    for fed in ids.iter().filter_map(|pv| fed.get(*pv)) {
                        fed.feed.described();
                    }
                }
                true
            }
        }
    }

    /// Its owner announces itself, or not (`is_silent`). Without messages of its shards either, its PVs are shown as
    /// unresponsive. Returns whether only these messages show that the owner lives.
    pub(super) fn note_silence(&mut self, is_silent: bool, now: Instant) -> bool {
        let is_over = |follow: &Follow| now.duration_since(follow.heard) >= SILENT_AFTER;
        let is_unheard = is_silent && self.shards.values().all(is_over);
        if is_unheard && !mem::replace(&mut self.is_unheard, true) {
            for (pv, fed) in self.fed.iter() {
                if let Some(follow) = self.shards.get(&shard_of(pv)) {
                    fed.feed.silent(follow.heard_ns);
                }
            }
        }
        if !is_silent {
            self.heard();
        }
        is_silent && !is_unheard
    }

    /// Its messages arrive again.
    pub(super) fn heard(&mut self) {
        if mem::take(&mut self.is_unheard) {
            self.fed.iter().for_each(|(_, fed)| fed.feed.heard_again());
        }
    }

    /// When something is due if its owner sends nothing before, or never; `None` while something is under way.
    pub(super) fn next_work(&self, now: Instant) -> Option<Option<Instant>> {
        let awaits = self
            .shards
            .values()
            .any(|follow| follow.awaits_since.is_some());
        let has_others = [&self.drops, &self.describes]
            .iter()
            .any(|pvs| !pvs.is_empty());
        let asks = self.verifies || has_others || !self.snapshots.is_empty();
        if awaits || asks || self.asking.is_some() || now < self.rests_until {
            return None;
        }
        let wanted = self.wanted.first().map(|(at, _)| *at);
        let renewed = self.sent.filter(|_| !self.fed.is_empty());
        let silent = (self.shards.values()).map(|follow| follow.heard + SILENCE);
        let renewed = renewed.map(|at| at + RENEW_EVERY);
        Some(silent.chain(wanted).chain(renewed).min())
    }

    /// Whether messages or snapshots have stayed away for too long.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_over = |since: Instant| now.duration_since(since) >= SILENCE;
        (self.shards.values())
            .any(|follow| is_over(follow.heard) || follow.awaits_since.is_some_and(is_over))
    }
}
