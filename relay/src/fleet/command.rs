//! Commands for the fleet thread, from this relay's clients and from the bus.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use bytes::Bytes;
use pvwire_fleet::{AskError, Kind, MemberId, Receiver, Refusal, Refusals, Reply};

use super::announcements::{Announcements, TooMany};
use super::counters::FleetCounters;
use super::message::Granted;
use super::past::{PastDone, PastQuestion};
use super::pv::FleetPv;
use crate::ingest::{Call, OpDone, OpTicket, Put, Source};

/// Messages of this many bytes may wait for the thread; more are discarded, and snapshots replace them.
const MOST_WAITING_BYTES: usize = 64 << 20;

/// Requests of other relays of this many bytes may wait for the thread; more have no answer.
const MOST_REQUEST_BYTES: usize = 64 << 20;

/// What a request takes besides its body.
pub(super) const REQUEST_BYTES: usize = 256;

/// A command for the fleet thread.
pub(super) enum FleetCommand {
    /// A PV is opened.
    Opened(Arc<FleetPv>),
    /// A PV is closed.
    Closed(u64),
    /// The description of a PV is wanted.
    Describe(u64),
    /// A put to a PV that this relay doesn't hold.
    Put {
        pv: Arc<FleetPv>,
        put: Put,
        done: OpDone,
        ticket: OpTicket,
    },
    /// A call of a service.
    Call {
        key: String,
        name: String,
        source: Arc<dyn Source>,
        call: Call,
        done: OpDone,
        ticket: OpTicket,
    },
    /// A client asks for the past of a PV.
    Past(Box<PastQuestion>, PastDone),
    /// An operation of another relay has gone on.
    Wake,
    /// An owner's answer to a request for PVs.
    Granted(MemberId, u64, Result<Granted, AskError>),
    /// An owner's answer to an operation.
    Outcome(u64, Result<Bytes, AskError>),
    /// A member announced something new.
    Announced,
    /// Another relay asks.
    Request(MemberId, Kind, Bytes, Reply),
    /// A message of an owner.
    Message(MemberId, u16, Bytes),
    /// A message of an owner was discarded here, because too many waited.
    Discarded(MemberId, u16),
    /// The bus is there, or lost.
    Connected(bool),
    /// The bus has left out messages.
    Lost,
    /// The relay will stop: other relays take its PVs.
    Drain,
    /// The thread ends.
    End,
}

impl FleetCommand {
    /// Whether the thread may have work soon. A message that continues the one before needs nothing more.
    pub(super) fn begins_work(&self) -> bool {
        !matches!(self, Self::Message(..) | Self::Wake)
    }
}

/// Asks owners.
#[derive(Clone, Debug)]
pub struct FleetPast {
    commands: Sender<FleetCommand>,
}

impl FleetPast {
    pub(super) fn new(commands: Sender<FleetCommand>) -> Self {
        Self { commands }
    }

    /// Asks the owner of a PV. `done` is dropped without a call when the relay stops.
    pub fn ask(&self, question: PastQuestion, done: PastDone) {
        let _ = self
            .commands
            .send(FleetCommand::Past(Box::new(question), done));
    }
}

/// Passes what the bus brings to the thread.
pub(super) struct Inbox {
    pub(super) commands: Sender<FleetCommand>,
    pub(super) announcements: Arc<Announcements>,
    pub(super) waiting_bytes: Arc<AtomicUsize>,
    pub(super) counters: Arc<FleetCounters>,
    /// Bytes of requests of other relays that wait.
    pub(super) request_bytes: Arc<AtomicUsize>,
    pub(super) refusals: Arc<Refusals>,
}

impl Inbox {
    fn send(&self, command: FleetCommand) {
        // The thread may have ended before the bus.
        let _ = self.commands.send(command);
    }
}

impl Receiver for Inbox {
    fn announced(&self, presence: Bytes) {
        match self.announcements.add(&presence, Instant::now()) {
            Ok(true) => self.send(FleetCommand::Announced),
            Ok(false) => {}
            Err(TooMany) => self.refusals.note(Refusal::Budget, "an announcement"),
        }
    }

    fn requested(&self, from: MemberId, kind: Kind, body: Bytes, reply: Reply) {
        let length = body.len() + REQUEST_BYTES;
        let waiting = self.request_bytes.fetch_add(length, Ordering::AcqRel);
        if waiting + length > MOST_REQUEST_BYTES {
            self.request_bytes.fetch_sub(length, Ordering::AcqRel);
            let what = format_args!("a request of relay {from}");
            return self.refusals.note(Refusal::Budget, what);
        }
        self.send(FleetCommand::Request(from, kind, body, reply));
    }

    fn message(&self, owner: MemberId, shard: u16, message: Bytes) {
        let length = message.len();
        let waiting = self.waiting_bytes.fetch_add(length, Ordering::AcqRel);
        // A single message passes, however long it is.
        if waiting > 0 && waiting + length > MOST_WAITING_BYTES {
            self.waiting_bytes.fetch_sub(length, Ordering::AcqRel);
            self.counters.discarded.fetch_add(1, Ordering::Relaxed);
            // A large value leaves no gap that a later message would show.
            return self.send(FleetCommand::Discarded(owner, shard));
        }
        self.send(FleetCommand::Message(owner, shard, message));
    }

    fn connected(&self, up: bool) {
        self.announcements.forget();
        self.send(FleetCommand::Connected(up));
    }

    fn lost(&self) {
        self.send(FleetCommand::Lost);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn message_that_is_discarded_leaves_a_gap_in_its_place() {
        let (commands, taken) = mpsc::channel();
        let inbox = Inbox {
            commands,
            announcements: Arc::default(),
            waiting_bytes: Arc::default(),
            counters: Arc::default(),
            request_bytes: Arc::default(),
            refusals: Arc::default(),
        };
        let owner = MemberId(1);
        let message = |length| Bytes::from(vec![0; length]);
        inbox.message(owner, 3, message(MOST_WAITING_BYTES + 1));
        inbox.message(owner, 4, message(1));
        inbox.waiting_bytes.store(0, Ordering::Release);
        inbox.message(owner, 5, message(1));
        let received: Vec<_> = taken
            .try_iter()
            .map(|command| match command {
                FleetCommand::Message(_, shard, _) => (shard, true),
                FleetCommand::Discarded(_, shard) => (shard, false),
                _ => panic!("nothing else was sent"),
            })
            .collect();
        assert_eq!(received, [(3, true), (4, false), (5, true)]);
        assert_eq!(inbox.counters.discarded.load(Ordering::Relaxed), 1);
    }
}
