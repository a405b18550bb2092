//! Which PVs are monitored, for how many clients, and by which number?
//!
//! One monitor per PV however many want it; it stays open for a linger after the last one left, so
//! that a page that is loaded again costs the IOC nothing. A PV with a filter is a *filtered PV*: it
//! has its own number, which all clients with an equal filter share, and it holds the PV.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::{Filter, NameProblem, Outcome, PvId};

use crate::access::rule::{Identity, PutsAllowed, Rules};
use crate::config::Access;
use crate::ingest::{
    Call, Event, FilteredLine, Intake, Line, Monitor, Notice, OpDone, OpEnd, OpTicket, Put, Queue,
    Sent, Source,
};
use crate::limits::connections::Caller;
use crate::limits::memory::{Owner, PvCharge, TooMuch};
use crate::limits::subscriptions::{
    MAX_FILTERS, MAX_FILTERS_PER_ACCOUNT, MAX_FILTERS_PER_CONNECTION, NewNames,
};
use crate::state::filter::FilterKey;

/// Longest name of a source that an error repeats.
const MAX_SCHEME_CHARS: usize = 32;

/// A PV whose value takes more than this is closed sooner after the last client left: other clients may need
/// the memory.
const LINGERING_BYTES: usize = 4 << 10;

/// How long such a PV stays open.
const SHORT_LINGER: Duration = Duration::from_secs(1);

/// Why nothing new is taken while the process uses more than it may.
pub const SHORT_OF_MEMORY: &str = "the relay uses more memory than max_memory_mib allows and takes no new PVs or \
                                   clients until it uses less: try again later, or the operator raises the limit";

/// A name that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub problem: NameProblem,
    /// For people.
    pub message: String,
}

impl From<TooMuch> for Refusal {
    fn from(too_much: TooMuch) -> Self {
        Self {
            problem: NameProblem::TooManyPvs,
            message: too_much.to_string(),
        }
    }
}

impl From<Refusal> for OpEnd {
    fn from(refusal: Refusal) -> Self {
        let outcome = match refusal.problem {
            NameProblem::NotAllowed => Outcome::NotAllowed,
            _ => Outcome::BadName,
        };
        Self::failed(outcome, refusal.message)
    }
}

/// The PVs that are open.
pub struct Registry {
    intake: Arc<Intake>,
    sources: Vec<Box<dyn Source>>,
    default_scheme: String,
    linger: Duration,
    rules: RwLock<Arc<Rules>>,
    max_pvs: usize,
    /// Memory is short: nothing new is opened.
    short: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_name: HashMap<Arc<str>, PvId>,
    by_filter: HashMap<(PvId, FilterKey), PvId>,
    slots: Vec<Option<Slot>>,
    free: Vec<PvId>,
    /// PVs that nobody holds, by the time they were let go.
    lingering: Vec<(Instant, PvId)>,
}

impl Open {
    fn slot(&self, pv: PvId) -> &Slot {
        self.slots[pv.index()]
            .as_ref()
            .expect("a PV that is held is open")
    }

    fn slot_mut(&mut self, pv: PvId) -> &mut Slot {
        self.slots[pv.index()]
            .as_mut()
            .expect("a PV that is held is open")
    }

    /// The slot of the PV, also when this is the number of a filtered PV of it.
    fn monitored(&self, pv: PvId) -> (&Slot, &dyn Monitor) {
        let slot = self.slot(pv);
        match &slot.shows {
            Shows::Pv { monitor, .. } => (slot, monitor.as_ref()),
            Shows::Filtered { base, .. } => self.monitored(*base),
        }
    }

    fn free_number(&mut self) -> PvId {
        (self.free.pop()).unwrap_or(PvId(self.slots.len() as u32))
    }

    /// A number that was not used after all.
    fn give_back(&mut self, id: PvId) {
        if id.index() < self.slots.len() {
            self.free.push(id);
        }
    }

