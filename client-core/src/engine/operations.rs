//! Queues gets, puts, calls and questions, sends as many as the relay accepts, and assigns the answers to
//! them.

use std::collections::VecDeque;

use bytes::Bytes;
use pvwire_schema::limits::MAX_PUTS;
use pvwire_schema::types::{NameError, NameProblem, Node, Outcome, PutValue};

use super::requests::{AnswerPage, AskError, CallError, Got, Piece, Put, PutDone, PutError};
use super::{Event, millis};
use crate::ingest::Session;
use crate::select::execute::Held;
use crate::store::{Slot, Store};

/// Maximum number of open requests of these kinds; the relay accepts 64 of any kind.
const MAX_OPEN: usize = 48;

/// Identifies a get, put, call or question of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A put and what is known before it is sent.
pub(super) struct PreparedPut {
    pub(super) put: Put,
    /// The slot of its `only_if`, or `Some(None)` if that PV is closed.
    pub(super) only_if: Option<Option<Slot>>,
    /// The result if it was done without the relay.
    pub(super) done: Option<Result<PutDone, PutError>>,
}

/// An operation that has not been sent yet.
#[derive(Debug)]
enum Waiting {
    /// Names of a get from this index on.
    Get(Ticket, usize, Vec<String>),
    /// Puts that are sent in one message if they fit.
    Puts(Vec<(Ticket, Put, Option<Slot>)>, bool),
    Call(Ticket, String, Vec<(String, PutValue)>, u32),
    /// A service and the question.
    Ask(Ticket, String, Vec<u8>),
}

/// An operation whose answer is expected.
#[derive(Debug)]
enum Open {
    Get(Ticket, usize, Vec<String>),
    /// The puts of one message have the same first ticket.
    Put(Ticket, Ticket),
    Call(Ticket),
    Ask(Ticket),
}

/// A get that is not yet answered for all of its names.
#[derive(Debug)]
struct Get {
    ticket: Ticket,
    timeout_ms: u32,
    describe: bool,
    /// Number of names without an answer.
    missing: usize,
    got: Got,
}

#[derive(Debug, Default)]
pub(super) struct Operations {
    last: u64,
    waiting: VecDeque<Waiting>,
    open: Vec<(u32, Open)>,
    gets: Vec<Get>,
}

impl Operations {
    fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    pub(super) fn get(
        &mut self,
        names: Vec<String>,
        timeout_ms: u32,
        describe: bool,
        events: &mut Vec<Event>,
    ) -> Ticket {
        let ticket = self.ticket();
        if names.is_empty() {
            events.push(Event::Got(ticket, Got::default()));
            return ticket;
        }
        self.gets.push(Get {
            ticket,
            timeout_ms,
            describe,
            missing: names.len(),
            got: Got::default(),
        });
        self.waiting.push_back(Waiting::Get(ticket, 0, names));
        ticket
    }

