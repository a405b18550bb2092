//! Delivery of ticks: who gets a tick's frame, and when the other clients are brought up to date.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Hello, Reply, SkipCause};

use super::Run;
use super::backlog::Backlog;
use super::handle::Unsent;
use crate::fanout::dirty::missed;
use crate::fanout::encoding::{Encoders, Encoding, Encodings, MessageEncoder};
use crate::fanout::frame::Frame;
use crate::fanout::large::large_steps;
use crate::fanout::output::{GroupFrame, Order, TickFrames};
use crate::ops::latency::{SENT_SAMPLES, wall_ns};
use crate::session::socket::{Disconnect, Written};
use crate::session::step::Offer;

/// Which frames of the ticks a client gets.
#[derive(Default)]
pub(super) struct Feed {
    /// The group whose frames it gets.
    group: Option<usize>,
    /// Set when it is updated at intervals.
    pace: Option<Pace>,
    /// Updates that it missed since it was last in step.
    missed: u64,
    /// When it missed the first of them.
    missed_since: Option<Instant>,
    /// Updates that it has skipped because it was behind.
    skipped: u64,
}

impl Feed {
    /// Counts what it misses of the ticks that were merged.
    pub(super) fn misses(&mut self, backlog: &Backlog, now: Instant) {
        self.miss(backlog.missed(self.group), now);
    }

    fn miss(&mut self, updates: u64, now: Instant) {
        self.missed += updates;
        if updates > 0 {
            self.missed_since.get_or_insert(now);
        }
    }

    /// The updates that a catch-up with `rows` rows skips.
    fn catch_up(&mut self, rows: u64, cause: SkipCause) -> u64 {
        let skipped = std::mem::take(&mut self.missed).saturating_sub(rows);
        self.missed_since = None;
        if cause == SkipCause::Behind {
            self.skipped += skipped;
        }
        skipped
    }

    /// How far the client is behind, for which `bytes` wait.
    pub(super) fn unsent(&self, bytes: usize) -> Unsent {
        Unsent {
            bytes,
            updates: self.missed,
            age: self.missed_since.map(|since| since.elapsed()),
            skipped: self.skipped,
        }
    }
}

/// The intervals at which a client is updated.
#[derive(Clone, Copy)]
struct Pace {
    interval: Duration,
    /// When the next catch-up is due; `None` while nothing has changed.
    due: Option<Instant>,
}

/// What the shard remembers from one tick to the next.
#[derive(Default)]
struct Rounds {
    /// The client to begin with, so that no client is always last.
    first: usize,
    /// Ticks of the last ack window, and when they were written.
    written: VecDeque<(u64, Instant)>,
    /// Last tick that every client should have acknowledged.
    overdue: u64,
}

impl Rounds {
    fn wrote(&mut self, tick: u64, at: Instant, ack_window: Duration) {
        self.written.push_back((tick, at));
        while let Some(&(tick, written)) = self.written.front()
            && at.duration_since(written) > ack_window
        {
            self.overdue = tick;
            self.written.pop_front();
        }
    }
}

/// One round of writing to all clients.
struct Round {
    start: Instant,
    is_behind: bool,
    /// Frames made for single clients.
    encoded: u64,
    sent: u64,
    updates: u64,
    bytes: u64,
    broken: Vec<(usize, Disconnect)>,
    /// Clients that got their frame and may get large values, with their groups.
    large: Vec<(usize, usize)>,
    /// Clients that get nothing because the shard is behind.
    left_out: Vec<usize>,
}

impl Round {
    fn new(is_behind: bool) -> Self {
        Self {
            start: Instant::now(),
            is_behind,
            encoded: 0,
            sent: 0,
            updates: 0,
            bytes: 0,
            broken: Vec::new(),
            large: Vec::new(),
            left_out: Vec::new(),
        }
    }
}

/// When paced clients are due.
struct Paces {
    /// Intervals are counted from here, so that intervals of equal length end together and their
    /// catch-ups can be the same bytes.
    started: Instant,
    /// When the first of the paced clients is due.
    next: Option<Instant>,
}

impl Paces {
    fn new(started: Instant) -> Self {
        Self {
            started,
            next: None,
        }
    }

