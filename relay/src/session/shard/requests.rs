//! Reads clients' requests and answers them, or passes them to the stage that owns the answer.
//!
//! A turn reads a bounded number of requests, so that a client that sends many doesn't delay the
//! others.

use std::sync::Arc;
use std::time::Instant;

use super::Run;
use crate::fanout::frame::Frame;
use crate::ingest::OpEnd;
use crate::limits::requests::{REQUESTS_PER_TURN, TooManyRequests};
use crate::session::operation::{Action, Ended, Operation};
use crate::session::request::Outcome;
use crate::session::socket::Broken;
use crate::state::table::{bytes_of_node, is_beyond_a_frame};

impl From<TooManyRequests> for Broken {
    fn from(_: TooManyRequests) -> Self {
        Self::TooManyWaiting
    }
}

impl Run {
    /// Reads the requests that have come; returns whether the client made progress.
    pub(super) fn read(&mut self, place: usize) -> Result<bool, Broken> {
        let heard = self.read_turn(place)?;
        self.ask_for_changes(place)?;
        Ok(heard)
    }

    fn read_turn(&mut self, place: usize) -> Result<bool, Broken> {
        if self.clients[place].socket.is_closing() {
            if self.clients[place].socket.discard()? {
                self.again.insert(place);
            }
            return Ok(false);
        }
        let mut heard = false;
        self.clients[place].socket.begin_turn();
        for _ in 0..REQUESTS_PER_TURN {
            let client = &mut self.clients[place];
            if client.is_being_read() {
                // The next messages wait for the answer to this one.
                return Ok(heard);
            }
            let received = client.socket.receive()?;
            let frames = client.socket.take_frames();
            if frames > 0 {
                client.budget.take_frames(frames, Instant::now())?;
            }
            let Some((kind, bytes)) = received else {
                if client.socket.has_more() {
                    self.again.insert(place);
                }
                return Ok(heard);
            };
            self.context.metrics.requests.inc();
            let format = self.context.encodings.format(client.id.encoding);
            if kind != format.requests() {
                return Err(Broken::BadMessage);
            }
            if client.conversation.is_some() {
                self.converse(place, bytes)?;
                continue;
            }
            let identity = client.known()?;
            if bytes.is_empty()
                && let Some(path) = format.stream_path()
            {
                if identity.is_none() {
                    return Err(Broken::NotLoggedIn);
                }
                self.large_way(place, path)?;
                continue;
            }
            let outcome = match format.request(&bytes) {
                Ok(request) => {
                    let identity = identity.cloned();
                    self.answerer.take(
                        (client.id, &client.caller),
                        identity.as_ref(),
                        &client.owner,
                        &mut client.budget,
                        request,
                    )
                }
                Err(bad) => Outcome::of_bad(bad).ok_or(Broken::BadMessage)?,
            };
            self.only_acks &= matches!(outcome, Outcome::Acknowledged(_));
            heard |= self.act(place, outcome)?;
        }
        self.again.insert(place);
        Ok(heard)
    }

    /// Does what a request asks for; returns whether it acknowledged a tick for the first time.
    fn act(&mut self, place: usize, outcome: Outcome) -> Result<bool, Broken> {
        let client = &mut self.clients[place];
        match outcome {
            Outcome::Answered(reply, to) => {
                let synced = client.session.synced();
                let encoder = self.encoders.of(client.id.encoding);
                let frame = Arc::new(encoder.answer(synced, to, &reply));
                client.socket.answer(&frame)?;
            }
            Outcome::Control(request) => {
                if let Err(too_many) = client.budget.open() {
                    self.answerer.withdraw(request);
                    return Err(too_many.into());
                }
                self.context.control.push(request);
            }
            Outcome::Operate {
                request,
                actions,
                all_permitted,
                within_limits,
            } => self.operate(place, request, actions, (all_permitted, within_limits))?,
            Outcome::LogIn(to, token) => self.log_in(place, to, token)?,
            Outcome::Stranger => return Err(Broken::NotLoggedIn),
            Outcome::Silent => {}
            Outcome::Acknowledged(tick) => return Ok(client.session.acknowledged(tick)),
            Outcome::Paced(interval) => self.pace(place, interval)?,
        }
        Ok(false)
    }

    /// Begins the puts or the call of one request; each put counts as one request. `all_permitted`: none of them unless
    /// the rules permit all. `within_limits`: none outside the limits of its PV.
    pub(super) fn operate(
        &mut self,
        place: usize,
        first: u32,
        actions: Vec<(String, Action)>,
        (all_permitted, within_limits): (bool, bool),
    ) -> Result<(), Broken> {
        let now = Instant::now();
        let client = &mut self.clients[place];
        let Some(identity) = client.known()?.cloned() else {
            return Err(Broken::NotLoggedIn);
        };
        let mut operations = Vec::with_capacity(actions.len());
        for (at, action) in actions.into_iter().enumerate() {
            client.budget.open()?;
            let to = (client.id, first.wrapping_add(at as u32));
            let owner = &client.owner;
            let operation = Operation::new(to, &client.peer, &identity, owner, action, now);
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
                self.settle(id.index, said.map(|()| false));
            }
        }
    }

    /// Sends a client, if it is still connected, the answer to a put or call.
    pub(super) fn answer_operation(&mut self, (operation, end): &Ended) -> Result<(), Broken> {
        let id = operation.client();
        self.context.metrics.operation_ended(end.outcome);
        if operation.report(end) || !self.serves(id) {
            return Ok(());
        }
        let client = &mut self.clients[id.index];
        client.budget.answered();
        if client.conversation.is_some() {
            return self.tell_put(id.index, operation.request(), end);
        }
        let (synced, request) = (client.session.synced(), operation.request());
        let result = end.result.as_ref();
        let refused = |why: String| {
            let message = format!("the service answered, and its answer is left out: {why}");
            OpEnd::failed(pvwire_schema::types::Outcome::Failed, message)
        };
        let charge = if result.is_some_and(is_beyond_a_frame) {
            Err(refused("it is more than a frame may hold".to_owned()))
        } else {
            let charge = client.owner.charge(result.map_or(0, bytes_of_node));
            charge.map_err(|too_much| refused(too_much.to_string()))
        };
        let encoder = self.encoders.of(id.encoding);
        let frame = match &charge {
            Err(end) if operation.is_call() => encoder.call_answer(synced, request, end),
            _ if operation.is_call() => encoder.call_answer(synced, request, end),
            _ => encoder.put_answer(synced, request, end),
        };
        let frame = charge.into_iter().fold(frame, Frame::charged);
        client.socket.answer(&Arc::new(frame))
    }
}
