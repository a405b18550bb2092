//! The thread of a relay in a fleet: it takes what clients and the bus bring, one after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver as Commands, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::{Bus, Kind, MemberId, Refusal, Refusals, Reply};
use pvwire_schema::types::{Expected, Outcome};

use super::OF_THIS_MACHINE;
use super::announcements::Announcements;
use super::command::{FleetCommand, REQUEST_BYTES};
use super::counters::FleetCounters;
use super::edge::Edge;
use super::interest::Interests;
use super::message::Interest;
use super::operations::{Sent, Served, Waiting, earlier};
use super::past::{NoPage, PAGE_TIMEOUT, PastDone, PastPage, PastQuestion, PastServer};
use super::view::View;
use crate::ingest::OpEnd;
use crate::ops::shutdown::Indispensable;
use crate::session::peers::Peers;

/// Name of the thread.
pub(super) const THREAD: &str = "fleet";

/// Check interval of requests, moves and waiting puts, while there are any.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Check interval when idle. Each check wakes the thread.
const REST: Duration = Duration::from_millis(500);

/// A relay for which another program speaks takes another id at most so often: each time its PVs are disconnected for
/// some seconds.
const RENAMED_AT_MOST_EVERY: Duration = Duration::from_secs(60);

/// Maximum number of commands per batch, so that a flood doesn't delay timers.
const MOST_AT_ONCE: usize = 256;

/// See the module.
pub(super) struct Member {
    pub(super) me: MemberId,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) view: View,
    pub(super) peers: Arc<Peers>,
    pub(super) clients: Box<dyn Fn() -> u64 + Send>,
    pub(super) counters: Arc<FleetCounters>,
    pub(super) edge: Edge,
    pub(super) interests: Interests,
    pub(super) served: Served,
    pub(super) sent: Sent,
    pub(super) past: PastServer,
    pub(super) waiting: Vec<Waiting>,
    /// Calls of services that no relay could make so far.
    pub(super) waiting_calls: Vec<FleetCommand>,
    pub(super) announcements: Arc<Announcements>,
    pub(super) waiting_bytes: Arc<AtomicUsize>,
    pub(super) request_bytes: Arc<AtomicUsize>,
    pub(super) refusals: Arc<Refusals>,
    /// When it last took another id.
    pub(super) renamed: Option<Instant>,
    /// This relay will stop, and keeps its PVs because no other can own them.
    pub(super) keeps: bool,
    /// Nothing is under way: only what comes, or this time, brings work.
    pub(super) rests_until: Option<Instant>,
}

impl Member {
    /// Runs until the command `End`.
    pub(super) fn run(mut self, commands: &Commands<FleetCommand>) {
        let _alive = Indispensable(THREAD);
        let mut checked = Instant::now();
        loop {
            let due = self.next_check(checked);
            let due = (self.served.next_deadline()).map_or(due, |deadline| due.min(deadline));
            let wait = due.saturating_duration_since(Instant::now());
            let first = match commands.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = Instant::now();
            let more = commands.try_iter().take(MOST_AT_ONCE);
            for command in first.into_iter().chain(more) {
                if matches!(command, FleetCommand::End) {
                    return;
                }
                if command.begins_work() {
                    self.rests_until = None;
                }
                self.take(command, now);
            }
            let now = Instant::now();
            let is_due = now >= self.next_check(checked);
            if is_due {
                checked = now;
                self.check(now);
            }
            self.served.answer(now);
            self.edge.ask(now);
            if is_due {
                self.rests_until = self.next_work(now);
            }
        }
    }

    /// When `check` is to be called next.
    fn next_check(&self, checked: Instant) -> Instant {
        self.rests_until.unwrap_or(checked + CHECK_EVERY)
    }

    /// When something is due if nothing comes before; `None` while something is under way.
    fn next_work(&self, now: Instant) -> Option<Instant> {
        if !self.waiting.is_empty() || !self.waiting_calls.is_empty() || self.view.is_draining() {
            return None;
        }
        let due = self.edge.next_work(now)?;
        let due = due.map_or(now + REST, |at| at.clamp(now + CHECK_EVERY, now + REST));
        Some((self.view.next_poll(now)).map_or(due, |at| at.min(due)))
    }