    /// Notes that something waits for the end of a client's interval.
    fn wait(&mut self, pace: &mut Pace, now: Instant) {
        let due = pace.due.unwrap_or_else(|| self.end(pace.interval, now));
        pace.due = Some(due);
        self.is_due(due);
    }

    fn is_due(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// When the present interval ends.
    fn end(&self, interval: Duration, now: Instant) -> Instant {
        let interval = interval.as_nanos().max(1);
        let nth = now.duration_since(self.started).as_nanos() / interval + 1;
        self.started + Duration::from_nanos(u64::try_from(interval * nth).unwrap_or(u64::MAX))
    }
}

/// What all of the shard's clients are written with, and when.
pub(super) struct Deliveries {
    pub(super) encoders: Encoders,
    /// The first message to a client, in each encoding.
    hello: Vec<Arc<Frame>>,
    rounds: Rounds,
    paces: Paces,
}

impl Deliveries {
    pub(super) fn new(encodings: &Encodings, hello: &Hello, now: Instant) -> Self {
        let mut encoders = encodings.encoders();
        let hello = Reply::Hello(hello.clone());
        let all = encodings.all().iter();
        let hello = all.map(|encoding| Arc::new(encoders.of(*encoding).answer(0, 0, &hello)));
        Self {
            hello: hello.collect(),
            encoders,
            rounds: Rounds::default(),
            paces: Paces::new(now),
        }
    }

    /// The first message to a client that is told what all are.
    pub(super) fn hello(&self, encoding: Encoding) -> Arc<Frame> {
        Arc::clone(&self.hello[encoding.index()])
    }

    pub(super) fn encoder(&mut self, encoding: Encoding) -> &mut dyn MessageEncoder {
        self.encoders.of(encoding)
    }

    /// A reply to the request `to` of a client that has the ticks up to `synced`.
    pub(super) fn answer(
        &mut self,
        encoding: Encoding,
        (synced, to): (u64, u32),
        reply: &Reply,
    ) -> Arc<Frame> {
        Arc::new(self.encoder(encoding).answer(synced, to, reply))
    }

    /// A tick was written to the clients, or they have missed it.
    pub(super) fn wrote(&mut self, tick: u64, at: Instant, ack_window: Duration) {
        self.rounds.wrote(tick, at, ack_window);
    }

    /// When the first of the paced clients is due.
    pub(super) fn next_paced(&self) -> Option<Instant> {
        self.paces.next
    }
}

impl Run {
    /// Writes a tick's frames to all clients that get one. When the shard `is_behind` the ticks,
    /// its clients fall behind with it and are brought up to date after the deliveries that wait.
    pub(super) fn deliver(&mut self, frames: &TickFrames, is_behind: bool) {
        let slots: Vec<usize> = self.clients.iter().map(|(slot, _)| slot).collect();
        if slots.is_empty() {
            return;
        }
        let mut round = Round::new(is_behind);
        self.deliveries.rounds.first = (self.deliveries.rounds.first + 1) % slots.len();
        let (second, first) = slots.split_at(self.deliveries.rounds.first);
        for &slot in first.iter().chain(second) {
            if let Err(error) = self.deliver_to(slot, frames, &mut round) {
                round.broken.push((slot, error));
            }
        }
        // To make the frame of a large value may take milliseconds, which delay no client's small values.
        for (slot, group) in round.large {
            self.follow_frame(slot, frames, group);
        }
        for (slot, error) in round.broken {
            self.disconnect(slot, &error);
        }
        for slot in round.left_out {
            if self.clients.contains(slot) {
                self.finish_turn(slot, Ok(false));
            }
        }
        let metrics = &self.context.metrics;
        metrics.frames_encoded.inc_by(round.encoded);
        metrics.frames_sent.inc_by(round.sent);
        metrics.updates_sent.inc_by(round.updates);
        metrics.bytes_sent.inc_by(round.bytes);
        if round.sent > 0 {
            let (now_ns, rows) = (wall_ns(), &frames.changes.rows);
            let looked_at = rows.iter().step_by(rows.len() / SENT_SAMPLES + 1);
            let first = &frames.changes.first_values;
            for row in looked_at.filter(|row| !first.contains(&row.pv)) {
                metrics.ages_sent.add(row.time_ns, now_ns);
            }
        }
        self.mailbox.wrote(round.start.elapsed());
        let ack_window = self.context.limits.ack_window;
        self.deliveries.wrote(frames.tick, round.start, ack_window);
    }

