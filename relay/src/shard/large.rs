//! How do large messages get through without holding up anybody else's small ones?
//!
//! What follows on a tick's frames is only queued while these are written. Then each client that
//! has something large gets turns of a bounded length, and between two rounds of turns the shard
//! looks after new ticks and requests.

use std::sync::Arc;

use super::{Client, Run};
use crate::frame::FrameMaker;
use crate::large::LargeValue;
use crate::metrics::Metrics;

/// Turns between two looks at ticks and requests.
const TURNS_PER_ROUND: usize = 8;

impl Client {
    /// Queues large values behind the frame that leaves them out. `is_first`: the client may not
    /// have had a value of these PVs before.
    pub(super) fn follow_up<'a>(
        &mut self,
        values: impl Iterator<Item = &'a Arc<LargeValue>>,
        is_first: bool,
        maker: &mut FrameMaker,
        metrics: &Metrics,
    ) {
        for value in values {
            let frame = value.frame(is_first, maker, &metrics.large_frames_encoded);
            metrics.large_frames_sent.inc();
            metrics.updates_sent.inc_by(u64::from(frame.rows()));
            metrics.bytes_sent.inc_by(frame.length() as u64);
            self.socket.follow(frame);
        }
    }
}

impl Run {
    /// Sees to it that a client gets its turn if it has more to write.
    pub(super) fn ask_turn(&mut self, place: usize) {
        let client = &mut self.clients[place];
        if client.socket.is_ready() && !client.awaits_turn {
            client.awaits_turn = true;
            self.turns.push_back(place);
        }
    }

    /// Gives turns to those who wait for one.
    pub(super) fn give_turns(&mut self) {
        for _ in 0..self.turns.len().min(TURNS_PER_ROUND) {
            let Some(place) = self.turns.pop_front() else {
                break;
            };
            let Some(client) = self.clients.get_mut(place) else {
                continue;
            };
            client.awaits_turn = false;
            if client.closing.is_some() {
                continue;
            }
            // It may have had its turn already, with the last tick's frames, and be behind since.
            let taken = if client.socket.is_ready() {
                client.socket.resume()
            } else {
                Ok(0)
            };
            self.settle(place, taken.map(|taken| taken > 0));
        }
    }
}
