//! Members on simulated time, and a record of how long two of them owned a PV at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use crate::bus::{Bus, Kind, Receiver, Reply};
use crate::in_process::{Hub, InProcess};
use crate::member::{MemberId, Presence, Role};
use crate::members::{About, Change, Members};
use crate::ownership::Owners;

/// How far the time moves at once.
const STEP: Duration = Duration::from_millis(50);

pub(super) fn millis_of(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    Kill(usize),
    Restart(usize),
    Drain(usize),
    Stop(usize, bool),
    Isolate(usize, bool),
    Connect(usize, bool),
    Delay(usize, usize, u64),
    Bus(bool),
}

/// Events of one member that it has not handled yet.
#[derive(Default)]
struct Inbox(Mutex<Vec<Event>>);

enum Event {
    Connected(bool),
    Announced(Presence),
}

impl Receiver for Inbox {
    fn announced(&self, presence: Bytes) {
        let presence = Presence::parse(&presence).unwrap();
        self.0.lock().unwrap().push(Event::Announced(presence));
    }

    fn connected(&self, up: bool) {
        self.0.lock().unwrap().push(Event::Connected(up));
    }

    fn requested(&self, _: MemberId, _: Kind, _: Bytes, _: Reply) {}
    fn message(&self, _: MemberId, _: u16, _: Bytes) {}
    fn lost(&self) {}
}

struct Process {
    members: Members,
    bus: InProcess,
    inbox: Arc<Inbox>,
    changes: Vec<Change>,
    looked: Duration,
    alive: bool,
    stopped: bool,
}

impl Process {
    fn look(&mut self, now: Duration) {
        let events: Vec<Event> = self.inbox.0.lock().unwrap().drain(..).collect();
        // As the thread of a relay does, which sleeps meanwhile.
        let next = self.members.next_poll(self.looked);
        if events.is_empty() && next.is_none_or(|at| at > now) {
            return;
        }
        self.looked = now;
        for event in events {
            self.changes.extend(match event {
                Event::Connected(up) => self.members.connected(up, now),
                Event::Announced(presence) => self.members.heard(presence, now),
            });
        }
        self.changes.extend(self.members.poll(now));
        if let Some(presence) = self.members.announcement(now) {
            self.bus.announce(presence.to_bytes());
        }
    }

    fn runs(&self) -> bool {
        self.alive && !self.stopped
    }
}

pub(super) struct World {
    hub: Arc<Hub>,
    processes: Vec<Process>,
    /// Since when two members own the key.
    doubles: BTreeMap<usize, Duration>,
    longest_double: Duration,
}

impl World {
    pub(super) fn new(roles: &[Role]) -> Self {
        let mut world = Self {
            hub: Hub::new(),
            processes: Vec::new(),
            doubles: BTreeMap::new(),
            longest_double: Duration::ZERO,
        };
        for (at, role) in roles.iter().enumerate() {
            world.start(*role, &format!("member {at}"));
        }
        world
    }

    pub(super) fn start(&mut self, role: Role, name: &str) -> usize {
        let at = self.processes.len();
        let about = About {
            id: MemberId(at as u64 + 1),
            name: name.to_owned(),
            role,
            url: None,
            program: String::new(),
        };
        let inbox = Arc::<Inbox>::default();
        let bus = self
            .hub
            .join(about.id, Arc::clone(&inbox) as Arc<dyn Receiver>);
        self.processes.push(Process {
            members: Members::new(about, self.now()),
            bus,
            inbox,
            looked: self.now(),
            changes: Vec::new(),
            alive: true,
            stopped: false,
        });
        at
    }

