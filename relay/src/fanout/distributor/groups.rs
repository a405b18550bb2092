//! Groups of clients that subscribe the same set of PVs, and the frames that they share.

use std::sync::Arc;

use super::Distributor;
use crate::fanout::control::ClientId;
use crate::fanout::output::{Forms, GroupFrame};
use crate::fanout::set::PvSet;
use crate::state::table::Changes;

pub(super) struct Group {
    pub(super) set: Arc<PvSet>,
    pub(super) members: usize,
    /// Those of them that want columns packed.
    pub(super) packed: usize,
    /// Tick of its last shared frame; 0 when the last one was none.
    pub(super) last_tick: u64,
}

impl Distributor {
    /// Encodes what each group gets.
    pub(super) fn group_frames(&mut self, changes: &Changes) -> Vec<GroupFrame> {
        let numbers = self
            .groups
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0);
        let mut frames = vec![GroupFrame::Nothing; numbers];
        if changes.is_empty() {
            return frames;
        }
        for (number, group) in &mut self.groups {
            frames[number] = if group.members == 1 {
                group.last_tick = 0;
                GroupFrame::Gather(Arc::clone(&group.set))
            } else {
                let mut make = |packing: bool| {
                    let maker = self.maker.packing(packing);
                    let frame = maker.update(changes, &group.set, group.last_tick);
                    frame.map(Arc::new)
                };
                let plain = (group.packed < group.members).then(|| make(false));
                let lz4 = (group.packed > 0).then(|| make(true));
                let (plain, lz4) = (plain.flatten(), lz4.flatten());
                if plain.is_none() && lz4.is_none() {
                    GroupFrame::Nothing
                } else {
                    group.last_tick = changes.tick;
                    GroupFrame::Shared(Forms { plain, lz4 }, Arc::clone(&group.set))
                }
            };
        }
        frames
    }

    pub(super) fn set_of(&self, client: ClientId) -> Arc<PvSet> {
        let group = self
            .members
            .get(&client)
            .map(|number| &self.groups[*number]);
        group
            .map(|group| Arc::clone(&group.set))
            .unwrap_or_default()
    }

    /// Moves a client to the group of `set`; says which that is.
    pub(super) fn regroup(&mut self, client: ClientId, set: PvSet) -> Option<usize> {
        if let Some(number) = self.members.remove(&client) {
            let group = &mut self.groups[number];
            group.members -= 1;
            group.packed -= usize::from(client.lz4);
            if group.members == 0 {
                let group = self.groups.remove(number);
                self.by_set.remove(&group.set);
            }
        }
        if set.is_empty() {
            return None;
        }
        let number = match self.by_set.get(&set) {
            Some(number) => *number,
            None => {
                let set = Arc::new(set);
                let group = Group {
                    set: Arc::clone(&set),
                    members: 0,
                    packed: 0,
                    last_tick: 0,
                };
                let number = self.groups.insert(group);
                self.by_set.insert(set, number);
                number
            }
        };
        self.groups[number].members += 1;
        self.groups[number].packed += usize::from(client.lz4);
        self.members.insert(client, number);
        Some(number)
    }
}
