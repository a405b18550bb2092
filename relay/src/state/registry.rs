//! The registry: the PVs that are monitored, their numbers, and the clients that hold them.
//!
//! There is one monitor per PV, however many clients have it. It stays open for a linger after the last
//! one left, so that reloading a page costs the IOC nothing. A PV with a filter is a *filtered PV*: it has a
//! separate number, which all clients with an equal filter share, and it holds the PV.

mod acquire;
mod holders;
mod name;
mod open;
mod reading;
mod repeated;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pvwire_schema::types::{NameProblem, PvId};

use crate::access::rule::{Identity, PutsAllowed, RateCaps, Rules};
use crate::config::Access;
use crate::ingest::{Call, Event, Intake, Line, Notice, OpDone, OpTicket, Put, Queue, Source};
use crate::limits::connections::SharedBudgets;
use crate::limits::memory::{Owner, PvCharge};
use crate::limits::subscriptions::NewNames;
use crate::state::last_writes::{LastWrite, LastWrites};
use name::NameError;
use open::{OpenPvs, Shows, Slot};

pub use name::Refusal;
pub use repeated::AcquiredPvs;

/// Why new PVs and clients are refused while the process uses too much memory.
pub const SHORT_OF_MEMORY: &str = "the relay uses more memory than max_memory_mib allows and takes no new PVs or \
                                   clients until it uses less: try again later, or the operator raises the limit";

/// Monitors that a sweep closes, or a part of all that linger if there are many.
const CLOSED_AT_ONCE: usize = 500;

/// The PVs that are open, and the sources that open them.
pub struct Registry {
    intake: Arc<Intake>,
    sources: Vec<Box<dyn Source>>,
    default_scheme: String,
    linger: Duration,
    rules: RwLock<Arc<Rules>>,
    rate_caps: RateCaps,
    max_pvs: usize,
    /// Other relays may hold its PVs.
    is_shared: bool,
    /// Memory is short: no PVs are opened.
    short: AtomicBool,
    open: Mutex<OpenPvs>,
    last_writes: LastWrites,
    /// Threads that wait for `open`, without those that acquire many PVs.
    waiting: AtomicUsize,
}

/// What a name as clients write it stands for.
struct Named<'a> {
    scheme: &'a str,
    /// The name without its scheme.
    bare: &'a str,
    /// The part of it that identifies the PV.
    key: &'a str,
    source: &'a dyn Source,
}

impl Named<'_> {
    /// The one name of the PV, whatever its spelling.
    fn whole(&self) -> String {
        let mut whole = String::new();
        self.write_whole(&mut whole);
        whole
    }

    /// Writes the one name of the PV into a buffer that many names share.
    fn write_whole(&self, whole: &mut String) {
        whole.clear();
        for part in [self.scheme, "://", self.key] {
            whole.push_str(part);
        }
    }
}

impl Registry {
    /// A registry without PVs.
    #[must_use]
    pub fn new(
        intake: Arc<Intake>,
        sources: Vec<Box<dyn Source>>,
        default_scheme: &str,
        linger: Duration,
        rules: Rules,
    ) -> Self {
        let default_scheme = default_scheme.to_owned();
        Self {
            intake,
            sources,
            default_scheme,
            linger,
            rules: RwLock::new(Arc::new(rules)),
            rate_caps: RateCaps::default(),
            max_pvs: usize::MAX,
            is_shared: false,
            short: AtomicBool::new(false),
            open: Mutex::default(),
            last_writes: LastWrites::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Limits the number of open PVs.
    #[must_use]
    pub fn with_max_pvs(self, max_pvs: usize) -> Self {
        Self { max_pvs, ..self }
    }

    /// Sets whether other relays may hold its PVs.
    #[must_use]
    pub fn shared(self, is_shared: bool) -> Self {
        Self { is_shared, ..self }
    }

    /// Whether other relays may hold its PVs.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// For how long a PV stays open after its last client has gone.
    #[must_use]
    pub fn linger(&self) -> Duration {
        self.linger
    }

    /// Sets whether memory is short.
    pub fn set_short(&self, short: bool) {
        self.short.store(short, Ordering::Relaxed);
    }

    /// Whether memory is short.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Whether one more PV may be opened.
    fn check_room(&self, open: &OpenPvs, room: &mut NewNames) -> Result<(), Refusal> {
        let message = if self.is_short() {
            SHORT_OF_MEMORY.to_owned()
        } else if open.by_name.len() >= self.max_pvs {
            format!("the relay has {} PVs already (max_pvs)", self.max_pvs)
        } else if room.new == 0 {
            "new names are asked for too fast: try again later (max_new_names_per_s)".to_owned()
        } else {
            room.new -= 1;
            return Ok(());
        };
        let problem = NameProblem::TooManyPvs;
        Err(Refusal { problem, message })
    }

    fn lock(&self) -> MutexGuard<'_, OpenPvs> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // A panic elsewhere doesn't affect the PVs: every change under the lock is complete.
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        open
    }

    /// What a name as clients write it stands for.
    fn named<'a>(&'a self, name: &'a str) -> Result<Named<'a>, NameError> {
        let (scheme, bare, source) = self.source_of(name)?;
        let key = source.key(bare);
        Ok(Named {
            scheme,
            bare,
            key,
            source,
        })
    }

    /// Scheme, name without it, and source of a name as clients write it.
    fn source_of<'a>(
        &'a self,
        name: &'a str,
    ) -> Result<(&'a str, &'a str, &'a dyn Source), NameError> {
        let (scheme, bare) = name::split(name, &self.default_scheme)?;
        let Some(source) = self.sources.iter().find(|source| source.scheme() == scheme) else {
            let known: Vec<_> = self.sources.iter().map(|source| source.scheme()).collect();
            return Err(NameError::no_such_source(scheme, &known));
        };
        Ok((scheme, bare, source.as_ref()))
    }

