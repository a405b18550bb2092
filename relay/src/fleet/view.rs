//! What this relay knows of the fleet: who lives, and who owns a PV.

use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::members::{About, Change, Members};
use pvwire_fleet::ownership::Owners;
use pvwire_fleet::{MemberId, Role};

use super::announcements::Announcement;
use super::unread::Unread;
use crate::session::neighbours::Neighbour;

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
    /// When `members` were last told the time.
    polled: Duration,
    changed: Changed,
    unread: Unread,
}

impl View {
    pub(super) fn new(about: About) -> Self {
        Self {
            members: Members::new(about, Duration::ZERO),
            owners: Owners::default(),
            begun: Instant::now(),
            polled: Duration::ZERO,
            changed: Changed::default(),
            unread: Unread::default(),
        }
    }

    /// The member that owns a PV, by its key.
    pub(super) fn owner(&self, key: &str) -> Option<MemberId> {
        self.owners.owner(key)
    }

    /// An announcement came at some time before.
    pub(super) fn heard(&mut self, (came, announced): Announcement, now: Instant) {
        match announced {
            Ok(presence) => {
                // The thread of the bus may have read the clock before this one last did, or since.
                let at = self.at(came).min(self.at(now)).max(self.polled);
                let changes = self.members.heard(presence, at);
                self.note(changes);
            }
            Err(error) => (self.unread).warn(format_args!("a relay on the bus sent {error}"), now),
        }
    }

    pub(super) fn connected(&mut self, up: bool, now: Instant) {
        self.polled = self.at(now);
        let changes = self.members.connected(up, self.polled);
        self.note(changes);
    }

    pub(super) fn drain(&mut self, now: Instant) {
        self.members.drain(self.at(now));
    }

    /// When `poll` next has something to do after `now`, unless something is heard before.
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
        self.note(changes);
        let presence = self.members.announcement(at);
        let announcement = presence.map(|presence| presence.to_bytes());
        (announcement, std::mem::take(&mut self.changed))
    }

    /// Whether this relay has heard itself on the bus just now.
    pub(super) fn hears_bus(&self, now: Instant) -> bool {
        self.members.has_lease(self.at(now))
    }

    /// Whether another member lives, as far as it is known.
    pub(super) fn is_live(&self, member: MemberId) -> bool {
        self.members.others().any(|presence| presence.id == member)
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
    pub(super) fn neighbours(&self, pvs: u64, clients: u64) -> Vec<Neighbour> {
        let about = self.members.about();
        let this = Neighbour {
            id: about.id.to_string(),
            name: about.name.clone(),
            role: about.role.token(),
            url: about.url.clone(),
            pvs,
            clients,
            draining: self.members.is_draining(),
            this_relay: true,
        };
        let others = self.members.others().map(|presence| Neighbour {
            id: presence.id.to_string(),
            name: presence.name.clone(),
            role: presence.role.token(),
            url: presence.url.clone(),
            pvs: presence.load,
            clients: presence.clients,
            draining: presence.draining,
            this_relay: false,
        });
        others.chain([this]).collect()
    }

    /// Until when another member may do what it is asked for now, in milliseconds of its clock.
    pub(super) fn until(&self, member: MemberId, timeout: Duration, now: Instant) -> Option<u64> {
        let uptime = self.members.uptime_of(member, self.at(now))?;
        Some((uptime + timeout).as_millis() as u64)
    }

    /// Whether this member may still do what it was asked to do until then.
    pub(super) fn is_before(&self, until_millis: u64, now: Instant) -> bool {
        self.members.uptime(self.at(now)).as_millis() as u64 <= until_millis
    }

    fn at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    fn note(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Joined(member) => log::info!("relay {member} has joined the fleet"),
                Change::Died(member) => {
                    log::warn!("relay {member} is lost");
                    self.changed.died.push(member);
                }
                Change::Owners => {
                    self.owners = self.members.owners().clone();
                    self.changed.has_owners = true;
                }
            }
        }
    }
}
