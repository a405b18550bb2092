//! The members of the fleet as one of them sees them: who lives, who owns PVs, and when this member may.
//!
//! A member announces itself every [`ANNOUNCE_EVERY`] and is dead after [`DEAD_AFTER`] of silence. It hears its own
//! announcements too, and holds a lease for [`DEAD_AFTER`] from the time it sent the last one that came back.
//! A member whose lease has ended owns nothing. So a member that is cut off has released its PVs before the others
//! take them, without clocks that agree. Only when another member joins at that very moment may a PV have two owners,
//! until the lease ends; no other member hears the one that is cut off.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::member::{MemberId, NEWEST, Presence, Role, VERSION};
use crate::ownership::Owners;

/// How often a member announces itself. Four announcements may be lost before the others take it for dead.
pub const ANNOUNCE_EVERY: Duration = Duration::from_millis(500);

/// A member without an announcement for this time has missed two: what it sent may be out of date.
pub const SILENT_AFTER: Duration = Duration::from_millis(1100);

/// A member is dead after this time without an announcement. Its PVs must be disconnected everywhere within 3 s.
pub const DEAD_AFTER: Duration = Duration::from_millis(2500);

/// How long a member listens before it may own PVs: every other member announces itself meanwhile.
pub const SETTLE: Duration = Duration::from_millis(1500);

/// How long a member that died waits before it owns PVs again. Each further death doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A death is forgotten after this time without another of the same name.
const FORGET_DEATHS_AFTER: Duration = Duration::from_secs(600);

/// Other members whose announcements arrive.
pub const MAX_MEMBERS: usize = 1024;

/// Announcements of this member that may still come back.
const MAX_SENT: usize = 64;

/// The clocks of two members differ by at most a thousandth of the time, and an announcement is late by at most this.
const LATE_BY: Duration = Duration::from_secs(5);

/// Names whose deaths are remembered.
const MAX_REMEMBERED: usize = 64;

/// What a member is, as long as it runs.
#[derive(Clone, Debug)]
pub struct About {
    /// Its id.
    pub id: MemberId,
    /// The name of its place: the same after a restart.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Where clients reach it.
    pub url: Option<String>,
    /// The version of its program.
    pub program: String,
}

/// What changed in the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first announcement of a member arrived.
    Joined(MemberId),
    /// A member has been silent for too long.
    Died(MemberId),
    /// [`Members::owners`] are others than before.
    Owners,
    /// An announcement of this member came that this member did not send. It is not used.
    Forged,
    /// A member announced that it has run for longer than it can have. It is not used.
    Impossible(MemberId),
    /// A new member announced itself, but there are [`MAX_MEMBERS`] others. It is not used.
    TooMany(MemberId),
}

/// The members of the fleet, as this member sees them. Times are of any clock that never goes back.
pub struct Members {
    about: About,
    started: Duration,
    up: bool,
    /// PVs may belong to this member.
    ready: bool,
    draining: bool,
    load: u64,
    clients: u64,
    /// The largest term of any member.
    term: u64,
    next_announcement: Duration,
    /// The last announcements of this member.
    sent: VecDeque<Presence>,
    /// Ids that this member had before.
    former: VecDeque<MemberId>,
    /// When this member's last announcement that came back was sent, and its content.
    echo: Option<(Duration, Presence)>,
    /// When it began to hear itself, after its start or the end of a lease.
    listening: Option<Duration>,
    others: BTreeMap<MemberId, Other>,
    deaths: BTreeMap<String, Deaths>,
    owners: Owners,
}

struct Other {
    heard: Duration,
    presence: Presence,
    /// When its first announcement arrived, and its uptime then.
    first: (Duration, Duration),
}

impl Other {
    /// Whether it can have run for so long.
    fn can_have_run(&self, uptime: Duration, now: Duration) -> bool {
        let (at, uptime_then) = self.first;
        let since = now.saturating_sub(at);
        let most = (uptime_then.saturating_add(since)).saturating_add(since / 1000);
        uptime <= most.saturating_add(LATE_BY)
    }
}

#[derive(Clone, Copy)]
struct Deaths {
    count: u32,
    last: Duration,
}

impl Members {
    /// A fleet before the first announcement arrives.
    pub fn new(about: About, now: Duration) -> Self {
        Self {
            about,
            started: now,
            up: false,
            ready: false,
            draining: false,
            load: 0,
            clients: 0,
            term: 0,
            next_announcement: now,
            sent: VecDeque::new(),
            former: VecDeque::new(),
            echo: None,
            listening: None,
            others: BTreeMap::new(),
            deaths: BTreeMap::new(),
            owners: Owners::default(),
        }
    }