    fn take(&mut self, command: FleetCommand, now: Instant) {
        let view = &self.view;
        let owner_of = |key: &str| view.owner(key);
        match command {
            FleetCommand::Opened(pv) => self.edge.opened(pv, &owner_of, now),
            FleetCommand::Closed(number) => self.edge.closed(number),
            FleetCommand::Describe(number) => self.edge.described(number),
            FleetCommand::Put {
                pv,
                put,
                done,
                ticket,
            } => {
                let waiting = Waiting {
                    pv,
                    put,
                    done,
                    ticket,
                };
                // Puts to one PV keep their order.
                let waits = |before: &Waiting| before.pv.number == waiting.pv.number;
                if self.waiting.iter().any(waits) {
                    self.waiting.push(waiting);
                } else {
                    self.put(waiting, now);
                }
            }
            call @ FleetCommand::Call { .. } => self.call(call, now),
            FleetCommand::Past(question, done) => self.past(&question, done),
            FleetCommand::Wake | FleetCommand::End => {}
            FleetCommand::Granted(owner, number, answer) => {
                if !self.edge.answered(owner, number, answer, now) {
                    self.edge.lose(owner, &owner_of, now);
                }
            }
            FleetCommand::Outcome(number, answer) => {
                self.sent.answered(number, answer);
                self.put_waiting(now);
            }
            FleetCommand::Announced => self.look(now),
            FleetCommand::Request(from, kind, body, reply) => {
                (self.request_bytes).fetch_sub(body.len() + REQUEST_BYTES, Ordering::AcqRel);
                self.requested(from, kind, body, reply, now);
            }
            FleetCommand::Message(owner, shard, message) => {
                (self.waiting_bytes).fetch_sub(message.len(), Ordering::AcqRel);
                self.edge.message(owner, shard, &message, now);
            }
            FleetCommand::Connected(up) => {
                if !up {
                    self.edge.lose_all(&owner_of, now);
                }
                self.view.connected(up, now);
                self.look(now);
            }
            FleetCommand::Discarded(owner, shard) => self.edge.gap(owner, shard, now),
            FleetCommand::Lost => self.edge.gap_everywhere(now),
            FleetCommand::Drain => {
                self.view.drain(now);
                self.look(now);
            }
        }
    }

    /// Another relay asks.
    fn requested(&mut self, from: MemberId, kind: Kind, body: Bytes, reply: Reply, now: Instant) {
        let view = &self.view;
        if !view.is_live(from) && from != self.me {
            let what = format_args!("a request of relay {from}");
            return self.refusals.note(Refusal::Stranger, what);
        }
        match kind {
            Kind::Interest => {
                // A request that can't be read asks for nothing.
                let interest: Interest = serde_json::from_slice(&body).unwrap_or_default();
                let edge = &self.edge;
                let is_here = |key: &str| !edge.is_arriving(key);
                let owner_of = |key: &str| view.owner(key).filter(|_| is_here(key));
                let granted = self.interests.requested(from, &interest, &owner_of, now);
                let answer = serde_json::to_vec(&granted);
                let answer = answer.expect("numbers and texts can be written as JSON");
                reply.send(answer.into());
            }
            Kind::Operation => {
                let is_before = |until| view.is_before(until, now);
                self.served.requested(from, &body, reply, is_before, now);
            }
            Kind::History => self.past.requested(from, body, reply, now),
        }
    }

    /// Another program uses the id of this relay: the others can't distinguish them, so this one continues under another
    /// id. A program that does it again and again is only counted.
    fn take_another_id(&mut self, now: Instant) {
        let is_new = |at: Instant| now.duration_since(at) < RENAMED_AT_MOST_EVERY;
        if self.renamed.is_some_and(is_new) {
            return;
        }
        let Ok(id) = MemberId::random() else {
            return;
        };
        self.renamed = Some(now);
        log::error!(
            "another program on the bus announces itself as this relay, {}: this relay goes on as {id}. Sign the \
             messages of the relays (bus_key), and allow no other programs on the bus",
            self.me
        );
        if let Some(last) = self.view.rename(id, now) {
            self.bus.announce(last);
        }
        self.bus.rename(id);
        self.edge.rename(id);
        self.interests.rename(id);
        self.me = id;
    }

    /// Members and owners may have changed.
    fn look(&mut self, now: Instant) {
        for announcement in self.announcements.take() {
            self.view.heard(announcement, now);
        }
        if self.view.take_forged() {
            self.take_another_id(now);
        }
        let (pvs, clients) = (self.edge.owned(), (self.clients)());
        let (announcement, changed) = self.view.poll((pvs, clients), now);
        for (counter, count) in self.counters.members.iter().zip(self.view.by_role()) {
            counter.store(count, Ordering::Relaxed);
        }
        if let Some(presence) = announcement {
            self.bus.announce(presence);
        }
        for lost in &changed.died {
            self.sent.lost(*lost);
            self.served.lost(*lost);
            self.past.lost(*lost);
        }
        let view = &self.view;
        self.edge
            .note_silence(|owner| view.is_silent(owner, now), now);
        let kept = std::mem::replace(&mut self.keeps, self.view.is_last(now));
        if (changed.has_owners || kept) && !self.keeps {
            let view = &self.view;
            let owner_of = |key: &str| view.owner(key);
            // In this order, so that others see the PVs of this relay disconnected before they hear nothing more.
            let is_live = |member| view.is_live(member);
            self.edge.reassign(&owner_of, is_live, now);
            self.interests.keep_owned(&owner_of, now);
            self.put_waiting(now);
        }
    }