    fn place(&mut self, id: PvId, slot: Slot) {
        match self.slots.get_mut(id.index()) {
            Some(place) => *place = Some(slot),
            None => self.slots.push(Some(slot)),
        }
    }

    /// Whether one more filter on a PV may be added for this client.
    fn check_filters(&self, base: PvId, caller: &Caller) -> Result<(), String> {
        let Shows::Pv { filtered, .. } = &self.slot(base).shows else {
            unreachable!("a name stands for a PV");
        };
        let added_by = |fits: &dyn Fn(&Caller) -> bool| {
            let shown = filtered.iter().map(|pv| &self.slot(*pv).shows);
            let fit =
                |shows: &&Shows| matches!(shows, Shows::Filtered { caller, .. } if fits(caller));
            shown.filter(fit).count()
        };
        if filtered.len() >= MAX_FILTERS {
            Err(format!(
                "this PV has {MAX_FILTERS} different filters already: use one that other screens have"
            ))
        } else if added_by(&|other| other.is(caller)) >= MAX_FILTERS_PER_CONNECTION {
            Err(format!(
                "your connection has added {MAX_FILTERS_PER_CONNECTION} different filters to this PV: \
                 unsubscribe one of them first"
            ))
        } else if added_by(&|other| other.shares_account_with(caller)) >= MAX_FILTERS_PER_ACCOUNT {
            Err(format!(
                "connections of your address or user have added {MAX_FILTERS_PER_ACCOUNT} different filters to \
                 this PV: use one of them"
            ))
        } else {
            Ok(())
        }
    }

    fn release_one(&mut self, id: PvId, now: Instant, linger: Duration) {
        let slot = self.slot_mut(id);
        slot.holders = (slot.holders)
            .checked_sub(1)
            .expect("released once per acquire");
        if slot.holders > 0 {
            return;
        }
        let (base, key) = match &slot.shows {
            Shows::Pv { charge, .. } => {
                let is_large = charge.value_bytes() > LINGERING_BYTES;
                let early = if is_large {
                    linger.saturating_sub(SHORT_LINGER)
                } else {
                    Duration::ZERO
                };
                let since = now.checked_sub(early).unwrap_or(now);
                slot.idle_since = Some(since);
                self.lingering.push((since, id));
                return;
            }
            Shows::Filtered { base, key, .. } => (*base, *key),
        };
        // It costs the IOC nothing to open it again.
        self.by_filter.remove(&(base, key));
        if let Shows::Pv { filtered, .. } = &mut self.slot_mut(base).shows {
            filtered.retain(|pv| *pv != id);
        }
        // Tells the tick thread, before somebody else gets the number.
        self.slots[id.index()] = None;
        self.free.push(id);
        self.release_one(base, now, linger);
    }
}

struct Slot {
    name: Arc<str>,
    holders: usize,
    /// When the last holder left; `None` while there is one.
    idle_since: Option<Instant>,
    /// Whether anybody may write it.
    puts: bool,
    shows: Shows,
}

enum Shows {
    /// A PV, and its filtered PVs.
    Pv {
        monitor: Box<dyn Monitor>,
        charge: Arc<PvCharge>,
        /// See [`Line::opening`].
        opening: u32,
        filtered: Vec<PvId>,
    },
    /// A PV through a filter.
    Filtered {
        base: PvId,
        key: FilterKey,
        /// Who asked for it first.
        caller: Caller,
        _line: FilteredLine,
    },
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
            max_pvs: usize::MAX,
            short: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    /// The same with so many PVs at most.
    #[must_use]
    pub fn with_max_pvs(self, max_pvs: usize) -> Self {
        Self { max_pvs, ..self }
    }

    /// Memory is short, or isn't any more.
    pub fn set_short(&self, short: bool) {
        self.short.store(short, Ordering::Relaxed);
    }