    pub(super) fn step(&mut self) {
        self.hub.advance(STEP);
        let now = self.now();
        assert!(now < Duration::from_secs(10_000), "never");
        for process in self.processes.iter_mut().filter(|process| process.runs()) {
            process.look(now);
        }
        self.note_doubles(now);
    }

    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until {
            self.step();
        }
    }

    fn note_doubles(&mut self, now: Duration) {
        for (key, name) in ["A", "B", "C", "D", "E", "F", "G", "H"].iter().enumerate() {
            let running = self.processes.iter().filter(|process| process.runs());
            let owns = |process: &&Process| {
                let me = process.members.about().id;
                process.members.owners().owner(name) == Some(me)
            };
            if running.filter(owns).count() > 1 {
                let since = *self.doubles.entry(key).or_insert(now - STEP);
                self.longest_double = self.longest_double.max(now - since);
            } else {
                self.doubles.remove(&key);
            }
        }
    }

    pub(super) fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(at) => self.kill(at),
            Fault::Restart(at) => {
                self.kill(at);
                let about = self.processes[at].members.about().clone();
                self.start(about.role, &about.name);
            }
            Fault::Drain(at) => self.drain(at),
            Fault::Stop(at, on) => self.stop(at, on),
            Fault::Isolate(at, on) => self.isolate(at, on),
            Fault::Connect(at, on) => self.hub.connect(self.id(at), on),
            Fault::Delay(from, to, millis) => {
                let (from, to) = (self.id(from), self.id(to));
                self.hub.delay(from, to, millis_of(millis));
            }
            Fault::Bus(up) => self.bus(up),
        }
    }

    /// Undoes all faults from which there is a way back.
    pub(super) fn mend(&mut self) {
        for at in 0..self.processes.len() {
            self.stop(at, false);
            self.isolate(at, false);
        }
        self.bus(true);
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.hub.kill(self.id(at));
        self.processes[at].alive = false;
    }

    pub(super) fn drain(&mut self, at: usize) {
        let now = self.now();
        self.processes[at].members.drain(now);
    }

    pub(super) fn stop(&mut self, at: usize, stopped: bool) {
        self.processes[at].stopped = stopped;
    }

    /// Loses all that a member sends or is sent, its own announcements too. The bus doesn't tell it.
    pub(super) fn isolate(&mut self, at: usize, cut: bool) {
        let me = self.id(at);
        for other in 0..self.processes.len() {
            self.hub.cut(me, self.id(other), cut);
            self.hub.cut(self.id(other), me, cut);
        }
    }

    pub(super) fn bus(&mut self, up: bool) {
        for at in 0..self.processes.len() {
            self.hub.connect(self.id(at), up);
        }
    }

    pub(super) fn drop_next(&mut self, from: usize, to: usize, messages: usize) {
        self.hub.drop_next(self.id(from), self.id(to), messages);
    }

    pub(super) fn now(&self) -> Duration {
        self.hub.now()
    }

    pub(super) fn id(&self, at: usize) -> MemberId {
        self.processes[at].members.about().id
    }

    pub(super) fn ids(&self, at: &[usize]) -> Vec<MemberId> {
        at.iter().map(|at| self.id(*at)).collect()
    }

    pub(super) fn owners(&self, at: usize) -> &Owners {
        self.processes[at].members.owners()
    }

    pub(super) fn changes(&self, at: usize) -> &[Change] {
        &self.processes[at].changes
    }

    pub(super) fn uptime(&self, at: usize) -> Duration {
        self.processes[at].members.uptime(self.now())
    }

    pub(super) fn uptime_of(&self, at: usize, other: usize) -> Option<Duration> {
        let members = &self.processes[at].members;
        members.uptime_of(self.id(other), self.now())
    }

    pub(super) fn longest_double(&self) -> Duration {
        self.longest_double
    }

    pub(super) fn running(&self) -> Vec<usize> {
        let all = 0..self.processes.len();
        all.filter(|at| self.processes[*at].runs()).collect()
    }

    /// The members that own PVs when all that run agree.
    pub(super) fn running_owners(&self) -> Vec<MemberId> {
        let running = self.running().into_iter();
        let owning = running.filter(|at| {
            let members = &self.processes[*at].members;
            members.about().role.ingests() && !members.is_draining()
        });
        owning.map(|at| self.id(at)).collect()
    }
}
