//! What this relay knows of the fleet: who lives, and who owns a PV.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::members::{About, Change, Members};
use pvwire_fleet::ownership::Owners;
use pvwire_fleet::{MemberId, Presence, Refusal, Refusals, Role};

use super::announcements::Announcement;
use super::counters::Unread;
use crate::config::Hosts;
use crate::limits::lines::Lines;
use crate::session::peers::Peer;

/// Lines of the log about members that come and go: a second, and at once.
const LINES_PER_S: usize = 5;
const LINES_AT_ONCE: usize = 500;

/// What has changed.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// PVs may have other owners.
    pub(super) has_owners: bool,
    /// Members that are lost.
    pub(super) died: Vec<MemberId>,
}

/// See the module.
pub(super) struct View {
    members: Members,
    owners: Owners,
    /// The clock of `members` begins here.
    begun: Instant,
    /// The time that `members` last got.
    polled: Duration,
    changed: Changed,
    unread: Unread,
    hosts: Hosts,
    refusals: Arc<Refusals>,
    /// An announcement of this relay came that this relay did not send.
    is_forged: bool,
    lines: Lines,
}

impl View {
    pub(super) fn new(about: About, hosts: Hosts, refusals: Arc<Refusals>) -> Self {
        let begun = Instant::now();
        Self {
            members: Members::new(about, Duration::ZERO),
            owners: Owners::default(),
            begun,
            polled: Duration::ZERO,
            changed: Changed::default(),
            unread: Unread::default(),
            hosts,
            refusals,
            is_forged: false,
            lines: Lines::new(LINES_PER_S, LINES_AT_ONCE, begun),
        }
    }

    /// The member that owns a PV, by its key.
    pub(super) fn owner(&self, key: &str) -> Option<MemberId> {
        self.owners.owner(key)
    }

    /// An announcement came at some time before.
    pub(super) fn heard(&mut self, (came, announced): Announcement, now: Instant) {
        match announced {
            Ok(mut presence) => {
                self.refuse_host(&mut presence);
                // The thread of the bus may have read the clock before this one last did, or since.
                let at = self.at(came).min(self.at(now)).max(self.polled);
                let changes = self.members.heard(presence, at);
                self.note(changes, now);
            }
            Err(error) => (self.unread).warn(format_args!("a relay on the bus sent {error}"), now),
        }
    }

    pub(super) fn connected(&mut self, up: bool, now: Instant) {
        self.polled = self.at(now);
        let changes = self.members.connected(up, self.polled);
        self.note(changes, now);
    }

    /// Clients aren't sent to other hosts than the operator's.
    fn refuse_host(&self, presence: &mut Presence) {
        let is_other = presence.id != self.members.about().id;
        if is_other && let Some(url) = presence.url.take_if(|url| !self.hosts.allow(url)) {
            let what = format_args!("the address {url:?} of relay {}", presence.id);
            self.refusals.note(Refusal::Host, what);
        }
    }

    /// Whether another program has spoken for this relay since the last call.
    pub(super) fn take_forged(&mut self) -> bool {
        std::mem::take(&mut self.is_forged)
    }

    /// This relay continues under another id. Returns what it announces last under the old one.
    pub(super) fn rename(&mut self, id: MemberId, now: Instant) -> Option<Bytes> {
        let last = self.members.rename(id, self.at(now));
        last.map(|presence| presence.to_bytes())
    }

    pub(super) fn drain(&mut self, now: Instant) {
        self.members.drain(self.at(now));
    }

    /// When `poll` next has something to do after `now`, unless a message arrives before.
    pub(super) fn next_poll(&self, now: Instant) -> Option<Instant> {
        let next = self.members.next_poll(self.at(now));
        next.map(|at| self.begun + at)
    }

    /// Notices what time has changed. Returns the announcement that is due, and what has changed since the last call.
    pub(super) fn poll(
        &mut self,
        (pvs, clients): (u64, u64),
        now: Instant,
    ) -> (Option<Bytes>, Changed) {
        let at = self.at(now);
        self.polled = at;
        self.members.set_load(pvs, clients);
        let changes = self.members.poll(at);
        self.note(changes, now);
        let presence = self.members.announcement(at);
        let announcement = presence.map(|presence| presence.to_bytes());
        (announcement, std::mem::take(&mut self.changed))
    }