    pub(super) fn put(
        &mut self,
        puts: Vec<PreparedPut>,
        all_permitted: bool,
        connected: bool,
        events: &mut Vec<Event>,
    ) -> Vec<Ticket> {
        let puts: Vec<_> = puts.into_iter().map(|put| (self.ticket(), put)).collect();
        let tickets = puts.iter().map(|(ticket, _)| *ticket).collect();
        let of_relay = puts.iter().filter(|(_, put)| put.done.is_none());
        let is_closed = puts.iter().any(|(_, put)| put.only_if == Some(None));
        let withheld = all_permitted && (is_closed || of_relay.count() > MAX_PUTS);
        let mut group = Vec::new();
        for (ticket, PreparedPut { put, only_if, done }) in puts {
            let result = match (done, only_if) {
                (Some(done), _) => done,
                _ if !connected => Err(PutError::NotConnected),
                (None, Some(None)) => Err(PutError::NoUpdate),
                _ if withheld => Err(PutError::Withheld),
                _ => {
                    group.push((ticket, put, only_if.flatten()));
                    continue;
                }
            };
            events.push(Event::Put(ticket, result));
        }
        while !group.is_empty() {
            let same = |(_, put, _): &&(_, Put, _)| put.check_limits == group[0].1.check_limits;
            let count = group.iter().take(MAX_PUTS).take_while(same).count();
            let rest = group.split_off(if all_permitted { group.len() } else { count });
            let puts = std::mem::replace(&mut group, rest);
            self.waiting.push_back(Waiting::Puts(puts, all_permitted));
        }
        tickets
    }

    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: Vec<(String, PutValue)>,
        timeout_ms: u32,
        connected: bool,
        events: &mut Vec<Event>,
    ) -> Ticket {
        let ticket = self.ticket();
        if connected {
            let call = Waiting::Call(ticket, name.to_owned(), arguments, timeout_ms);
            self.waiting.push_back(call);
        } else {
            events.push(Event::Called(ticket, Err(CallError::NotConnected)));
        }
        ticket
    }

    pub(super) fn ask(
        &mut self,
        service: &str,
        body: Vec<u8>,
        connected: bool,
        events: &mut Vec<Event>,
    ) -> Ticket {
        let ticket = self.ticket();
        if connected {
            let ask = Waiting::Ask(ticket, service.to_owned(), body);
            self.waiting.push_back(ask);
        } else {
            events.push(Event::Page(ticket, Err(AskError::NotConnected)));
        }
        ticket
    }

    /// Forgets a question; returns the number of its request if it was sent.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<u32> {
        let is_it = |waiting: &Waiting| matches!(waiting, Waiting::Ask(of, ..) if *of == ticket);
        self.waiting.retain(|waiting| !is_it(waiting));
        let open = self.open.iter();
        let mut asks = open.filter(|(_, open)| matches!(open, Open::Ask(of) if *of == ticket));
        let request = asks.next()?.0;
        self.ended(request);
        Some(request)
    }

    /// Appends as many requests as the relay accepts.
    pub(super) fn send(
        &mut self,
        session: &mut Session,
        requests: &mut Vec<Vec<u8>>,
        events: &mut Vec<Event>,
    ) {
        while let Some(next) = self.waiting.front() {
            let count = match next {
                Waiting::Puts(puts, _) => puts.len(),
                Waiting::Get(..) | Waiting::Call(..) | Waiting::Ask(..) => 1,
            };
            if self.open.len() + count > MAX_OPEN {
                return;
            }
            match self.waiting.pop_front() {
                Some(Waiting::Get(ticket, from, names)) => {
                    requests.extend(self.send_get(session, ticket, from, names));
                }
                Some(Waiting::Puts(puts, all_permitted)) => {
                    requests.extend(self.send_puts(session, puts, all_permitted, events));
                }
                Some(Waiting::Call(ticket, name, arguments, timeout_ms)) => {
                    if let Some(request) = session.rpc(&name, arguments, timeout_ms) {
                        requests.push(request);
                        self.open.push((session.last_request(), Open::Call(ticket)));
                    } else {
                        let max_bytes = session.max_request_bytes();
                        events.push(Event::Called(
                            ticket,
                            Err(CallError::TooLarge { max_bytes }),
                        ));
                    }
                }
                Some(Waiting::Ask(ticket, service, body)) => {
                    requests.push(session.ask(&service, body));
                    self.open.push((session.last_request(), Open::Ask(ticket)));
                }
                None => {}
            }
        }
    }

    fn send_get(
        &mut self,
        session: &mut Session,
        ticket: Ticket,
        from: usize,
        mut names: Vec<String>,
    ) -> Option<Vec<u8>> {
        let get = self.gets.iter().find(|get| get.ticket == ticket)?;
        let (taken, bytes) = session.get(&names, get.timeout_ms, get.describe);
        let rest = names.split_off(taken);
        if !rest.is_empty() {
            let rest = Waiting::Get(ticket, from + taken, rest);
            self.waiting.push_front(rest);
        }
        let open = Open::Get(ticket, from, names);
        self.open.push((session.last_request(), open));
        Some(bytes)
    }

    fn send_puts(
        &mut self,
        session: &mut Session,
        puts: Vec<(Ticket, Put, Option<Slot>)>,
        all_permitted: bool,
        events: &mut Vec<Event>,
    ) -> Option<Vec<u8>> {
        let mut staged = Vec::new();
        let mut withheld = false;
        for (ticket, put, slot) in puts {
            let (name, value) = (put.name.clone(), put.value.clone());
            let result = session.stage_put(name, value, put.wait, millis(put.timeout), slot);
            if result.is_ok() {
                staged.push((ticket, put, slot));
            } else {
                events.push(Event::Put(ticket, Err(PutError::NoUpdate)));
                withheld = all_permitted;
            }
        }
        let within_limits = staged.iter().any(|(_, put, _)| put.check_limits);
        let (taken, bytes) = session.put(all_permitted, within_limits);
        if withheld || all_permitted && taken < staged.len() {
            for (ticket, ..) in staged {
                events.push(Event::Put(ticket, Err(PutError::Withheld)));
            }
            return None;
        }
        let mut rest = staged.split_off(taken);
        if taken == 0 && !rest.is_empty() {
            let max_bytes = session.max_request_bytes();
            events.push(Event::Put(
                rest.remove(0).0,
                Err(PutError::TooLarge { max_bytes }),
            ));
        }
        if !rest.is_empty() {
            self.waiting.push_front(Waiting::Puts(rest, all_permitted));
        }
        let first = staged.first()?.0;
        let mut request = session.last_request().wrapping_sub(taken as u32);
        for (ticket, ..) in staged {
            request = request.wrapping_add(1);
            self.open.push((request, Open::Put(ticket, first)));
        }
        Some(bytes)
    }

    fn ended(&mut self, request: u32) -> Option<Open> {
        let at = self.open.iter().position(|(id, _)| *id == request)?;
        Some(self.open.remove(at).1)
    }

    /// A get was answered; its PVs are in the session's `answer`.
    pub(super) fn got(
        &mut self,
        request: u32,
        session: &mut Session,
        held: Held,
        events: &mut Vec<Event>,
    ) {
        let Some(Open::Get(ticket, from, names)) = self.ended(request) else {
            return;
        };
        let store = std::mem::take(&mut session.answer);
        let mut errors = std::mem::take(&mut session.name_errors);
        for index in store.len()..names.len() {
            errors.push(NameError {
                index: index as u32,
                problem: NameProblem::Unknown,
                message: "the relay's answer leaves the PV out".to_owned(),
            });
        }
        let piece = Piece {
            from,
            names,
            store,
            held,
            errors,
        };
        self.add_piece(ticket, piece, events);
    }

    fn add_piece(&mut self, ticket: Ticket, piece: Piece, events: &mut Vec<Event>) {
        let Some(at) = self.gets.iter().position(|get| get.ticket == ticket) else {
            return;
        };
        let get = &mut self.gets[at];
        get.missing = get.missing.saturating_sub(piece.names.len());
        get.got.pieces.push(piece);
        if get.missing == 0 {
            let mut got = self.gets.remove(at).got;
            got.pieces.sort_by_key(|piece| piece.from);
            events.push(Event::Got(ticket, got));
        }
    }

    pub(super) fn put_done(
        &mut self,
        request: u32,
        session: &mut Session,
        readback: Option<Node>,
        events: &mut Vec<Event>,
    ) {
        let message = std::mem::take(&mut session.error);
        if let Some(Open::Put(ticket, _)) = self.ended(request) {
            let result = match session.outcome {
                Outcome::Done => Ok(PutDone { readback, message }),
                outcome => Err(PutError::Failed { outcome, message }),
            };
            events.push(Event::Put(ticket, result));
        }
    }

    pub(super) fn called(
        &mut self,
        request: u32,
        session: &mut Session,
        value: Option<Node>,
        events: &mut Vec<Event>,
    ) {
        let message = std::mem::take(&mut session.error);
        if let Some(Open::Call(ticket)) = self.ended(request) {
            let result = match session.outcome {
                Outcome::Done => Ok(value.unwrap_or_default()),
                outcome => Err(CallError::Failed { outcome, message }),
            };
            events.push(Event::Called(ticket, result));
        }
    }

    /// A page of an answer came.
    pub(super) fn answered(
        &mut self,
        request: u32,
        session: &mut Session,
        content: Bytes,
        events: &mut Vec<Event>,
    ) {
        let open = self.open.iter().find(|(id, _)| *id == request);
        let Some((_, Open::Ask(ticket))) = open else {
            return;
        };
        let ticket = *ticket;
        let message = std::mem::take(&mut session.error);
        let is_last = session.is_last;
        let result = match session.outcome {
            Outcome::Done => Ok(AnswerPage { content, is_last }),
            outcome => Err(AskError::Failed { outcome, message }),
        };
        if is_last {
            self.ended(request);
        }
        events.push(Event::Page(ticket, result));
    }

    /// A request was refused as a whole; returns `false` if it is not one of these.
    pub(super) fn refused(&mut self, request: u32, message: &str, events: &mut Vec<Event>) -> bool {
        let (outcome, message) = (Outcome::NotSupported, message.to_owned());
        match self.ended(request) {
            None => return false,
            Some(Open::Get(ticket, from, names)) => {
                let error = |index| NameError {
                    index: index as u32,
                    problem: NameProblem::Unknown,
                    message: message.clone(),
                };
                let piece = Piece {
                    from,
                    errors: (0..names.len()).map(error).collect(),
                    held: Held::new(),
                    store: Store::new(),
                    names,
                };
                self.add_piece(ticket, piece, events);
            }
            Some(Open::Call(ticket)) => {
                let error = CallError::Failed { outcome, message };
                events.push(Event::Called(ticket, Err(error)));
            }
            Some(Open::Ask(ticket)) => {
                let error = AskError::Failed { outcome, message };
                events.push(Event::Page(ticket, Err(error)));
            }
            Some(Open::Put(ticket, group)) => {
                let same = |open: &Open| matches!(open, Open::Put(_, other) if *other == group);
                let others = self.open.extract_if(.., |(_, open)| same(open));
                let others = others.filter_map(|(_, open)| match open {
                    Open::Put(ticket, _) => Some(ticket),
                    Open::Get(..) | Open::Call(_) | Open::Ask(_) => None,
                });
                for ticket in [ticket].into_iter().chain(others) {
                    let message = message.clone();
                    let error = PutError::Failed { outcome, message };
                    events.push(Event::Put(ticket, Err(error)));
                }
            }
        }
        true
    }

    /// The connection was lost: puts, calls and questions end, gets are sent again on the next one.
    pub(super) fn lost(&mut self, events: &mut Vec<Event>) {
        let mut gets = VecDeque::new();
        for (_, open) in std::mem::take(&mut self.open) {
            match open {
                Open::Get(ticket, from, names) => gets.push_back(Waiting::Get(ticket, from, names)),
                Open::Put(ticket, _) => events.push(Event::Put(ticket, Err(PutError::Lost))),
                Open::Call(ticket) => events.push(Event::Called(ticket, Err(CallError::Lost))),
                Open::Ask(ticket) => events.push(Event::Page(ticket, Err(AskError::Lost))),
            }
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Puts(puts, _) => events.extend(
                    puts.into_iter()
                        .map(|(ticket, ..)| Event::Put(ticket, Err(PutError::NotConnected))),
                ),
                Waiting::Call(ticket, ..) => {
                    events.push(Event::Called(ticket, Err(CallError::NotConnected)));
                }
                Waiting::Ask(ticket, ..) => {
                    events.push(Event::Page(ticket, Err(AskError::NotConnected)));
                }
                get @ Waiting::Get(..) => gets.push_back(get),
            }
        }
        self.waiting = gets;
    }
}