    /// Acquires a PV if it is open.
    fn acquire_open(open: &mut OpenPvs, whole: &str, owner: &Arc<Owner>) -> Option<PvId> {
        let id = *open.by_name.get(whole)?;
        open.slot_mut(id).hold(owner);
        Some(id)
    }

    fn acquire_one(
        &self,
        open: &mut OpenPvs,
        name: &str,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Result<PvId, Refusal> {
        let named = self.named(name)?;
        let whole = named.whole();
        if let Some(id) = Self::acquire_open(open, &whole, owner) {
            return Ok(id);
        }
        let Named { bare, source, .. } = named;
        let inputs = self.acquire_inputs(open, &source.inputs(bare), owner, room)?;
        let opened = self.open_one(open, (&whole, bare, source), &inputs, owner, room);
        if opened.is_err() {
            let now = Instant::now();
            let release = |id: PvId| open.release_one(id, now, self.linger);
            inputs.into_iter().for_each(release);
        }
        opened
    }

    /// Opens a PV by its whole name, the name without its scheme, and its source. It holds its inputs.
    fn open_one(
        &self,
        open: &mut OpenPvs,
        (whole, bare, source): (&str, &str, &dyn Source),
        inputs: &[PvId],
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Result<PvId, Refusal> {
        self.check_room(open, room)?;
        source.has_room(bare).map_err(|overload| Refusal {
            problem: NameProblem::TooManyPvs,
            message: overload.to_string(),
        })?;
        let charge = PvCharge::open(owner, source.value_bytes(bare))?;
        let id = open.free_number();
        let puts = self.rules().takes_puts(source.scheme(), source.key(bare));
        let queue = match room.fresh.checked_sub(1) {
            Some(rest) => {
                room.fresh = rest;
                Queue::Front
            }
            None => Queue::Crowd,
        };
        let name: Arc<str> = whole.into();
        let payer = Some(Arc::clone(&charge));
        let line = Line::open_charged(&self.intake, id, Some(Arc::clone(&name)), puts, payer);
        let opening = line.opening();
        let monitor = match source.open(bare, line, queue) {
            Ok(monitor) => monitor,
            Err(error) => {
                open.give_back(id);
                self.forget(id, opening);
                return Err(error.into());
            }
        };
        monitor.follow(inputs.to_vec());
        open.by_name.insert(Arc::clone(&name), id);
        let slot = Slot {
            name,
            holders: 1,
            own_holders: 0,
            idle_since: None,
            puts,
            shows: Shows::Pv {
                monitor,
                charge,
                opening,
                filtered: Vec::new(),
                inputs: inputs.to_vec(),
            },
        };
        open.insert(id, slot);
        Ok(id)
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether puts are allowed, and by how many rules.
    #[must_use]
    pub fn puts(&self) -> PutsAllowed {
        self.rules().puts()
    }

    /// Replaces the rules. Of the open PVs only the flag `puts` is brought up to date here; `unreadable`
    /// finds those that a client may not read any more.
    pub fn set_rules(&self, rules: Rules) {
        let rules = Arc::new(rules);
        let mut open = self.lock();
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&rules);
        for (index, slot) in open.slots.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            let (scheme, bare) = slot.name.split_once("://").unwrap_or_default();
            let puts = rules.takes_puts(scheme, bare);
            let changed = std::mem::replace(&mut slot.puts, puts) != puts;
            if let Shows::Pv { opening, .. } = slot.shows
                && changed
            {
                self.intake.notify(Notice {
                    pv: PvId(index as u32),
                    opening,
                    event: Event::Puts(puts),
                });
            }
        }
    }

    /// Filters and forms that this client removes no longer count as its own, although they stay open until
    /// the tick thread has removed them: the client may add others in the same moment.
    pub fn leave(&self, pvs: &[PvId], caller: &SharedBudgets) {
        let mut open = self.lock();
        for pv in pvs {
            if let Some(Some(slot)) = open.slots.get_mut(pv.index())
                && let Shows::Filtered { caller: by, .. } = &mut slot.shows
                && by.is(caller)
            {
                *by = SharedBudgets::default();
            }
        }
    }

    /// Asks the sources of these PVs for descriptions; PVs that aren't open are ignored. Returns the PVs
    /// whose source sends the description apart from the metadata.
    pub fn describe(&self, pvs: &[PvId]) -> Vec<PvId> {
        let open = self.lock();
        let is_open = |pv: &PvId| open.slots.get(pv.index()).is_some_and(Option::is_some);
        let told_apart = |pv: &PvId| is_open(pv) && open.monitored(*pv).1.describe();
        pvs.iter().copied().filter(told_apart).collect()
    }

    /// Acquires a PV that `identity` wants to write. `room` is that for new names.
    ///
    /// # Errors
    /// As `permit`; then nothing was opened.
    pub fn acquire_to_put(
        &self,
        name: &str,
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Result<PvId, Refusal> {
        self.permit(name, identity, Access::Put)?;
        self.acquire_one(&mut self.lock(), name, owner, room)
    }

    /// Tells the table to forget a closed PV, before its number is reused.
    fn forget(&self, pv: PvId, opening: u32) {
        let event = Event::Closed;
        self.intake.notify(Notice { pv, opening, event });
    }

    /// Writes to a held PV. `done` gets the outcome.
    ///
    /// # Panics
    /// When the PV is not held.
    pub fn put(&self, pv: PvId, put: Put, done: OpDone) -> OpTicket {
        self.lock().monitored(pv).1.put(put, done)
    }

    /// Calls a service. `done` gets the outcome, also if the service can't be called.
    pub fn call(&self, name: &str, identity: &Identity, call: Call, done: OpDone) -> OpTicket {
        let permitted = self.permit(name, identity, Access::Put);
        match permitted.and_then(|()| Ok(self.source_of(name)?)) {
            Err(refusal) => {
                done(refusal.into());
                OpTicket::ended()
            }
            Ok((_, bare, source)) => source.call(bare, call, done),
        }
    }

    /// Releases PVs, once for each time they were acquired.
    ///
    /// # Panics
    /// When a PV is released more often than it was acquired.
    pub fn release(&self, ids: impl IntoIterator<Item = PvId>, now: Instant) {
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_none() {
            return;
        }
        let mut open = self.lock();
        for id in ids {
            open.release_one(id, now, self.linger);
        }
        self.close_ended(&mut open);
    }

    /// Closes the PVs that don't linger and have no holder.
    fn close_ended(&self, open: &mut OpenPvs) {
        while let Some(id) = open.ended.pop() {
            // A client may have acquired it in between.
            if let Some(slot) = open.slots[id.index()].take_if(|slot| slot.holders == 0) {
                open.by_name.remove(&slot.name);
                if let Shows::Pv { opening, .. } = slot.shows {
                    self.forget(id, opening);
                }
                open.free.push(id);
                open.release_inputs(&slot, Instant::now(), self.linger);
            }
        }
    }

    /// Releases PVs without a linger: the next sweep closes those without other holders.
    pub fn discard(&self, ids: impl IntoIterator<Item = PvId>, now: Instant) {
        self.release(ids, now.checked_sub(self.linger).unwrap_or(now));
    }

    /// Closes monitors that had no holder for the linger, and returns their number, and whether more are left for
    /// another call: closing thousands would delay the tick.
    pub fn sweep(&self, now: Instant) -> (usize, bool) {
        let mut open = self.lock();
        let most = CLOSED_AT_ONCE.max(open.lingering.len() / 32);
        let OpenPvs {
            by_name,
            slots,
            free,
            lingering,
            ..
        } = &mut *open;
        let (mut closed, mut is_more) = (Vec::new(), false);
        lingering.retain(|&(since, id)| {
            if now.duration_since(since) < self.linger {
                return true;
            }
            if closed.len() == most {
                is_more = true;
                return true;
            }
            // A client may have acquired it in between, and may have released it again.
            if let Some(slot) = slots[id.index()].take_if(|slot| slot.idle_since == Some(since)) {
                by_name.remove(&slot.name);
                if let Shows::Pv { opening, .. } = slot.shows {
                    self.forget(id, opening);
                }
                free.push(id);
                closed.push(slot);
            }
            false
        });
        for slot in &closed {
            open.release_inputs(slot, now, self.linger);
        }
        self.close_ended(&mut open);
        open.shrink();
        drop(open);
        (closed.len(), is_more)
    }

    /// Makes the source of a scheme resolve the host names of its servers again.
    pub fn renew(&self, scheme: &str) {
        let mut sources = self.sources.iter();
        if let Some(source) = sources.find(|source| source.scheme() == scheme) {
            source.renew();
        }
    }

    /// Open monitors, held or lingering.
    pub fn monitors(&self) -> usize {
        self.lock().by_name.len()
    }

    /// The open PVs by source, without filtered PVs.
    pub fn open_pvs(&self) -> BTreeMap<String, Vec<PvId>> {
        let open = self.lock();
        let mut by_source = BTreeMap::<String, Vec<PvId>>::new();
        for (index, slot) in open.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            if !matches!(slot.shows, Shows::Pv { .. }) {
                continue;
            }
            let source = slot.name.split_once("://").map_or("", |(source, _)| source);
            let pv = PvId(index as u32);
            match by_source.get_mut(source) {
                Some(pvs) => pvs.push(pv),
                None => drop(by_source.insert(source.to_owned(), vec![pv])),
            }
        }
        by_source
    }

    /// The number of a PV, unless it isn't open.
    pub fn open_pv(&self, name: &str) -> Option<PvId> {
        let whole = self.named(name).ok()?.whole();
        self.lock().by_name.get(whole.as_str()).copied()
    }

    /// Notes a client's write to a PV.
    pub fn note_write(&self, name: &str, write: LastWrite) {
        if let Ok(named) = self.named(name) {
            self.last_writes.note(&named.whole(), write);
        }
    }

    /// The last write of a client to a PV.
    pub fn last_write(&self, name: &str) -> Option<LastWrite> {
        self.last_writes.of(&self.named(name).ok()?.whole())
    }

    /// The names of these PVs; `None` for those that aren't open.
    pub fn names(&self, ids: &[PvId]) -> Vec<Option<Arc<str>>> {
        let open = self.lock();
        let slot = |id: &PvId| open.slots.get(id.index())?.as_ref();
        let name = |id| Some(Arc::clone(&slot(id)?.name));
        ids.iter().map(name).collect()
    }

    /// The names of those of these numbers that are open PVs, without filtered PVs.
    pub fn names_of_pvs(&self, ids: &[PvId]) -> Vec<Arc<str>> {
        let open = self.lock();
        let slots = ids
            .iter()
            .filter_map(|id| open.slots.get(id.index())?.as_ref());
        let pvs = slots.filter(|slot| matches!(slot.shows, Shows::Pv { .. }));
        pvs.map(|slot| Arc::clone(&slot.name)).collect()
    }

    /// Up to `limit` PVs whose names follow `after`, by name: name, number, holders with those of its filtered PVs and
    /// without the relay itself.
    pub fn list(&self, after: &str, limit: usize) -> Vec<(Arc<str>, PvId, usize)> {
        if limit == 0 {
            return Vec::new();
        }
        let open = self.lock();
        // The first ones so far, the last of them on top. To sort all names would take much longer.
        let mut first: BinaryHeap<(&Arc<str>, usize)> = BinaryHeap::new();
        for (index, slot) in open.slots.iter().enumerate() {
            let Some(Slot {
                name,
                shows: Shows::Pv { .. },
                ..
            }) = slot
            else {
                continue;
            };
            if **name <= *after {
                continue;
            }
            if first.len() < limit {
                first.push((name, index));
            } else if let Some(mut last) = first.peek_mut()
                && name < last.0
            {
                *last = (name, index);
            }
        }
        let listed = first.into_sorted_vec().into_iter().map(|(name, index)| {
            let pv = PvId(index as u32);
            (Arc::clone(name), pv, open.holders_of(pv))
        });
        listed.collect()
    }
}
