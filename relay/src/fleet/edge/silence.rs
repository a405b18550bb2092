//! Owners that send nothing: first their PVs are unresponsive, then they are lost.

use std::time::Instant;

use pvwire_fleet::MemberId;

use super::{COUNT_EVERY, Edge, SNAPSHOT_AGAIN_AFTER};

impl Edge {
    /// Shows the PVs of silent owners as unresponsive until a message arrives again or the owner is lost.
    pub(in crate::fleet) fn note_silence(
        &mut self,
        is_silent: impl Fn(MemberId) -> bool,
        now: Instant,
    ) {
        self.suspects = false;
        for (owner, peer) in &mut self.peers {
            self.suspects |= peer.note_silence(is_silent(*owner), now);
        }
    }

    /// Looks for owners that are silent and for snapshots that didn't come. Returns the silent ones.
    pub(in crate::fleet) fn check(&mut self, now: Instant) -> Vec<MemberId> {
        let mut silent = Vec::new();
        for (owner, peer) in &mut self.peers {
            if peer.is_silent(now) {
                silent.push(*owner);
                continue;
            }
            let overdue = peer.shards.iter().filter(|(_, follow)| {
                let is_over = |at: Instant| now.duration_since(at) >= SNAPSHOT_AGAIN_AFTER;
                follow.snapshot_requested.is_some_and(is_over)
            });
            for shard in overdue.map(|(shard, _)| *shard).collect::<Vec<_>>() {
                peer.ask_for_snapshot(shard, now);
            }
        }
        let is_due = (self.counted).is_none_or(|at| now.duration_since(at) >= COUNT_EVERY);
        if self.is_uncounted && is_due {
            (self.counted, self.is_uncounted) = (Some(now), false);
            self.count();
        }
        silent
    }
}
