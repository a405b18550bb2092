//! The ticks that a hanging shard can't take: what its clients miss, and what is to be done for them.
//!
//! A shard that hangs must not stop the ticks of the others, and its queue is bounded. Beyond the bound, ticks are
//! merged: of their values only the numbers are kept, because the clients are brought up to date from the table.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::PvId;

use super::Run;
use crate::fanout::output::{GroupFrame, Order, TickFrames};
use crate::fanout::set::PvSet;

/// Ticks that were merged.
#[derive(Default)]
pub(super) struct Backlog {
    /// The last of them; 0 if there are none.
    tick: u64,
    /// Updates of each PV.
    steps: HashMap<PvId, u64>,
    /// The PVs of each group that was to get something.
    sets: HashMap<usize, Arc<PvSet>>,
    /// What is to be done for clients, in order.
    pub(super) orders: Vec<Order>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.tick == 0
    }

    /// The last tick.
    pub(super) fn tick(&self) -> u64 {
        self.tick
    }

    /// Adds a tick.
    pub(super) fn add(&mut self, frames: &TickFrames, orders: Vec<Order>) {
        self.add_orders(frames.tick, orders);
        let small = (frames.changes.rows.iter()).map(|row| (row.pv, row.skips));
        let large = frames.large.iter().map(|value| (value.pv(), value.skips()));
        for (pv, skips) in small.chain(large) {
            *self.steps.entry(pv).or_default() += 1 + u64::from(skips.total());
        }
        for (number, frame) in frames.groups.iter().enumerate() {
            if let GroupFrame::Shared(_, set) | GroupFrame::Gather(set) = frame {
                self.sets.insert(number, Arc::clone(set));
            }
        }
    }

    /// Adds what is to be done for clients after a tick.
    pub(super) fn add_orders(&mut self, tick: u64, orders: Vec<Order>) {
        self.tick = tick;
        self.orders.extend(orders);
    }

    /// Updates that the members of a group miss.
    pub(super) fn missed(&self, group: Option<usize>) -> u64 {
        let set = group.and_then(|group| self.sets.get(&group));
        let of = |pv: &PvId| self.steps.get(pv).copied().unwrap_or_default();
        set.map_or(0, |set| set.ids().iter().map(of).sum())
    }
}

impl Run {
    /// Makes up for the ticks of the backlog: all clients are behind now, and are brought up to date.
    pub(super) fn make_up(&mut self) {
        let backlog = self.mailbox.take_backlog();
        let now = Instant::now();
        let slots: Vec<usize> = self.clients.iter().map(|(slot, _)| slot).collect();
        for &slot in &slots {
            self.clients[slot].feed.misses(&backlog, now);
        }
        let tick = backlog.tick();
        for order in backlog.orders {
            self.follow(order);
        }
        // Those that the orders have brought up to date may have missed later ticks.
        for slot in slots {
            self.fall_behind(slot, now);
        }
        let ack_window = self.context.limits.ack_window;
        self.deliveries.wrote(tick, now, ack_window);
        self.mailbox.delivered_backlog(now);
    }
}
