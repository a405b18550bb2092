//! Members on a server, and their events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as Outcomes};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use testbed::{NatsServer, eventually};

use crate::bus::{AskError, Bus, Kind, Receiver, Reply};
use crate::member::{MemberId, Site};
use crate::nats::{Nats, Settings};
use crate::seal::Seals;

use super::LONG;

/// An event of a member.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) announced: Vec<Bytes>,
    pub(super) requests: Vec<(MemberId, Kind, Bytes)>,
    pub(super) messages: Vec<Bytes>,
    pub(super) connected: Vec<bool>,
}

#[derive(Default)]
struct Writer {
    notes: Mutex<Notes>,
    silent: AtomicBool,
    /// Replies that a silent member keeps.
    kept: Mutex<Vec<Reply>>,
}

impl Receiver for Writer {
    fn announced(&self, presence: Bytes) {
        self.notes.lock().unwrap().announced.push(presence);
    }

    fn requested(&self, from: MemberId, kind: Kind, body: Bytes, reply: Reply) {
        let mut notes = self.notes.lock().unwrap();
        if body != SETTLE {
            notes.requests.push((from, kind, body.clone()));
        }
        if self.silent.load(Ordering::Relaxed) {
            self.kept.lock().unwrap().push(reply);
        } else {
            reply.send(body);
        }
    }

    fn message(&self, _: MemberId, _: u16, message: Bytes) {
        self.notes.lock().unwrap().messages.push(message);
    }

    fn connected(&self, up: bool) {
        self.notes.lock().unwrap().connected.push(up);
    }

    fn lost(&self) {}
}

/// A request that leaves no note.
const SETTLE: &[u8] = b"settle";

/// Members of a separate site.
pub(super) struct Members(Settings);

pub(super) fn settings(servers: &str) -> Settings {
    static SITES: AtomicU64 = AtomicU64::new(0);
    let number = SITES.fetch_add(1, Ordering::Relaxed);
    let site: Site = format!("test-{number}").parse().unwrap();
    Settings {
        servers: servers.parse().unwrap(),
        read_file: |path| std::fs::read(path),
        credentials: None,
        ca: None,
        site,
        seals: Arc::new(Seals::new(None, Arc::default())),
    }
}

impl Members {
    pub(super) fn of(server: &NatsServer) -> Self {
        Self(settings(&server.url()))
    }

    pub(super) fn at(settings: Settings) -> Self {
        Self(settings)
    }

    /// Starts a member.
    pub(super) fn start(&self) -> Member {
        let writer = Arc::<Writer>::default();
        let id = MemberId::random().unwrap();
        let receiver = Arc::clone(&writer) as Arc<dyn Receiver>;
        let bus = Nats::start(self.0.clone(), id, receiver).unwrap();
        let seals = Arc::clone(&self.0.seals);
        Member {
            id,
            bus,
            writer,
            seals,
        }
    }

    /// Starts a member, and waits until the server knows what it subscribes: a request to itself passes after that.
    pub(super) fn join(&self) -> Member {
        let member = self.start();
        member.wait_for("its connection", |notes| {
            notes.connected.last() == Some(&true)
        });
        member.settle(&member);
        member
    }
}

pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) bus: Nats,
    pub(super) seals: Arc<Seals>,
    writer: Arc<Writer>,
}

impl Member {
    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.writer.notes.lock().unwrap()
    }

    pub(super) fn wait_for(&self, what: &str, done: impl Fn(&Notes) -> bool) {
        eventually(what, || done(&self.notes()));
    }

    pub(super) fn be_silent(&self) {
        self.writer.silent.store(true, Ordering::Relaxed);
    }

    /// Keeps the bus's thread from going on while the guard lives.
    pub(super) fn hold(&self) -> impl Sized {
        self.notes()
    }

    pub(super) fn follow(&self, owner: &Self, shard: u16) {
        self.bus.follow(owner.id, shard, true);
        self.settle(owner);
    }

    /// Waits until the server has handled all messages of this member.
    pub(super) fn settle(&self, other: &Self) {
        let settled = outcome(self, other.id, Bytes::from_static(SETTLE), LONG);
        assert_eq!(settled, Ok(Bytes::from_static(SETTLE)));
    }

    pub(super) fn ask(
        &self,
        to: MemberId,
        body: Bytes,
        timeout: Duration,
    ) -> Outcomes<Result<Bytes, AskError>> {
        let (sender, outcomes) = mpsc::channel();
        let answer = Box::new(move |outcome| sender.send(outcome).unwrap());
        self.bus.ask(to, Kind::Operation, body, timeout, answer);
        outcomes
    }
}

/// The one outcome of a request.
pub(super) fn outcome(
    member: &Member,
    to: MemberId,
    body: Bytes,
    timeout: Duration,
) -> Result<Bytes, AskError> {
    member.ask(to, body, timeout).recv().unwrap()
}
