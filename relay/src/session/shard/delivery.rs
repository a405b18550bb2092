//! Who gets a tick's frame, and when does everybody else get what they missed?

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;

use super::Run;
use crate::fanout::flat::missed;
use crate::fanout::large::large_steps;
use crate::fanout::output::{GroupFrame, Order, TickFrames};
use crate::ops::latency::{SENT_SAMPLES, wall_ns};
use crate::session::socket::{Broken, Written};
use crate::session::step::Offer;

/// What a client is to get of the ticks.
#[derive(Default)]
pub(super) struct Feed {
    /// Whose frames.
    group: Option<usize>,
    /// Set when it wants to be brought up to date at intervals only.
    pace: Option<Pace>,
    /// Updates that it wasn't sent since it was last in step.
    missed: u64,
}

/// How a client wants to be brought up to date.
#[derive(Clone, Copy)]
struct Pace {
    interval: Duration,
    /// When the next catch-up is due; `None` while nothing is new.
    due: Option<Instant>,
}

/// What the shard remembers from one tick to the next.
#[derive(Default)]
pub(super) struct Rounds {
    /// Who is written to first, so that nobody is always last.
    first: usize,
    /// Ticks of the last ack window, and when they were written.
    written: VecDeque<(u64, Instant)>,
    /// Last tick that every client should have acknowledged by now.
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

/// When paced clients are due.
pub(super) struct Paces {
    /// Intervals are counted from here, so that those of equal length end together and their
    /// catch-ups may be the same bytes.
    started: Instant,
    /// When the first of the paced clients is due.
    next: Option<Instant>,
}

impl Paces {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            next: None,
        }
    }

    /// When the first of the paced clients is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Something waits for the end of a client's interval.
    fn wait(&mut self, pace: &mut Pace, now: Instant) {
        let due = pace.due.unwrap_or_else(|| self.end(pace.interval, now));
        pace.due = Some(due);
        self.is_due(due);
    }

    fn is_due(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// When the interval that now is in ends.
    fn end(&self, interval: Duration, now: Instant) -> Instant {
        let interval = interval.as_nanos().max(1);
        let nth = now.duration_since(self.started).as_nanos() / interval + 1;
        self.started + Duration::from_nanos(u64::try_from(interval * nth).unwrap_or(u64::MAX))
    }
}

impl Run {
    /// Writes a tick's frames to all who get one. When the shard `is_behind` the ticks, its clients fall
    /// behind with it, and are brought up to date after those that wait.
    pub(super) fn deliver(&mut self, frames: &TickFrames, is_behind: bool) {
        let start = Instant::now();
        let metrics = Arc::clone(&self.context.metrics);
        let places: Vec<usize> = self.clients.iter().map(|(place, _)| place).collect();
        if places.is_empty() {
            return;
        }
        self.rounds.first = (self.rounds.first + 1) % places.len();
        let (second, first) = places.split_at(self.rounds.first);
        let (mut sent, mut updates, mut bytes) = (0_u64, 0_u64, 0_u64);
        let (mut broken, mut left_out) = (Vec::new(), Vec::new());
        for &place in first.iter().chain(second) {
            let client = &mut self.clients[place];
            let Some(group) = client.feed.group.filter(|_| !client.is_closing()) else {
                continue;
            };
            let (shared, set) = match frames.groups.get(group) {
                None | Some(GroupFrame::Nothing) => continue,
                Some(GroupFrame::Shared(forms, set)) => (forms.of(client.id), set),
                Some(GroupFrame::Gather(set)) => (None, set),
            };
            if client.socket.is_ready()
                && let Err(error) = client.socket.resume()
            {
                // Its turn comes now, so that nobody is behind who only waited for one.
                broken.push((place, error));
                continue;
            }
            let steps = || {
                let small = match shared {
                    Some(frame) => Some(frame.steps()),
                    None => missed(&frames.changes, frames.dirty.as_ref(), set),
                };
                let large = large_steps(&frames.large, set);
                (small.is_some() || large > 0).then(|| small.unwrap_or(0) + large)
            };
            let blocked = is_behind
                || client.socket.is_blocked()
                || (client.large.is_busy() && large_steps(&frames.large, set) > 0);
            let sure = !blocked && client.session.is_in_step();
            let missed = if sure { None } else { steps() };
            // Nothing is missed of a tick that has nothing for the client.
            if !sure && missed.is_none() {
                continue;
            }
            let offer = client.session.offer(blocked, self.rounds.overdue);
            if offer != Offer::Send {
                client.feed.missed += missed.or_else(steps).unwrap_or(0);
                match self.hold_back(place, offer, start) {
                    Ok(()) if is_behind => left_out.push(place),
                    Ok(()) => {}
                    Err(error) => broken.push((place, error)),
                }
                continue;
            }
            let gathered;
            let frame = match shared {
                Some(frame) => frame,
                None => {
                    let since = client.session.synced();
                    let Some(frame) = self.maker.packing(client.id.lz4).gather(
                        &frames.changes,
                        frames.dirty.as_ref(),
                        set,
                        since,
                    ) else {
                        continue;
                    };
                    metrics.frames_encoded.inc();
                    gathered = Arc::new(frame);
                    &gathered
                }
            };
            match client.socket.send(frame) {
                Ok(Written::Refused) => {
                    client.session.refused();
                    client.feed.missed += frame.steps() + large_steps(&frames.large, set);
                    client.stall(start);
                }
                Ok(_) => {
                    client.session.sent(frames.tick);
                    sent += 1;
                    updates += u64::from(frame.rows());
                    bytes += frame.length() as u64;
                    let values = frames.large.iter();
                    let values = values.filter(|value| set.contains(value.pv()));
                    client.follow_up(values, false, &mut self.maker, &metrics);
                    self.ask_turn(place);
                }
                Err(error) => broken.push((place, error)),
            }
        }
        for (place, error) in broken {
            self.part(place, &error);
        }
        for place in left_out {
            if self.clients.contains(place) {
                self.settle(place, Ok(false));
            }
        }
        metrics.frames_sent.inc_by(sent);
        metrics.updates_sent.inc_by(updates);
        metrics.bytes_sent.inc_by(bytes);
        if sent > 0 {
            let (now_ns, rows) = (wall_ns(), &frames.changes.rows);
            let looked_at = rows.iter().step_by(rows.len() / SENT_SAMPLES + 1);
            let first = &frames.changes.first_values;
            for row in looked_at.filter(|row| !first.contains(&row.pv)) {
                metrics.ages_sent.add(row.time_ns, now_ns);
            }
        }
        self.mailbox.wrote(start.elapsed());
        let ack_window = self.context.limits.ack_window;
        self.rounds.wrote(frames.tick, start, ack_window);
    }

