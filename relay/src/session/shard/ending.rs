//! The ends of connections: when they are closed, and which stages are notified.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;

use super::heartbeat::Heartbeats;
use super::{Run, ShardLimits};
use crate::access::auth::Keys;
use crate::fanout::control::{ClientId, ControlRequest};
use crate::session::socket::Disconnect;

/// While the relay is short of memory, a client with retained values is closed after taking nothing for
/// this long.
const EVICT_WHEN_SHORT: Duration = Duration::from_secs(1);

/// Held bytes below which closing a client frees too little.
const HELD_BYTES: usize = 256 << 10;

/// Which connections are to end: in a drain, and because nothing is heard of a client.
pub(super) struct Endings {
    /// Clients to close in a drain, and when.
    leaving: VecDeque<(Instant, ClientId)>,
    pub(super) heartbeats: Heartbeats,
}

impl Endings {
    pub(super) fn new(limits: ShardLimits) -> Self {
        Self {
            leaving: VecDeque::new(),
            heartbeats: Heartbeats::new(limits),
        }
    }

    /// When the next client is to leave.
    pub(super) fn next(&self) -> Option<Instant> {
        self.leaving.front().map(|(at, _)| *at)
    }

    /// A client whose time to leave has come.
    fn next_to_leave(&mut self, now: Instant) -> Option<ClientId> {
        let &(at, id) = self.leaving.front()?;
        if now < at {
            return None;
        }
        self.leaving.pop_front();
        Some(id)
    }
}

impl Run {
    /// Checks all clients for stalls, expired logins and finished closings.
    pub(super) fn check(&mut self, now: Instant) {
        let evict_after = self.context.limits.evict_after;
        let is_short = self.context.registry.is_short();
        let (mut gone, mut evicted, mut over) = (Vec::new(), Vec::new(), Vec::new());
        let (mut waiting, mut talking) = (Vec::new(), Vec::new());
        let keys = self.new_keys();
        for (slot, client) in &mut self.clients {
            // Memory of bytes that a client doesn't read can't be freed.
            let holds_memory = is_short && client.held_bytes() > HELD_BYTES;
            let evict_after = if holds_memory {
                evict_after.min(EVICT_WHEN_SHORT)
            } else {
                evict_after
            };
            let has_stalled = client.has_stalled(evict_after, now);
            if client.is_closing() {
                if client.is_closed_for_good(now) {
                    gone.push(slot);
                }
            } else if has_stalled {
                evicted.push(slot);
            } else if client.login.is_over(now)
                || keys
                    .as_ref()
                    .is_some_and(|keys| client.login.lost_its_key(keys))
            {
                over.push(slot);
            } else if client.login.awaits_key() {
                waiting.push(slot);
            } else if client.door.is_some() {
                talking.push(slot);
            }
        }
        for slot in talking {
            self.pass_time(slot);
            self.ask_for_late_changes(slot);
        }
        for slot in over {
            self.end_login(slot);
        }
        for slot in waiting {
            self.log_in_again(slot);
        }
        for slot in gone {
            self.remove(slot);
        }
        for slot in evicted {
            self.close(slot, CloseCode::NoProgress);
        }
    }

    /// The keys of tokens, if they have changed since the last check.
    fn new_keys(&mut self) -> Option<Arc<Keys>> {
        let keys = self.context.tokens.as_ref()?.keys();
        self.logins.are_new(&keys).then_some(keys)
    }

    /// The rules have changed: ends waiting puts that are no longer allowed, and has the access of
    /// all clients checked after the requests that this shard has made so far.
    pub(super) fn recheck(&mut self) {
        let refused = self.operations.recheck(Instant::now());
        self.tell(refused);
        self.tell_changed_rights();
        for (_, client) in &self.clients {
            if !client.is_closing() {
                self.context.control.push(ControlRequest::CheckAccess {
                    client: client.id,
                    identity: Arc::clone(&client.caller.identity),
                });
            }
        }
    }

    /// Plans when each client is closed in a drain, evenly over this time.
    pub(super) fn drain(&mut self, over: Duration) {
        let count = self.clients.len().max(1) as u32;
        let now = Instant::now();
        self.endings.leaving = self
            .clients
            .iter()
            .enumerate()
            .map(|(nth, (_, client))| (now + over * nth as u32 / count, client.id))
            .collect();
    }

    /// Closes the clients whose time in a drain has come.
    pub(super) fn let_go(&mut self, now: Instant) {
        while let Some(id) = self.endings.next_to_leave(now) {
            if self.serves(id) {
                self.close(id.index, CloseCode::ServiceRestart);
            }
        }
    }

    /// Ends a client's connection and tells the client why if possible.
    pub(super) fn disconnect(&mut self, slot: usize, why: &Disconnect) {
        match why.close_code() {
            None => self.remove(slot),
            Some(code) => self.close(slot, code),
        }
    }

    /// Closes a client; drops one that is being closed already.
    pub(super) fn close(&mut self, slot: usize, code: CloseCode) {
        let client = &mut self.clients[slot];
        if client.is_closing() {
            return self.remove(slot);
        }
        client.close(code);
        let id = client.id;
        log::debug!("client {id} closed: {}", code.reason());
        self.forget(id, code);
    }

    /// Drops a client's socket.
    fn remove(&mut self, slot: usize) {
        let mut client = self.clients.remove(slot);
        // The socket is dropped in any case.
        let _ = client.socket.deregister(self.poll.registry());
        self.mailbox.client_left();
        if !client.is_closing() {
            self.forget(client.id, CloseCode::Normal);
        }
    }

    /// Tells the stages that work for a client that it is gone.
    fn forget(&mut self, client: ClientId, code: CloseCode) {
        self.context.metrics.closed(code);
        self.router.forget(client);
        self.operations.forget(client, Instant::now());
        self.context.control.push(ControlRequest::Forget { client });
    }
}
