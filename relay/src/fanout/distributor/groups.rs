//! Groups of clients that subscribe the same set of PVs, and the frames that they share.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use crate::fanout::control::ClientId;
use crate::fanout::encoding::{Encoders, Encoding, Encodings, SharedFrames};
use crate::fanout::output::GroupFrame;
use crate::fanout::set::PvSet;
use crate::state::table::Changes;

/// Clients with the same set of PVs.
struct Group {
    set: Arc<PvSet>,
    members: usize,
    /// Members with each encoding.
    by_encoding: Box<[usize]>,
    /// Tick of its last shared frame; 0 when its last frame wasn't shared.
    last_tick: u64,
}

/// All groups.
pub(super) struct Groups {
    /// Each client's group.
    members: HashMap<ClientId, usize>,
    groups: Slab<Group>,
    by_set: HashMap<Arc<PvSet>, usize>,
    encodings: usize,
    /// Encodings of doors, with the number of their clients in groups.
    doors: Vec<(Encoding, usize)>,
}

impl Groups {
    pub(super) fn new(encodings: &Encodings) -> Self {
        Self {
            members: HashMap::new(),
            groups: Slab::new(),
            by_set: HashMap::new(),
            encodings: encodings.all().len(),
            doors: encodings.doors().iter().map(|door| (*door, 0)).collect(),
        }
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The number of a client's group.
    pub(super) fn group_of(&self, client: ClientId) -> Option<usize> {
        self.members.get(&client).copied()
    }

    /// The PVs that a client subscribes.
    pub(super) fn set_of(&self, client: ClientId) -> Arc<PvSet> {
        let group = self.group_of(client).map(|number| &self.groups[number]);
        group
            .map(|group| Arc::clone(&group.set))
            .unwrap_or_default()
    }

    /// The doors that have clients.
    pub(super) fn doors(&self) -> impl Iterator<Item = Encoding> + '_ {
        let used = self.doors.iter().filter(|(_, clients)| *clients > 0);
        used.map(|(door, _)| *door)
    }

    /// All doors.
    pub(super) fn all_doors(&self) -> impl Iterator<Item = Encoding> + '_ {
        self.doors.iter().map(|(door, _)| *door)
    }

    /// Whether an encoding is that of a door.
    pub(super) fn is_door(&self, encoding: Encoding) -> bool {
        self.doors.iter().any(|(door, _)| *door == encoding)
    }

    /// Counts a client of a door that joins or leaves a group.
    fn count(&mut self, encoding: Encoding, change: isize) {
        let door = self.doors.iter_mut().find(|(door, _)| *door == encoding);
        if let Some((_, clients)) = door {
            *clients = clients.saturating_add_signed(change);
        }
    }

    /// Encodes a tick for each group. The frame of a group with one member is left to the client's shard.
    pub(super) fn frames(&mut self, changes: &Changes, encoders: &mut Encoders) -> Vec<GroupFrame> {
        let numbers = self.groups.iter().map(|(number, _)| number + 1).max();
        let mut frames = vec![GroupFrame::Nothing; numbers.unwrap_or(0)];
        if changes.is_empty() {
            return frames;
        }
        for (number, group) in &mut self.groups {
            let of_door = |(door, _): &(Encoding, usize)| group.by_encoding[door.index()] > 0;
            if group.members == 1 && !self.doors.iter().any(of_door) {
                group.last_tick = 0;
                frames[number] = GroupFrame::Gather(Arc::clone(&group.set));
                continue;
            }
            let shared = SharedFrames::make(&group.by_encoding, encoders, |encoder| {
                encoder.update(changes, None, &group.set, group.last_tick)
            });
            if let Some(shared) = shared {
                group.last_tick = changes.tick;
                frames[number] = GroupFrame::Shared(shared, Arc::clone(&group.set));
            }
        }
        frames
    }

    /// Moves a client to the group of `set`; returns that group's number, `None` for an empty set.
    pub(super) fn regroup(&mut self, client: ClientId, set: PvSet) -> Option<usize> {
        self.leave(client);
        if set.is_empty() {
            return None;
        }
        let number = match self.by_set.get(&set) {
            Some(number) => *number,
            None => self.open(Arc::new(set)),
        };
        let group = &mut self.groups[number];
        group.members += 1;
        group.by_encoding[client.encoding.index()] += 1;
        self.count(client.encoding, 1);
        self.members.insert(client, number);
        Some(number)
    }

    fn leave(&mut self, client: ClientId) {
        let Some(number) = self.members.remove(&client) else {
            return;
        };
        self.count(client.encoding, -1);
        let group = &mut self.groups[number];
        group.members -= 1;
        group.by_encoding[client.encoding.index()] -= 1;
        if group.members == 0 {
            let group = self.groups.remove(number);
            self.by_set.remove(&group.set);
        }
    }

    fn open(&mut self, set: Arc<PvSet>) -> usize {
        let number = self.groups.insert(Group {
            set: Arc::clone(&set),
            members: 0,
            by_encoding: vec![0; self.encodings].into(),
            last_tick: 0,
        });
        self.by_set.insert(set, number);
        number
    }
}
