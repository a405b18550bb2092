//! Reads clients' requests and answers them, or passes them to the stage that owns the answer.
//!
//! A turn reads a bounded number of requests, so that a client that sends many doesn't delay the
//! others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Run;
use crate::fanout::frame::Frame;
use crate::ingest::OpEnd;
use crate::limits::requests::{REQUESTS_PER_TURN, TooManyRequests};
use crate::session::operation::{Action, Ended, Operation};
use crate::session::request::Outcome;
use crate::session::socket::Disconnect;
use crate::state::table::{bytes_of_node, is_beyond_a_frame};

impl From<TooManyRequests> for Disconnect {
    fn from(_: TooManyRequests) -> Self {
        Self::TooManyWaiting
    }
}

/// Names that are looked up for clients before the ticks that have come meanwhile are delivered: about 2 ms. A request
/// is always read whole.
const NAMES_PER_ROUND: usize = 4_000;

/// A turn in which messages of a client of a door take longer ends: how long one takes depends on what the client holds.
const DOOR_TURN: Duration = Duration::from_millis(1);

/// A request of this many bytes names thousands of PVs.
const LARGE_REQUEST_BYTES: u64 = 128 << 10;

impl Run {
    /// Has a client's requests read in its turn.
    pub(super) fn read_later(&mut self, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot)
            && !client.awaits_reading
        {
            client.awaits_reading = true;
            self.turns.reading.push(slot);
        }
    }

    /// Gives each client that waits for it a turn of reading, until enough names have been looked up. The others are
    /// first in the next round.
    pub(super) fn read_clients(&mut self) {
        self.router.begin_round();
        let mut now = Instant::now();
        for _ in 0..self.turns.reading.len() {
            if self.router.looked_up() >= NAMES_PER_ROUND {
                return;
            }
            let Some(slot) = self.turns.reading.next(now) else {
                return;
            };
            // Another client may have this slot now.
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            if !client.awaits_reading {
                continue;
            }
            let takes_long = client.budget.has_named_many(now)
                || client.socket.begun_bytes() >= LARGE_REQUEST_BYTES;
            if takes_long && self.turns.reading.rests(now) {
                client.rests_since.get_or_insert(now);
                self.turns.reading.rest(slot);
                continue;
            }
            client.awaits_reading = false;
            if let Some(since) = client.rests_since.take() {
                client.budget.was_unread(since, now);
            }
            let done = self.read(slot);
            self.finish_turn(slot, done);
            if takes_long {
                let ended = Instant::now();
                self.turns.reading.had_turn(now, ended);
                now = ended;
            }
        }
    }

    /// Reads the requests that have come; returns whether the client made progress.
    fn read(&mut self, slot: usize) -> Result<bool, Disconnect> {
        let heard = self.read_turn(slot)?;
        self.clients[slot].charge_unfinished()?;
        self.ask_for_changes(slot)?;
        Ok(heard)
    }

    fn read_turn(&mut self, slot: usize) -> Result<bool, Disconnect> {
        if self.clients[slot].socket.is_closing() {
            if self.clients[slot].socket.discard()? {
                self.read_later(slot);
            }
            return Ok(false);
        }
        let (mut heard, begun) = (false, Instant::now());
        self.clients[slot].socket.begin_turn();
        for _ in 0..REQUESTS_PER_TURN {
            let client = &mut self.clients[slot];
            if client.is_being_read() {
                // The next messages wait for the answer to this one.
                return Ok(heard);
            }
            if self.router.looked_up() >= NAMES_PER_ROUND {
                break;
            }
            let received = client.socket.receive()?;
            let frames = client.socket.take_frames();
            if frames > 0 {
                client.budget.take_frames(frames, Instant::now())?;
            }
            let Some((kind, bytes)) = received else {
                if client.socket.has_more() {
                    self.read_later(slot);
                }
                return Ok(heard);
            };
            self.context.metrics.requests.inc();
            let format = self.context.encodings.format(client.id.encoding);
            if kind != format.requests() {
                return Err(Disconnect::BadMessage);
            }
            if client.door.is_some() {
                self.take_door_message(slot, bytes)?;
                if begun.elapsed() >= DOOR_TURN {
                    break;
                }
                continue;
            }
            let is_known = client.known()?.is_some();
            if bytes.is_empty()
                && let Some(path) = format.stream_path()
            {
                if !is_known {
                    return Err(Disconnect::NotLoggedIn);
                }
                self.large_way(slot, path)?;
                continue;
            }
            let taken = self.router.take_message(
                client.id,
                is_known.then_some(&client.caller),
                &mut client.budget,
                (format, &bytes),
            );
            let outcome = match taken {
                Ok(outcome) => outcome,
                Err(bad) => Outcome::of_bad(bad).ok_or(Disconnect::BadMessage)?,
            };
            self.turns.saw(matches!(outcome, Outcome::Acknowledged(_)));
            heard |= self.act(slot, outcome)?;
        }
        self.read_later(slot);
        Ok(heard)
    }

    /// Does what a request asks for; returns whether it acknowledged a tick for the first time.
    fn act(&mut self, slot: usize, outcome: Outcome) -> Result<bool, Disconnect> {
        let client = &mut self.clients[slot];
        match outcome {
            Outcome::Answered(reply, to) => {
                let about = (client.session.synced(), to);
                let frame = self.deliveries.answer(client.id.encoding, about, &reply);
                client.socket.answer(&frame)?;
            }
            Outcome::Control(request) => {
                if let Err(too_many) = client.budget.open() {
                    self.router.withdraw(request);
                    return Err(too_many.into());
                }
                self.context.control.push(request);
            }
            Outcome::Operate {
                request,
                actions,
                all_permitted,
                within_limits,
            } => self.operate(slot, request, actions, (all_permitted, within_limits))?,
            Outcome::Asked(request, service, body) => self.ask(slot, request, service, body)?,
            Outcome::Cancelled(request) => self.cancel(slot, request)?,
            Outcome::LogIn(to, token) => {
                client.budget.take_token(Instant::now())?;
                self.log_in(slot, to, token)?;
            }
            Outcome::NotLoggedIn => return Err(Disconnect::NotLoggedIn),
            Outcome::Silent => {}
            Outcome::Acknowledged(tick) => return Ok(client.session.acknowledged(tick)),
            Outcome::Paced(interval) => self.pace(slot, interval)?,
        }
        Ok(false)
    }

    /// Begins the puts or the call of one request; each put counts as one request. `all_permitted`: none of them unless
    /// the rules permit all. `within_limits`: none outside the limits of its PV.
    pub(super) fn operate(
        &mut self,
        slot: usize,
        first: u32,
        actions: Vec<(String, Action)>,
        (all_permitted, within_limits): (bool, bool),
    ) -> Result<(), Disconnect> {
        let now = Instant::now();
        let client = &mut self.clients[slot];
        if client.known()?.is_none() {
            return Err(Disconnect::NotLoggedIn);
        }
        let mut operations = Vec::with_capacity(actions.len());
        for (at, action) in actions.into_iter().enumerate() {
            client.budget.open()?;
            let to = (client.id, first.wrapping_add(at as u32));
            let operation = Operation::new(to, &client.caller, action, now);
            let mut operation = operation.within_limits(within_limits);
            if !client.budget.take_put(now) {
                operation.refuse_too_fast();
            }
            operations.push(operation);
        }
        if all_permitted {
            self.operations.refuse_unless_all_permitted(&mut operations);
        }
        for operation in operations {
            if let Some(ended) = self.operations.begin(operation) {
                self.answer_operation(&ended)?;
            }
        }
        Ok(())
    }

    /// Answers the puts and calls that have ended.
    pub(super) fn answer_operations(&mut self, now: Instant) {
        let ended = self.operations.ended(now);
        self.tell(ended);
    }

    /// Sends clients the answers to their puts and calls.
    pub(super) fn tell(&mut self, ended: Vec<Ended>) {
        for ended in ended {
            let (said, id) = (self.answer_operation(&ended), ended.0.client());
            if self.serves(id) {
                self.finish_turn(id.index, said.map(|()| false));
            }
        }
    }

    /// Sends a client, if it is still connected, the answer to a put or call.
    pub(super) fn answer_operation(&mut self, (operation, end): &Ended) -> Result<(), Disconnect> {
        let id = operation.client();
        self.context.metrics.operation_ended(end.outcome);
        if operation.report(end) || !self.serves(id) {
            return Ok(());
        }
        let client = &mut self.clients[id.index];
        client.budget.answered();
        if client.door.is_some() {
            return self.tell_put(id.index, operation.request(), end);
        }
        let (synced, request) = (client.session.synced(), operation.request());
        let result = end.result.as_ref();
        let refused = |why: String| {
            let message = format!("the service answered, and its answer is left out: {why}");
            // A put that is answered is written.
            OpEnd::failed(pvwire_schema::types::Outcome::Unknown, message)
        };
        let charge = if result.is_some_and(is_beyond_a_frame) {
            Err(refused("it is more than a frame may hold".to_owned()))
        } else {
            let charge = client.caller.owner.charge(result.map_or(0, bytes_of_node));
            charge.map_err(|too_much| refused(too_much.to_string()))
        };
        let encoder = self.deliveries.encoder(id.encoding);
        let frame = match &charge {
            Err(end) if operation.is_call() => encoder.call_answer(synced, request, end),
            _ if operation.is_call() => encoder.call_answer(synced, request, end),
            _ => encoder.put_answer(synced, request, end),
        };
        let frame = charge.into_iter().fold(frame, Frame::charged);
        client.socket.answer(&Arc::new(frame))
    }
}