    /// The connection to the bus is there or lost.
    pub fn connected(&mut self, up: bool, now: Duration) -> Vec<Change> {
        let mut changes = self.poll(now);
        self.up = up;
        if up {
            self.hear_others_again(now);
            self.next_announcement = now;
        }
        changes.extend(self.poll(now));
        changes
    }

    /// An announcement came, of this member or another.
    pub fn heard(&mut self, presence: Presence, now: Duration) -> Vec<Change> {
        // A lease that ended meanwhile is not continued.
        let mut changes = self.poll(now);
        let id = presence.id;
        if self.former.contains(&id) {
            return changes;
        }
        if id == self.about.id {
            if !self.sent.contains(&presence) {
                changes.push(Change::Forged);
                return changes;
            }
            let sent = self.started + Duration::from_millis(presence.uptime_millis);
            if self.echo.as_ref().is_none_or(|(last, _)| *last <= sent) {
                self.echo = Some((sent, presence));
            }
            if self.listening.is_none() && self.has_lease(now) {
                self.listening = Some(now);
                self.hear_others_again(now);
            }
        } else {
            let uptime = Duration::from_millis(presence.uptime_millis);
            let known = self.others.get(&id);
            if known.is_some_and(|known| !known.can_have_run(uptime, now)) {
                changes.push(Change::Impossible(id));
                return changes;
            }
            if known.is_none() && self.others.len() >= MAX_MEMBERS {
                changes.push(Change::TooMany(id));
                return changes;
            }
            self.term = self.term.max(presence.term);
            let first = known.map_or((now, uptime), |known| known.first);
            let other = Other {
                heard: now,
                presence,
                first,
            };
            if self.others.insert(id, other).is_none() {
                changes.push(Change::Joined(id));
            }
        }
        changes.extend(self.poll(now));
        changes
    }

    /// When time alone next changes something, or an announcement is due, unless a message arrives before. `None`
    /// while it can't: then this member waits for the bus.
    pub fn next_poll(&self, now: Duration) -> Option<Duration> {
        let lease = self.echo.iter().map(|(sent, _)| *sent + DEAD_AFTER);
        let heard = self.others.values().map(|other| other.heard);
        let silences = heard.clone().map(|heard| heard + SILENT_AFTER);
        let deaths = heard.map(|heard| heard + DEAD_AFTER);
        let announcement = self.up.then_some(self.next_announcement);
        let settled = self.listening.map(|since| since + SETTLE);
        let owns = settled.map(|settled| settled + self.wait());
        (lease.chain(silences).chain(deaths))
            .chain([announcement, settled, owns].into_iter().flatten())
            .filter(|at| *at > now)
            .min()
    }

    /// Looks for what time alone has changed. Call it no later than [`next_poll`](Self::next_poll) says.
    pub fn poll(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.has_lease(now) {
            if self.up {
                self.bury(now, &mut changes);
            }
            if !self.ready && self.may_own(now) {
                self.ready = true;
                self.next_announcement = now;
            }
        } else {
            self.ready = false;
            self.listening = None;
        }
        let members = self.owning(now);
        if members != self.owners.members() {
            // Another member may announce any term.
            self.term = self.term.saturating_add(1);
            self.owners = Owners::new(members, self.term);
            changes.push(Change::Owners);
        }
        changes
    }

    /// The announcement that is due, if one is. The caller sends it at once.
    pub fn announcement(&mut self, now: Duration) -> Option<Presence> {
        if !self.up || now < self.next_announcement {
            return None;
        }
        self.next_announcement = now + ANNOUNCE_EVERY;
        self.deaths
            .retain(|_, deaths| now < deaths.last + FORGET_DEATHS_AFTER);
        let deaths = self.deaths.iter();
        let deaths = deaths.map(|(name, deaths)| (name.clone(), deaths.count));
        let presence = Presence {
            version: VERSION,
            newest: Some(NEWEST),
            id: self.about.id,
            name: self.about.name.clone(),
            role: self.about.role,
            url: self.about.url.clone(),
            term: self.term,
            ready: self.ready && self.has_lease(now),
            draining: self.draining,
            load: self.load,
            clients: self.clients,
            uptime_millis: millis(now - self.started),
            deaths: deaths.collect(),
            program: self.about.program.clone(),
        };
        if self.sent.len() >= MAX_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(presence.clone());
        Some(presence)
    }

    /// Another program uses this id: this member continues under another one, as a member that has just started.
    /// Returns what it announces last under the old one, so that the others take its PVs at once.
    pub fn rename(&mut self, id: MemberId, now: Duration) -> Option<Presence> {
        let was_draining = std::mem::replace(&mut self.draining, true);
        self.next_announcement = now;
        let last = self.announcement(now);
        self.draining = was_draining;
        self.next_announcement = now;
        self.sent.clear();
        if self.former.len() >= MAX_SENT {
            self.former.pop_front();
        }
        let former = std::mem::replace(&mut self.about.id, id);
        self.former.push_back(former);
        (self.echo, self.listening, self.ready) = (None, None, false);
        last
    }

