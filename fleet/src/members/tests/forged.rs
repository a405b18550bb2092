//! Announcements that no member has sent.

use super::world::World;
use super::*;

fn about(id: u64) -> About {
    About {
        id: MemberId(id),
        name: format!("member {id}"),
        role: Role::Both,
        url: None,
        program: String::new(),
    }
}

/// A member that owns PVs, and hears one other.
struct Pair {
    members: Members,
    other: Members,
    now: Duration,
}

impl Pair {
    fn new() -> Self {
        let [members, other] = [1, 2].map(|id| Members::new(about(id), Duration::ZERO));
        let now = Duration::ZERO;
        let mut pair = Self {
            members,
            other,
            now,
        };
        pair.members.connected(true, now);
        pair.other.connected(true, now);
        pair.run(START);
        assert_eq!(pair.owning(), [MemberId(1), MemberId(2)]);
        pair
    }

    fn run(&mut self, time: Duration) -> Vec<Change> {
        let (until, mut changes) = (self.now + time, Vec::new());
        while self.now < until {
            self.now += Duration::from_millis(50);
            let now = self.now;
            let announcements = [&mut self.members, &mut self.other].map(|member| {
                changes.extend(member.poll(now));
                member.announcement(now)
            });
            for presence in announcements.into_iter().flatten() {
                changes.extend(self.members.heard(presence.clone(), now));
                self.other.heard(presence, now);
            }
        }
        changes
    }

    fn owning(&self) -> Vec<MemberId> {
        self.members.owners().members().to_vec()
    }

    /// What this member, or the other, announced last.
    fn last(&self, id: u64) -> Presence {
        match self.members.others().find(|other| other.id == MemberId(id)) {
            Some(other) => other.clone(),
            None => self.members.sent.back().unwrap().clone(),
        }
    }
}

#[test]
fn forged_announcement_of_a_members_own_id_takes_it_no_pvs() {
    let mut pair = Pair::new();
    let forged = Presence {
        draining: true,
        uptime_millis: u64::MAX,
        ..pair.last(1)
    };
    assert_eq!(pair.members.heard(forged, pair.now), [Change::Forged]);
    // It would have been the newest for ever.
    assert_eq!(pair.run(4 * DEAD_AFTER), []);
    assert_eq!(pair.owning(), [MemberId(1), MemberId(2)]);
}

#[test]
fn own_announcement_that_comes_twice_or_late_is_not_forged() {
    let mut pair = Pair::new();
    let (first, now) = (pair.members.sent[0].clone(), pair.now);
    for presence in [pair.last(1), pair.last(1), first] {
        assert_eq!(pair.members.heard(presence, now), []);
    }
    assert_eq!(pair.run(DEAD_AFTER), []);
}

#[test]
fn uptime_of_another_member_can_not_jump() {
    let mut pair = Pair::new();
    let true_one = pair.last(2);
    for ahead in [u64::MAX, true_one.uptime_millis + 3_600_000] {
        let forged = Presence {
            draining: true,
            uptime_millis: ahead,
            ..true_one.clone()
        };
        let refused = [Change::Impossible(MemberId(2))];
        assert_eq!(pair.members.heard(forged, pair.now), refused);
    }
    assert_eq!(pair.owning(), [MemberId(1), MemberId(2)]);
    assert_eq!(pair.run(4 * DEAD_AFTER), []);
}

#[test]
fn clocks_that_drift_apart_for_a_month_leave_members_heard() {
    let pair = Pair::new();
    let month = Duration::from_secs(30 * 24 * 3600);
    let drifted = millis(month + month / 2000);
    let presence = pair.last(2);
    let later = Presence {
        uptime_millis: presence.uptime_millis + drifted,
        ..presence
    };
    let other = &pair.members.others[&MemberId(2)];
    let uptime = Duration::from_millis(later.uptime_millis);
    assert!(other.can_have_run(uptime, pair.now + month));
    assert!(!other.can_have_run(uptime, pair.now + month / 2));
}

#[test]
fn member_that_goes_on_under_another_id_owns_pvs_again_at_once() {
    let mut pair = Pair::new();
    let last = pair.members.rename(MemberId(3), pair.now).unwrap();
    assert!(last.draining && last.id == MemberId(1));
    let changes = pair.other.heard(last.clone(), pair.now);
    assert_eq!(changes, [Change::Owners], "the other takes its PVs");
    assert!(!pair.members.is_draining());
    // Its own last words are no news to it.
    let changes = pair.members.heard(last, pair.now);
    assert_eq!(changes, [Change::Owners], "it owns none for a moment");
    pair.members.connected(false, pair.now);
    pair.members.connected(true, pair.now);
    pair.run(START);
    assert_eq!(pair.owning(), [MemberId(2), MemberId(3)]);
    let owners = pair.other.owners().members().to_vec();
    assert_eq!(owners, [MemberId(2), MemberId(3)]);
}

#[test]
fn flood_of_new_members_keeps_its_memory_bounded() {
    let mut pair = Pair::new();
    let one = pair.last(2);
    for id in 0..2 * MAX_MEMBERS as u64 {
        let forged = Presence {
            id: MemberId(1000 + id),
            ready: false,
            ..one.clone()
        };
        pair.members.heard(forged, pair.now);
    }
    assert_eq!(pair.members.others().count(), MAX_MEMBERS);
    pair.run(2 * DEAD_AFTER);
    assert_eq!(pair.members.others().count(), 1);
    assert_eq!(pair.owning(), [MemberId(1), MemberId(2)]);
}

#[test]
fn member_that_was_stopped_is_heard_when_it_goes_on() {
    let mut world = World::new(&[Role::Both, Role::Both]);
    world.run(START);
    for stopped in [0, 1] {
        world.stop(stopped, true);
        world.run(4 * LATE_BY);
        world.stop(stopped, false);
        // It was dead to the other, and waits longer before it owns PVs.
        world.run(20 * SECOND);
        for at in 0..2 {
            assert_eq!(world.owners(at).members(), world.ids(&[0, 1]), "{at}");
            let refused =
                |change: &Change| matches!(change, Change::Forged | Change::Impossible(_));
            assert!(!world.changes(at).iter().any(refused));
        }
    }
}