    /// Writes a tick's frame to one client, or notes what the client misses.
    fn deliver_to(
        &mut self,
        slot: usize,
        frames: &TickFrames,
        round: &mut Round,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        let Some(group) = client.feed.group.filter(|_| !client.is_closing()) else {
            return Ok(());
        };
        let (shared, set) = match frames.groups.get(group) {
            None | Some(GroupFrame::Nothing) => return Ok(()),
            Some(GroupFrame::Shared(shared, set)) => (shared.of(client.id.encoding), set),
            Some(GroupFrame::Gather(set)) => (None, set),
        };
        if client.socket.is_ready() {
            // The client gets its turn now: it isn't behind if it only waited for one.
            client.socket.resume()?;
        }
        let steps = || {
            let small = match shared {
                Some(frame) => Some(frame.steps()),
                None => missed(&frames.changes, frames.dirty.as_ref(), set),
            };
            let large = large_steps(&frames.large, set);
            (small.is_some() || large > 0).then(|| small.unwrap_or(0) + large)
        };
        let blocked = round.is_behind
            || client.socket.is_blocked()
            || !client.unmade.is_empty()
            || (client.large.is_busy() && large_steps(&frames.large, set) > 0);
        let sure = !blocked && client.session.is_in_step();
        let missed = if sure { None } else { steps() };
        // A client misses nothing of a tick that has nothing for it.
        if !sure && missed.is_none() {
            return Ok(());
        }
        let overdue = self.deliveries.rounds.overdue;
        let offer = client.session.offer(blocked, overdue);
        if offer != Offer::Send {
            let missed = missed.or_else(steps).unwrap_or(0);
            client.feed.miss(missed, round.start);
            self.hold_back(slot, offer, round.start)?;
            if round.is_behind {
                round.left_out.push(slot);
            }
            return Ok(());
        }
        let (gathered, addressed);
        let frame = if let Some(frame) = shared {
            if client.door.is_some() {
                addressed = client.addressed(frame);
                &addressed
            } else {
                frame
            }
        } else {
            let (changes, dirty) = (&frames.changes, frames.dirty.as_ref());
            let encoder = self.deliveries.encoder(client.id.encoding);
            let Some(frame) = encoder.update(changes, dirty, set, client.session.synced()) else {
                return Ok(());
            };
            round.encoded += 1;
            gathered = Arc::new(frame);
            &gathered
        };
        if client.socket.send(frame)? == Written::Refused {
            client.session.refused();
            let missed = frame.steps() + large_steps(&frames.large, set);
            client.feed.miss(missed, round.start);
            client.stall(round.start);
            return Ok(());
        }
        client.session.sent(frames.tick);
        client.note_sent(round.start);
        round.sent += 1;
        round.updates += u64::from(frame.rows());
        round.bytes += frame.length() as u64;
        if frames.large.is_empty() {
            self.ask_turn(slot);
        } else {
            round.large.push((slot, group));
        }
        Ok(())
    }

    /// Queues a tick's large values for a client that has the tick's frame.
    fn follow_frame(&mut self, slot: usize, frames: &TickFrames, group: usize) {
        if let Some(GroupFrame::Shared(_, set) | GroupFrame::Gather(set)) = frames.groups.get(group)
        {
            let values = frames.large.iter();
            let values = values.filter(|value| set.contains(value.pv()));
            self.follow_up(slot, values, false);
        }
        self.ask_turn(slot);
    }

    /// A client with PVs misses what ticks have brought, and is brought up to date when it can take bytes.
    pub(super) fn fall_behind(&mut self, slot: usize, now: Instant) {
        let overdue = self.deliveries.rounds.overdue;
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        if client.feed.group.is_none() || client.is_closing() {
            return;
        }
        let offer = client.session.offer(true, overdue);
        let done = self.hold_back(slot, offer, now);
        self.finish_turn(slot, done.map(|()| false));
    }

