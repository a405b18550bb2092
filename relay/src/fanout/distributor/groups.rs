//! Groups of clients that subscribe the same set of PVs, and the frames that they share.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use crate::fanout::control::ClientId;
use crate::fanout::encoding::{Encoders, Encoding, Encodings, SharedFrames};
use crate::fanout::output::GroupFrame;
use crate::fanout::set::PvSet;
use crate::state::table::{Changes, Table};

/// Clients with the same set of PVs.
struct Group {
    set: Arc<PvSet>,
    members: usize,
    /// Members that are clients of a door.
    of_doors: usize,
    /// Members with each encoding, up to the last one that a member has had.
    by_encoding: Vec<usize>,
    /// Tick of its last shared frame; 0 when its last frame wasn't shared.
    last_tick: u64,
}

/// Clients of which the memory is worth to be freed once most have left.
const MANY: usize = 256;

/// All groups.
pub(super) struct Groups {
    /// Each client's group.
    members: HashMap<ClientId, usize>,
    groups: Slab<Group>,
    by_set: HashMap<Arc<PvSet>, usize>,
    doors: Vec<Encoding>,
    /// The doors that have clients in groups, with their number.
    used: Vec<(Encoding, usize)>,
    /// The doors whose encoders keep something.
    unswept: Vec<Encoding>,
}

impl Groups {
    pub(super) fn new(encodings: &Encodings) -> Self {
        Self {
            members: HashMap::new(),
            groups: Slab::new(),
            by_set: HashMap::new(),
            doors: encodings.doors().to_vec(),
            used: Vec::new(),
            unswept: Vec::new(),
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
        self.used.iter().map(|(door, _)| *door)
    }

    /// Lets the encoders of doors forget PVs that are no longer open, and frees memory once most clients have left.
    pub(super) fn sweep(&mut self, table: &Table, encoders: &mut Encoders) {
        if self.members.capacity() > MANY.max(4 * self.members.len()) {
            self.members.shrink_to(2 * self.members.len());
            self.by_set.shrink_to(2 * self.by_set.len());
            self.groups.shrink_to_fit();
        }
        let used = &self.used;
        self.unswept.retain(|door| {
            let keeps = encoders.of(*door).sweep(table);
            keeps || used.iter().any(|(used, _)| used == door)
        });
    }

    /// Whether an encoding is that of a door.
    pub(super) fn is_door(&self, encoding: Encoding) -> bool {
        self.doors.contains(&encoding)
    }

    /// Counts a client of a door that joins a group.
    fn use_door(&mut self, encoding: Encoding) {
        match self.used.iter_mut().find(|(door, _)| *door == encoding) {
            Some((_, clients)) => *clients += 1,
            None => self.used.push((encoding, 1)),
        }
        if !self.unswept.contains(&encoding) {
            self.unswept.push(encoding);
        }
    }

    /// Counts a client of a door that leaves a group.
    fn leave_door(&mut self, encoding: Encoding) {
        self.used.retain_mut(|(door, clients)| {
            *clients -= usize::from(*door == encoding);
            *clients > 0
        });
    }

    /// Encodes a tick for each group. The frame of a group with one member is left to the client's shard.
    pub(super) fn frames(&mut self, changes: &Changes, encoders: &mut Encoders) -> Vec<GroupFrame> {
        let numbers = self.groups.iter().map(|(number, _)| number + 1).max();
        let mut frames = vec![GroupFrame::Nothing; numbers.unwrap_or(0)];
        if changes.is_empty() {
            return frames;
        }
        for (number, group) in &mut self.groups {
            if group.members == 1 && group.of_doors == 0 {
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
        self.enter(client, number);
        Some(number)
    }

    /// Moves a client without PVs to the group with this number, if it still has this set; returns whether it does.
    pub(super) fn join(&mut self, client: ClientId, number: usize, set: &Arc<PvSet>) -> bool {
        let group = self.groups.get(number);
        let is_same = group.is_some_and(|group| Arc::ptr_eq(&group.set, set));
        let joins = is_same && !self.members.contains_key(&client);
        if joins {
            self.enter(client, number);
        }
        joins
    }

    /// Counts a client among the members of a group.
    fn enter(&mut self, client: ClientId, number: usize) {
        let is_of_door = self.is_door(client.encoding);
        let group = &mut self.groups[number];
        group.members += 1;
        group.of_doors += usize::from(is_of_door);
        let index = client.encoding.index();
        if group.by_encoding.len() <= index {
            group.by_encoding.resize(index + 1, 0);
        }
        group.by_encoding[index] += 1;
        if is_of_door {
            self.use_door(client.encoding);
        }
        self.members.insert(client, number);
    }

    fn leave(&mut self, client: ClientId) {
        let Some(number) = self.members.remove(&client) else {
            return;
        };
        let is_of_door = self.is_door(client.encoding);
        if is_of_door {
            self.leave_door(client.encoding);
        }
        let group = &mut self.groups[number];
        group.members -= 1;
        group.of_doors -= usize::from(is_of_door);
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
            of_doors: 0,
            by_encoding: Vec::new(),
            last_tick: 0,
        });
        self.by_set.insert(set, number);
        number
    }
}
