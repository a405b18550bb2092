//! The bus in one process, on simulated time: members can be cut off, delayed and lose messages. Only for tests.

mod hub;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

pub use hub::Hub;

use crate::bus::{Answer, Bus, Kind};
use crate::member::MemberId;

/// One member's connection to a [`Hub`].
pub struct InProcess {
    hub: Arc<Hub>,
    me: Mutex<MemberId>,
}

impl InProcess {
    fn me(&self) -> MemberId {
        *self.me.lock().expect("no holder of the lock panics")
    }
}

impl Bus for InProcess {
    fn announce(&self, presence: Bytes) {
        self.hub.announce(self.me(), &presence);
    }

    fn ask(&self, to: MemberId, kind: Kind, body: Bytes, timeout: Duration, answer: Answer) {
        self.hub.ask(self.me(), to, (kind, body), timeout, answer);
    }

    fn publish(&self, shard: u16, message: &[Bytes]) -> bool {
        self.hub.publish(self.me(), shard, message)
    }

    fn follow(&self, owner: MemberId, shard: u16, on: bool) {
        self.hub.follow(self.me(), owner, shard, on);
    }

    fn rename(&self, me: MemberId) {
        let mut place = self.me.lock().expect("no holder of the lock panics");
        self.hub.rename(*place, me);
        *place = me;
    }
}
