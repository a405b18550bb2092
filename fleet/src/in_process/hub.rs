//! The hub: members, links between them, and events in the order of simulated time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::InProcess;
use crate::bus::{Answer, AskError, Kind, Receiver, Reply};
use crate::member::MemberId;

/// The members in one process, and the time, which [`Hub::advance`] alone moves.
#[derive(Default)]
pub struct Hub {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Duration,
    /// Number of the next event and of the next request.
    next: u64,
    events: BTreeMap<(Duration, u64), Event>,
    members: BTreeMap<MemberId, Attached>,
    links: HashMap<(MemberId, MemberId), Link>,
    requests: HashMap<u64, Request>,
}

struct Attached {
    receiver: Arc<dyn Receiver>,
    up: bool,
    follows: BTreeSet<(MemberId, u16)>,
}

/// The way from one member to another.
#[derive(Clone, Copy, Default)]
struct Link {
    delay: Duration,
    cut: bool,
    drops: usize,
}

struct Request {
    from: MemberId,
    answer: Answer,
}

enum Event {
    Announced(MemberId, Bytes),
    Asked(MemberId, u64, MemberId, Kind, Bytes),
    Answered(u64, Result<Bytes, AskError>),
    Message(MemberId, MemberId, u16, Bytes),
    Connected(MemberId, bool),
    Lost(MemberId),
}

impl State {
    fn at(&mut self, after: Duration, event: Event) {
        self.next += 1;
        self.events.insert((self.now + after, self.next), event);
    }

    /// The delay of a message, or none when it gets lost.
    fn way(&mut self, from: MemberId, to: MemberId) -> Option<Duration> {
        let up = |member| self.members.get(&member).is_some_and(|member| member.up);
        if !up(from) || !up(to) {
            return None;
        }
        let link = self.links.entry((from, to)).or_default();
        if link.cut {
            return None;
        }
        if link.drops > 0 {
            link.drops -= 1;
            return None;
        }
        Some(link.delay)
    }

    fn end_requests_of(&mut self, member: MemberId) {
        let open = self.requests.iter();
        let ended = open.filter(|(_, request)| request.from == member);
        let ended: Vec<u64> = ended.map(|(id, _)| *id).collect();
        for id in ended {
            self.at(Duration::ZERO, Event::Answered(id, Err(AskError::Broken)));
        }
    }
}

impl Hub {
    /// A hub without members, at time zero.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Adds a member, which is connected as soon as time advances.
    pub fn join(self: &Arc<Self>, me: MemberId, receiver: Arc<dyn Receiver>) -> InProcess {
        let mut state = self.state();
        let attached = Attached {
            receiver,
            up: true,
            follows: BTreeSet::new(),
        };
        state.members.insert(me, attached);
        state.at(Duration::ZERO, Event::Connected(me, true));
        let hub = Arc::clone(self);
        let me = Mutex::new(me);
        InProcess { hub, me }
    }

    pub(super) fn rename(&self, me: MemberId, to: MemberId) {
        let mut state = self.state();
        state.end_requests_of(me);
        if let Some(attached) = state.members.remove(&me) {
            state.members.insert(to, attached);
            state.at(Duration::ZERO, Event::Connected(to, false));
            state.at(Duration::ZERO, Event::Connected(to, true));
        }
    }

    /// Removes a member, as if its process was killed.
    pub fn kill(&self, member: MemberId) {
        let mut state = self.state();
        state.end_requests_of(member);
        state.members.remove(&member);
    }

    /// Cuts a member off the bus, which it notices at once, or connects it again.
    pub fn connect(&self, member: MemberId, up: bool) {
        let mut state = self.state();
        if let Some(attached) = state.members.get_mut(&member) {
            attached.up = up;
            state.at(Duration::ZERO, Event::Connected(member, up));
            if !up {
                state.end_requests_of(member);
            }
        }
    }

    /// Loses all messages from one member to another, which neither notices, or stops it.
    pub fn cut(&self, from: MemberId, to: MemberId, cut: bool) {
        self.state().links.entry((from, to)).or_default().cut = cut;
    }

    /// Delays the messages from one member to another.
    pub fn delay(&self, from: MemberId, to: MemberId, delay: Duration) {
        self.state().links.entry((from, to)).or_default().delay = delay;
    }

    /// Loses the next messages from one member to another.
    pub fn drop_next(&self, from: MemberId, to: MemberId, messages: usize) {
        self.state().links.entry((from, to)).or_default().drops = messages;
    }

    /// Tells a member that the bus left out messages for it.
    pub fn lose(&self, member: MemberId) {
        self.state().at(Duration::ZERO, Event::Lost(member));
    }

