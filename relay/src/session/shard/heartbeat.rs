//! Detects clients whose machine or network is gone, by WebSocket pings.
//!
//! A client whose PVs don't change is sent no data that could fail to arrive. TCP detects that a
//! machine is gone, but behind a proxy it sees only the proxy. So a client that was silent for a
//! while gets a ping. Browsers answer it in their network process, however busy the page is. A
//! client that doesn't answer is closed no earlier than a client that takes no data.
//!
//! Clients have no timers: each check visits some of the clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;

use super::client::Silence;
use super::{CHECK_EVERY, Run, ShardLimits};
use crate::fanout::frame::Frame;

/// Opcode of a ping.
const PING: u8 = 0x9;

/// The clients that the next check visits.
pub(super) struct Heartbeats {
    /// Number of checks for all clients; 0 without heartbeats.
    turns: usize,
    turn: usize,
    /// Time for the answer.
    patience: Duration,
    ping: Arc<Frame>,
}

impl Heartbeats {
    pub(super) fn new(limits: ShardLimits) -> Self {
        let every = limits.ping_after.as_millis();
        let turns = every.div_ceil(CHECK_EVERY.as_millis());
        Self {
            turns: turns as usize,
            turn: 0,
            patience: limits
                .ping_after
                .max(limits.evict_after + limits.ack_window),
            ping: Arc::new(Frame::message(PING, &[])),
        }
    }
}

impl Run {
    /// Checks the clients whose turn it is.
    pub(super) fn look_for_silent(&mut self, now: Instant) {
        let Heartbeats {
            turns,
            turn,
            patience,
            ..
        } = self.endings.heartbeats;
        if turns == 0 {
            return;
        }
        self.endings.heartbeats.turn = (turn + 1) % turns;
        for slot in (turn..self.clients.capacity()).step_by(turns) {
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            match client.silence(patience, now) {
                Silence::Fine => {}
                Silence::Gone => self.close(slot, CloseCode::NoProgress),
                Silence::Ping => {
                    let said = client.socket.answer(&self.endings.heartbeats.ping);
                    self.finish_turn(slot, said.map(|()| false));
                }
            }
        }
    }
}