    /// Sets how many PVs this member owns, and how many clients it has.
    pub fn set_load(&mut self, pvs: u64, clients: u64) {
        self.load = pvs;
        self.clients = clients;
    }

    /// This member is about to go: it hands over its PVs. There is no way back.
    pub fn drain(&mut self, now: Duration) {
        self.draining = true;
        self.next_announcement = now;
    }

    /// Whether this member is about to go.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// The members that own PVs. Empty while this member has no lease or has not listened long enough.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// What the other live members announced last.
    pub fn others(&self) -> impl Iterator<Item = &Presence> {
        self.others.values().map(|other| &other.presence)
    }

    /// Whether another member has been silent for [`SILENT_AFTER`], or is dead.
    pub fn is_silent(&self, member: MemberId, now: Duration) -> bool {
        let other = self.others.get(&member);
        other.is_none_or(|other| now >= other.heard + SILENT_AFTER)
    }

    /// This member.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How long this member has run, by its own clock.
    pub fn uptime(&self, now: Duration) -> Duration {
        now - self.started
    }

    /// How long another member has run, by that member's clock: at most this, because its last announcement took
    /// some time to arrive. None when it isn't known.
    ///
    /// A request that says until when it may be carried out, by the clock of its receiver, is never carried out
    /// late, even if that member was stopped meanwhile.
    pub fn uptime_of(&self, member: MemberId, now: Duration) -> Option<Duration> {
        let other = self.others.get(&member)?;
        let announced = Duration::from_millis(other.presence.uptime_millis);
        Some(announced + (now - other.heard))
    }

    /// Whether an announcement that this member sent within [`DEAD_AFTER`] came back.
    pub fn has_lease(&self, now: Duration) -> bool {
        let echo = self.echo.as_ref();
        echo.is_some_and(|(sent, _)| now < *sent + DEAD_AFTER)
    }

    /// Starts the time again in which the others must announce themselves: nothing arrived for a while.
    fn hear_others_again(&mut self, now: Duration) {
        for other in self.others.values_mut() {
            other.heard = now;
        }
    }

    /// Removes members that were silent for too long.
    fn bury(&mut self, now: Duration, changes: &mut Vec<Change>) {
        let silent = |_: &MemberId, other: &mut Other| now >= other.heard + DEAD_AFTER;
        for (id, other) in self.others.extract_if(.., silent) {
            changes.push(Change::Died(id));
            let known = self.deaths.contains_key(&other.presence.name);
            let planned = other.presence.draining;
            if !planned && (known || self.deaths.len() < MAX_REMEMBERED) {
                let none = Deaths {
                    count: 0,
                    last: now,
                };
                let deaths = self.deaths.entry(other.presence.name).or_insert(none);
                deaths.count = deaths.count.saturating_add(1);
                deaths.last = now;
            }
        }
    }

    fn settled(&self, now: Duration) -> bool {
        self.listening.is_some_and(|since| now >= since + SETTLE)
    }

    /// Whether this member has listened long enough to own PVs. After a death it waits longer, unless no other
    /// member owns any.
    fn may_own(&self, now: Duration) -> bool {
        if !self.about.role.ingests() || self.draining || !self.settled(now) {
            return false;
        }
        if !self.others.values().any(|other| owns(&other.presence)) {
            return true;
        }
        let wait = self.wait();
        self.listening
            .is_some_and(|since| now >= since + SETTLE + wait)
    }

    /// How long this member waits before it owns PVs again, after it has listened.
    fn wait(&self) -> Duration {
        let seen = self.others.values();
        let seen = seen.filter_map(|other| other.presence.deaths.get(&self.about.name));
        wait_after(seen.copied().max().unwrap_or(0))
    }

    /// The members that own PVs now, in the order of their ids.
    fn owning(&self, now: Duration) -> Vec<MemberId> {
        if !self.settled(now) {
            return Vec::new();
        }
        let others = self.others.values().map(|other| &other.presence);
        // This member counts itself from when the others can know the same.
        let this = self.echo.iter().map(|(_, presence)| presence);
        let this = this.filter(|_| self.ready);
        let owning = others.chain(this).filter(|presence| owns(presence));
        let mut owning: Vec<MemberId> = owning.map(|presence| presence.id).collect();
        owning.sort_unstable();
        owning
    }
}

/// Whether PVs may belong to the member that announced this.
fn owns(presence: &Presence) -> bool {
    presence.role.ingests() && presence.ready && !presence.draining
}

/// How long a member waits that died so often lately.
fn wait_after(deaths: u32) -> Duration {
    let Some(doublings) = deaths.checked_sub(1) else {
        return Duration::ZERO;
    };
    let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(doublings));
    wait.min(LONGEST_WAIT)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