    /// Whether memory is short.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Whether one more PV may be opened.
    fn check_room(&self, open: &Open, room: &mut NewNames) -> Result<(), Refusal> {
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

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A panic elsewhere must not take the relay's PVs with it; each change below is whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes hold of PVs that `identity` may read, opening those that aren't open. Each `Ok` wants a
    /// `release`. `fresh` is how many may be opened before others have to queue with the crowd, and is
    /// counted down; more than that at once queue there together. What is opened is charged to the `owner`.
    pub fn acquire(
        &self,
        names: &[String],
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        self.acquire_filtered(names, None, identity, owner, room)
    }

    /// Like `acquire`, with a filter of updates and who asks for it.
    pub fn acquire_filtered(
        &self,
        names: &[String],
        filter: Option<(Filter, &Caller)>,
        identity: &Identity,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Vec<Result<PvId, Refusal>> {
        let mut open = self.lock();
        let new = names.iter().filter(|name| !self.is_open(&open, name));
        let fresh = room.fresh;
        let is_crowd = new.take(fresh + 1).count() > fresh;
        if is_crowd {
            room.fresh = 0;
        }
        let acquire = |name: &String| {
            self.permit(name, identity, Access::Read)?;
            let base = self.acquire_one(&mut open, name, owner, room)?;
            filter.map_or(Ok(base), |(filter, caller)| {
                self.acquire_filter(&mut open, base, filter, (caller, owner))
            })
        };
        let acquired = names.iter().map(acquire).collect();
        if is_crowd {
            room.fresh = fresh;
        }
        acquired
    }

    /// Takes hold of a filtered PV of a PV that is held, and takes that hold over.
    fn acquire_filter(
        &self,
        open: &mut Open,
        base: PvId,
        filter: Filter,
        (caller, owner): (&Caller, &Arc<Owner>),
    ) -> Result<PvId, Refusal> {
        let key = FilterKey::from(filter);
        if let Some(&id) = open.by_filter.get(&(base, key)) {
            // The filtered PV holds it already.
            open.slot_mut(base).holders -= 1;
            open.slot_mut(id).holders += 1;
            return Ok(id);
        }
        let id = open.free_number();
        if let Err(message) = open.check_filters(base, caller) {
            open.give_back(id);
            open.release_one(base, Instant::now(), self.linger);
            let problem = NameProblem::TooManyFilters;
            return Err(Refusal { problem, message });
        }
        let slot = open.slot_mut(base);
        let (name, puts) = (Arc::clone(&slot.name), slot.puts);
        let Shows::Pv {
            filtered, charge, ..
        } = &mut slot.shows
        else {
            unreachable!("a name stands for a PV");
        };
        // It may hold another value than the PV does.
        let charge = match PvCharge::open(owner, charge.value_bytes()) {
            Ok(charge) => charge,
            Err(too_much) => {
                open.give_back(id);
                open.release_one(base, Instant::now(), self.linger);
                return Err(too_much.into());
            }
        };
        filtered.push(id);
        let line = FilteredLine::open(&self.intake, id, base, filter, Some(charge));
        let slot = Slot {
            name,
            holders: 1,
            idle_since: None,
            puts,
            shows: Shows::Filtered {
                base,
                key,
                caller: caller.clone(),
                _line: line,
            },
        };
        open.by_filter.insert((base, key), id);
        open.place(id, slot);
        Ok(id)
    }

    /// Scheme, name without it, and source of a name as clients write it.
    fn source_of<'a>(
        &'a self,
        name: &'a str,
    ) -> Result<(&'a str, &'a str, &'a dyn Source), Refusal> {
        let refusal = |problem, message| Err(Refusal { problem, message });
        let (scheme, bare) = name
            .split_once("://")
            .unwrap_or((&self.default_scheme, name));
        if let Err(message) = check_name(scheme, bare) {
            return refusal(NameProblem::BadName, message);
        }
        let Some(source) = self.sources.iter().find(|source| source.scheme() == scheme) else {
            let known: Vec<_> = self.sources.iter().map(|source| source.scheme()).collect();
            // What a client says is repeated only as far as it could be meant.
            let scheme: String = scheme.chars().take(MAX_SCHEME_CHARS).collect();
            let message = format!("no source {scheme:?}; this relay has: {}", known.join(", "));
            return refusal(NameProblem::NoSuchSource, message);
        };
        Ok((scheme, bare, source.as_ref()))
    }

    fn is_open(&self, open: &Open, name: &str) -> bool {
        self.source_of(name).is_ok_and(|(scheme, bare, _)| {
            open.by_name
                .contains_key(format!("{scheme}://{bare}").as_str())
        })
    }

    fn acquire_one(
        &self,
        open: &mut Open,
        name: &str,
        owner: &Arc<Owner>,
        room: &mut NewNames,
    ) -> Result<PvId, Refusal> {
        let (scheme, bare, source) = self.source_of(name)?;
        let whole = format!("{scheme}://{bare}");
        if let Some(&id) = open.by_name.get(whole.as_str()) {
            let slot = open.slot_mut(id);
            slot.holders += 1;
            slot.idle_since = None;
            if let Shows::Pv { charge, .. } = &slot.shows
                && charge.may_need_others()
            {
                charge.join(owner);
            }
            return Ok(id);
        }
        self.check_room(open, room)?;
        source.has_room(bare).map_err(|message| Refusal {
            problem: NameProblem::TooManyPvs,
            message,
        })?;
        let charge = PvCharge::open(owner, source.value_bytes(bare))?;
        let id = open.free_number();
        let puts = self.rules().takes_puts(scheme, bare);
        let queue = match room.fresh.checked_sub(1) {
            Some(rest) => {
                room.fresh = rest;
                Queue::Front
            }
            None => Queue::Crowd,
        };
        let line = Line::open_charged(&self.intake, id, puts, Some(Arc::clone(&charge)));
        let opening = line.opening();
        let monitor = match source.open(bare, line, queue) {
            Ok(monitor) => monitor,
            Err(message) => {
                open.give_back(id);
                self.forget(id, opening);
                let problem = NameProblem::BadName;
                return Err(Refusal { problem, message });
            }
        };
        let name: Arc<str> = whole.into();
        open.by_name.insert(Arc::clone(&name), id);
        let slot = Slot {
            name,
            holders: 1,
            idle_since: None,
            puts,
            shows: Shows::Pv {
                monitor,
                charge,
                opening,
                filtered: Vec::new(),
            },
        };
        open.place(id, slot);
        Ok(id)
    }

    /// Whether somebody may do something with a PV.
    ///
    /// # Errors
    /// The rule that denies it, or what is wrong with the name.
    pub fn permit(&self, name: &str, identity: &Identity, access: Access) -> Result<(), Refusal> {
        let (scheme, bare, _) = self.source_of(name)?;
        let rules = self.rules();
        let verdict = rules.judge(identity, scheme, bare, access);
        if verdict.allowed {
            return Ok(());
        }
        Err(Refusal {
            problem: NameProblem::NotAllowed,
            message: format!("{identity} may not {access} this PV: {}", verdict.because),
        })
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether puts are taken, and by how many rules.
    #[must_use]
    pub fn puts(&self) -> PutsAllowed {
        self.rules().puts()
    }

    /// From now on these rules hold. Of what is open already only whether anybody may write it is looked
    /// at here; `unreadable` tells the rest.
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

    /// Has the sources of these PVs tell their descriptions; those that aren't open are passed over.
    /// Gives the PVs whose source tells the description apart from the metadata.
    pub fn describe(&self, pvs: &[PvId]) -> Vec<PvId> {
        let open = self.lock();
        let is_open = |pv: &PvId| open.slots.get(pv.index()).is_some_and(Option::is_some);
        let told_apart = |pv: &PvId| is_open(pv) && open.monitored(*pv).1.describe();
        pvs.iter().copied().filter(told_apart).collect()
    }

    /// The rules that hold now, and the PVs that are open.
    pub fn to_judge(&self) -> (Arc<Rules>, Vec<(PvId, Arc<str>)>) {
        let (open, rules) = (self.lock(), self.rules());
        let slots = open.slots.iter().enumerate();
        let named = |(index, slot): (usize, &Option<Slot>)| {
            Some((PvId(index as u32), Arc::clone(&slot.as_ref()?.name)))
        };
        (rules, slots.filter_map(named).collect())
    }

    /// Those of the PVs that `identity` may not read by these rules.
    pub fn unreadable(rules: &Rules, pvs: &[(PvId, Arc<str>)], identity: &Identity) -> Vec<PvId> {
        let denied = pvs.iter().filter(|(_, name)| {
            let (scheme, bare) = name.split_once("://").unwrap_or_default();
            !rules.judge(identity, scheme, bare, Access::Read).allowed
        });
        denied.map(|(pv, _)| *pv).collect()
    }

    /// Takes hold of a PV that `identity` wants to write.
    ///
    /// # Errors
    /// As `permit`; nothing was opened then.
    pub fn acquire_to_put(
        &self,
        name: &str,
        identity: &Identity,
        owner: &Arc<Owner>,
    ) -> Result<PvId, Refusal> {
        self.permit(name, identity, Access::Put)?;
        self.acquire_one(&mut self.lock(), name, owner, &mut { NewNames::ONE })
    }

    /// Has the table forget a PV that is closed. Before its number is used again.
    fn forget(&self, pv: PvId, opening: u32) {
        let event = Event::Closed;
        self.intake.notify(Notice { pv, opening, event });
    }

    /// Writes to a PV that is held; `done` learns what becomes of it.
    ///
    /// # Panics
    /// When nobody holds the PV.
    pub fn put(&self, pv: PvId, put: Put, done: OpDone) -> Box<dyn OpTicket> {
        self.lock().monitored(pv).1.put(put, done)
    }

    /// Calls a service; `done` learns what becomes of it, also when it can't be called.
    pub fn call(
        &self,
        name: &str,
        identity: &Identity,
        call: Call,
        done: OpDone,
    ) -> Box<dyn OpTicket> {
        let permitted = self.permit(name, identity, Access::Put);
        match permitted.and_then(|()| self.source_of(name)) {
            Err(refusal) => {
                done(refusal.into());
                Box::new(Sent)
            }
            Ok((_, bare, source)) => source.call(bare, call, done),
        }
    }

    /// Lets go of PVs, once for each time they were acquired.
    ///
    /// # Panics
    /// When a PV is released more often than it was acquired.
    pub fn release(&self, ids: impl IntoIterator<Item = PvId>, now: Instant) {
        let mut open = self.lock();
        for id in ids {
            open.release_one(id, now, self.linger);
        }
    }

    /// Lets go of PVs that aren't to linger: the next sweep closes those that nobody else holds.
    pub fn discard(&self, ids: impl IntoIterator<Item = PvId>, now: Instant) {
        self.release(ids, now.checked_sub(self.linger).unwrap_or(now));
    }

    /// Closes the monitors that nobody has held for the linger; says how many.
    pub fn sweep(&self, now: Instant) -> usize {
        let mut open = self.lock();
        let Open {
            by_name,
            slots,
            free,
            lingering,
            ..
        } = &mut *open;
        let mut closed = Vec::new();
        lingering.retain(|&(since, id)| {
            if now.duration_since(since) < self.linger {
                return true;
            }
            // Somebody may have come back in between, and may have left again since.
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
        drop(open);
        closed.len()
    }

    /// Has the source of a scheme look for its servers again, by their host names.
    pub fn renew(&self, scheme: &str) {
        let mut sources = self.sources.iter();
        if let Some(source) = sources.find(|source| source.scheme() == scheme) {
            source.renew();
        }
    }

    /// Elements a second that the relay itself makes for each of these PVs, which are held or `NONE`.
    pub fn loads(&self, ids: &[PvId]) -> Vec<u64> {
        let open = self.lock();
        let load = |id: &PvId| match *id {
            PvId::NONE => 0,
            id => open.monitored(id).1.load(),
        };
        ids.iter().map(load).collect()
    }

    /// Open monitors, held or lingering.
    pub fn monitors(&self) -> usize {
        self.lock().by_name.len()
    }

    /// The PVs that are open, without filtered PVs.
    pub fn open_pvs(&self) -> Vec<PvId> {
        let open = self.lock();
        let slots = open.slots.iter().enumerate();
        let pvs = slots.filter_map(|(index, slot)| {
            let is_pv = matches!(slot.as_ref()?.shows, Shows::Pv { .. });
            is_pv.then_some(PvId(index as u32))
        });
        pvs.collect()
    }

    /// Up to `limit` PVs, by name: name, number, holders with those of its filtered PVs.
    pub fn list(&self, limit: usize) -> Vec<(Arc<str>, PvId, usize)> {
        let open = self.lock();
        let mut list: Vec<_> = open
            .slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| {
                let slot = slot.as_ref()?;
                let Shows::Pv { filtered, .. } = &slot.shows else {
                    return None;
                };
                // Each filtered PV is a holder itself.
                let through: usize = filtered.iter().map(|pv| open.slot(*pv).holders).sum();
                let holders = slot.holders - filtered.len() + through;
                Some((Arc::clone(&slot.name), PvId(index as u32), holders))
            })
            .collect();
        list.sort();
        list.truncate(limit);
        list
    }
}

/// Sources whose names may hold blanks, between their arguments.
const WITH_BLANKS: [&str; 2] = ["sim", "ssim"];

fn check_name(scheme: &str, name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a PV name can't be empty".into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(format!(
            "a PV name has at most {MAX_NAME_BYTES} bytes, not {}",
            name.len()
        ));
    }
    let bad = |c: &char| {
        let blank = *c == ' ' && WITH_BLANKS.contains(&scheme);
        !blank && (c.is_whitespace() || c.is_control())
    };
    if let Some(bad) = name.chars().find(bad) {
        return Err(format!("a PV name can't hold {bad:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::connections::{CallerLimits, Callers};
    use crate::limits::subscriptions::NewNameLimits;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counted {
        opened: AtomicUsize,
        closed: AtomicUsize,
        crowded: AtomicUsize,
    }

    struct CountedSource(Arc<Counted>);
    struct CountedMonitor {
        counted: Arc<Counted>,
        _line: Line,
    }

    impl Source for CountedSource {
        fn scheme(&self) -> &'static str {
            "ca"
        }
        fn open(&self, _name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, String> {
            self.0.opened.fetch_add(1, Ordering::Relaxed);
            let crowded = usize::from(queue == Queue::Crowd);
            self.0.crowded.fetch_add(crowded, Ordering::Relaxed);
            Ok(Box::new(CountedMonitor {
                counted: Arc::clone(&self.0),
                _line: line,
            }))
        }
    }

    impl Monitor for CountedMonitor {}
    impl Drop for CountedMonitor {
        fn drop(&mut self) {
            self.counted.closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    const LINGER: Duration = Duration::from_secs(10);

    fn registry() -> (Registry, Arc<Counted>) {
        let counted = Arc::new(Counted::default());
        let sources: Vec<Box<dyn Source>> = vec![Box::new(CountedSource(Arc::clone(&counted)))];
        let rules = Rules::default();
        let registry = Registry::new(Intake::new(), sources, "ca", LINGER, rules);
        (registry, counted)
    }

    fn one(registry: &Registry, name: &str) -> Result<PvId, Refusal> {
        registry
            .acquire(
                &[name.to_owned()],
                &Identity::default(),
                &Owner::unlimited(),
                &mut { NewNames::ONE },
            )
            .remove(0)
    }

    #[test]
    fn one_monitor_serves_every_client_and_both_spellings() {
        let (registry, counted) = registry();
        let first = one(&registry, "TEMP").unwrap();
        assert_eq!(one(&registry, "ca://TEMP"), Ok(first));
        assert_eq!(counted.opened.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn monitor_closes_a_linger_after_the_last_client_left() {
        let (registry, counted) = registry();
        let id = one(&registry, "TEMP").unwrap();
        let left = Instant::now();
        registry.release([id], left);
        assert_eq!(registry.sweep(left + LINGER / 2), 0);
        assert_eq!(registry.sweep(left + LINGER), 1);
        assert_eq!(counted.closed.load(Ordering::Relaxed), 1);
        assert_eq!(registry.monitors(), 0);
    }

    #[test]
    fn client_that_comes_back_within_the_linger_finds_the_monitor_open() {
        let (registry, counted) = registry();
        let id = one(&registry, "TEMP").unwrap();
        let left = Instant::now();
        registry.release([id], left);
        assert_eq!(one(&registry, "TEMP"), Ok(id));
        registry.release([id], left + LINGER / 2);
        assert_eq!(
            registry.sweep(left + LINGER),
            0,
            "the second linger isn't over"
        );
        assert_eq!(registry.sweep(left + LINGER * 2), 1);
        assert_eq!(counted.opened.load(Ordering::Relaxed), 1);
    }

    fn filtered_by(registry: &Registry, every: u32, caller: &Caller) -> Result<PvId, Refusal> {
        let filter = Filter {
            every,
            ..Filter::default()
        };
        let names = ["TEMP".to_owned()];
        let identity = Identity::default();
        registry
            .acquire_filtered(
                &names,
                Some((filter, caller)),
                &identity,
                &Owner::unlimited(),
                &mut { NewNames::ONE },
            )
            .remove(0)
    }

    fn filtered(registry: &Registry, every: u32) -> Result<PvId, Refusal> {
        filtered_by(registry, every, &Caller::default())
    }

    /// Clients of so many connections from one address, a few from each.
    fn callers(addresses: usize, from_each: usize) -> Vec<Caller> {
        let callers = Callers::new(CallerLimits {
            connections: 0,
            per_address: 0,
            arrivals_per_s: 0,
            new_names: NewNameLimits {
                per_s: 1,
                at_once: 1,
            },
        });
        let all = (0..addresses * from_each).map(|n| {
            let from = [192, 0, 2, (n / from_each) as u8].into();
            let stay = callers.enter(Some(from), Instant::now()).unwrap();
            stay.caller()
        });
        all.collect()
    }

    #[test]
    fn one_monitor_serves_every_filter_and_equal_filters_share_a_number() {
        let (registry, counted) = registry();
        let base = one(&registry, "TEMP").unwrap();
        let pv = filtered(&registry, 2).unwrap();
        assert_ne!(pv, base);
        assert_eq!(filtered(&registry, 2), Ok(pv));
        assert_ne!(filtered(&registry, 3), Ok(pv));
        assert_eq!(counted.opened.load(Ordering::Relaxed), 1);
        assert_eq!(registry.monitors(), 1);
        assert_eq!(registry.list(9), [("ca://TEMP".into(), base, 4)]);
    }

    #[test]
    fn filtered_pv_ends_with_its_last_client_and_the_pv_lingers() {
        let (registry, _) = registry();
        let pv = filtered(&registry, 2).unwrap();
        assert_eq!(filtered(&registry, 2), Ok(pv));
        let left = Instant::now();
        registry.release([pv], left);
        assert_eq!(registry.sweep(left + LINGER), 0, "a client still holds it");
        registry.release([pv], left + LINGER);
        assert_eq!(registry.sweep(left + LINGER), 0);
        assert_eq!(registry.sweep(left + LINGER * 2), 1);
        assert_eq!(registry.list(9), []);
        // Both numbers can be had again.
        let ids = ["A", "B"].map(|name| one(&registry, name).unwrap().index());
        assert_eq!(ids.iter().max(), Some(&1));
    }

    #[test]
    fn one_filter_too_many_is_refused_and_holds_nothing() {
        let (registry, _) = registry();
        let clients = callers(5, MAX_FILTERS / 4);
        let pvs: Vec<_> = (2..)
            .zip(&clients[..MAX_FILTERS])
            .map(|(every, client)| filtered_by(&registry, every, client).unwrap())
            .collect();
        for _ in 0..2 {
            let refusal = filtered_by(&registry, 1000, &clients[MAX_FILTERS]).unwrap_err();
            assert_eq!(refusal.problem, NameProblem::TooManyFilters);
            let start = "this PV has 32 different filters already";
            assert!(refusal.message.starts_with(start), "{}", refusal.message);
        }
        assert_eq!(
            filtered(&registry, 2),
            Ok(pvs[0]),
            "a known filter is not a new one"
        );
        let left = Instant::now();
        registry.release(pvs.iter().copied().chain([pvs[0]]), left);
        assert_eq!(registry.sweep(left + LINGER), 1);
    }

    #[test]
    fn one_client_or_address_leaves_filters_of_a_pv_to_others() {
        let (registry, _) = registry();
        let clients = callers(3, 3);
        let mut every = 1;
        let mut add = |client: &Caller| {
            every += 1;
            let added = filtered_by(&registry, every, client);
            added.map_err(|refusal| refusal.message)
        };
        let own: Vec<_> = (0..8).map(|_| add(&clients[0]).unwrap()).collect();
        let message = add(&clients[0]).unwrap_err();
        assert!(
            message.starts_with("your connection has added 8"),
            "{message}"
        );
        // A filter that is there already can be shared, by whoever asks.
        assert_eq!(filtered_by(&registry, 2, &clients[0]), Ok(own[0]));
        assert!((0..8).all(|_| add(&clients[1]).is_ok()));
        let message = add(&clients[2]).unwrap_err();
        let start = "connections of your address or user have added 16";
        assert!(message.starts_with(start), "{message}");
        assert!(add(&clients[3]).is_ok(), "of another address");
        let left = Instant::now();
        registry.release(own.iter().copied().chain([own[0]]), left);
        assert!(
            add(&clients[0]).is_ok() && add(&clients[2]).is_ok(),
            "given up"
        );
    }

    #[test]
    fn new_names_beyond_the_allowance_queue_with_the_crowd() {
        let (registry, counted) = registry();
        let names: Vec<_> = (0..5).map(|n| format!("PV{n}")).collect();
        let mut room = NewNames { fresh: 3, new: 9 };
        let mut acquire = |names: &[String]| {
            registry.acquire(names, &Identity::default(), &Owner::unlimited(), &mut room);
            let opened = counted.opened.load(Ordering::Relaxed);
            (room.fresh, opened, counted.crowded.load(Ordering::Relaxed))
        };
        assert_eq!(acquire(&names[..2]), (1, 2, 0));
        assert_eq!(acquire(&names[..4]), (1, 4, 2), "too many at once");
        assert_eq!(acquire(&names), (0, 5, 2), "one that is new");
    }

    #[test]
    fn names_that_no_pv_has_are_refused_with_a_reason() {
        let (registry, _) = registry();
        for (name, problem, message) in [
            ("", NameProblem::BadName, "a PV name can't be empty"),
            ("A B", NameProblem::BadName, "a PV name can't hold ' '"),
            (
                "tango://X",
                NameProblem::NoSuchSource,
                "no source \"tango\"; this relay has: ca",
            ),
        ] {
            let refusal = one(&registry, name).unwrap_err();
            assert_eq!(
                (refusal.problem, refusal.message.as_str()),
                (problem, message)
            );
        }
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        assert_eq!(
            one(&registry, &long).unwrap_err().problem,
            NameProblem::BadName
        );
    }
}