    /// Does what the group stage decided between this tick and the next.
    pub(super) fn follow(&mut self, order: Order) {
        let id = order.client();
        if !self.serves(id) {
            return;
        }
        let client = &mut self.clients[id.place];
        match order {
            Order::Regroup { group, .. } => client.feed.group = group,
            Order::Refuse { .. } => self.close(id.place, CloseCode::RightsChanged),
            Order::Answer { frame, large, .. } => {
                client.budget.answered();
                let rows = frame.rows();
                let metrics = &self.context.metrics;
                let said = client.socket.answer(&frame);
                metrics.updates_sent.inc_by(u64::from(rows));
                client.follow_up(large.iter(), true, &mut self.maker, metrics);
                self.settle(id.place, said.map(|()| false));
            }
            Order::CaughtUp {
                frame, large, tick, ..
            } => {
                let said = client.socket.answer(&frame);
                client.session.caught_up(tick);
                // The frames have a row of each PV that was missed. One too many is taken off for a PV
                // that was subscribed meanwhile and has not changed since.
                let missed = std::mem::take(&mut client.feed.missed);
                let rows = u64::from(frame.rows()) + large.len() as u64;
                let metrics = &self.context.metrics;
                metrics.skipped(client.session.cause(), missed.saturating_sub(rows));
                client.follow_up(large.iter(), false, &mut self.maker, metrics);
                metrics.catch_ups.inc();
                metrics.updates_sent.inc_by(u64::from(frame.rows()));
                self.settle(id.place, said.map(|()| true));
            }
        }
    }

    /// From now on a client is brought up to date at intervals only, or with every tick again.
    pub(super) fn pace(&mut self, place: usize, interval: Option<Duration>) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        client.feed.pace = interval.map(|interval| Pace {
            interval,
            due: None,
        });
        client.session.pace(interval.is_some());
        // What waited for the end of another interval waits for that of this one.
        self.hold_back(place, Offer::Wait, Instant::now())
    }

    /// Asks for the catch-ups of the clients whose intervals are over.
    pub(super) fn bring_up_paced(&mut self, now: Instant) {
        if self.paces.next.is_none_or(|at| now < at) {
            return;
        }
        self.paces.next = None;
        let places: Vec<usize> = self.clients.iter().map(|(place, _)| place).collect();
        for place in places {
            let Some(client) = self.clients.get_mut(place) else {
                continue;
            };
            let Some(pace) = &mut client.feed.pace else {
                continue;
            };
            match pace.due {
                None => continue,
                Some(due) if now < due => {
                    self.paces.is_due(due);
                    continue;
                }
                Some(_) => pace.due = None,
            }
            if client.is_closing() {
                continue;
            }
            let blocked = client.is_blocked();
            let offer = client.session.due(blocked, self.rounds.overdue);
            if offer != Offer::Wait {
                let done = self.hold_back(place, offer, now);
                self.settle(place, done.map(|()| false));
            }
        }
    }

    /// A frame isn't sent to a client: `offer` says why.
    fn hold_back(&mut self, place: usize, offer: Offer, now: Instant) -> Result<(), Broken> {
        let client = &mut self.clients[place];
        match offer {
            Offer::Send => {}
            Offer::Wait => {
                if let Some(pace) = &mut client.feed.pace {
                    self.paces.wait(pace, now);
                }
            }
            Offer::Skip => {
                self.context.metrics.frames_skipped.inc();
                client.stall(now);
            }
            Offer::Probe => {
                client.stall(now);
                let probe = Arc::new(self.maker.probe(client.session.synced()));
                client.socket.answer(&probe)?;
            }
        }
        Ok(())
    }
}