    /// Carries out what the fan-out stage decided between this tick and the next.
    pub(super) fn follow(&mut self, order: Order) {
        let id = order.client();
        if !self.serves(id) {
            return;
        }
        let client = &mut self.clients[id.index];
        match order {
            Order::Regroup { group, .. } => client.feed.group = group,
            Order::Refused { errors, .. } => {
                let told = self.tell_refused(id.index, &errors);
                self.finish_turn(id.index, told.map(|()| false));
            }
            Order::Refuse { .. } => self.close(id.index, CloseCode::RightsChanged),
            Order::Answer { frame, large, .. } => {
                client.budget.answered();
                let frame = client.addressed(&frame);
                let rows = frame.rows();
                let metrics = &self.context.metrics;
                let said = client.socket.answer(&frame);
                client.note_sent(Instant::now());
                metrics.updates_sent.inc_by(u64::from(rows));
                self.follow_up(id.index, large.iter(), true);
                self.finish_turn(id.index, said.map(|()| false));
                if self.serves(id) {
                    self.resume(id.index);
                }
            }
            Order::CaughtUp {
                frame, large, tick, ..
            } => {
                let frame = client.addressed(&frame);
                let said = client.socket.answer(&frame);
                client.note_sent(Instant::now());
                client.session.caught_up(tick);
                // The frames have a row for each PV of which updates were missed. For a PV that was
                // subscribed meanwhile and hasn't changed since, this subtracts one too many.
                let rows = u64::from(frame.rows()) + large.len() as u64;
                let cause = client.session.cause();
                let skipped = client.feed.catch_up(rows, cause);
                let metrics = &self.context.metrics;
                metrics.skipped(cause, skipped);
                metrics.catch_ups.inc();
                metrics.updates_sent.inc_by(u64::from(frame.rows()));
                self.follow_up(id.index, large.iter(), false);
                self.finish_turn(id.index, said.map(|()| true));
            }
        }
    }

    /// Updates a client at intervals from now on, or with every tick again.
    pub(super) fn pace(
        &mut self,
        slot: usize,
        interval: Option<Duration>,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        client.feed.pace = interval.map(|interval| Pace {
            interval,
            due: None,
        });
        client.session.pace(interval.is_some());
        // What waited for the end of the old interval waits for the end of the new one.
        self.hold_back(slot, Offer::Wait, Instant::now())
    }

    /// Requests catch-ups for the clients whose intervals are over.
    pub(super) fn serve_paced(&mut self, now: Instant) {
        if self.deliveries.paces.next.is_none_or(|at| now < at) {
            return;
        }
        self.deliveries.paces.next = None;
        let slots: Vec<usize> = self.clients.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            let Some(pace) = &mut client.feed.pace else {
                continue;
            };
            match pace.due {
                None => continue,
                Some(due) if now < due => {
                    self.deliveries.paces.is_due(due);
                    continue;
                }
                Some(_) => pace.due = None,
            }
            if client.is_closing() {
                continue;
            }
            let blocked = client.is_blocked();
            let offer = client.session.due(blocked, self.deliveries.rounds.overdue);
            if offer != Offer::Wait {
                let done = self.hold_back(slot, offer, now);
                self.finish_turn(slot, done.map(|()| false));
            }
        }
    }

    /// Notes that a frame isn't sent to a client, for the reason in `offer`.
    fn hold_back(&mut self, slot: usize, offer: Offer, now: Instant) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        match offer {
            Offer::Send => {}
            Offer::Wait => {
                if let Some(pace) = &mut client.feed.pace {
                    self.deliveries.paces.wait(pace, now);
                }
            }
            Offer::Skip => {
                self.context.metrics.frames_skipped.inc();
                client.stall(now);
            }
            Offer::Probe => {
                client.stall(now);
                let encoder = self.deliveries.encoder(client.id.encoding);
                let probe = Arc::new(encoder.probe(client.session.synced()));
                client.socket.answer(&probe)?;
            }
        }
        Ok(())
    }
}