    fn check(&mut self, now: Instant) {
        self.look(now);
        let counts = (self.edge.owned(), (self.clients)());
        let all = (self.view).peers(counts, now);
        (self.peers).update(all, self.view.hears_bus(now), now);
        let view = &self.view;
        let owner_of = |key: &str| view.owner(key);
        for owner in self.edge.check(now) {
            log::warn!("relay {owner} sends nothing: its PVs are disconnected");
            self.edge.lose(owner, &owner_of, now);
        }
        self.edge.check_moves(&owner_of, now);
        self.interests.expire(now);
        let has_moved =
            || self.edge.holds_nothing() && !self.interests.are_live(|relay| view.is_live(relay));
        let is_handed_over = view.is_draining() && (self.keeps || has_moved());
        (self.counters.is_handed_over).store(is_handed_over, Ordering::Relaxed);
        self.put_waiting(now);
    }

    /// Sends the puts and calls that waited for an owner, unless their clients have given them up.
    fn put_waiting(&mut self, now: Instant) {
        for waiting in std::mem::take(&mut self.waiting) {
            if !waiting.ticket.is_cancelled() {
                self.put(waiting, now);
            }
        }
        for waiting in std::mem::take(&mut self.waiting_calls) {
            self.call(waiting, now);
        }
    }

    /// Puts by the relay that holds the PV; waits while none does, and while an earlier put to this PV has no answer
    /// of the relay that held it before.
    fn put(&mut self, waiting: Waiting, now: Instant) {
        let Waiting {
            pv,
            mut put,
            done,
            ticket,
        } = waiting;
        let to = self.edge.to_put(pv.number, put.expected);
        let to = to.filter(|(owner, _)| !self.sent.awaits_other(pv.number, *owner));
        let Some((owner, expected)) = to else {
            if !pv.is_closed() {
                self.waiting.push(Waiting {
                    pv,
                    put,
                    done,
                    ticket,
                });
            }
            return;
        };
        if !ticket.begin() {
            return;
        }
        if owner == self.me {
            // The PV has come to this relay in between.
            return match pv.put(put, done) {
                Ok(_) => {}
                Err((_, done)) => done(OpEnd::failed(Outcome::NotConnected, pv.why_closed())),
            };
        }
        match expected {
            Err(()) => done(OpEnd::failed(
                Outcome::Changed,
                "the PV has changed since the update that the put expects",
            )),
            Ok(expected) => {
                put.expected = expected;
                let until = self.view.until(owner, earlier(put.timeout), now);
                self.sent.put((owner, until), &pv, put, done);
            }
        }
    }

    /// Calls by the relay that owns the service's PV; waits while none does.
    fn call(&mut self, call: FleetCommand, now: Instant) {
        if let FleetCommand::Call { key, ticket, .. } = &call
            && self.view.owner(key).is_none()
            && !ticket.is_cancelled()
        {
            return self.waiting_calls.push(call);
        }
        let FleetCommand::Call {
            key,
            name,
            source,
            call,
            done,
            ticket,
        } = call
        else {
            return;
        };
        let owner = self.view.owner(&key);
        if !ticket.begin() {
            return;
        }
        match owner {
            None => done(OpEnd::failed(
                Outcome::NotConnected,
                "no relay of the fleet owns the PV of this service; nothing was sent",
            )),
            Some(owner) if owner == self.me => {
                let _ = source.call(&name, call, done);
            }
            Some(owner) => {
                let name = format!("{}://{name}", source.scheme());
                let until = self.view.until(owner, earlier(call.timeout), now);
                self.sent.call((owner, until), name, call, done);
            }
        }
    }

    /// Asks the owner of a PV for its past, if another relay is the owner.
    fn past(&self, question: &PastQuestion, done: PastDone) {
        let (view, key) = (&self.view, &question.key);
        // A filtered PV is only this relay's; its base is shared.
        let is_filtered = question.until.is_some() && !self.edge.is_open(key);
        if key.starts_with(OF_THIS_MACHINE) || is_filtered {
            return done(Err(NoPage::Here));
        }
        let answered = question.next.map(|(member, _)| member);
        let owner = answered
            .or_else(|| self.edge.owner_of_open(key))
            .or_else(|| view.owner(key));
        let Some(owner) = owner else {
            let why = "no relay of the fleet holds the PV now".to_owned();
            return done(Err(NoPage::Because(why)));
        };
        if owner == self.me {
            return done(Err(NoPage::Here));
        }
        if !view.understands(owner, Kind::History.since_version()) {
            let why = match view.is_live(owner) {
                true => "the relay that holds the PV has a version that can't be asked for it",
                false => "the relay that holds the PV is lost",
            };
            return done(Err(NoPage::Because(why.to_owned())));
        }
        let until = question.until.and_then(|position| {
            let (epoch, sequence) = (position.epoch, position.sequence);
            self.edge.number_there(key, Expected { sequence, epoch })
        });
        let (body, ends_at_update) = (question.to_bytes(until), until.is_some());
        let answer = move |answer| done(PastPage::read(owner, ends_at_update, answer));
        let (kind, answer) = (Kind::History, Box::new(answer));
        self.bus.ask(owner, kind, body.into(), PAGE_TIMEOUT, answer);
    }
}