    /// The time since the hub was made.
    pub fn now(&self) -> Duration {
        self.state().now
    }

    /// Moves the time on, and delivers what is due on the way.
    pub fn advance(self: &Arc<Self>, by: Duration) {
        let until = self.now() + by;
        loop {
            let mut state = self.state();
            let due = state
                .events
                .first_entry()
                .filter(|due| due.key().0 <= until);
            let Some(due) = due else {
                state.now = until;
                return;
            };
            let ((at, _), event) = due.remove_entry();
            state.now = at;
            drop(state);
            self.deliver(event);
        }
    }

    fn receiver(
        &self,
        member: MemberId,
        follows: Option<(MemberId, u16)>,
    ) -> Option<Arc<dyn Receiver>> {
        let state = self.state();
        let member = state.members.get(&member).filter(|member| member.up)?;
        let wanted = follows.is_none_or(|shard| member.follows.contains(&shard));
        wanted.then(|| Arc::clone(&member.receiver))
    }

    /// Calls whom an event is for, without holding the lock: it may call the bus.
    fn deliver(self: &Arc<Self>, event: Event) {
        match event {
            Event::Announced(to, presence) => {
                if let Some(to) = self.receiver(to, None) {
                    to.announced(presence);
                }
            }
            Event::Asked(from, id, to, kind, body) => {
                if let Some(receiver) = self.receiver(to, None) {
                    let hub = Arc::clone(self);
                    let reply = Reply::new(move |body| hub.reply(to, from, id, body));
                    receiver.requested(from, kind, body, reply);
                }
            }
            Event::Answered(id, outcome) => {
                let request = self.state().requests.remove(&id);
                if let Some(request) = request {
                    (request.answer)(outcome);
                }
            }
            Event::Message(to, owner, shard, message) => {
                if let Some(to) = self.receiver(to, Some((owner, shard))) {
                    to.message(owner, shard, message);
                }
            }
            Event::Connected(to, up) => {
                let receiver = self
                    .state()
                    .members
                    .get(&to)
                    .map(|to| Arc::clone(&to.receiver));
                if let Some(receiver) = receiver {
                    receiver.connected(up);
                }
            }
            Event::Lost(to) => {
                if let Some(to) = self.receiver(to, None) {
                    to.lost();
                }
            }
        }
    }

    fn reply(&self, from: MemberId, to: MemberId, id: u64, body: Bytes) {
        let mut state = self.state();
        if let Some(delay) = state.way(from, to) {
            state.at(delay, Event::Answered(id, Ok(body)));
        }
    }

    pub(super) fn announce(&self, me: MemberId, presence: &Bytes) {
        let mut state = self.state();
        let members: Vec<MemberId> = state.members.keys().copied().collect();
        for to in members {
            if let Some(delay) = state.way(me, to) {
                state.at(delay, Event::Announced(to, presence.clone()));
            }
        }
    }

    pub(super) fn ask(
        &self,
        me: MemberId,
        to: MemberId,
        (kind, body): (Kind, Bytes),
        timeout: Duration,
        answer: Answer,
    ) {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        state.requests.insert(id, Request { from: me, answer });
        let up = |member| state.members.get(&member).is_some_and(|member| member.up);
        let refused = if !up(me) {
            Some(AskError::NotSent)
        } else if !up(to) {
            Some(AskError::NoMember)
        } else {
            None
        };
        if let Some(error) = refused {
            return state.at(Duration::ZERO, Event::Answered(id, Err(error)));
        }
        if let Some(delay) = state.way(me, to) {
            state.at(delay, Event::Asked(me, id, to, kind, body));
        }
        state.at(timeout, Event::Answered(id, Err(AskError::TimedOut)));
    }

    pub(super) fn publish(&self, me: MemberId, shard: u16, message: &[Bytes]) -> bool {
        let mut state = self.state();
        if !state.members.get(&me).is_some_and(|member| member.up) {
            return false;
        }
        let message = Bytes::from(message.concat());
        let following = state.members.iter();
        let following = following.filter(|(_, member)| member.follows.contains(&(me, shard)));
        let following: Vec<MemberId> = following.map(|(member, _)| *member).collect();
        for to in following {
            if let Some(delay) = state.way(me, to) {
                state.at(delay, Event::Message(to, me, shard, message.clone()));
            }
        }
        true
    }

    pub(super) fn follow(&self, me: MemberId, owner: MemberId, shard: u16, on: bool) {
        let mut state = self.state();
        if let Some(member) = state.members.get_mut(&me) {
            if on {
                member.follows.insert((owner, shard));
            } else {
                member.follows.remove(&(owner, shard));
            }
        }
    }
}