    /// Whether this relay's own announcements arrive on the bus now.
    pub(super) fn hears_bus(&self, now: Instant) -> bool {
        self.members.has_lease(self.at(now))
    }

    /// Whether another member lives, as far as it is known.
    pub(super) fn is_live(&self, member: MemberId) -> bool {
        self.members.others().any(|presence| presence.id == member)
    }

    /// Whether another member lives and understands this version of the messages.
    pub(super) fn understands(&self, member: MemberId, version: u32) -> bool {
        let mut others = self.members.others();
        others.any(|presence| presence.id == member && presence.understands(version))
    }

    /// Whether two announcements of another member are missing.
    pub(super) fn is_silent(&self, member: MemberId, now: Instant) -> bool {
        self.members.is_silent(member, self.at(now))
    }

    /// This relay will stop, and no other can own PVs.
    pub(super) fn is_last(&self, now: Instant) -> bool {
        self.members.is_draining()
            && self.members.has_lease(self.at(now))
            && self.owners.members().is_empty()
    }

    /// Whether this relay will stop.
    pub(super) fn is_draining(&self) -> bool {
        self.members.is_draining()
    }

    /// Live members by role, in the order of `Role::ALL`, this one included.
    pub(super) fn by_role(&self) -> [u64; 3] {
        let others = self.members.others().map(|presence| presence.role);
        let roles: Vec<Role> = others.chain([self.members.about().role]).collect();
        Role::ALL.map(|role| roles.iter().filter(|each| **each == role).count() as u64)
    }

    /// The live members, this one included, which owns `pvs` PVs and serves `clients` clients.
    pub(super) fn peers(&self, (pvs, clients): (u64, u64), now: Instant) -> Vec<Peer> {
        let about = self.members.about();
        let at = self.at(now);
        let version = |program: &String| Some(program.clone()).filter(|text| !text.is_empty());
        let this = Peer {
            id: about.id.to_string(),
            name: about.name.clone(),
            role: about.role.token(),
            url: about.url.clone(),
            pvs,
            clients,
            uptime_seconds: self.members.uptime(at).as_secs(),
            version: version(&about.program),
            draining: self.members.is_draining(),
            this_relay: true,
        };
        let others = self.members.others().map(|presence| Peer {
            id: presence.id.to_string(),
            name: presence.name.clone(),
            role: presence.role.token(),
            url: presence.url.clone(),
            pvs: presence.load,
            clients: presence.clients,
            uptime_seconds: (self.members.uptime_of(presence.id, at))
                .map_or(0, |uptime| uptime.as_secs()),
            version: version(&presence.program),
            draining: presence.draining,
            this_relay: false,
        });
        others.chain([this]).collect()
    }

    /// Until when another member may carry out a request of now, in milliseconds of its clock.
    pub(super) fn until(&self, member: MemberId, timeout: Duration, now: Instant) -> Option<u64> {
        let uptime = self.members.uptime_of(member, self.at(now))?;
        Some((uptime + timeout).as_millis() as u64)
    }

    /// Whether this member may still carry out a request with that deadline.
    pub(super) fn is_before(&self, until_millis: u64, now: Instant) -> bool {
        self.members.uptime(self.at(now)).as_millis() as u64 <= until_millis
    }

    fn at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    fn note(&mut self, changes: Vec<Change>, now: Instant) {
        for change in changes {
            match change {
                Change::Joined(member) => {
                    let line = format_args!("relay {member} has joined the fleet");
                    self.lines.say(log::Level::Info, line, now);
                }
                Change::Died(member) => {
                    let line = format_args!("relay {member} is lost");
                    self.lines.say(log::Level::Warn, line, now);
                    self.changed.died.push(member);
                }
                Change::Owners => {
                    self.owners = self.members.owners().clone();
                    self.changed.has_owners = true;
                }
                Change::Forged => {
                    self.is_forged = true;
                    let what = "an announcement of this relay's own id";
                    self.refusals.note(Refusal::OwnId, what);
                }
                Change::Impossible(member) => {
                    let what = format_args!("an announcement of relay {member}");
                    self.refusals.note(Refusal::Uptime, what);
                }
                Change::TooMany(member) => {
                    let what = format_args!("relay {member}, one more than the fleet may have,");
                    self.refusals.note(Refusal::Budget, what);
                }
            }
        }
    }
}
