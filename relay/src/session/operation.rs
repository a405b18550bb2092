//! The puts and calls of one shard's clients, from the order to the answer or the time-out.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use pvwire_schema::limits::{MAX_NAME_BYTES, TOO_FAST};
use pvwire_schema::types::{Outcome, PvId};
use serde_json::Value;

use crate::access::audit::{self, Attempt, Audit, AuditError};
use crate::access::auth::Peer;
use crate::access::rule::Identity;
use crate::config::Access;
use crate::fanout::control::{ClientId, ControlQueue, ControlRequest, Peeked};
use crate::ingest::{Call, OpDone, OpEnd, OpTicket, Put, RowValue, Sent};
use crate::limits::memory::Owner;
use crate::state::registry::Registry;

/// How often a refusal of puts and calls that come too fast is recorded.
const REFUSALS_RECORDED_EVERY: Duration = Duration::from_secs(1);

/// A source ends a call at its time-out and knows whether it was sent. The relay gives the call up
/// this much later.
const CALL_GRACE: Duration = Duration::from_secs(1);

/// A put or a call.
#[derive(Debug)]
pub enum Operation {
    /// Writes a PV.
    Put(Put),
    /// Calls a service.
    Call(Call),
}

/// An operation as a client asked for it.
#[derive(Debug)]
pub struct OpOrder {
    /// The client.
    pub client: ClientId,
    /// The client's identity.
    pub identity: Arc<Identity>,
    /// The owner of the PV's memory if the PV isn't open.
    pub owner: Arc<Owner>,
    /// The request's number.
    pub request: u32,
    /// Name of the PV or service, with or without a source.
    pub name: String,
    /// The put or call.
    pub operation: Operation,
    /// How long to wait for the answer.
    pub timeout: Duration,
    /// Why it is refused without an attempt.
    pub held_back: Option<HeldBack>,
}

/// Why an operation is refused without an attempt.
#[derive(Debug)]
pub enum HeldBack {
    /// The client asks for more than `max_puts_per_s`.
    TooFast,
    /// All puts of its request must be permitted, and the put to this PV isn't.
    Another(String),
}

impl HeldBack {
    /// What the client is told.
    fn end(&self) -> OpEnd {
        match self {
            Self::TooFast => {
                let why = format!("{TOO_FAST}: ask more slowly (max_puts_per_s)");
                OpEnd::failed(Outcome::NotAllowed, why)
            }
            Self::Another(name) => {
                let why = format!("nothing was written: this relay refuses the put to {name}");
                OpEnd::failed(Outcome::Withheld, why)
            }
        }
    }
}

/// The answer to an operation.
#[derive(Debug, PartialEq)]
pub struct OpAnswer {
    /// The client.
    pub client: ClientId,
    /// The request's number.
    pub request: u32,
    /// Whether it was a call.
    pub is_call: bool,
    /// The outcome.
    pub end: OpEnd,
}

/// An operation without an answer yet.
struct Open {
    client: ClientId,
    identity: Arc<Identity>,
    peer: Arc<Peer>,
    request: u32,
    name: String,
    is_call: bool,
    /// `Some` until it is sent: while the old value isn't known, or its record isn't written.
    held: Option<Operation>,
    /// `Some` when it is sent.
    ticket: Option<Box<dyn OpTicket>>,
    /// The PV that a put holds.
    pv: Option<PvId>,
    begun: Instant,
    deadline: Instant,
    timeout: Duration,
    /// It is sent when its record is written.
    waits_for_record: bool,
    /// What the audit file records as the values before and after.
    old: Value,
    new: Value,
}

impl Open {
    /// Stops it if nothing was sent; returns whether that is so.
    fn cancel(&self) -> bool {
        self.ticket.as_ref().is_none_or(|ticket| ticket.cancel())
    }
}

/// Wakes the thread that owns the operations; called from sources' threads.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The operations of one shard.
pub struct Operations {
    registry: Arc<Registry>,
    wake: Wake,
    open: HashMap<u64, Open>,
    deadlines: BTreeSet<(Instant, u64)>,
    ended: Arc<SegQueue<(u64, OpEnd)>>,
    next: u64,
    /// When a refusal of too fast operations was last recorded; `refusals_unrecorded` counts those
    /// since.
    refusal_recorded: Option<Instant>,
    refusals_unrecorded: u64,
    shard: usize,
    control: Arc<ControlQueue>,
    audit: Option<Arc<Audit>>,
    peeked: Arc<SegQueue<(u64, Value)>>,
    recorded: Arc<SegQueue<(u64, Result<(), AuditError>)>>,
    /// Deadlines for records, in order.
    record_deadlines: VecDeque<(Instant, u64)>,
}

impl Operations {
    /// None yet.
    #[must_use]
    pub fn new(
        shard: usize,
        registry: Arc<Registry>,
        control: Arc<ControlQueue>,
        audit: Option<Arc<Audit>>,
        wake: Wake,
    ) -> Self {
        Self {
            shard,
            control,
            audit,
            peeked: Arc::default(),
            recorded: Arc::default(),
            record_deadlines: VecDeque::new(),
            registry,
            wake,
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            ended: Arc::default(),
            next: 0,
            refusal_recorded: None,
            refusals_unrecorded: 0,
        }
    }

    /// Refuses all orders when one of them is refused.
    pub fn hold_back_unless_all_permitted(&self, orders: &mut [OpOrder]) {
        let is_refused = |order: &OpOrder| {
            order.held_back.is_some()
                || (self.registry)
                    .permit(&order.name, &order.identity, Access::Put)
                    .is_err()
        };
        let Some(refused) = orders.iter().position(is_refused) else {
            return;
        };
        let name = orders[refused].name.clone();
        for order in orders {
            if !is_refused(order) {
                order.held_back = Some(HeldBack::Another(name.clone()));
            }
        }
    }

    /// Begins an operation; returns the answer if it is refused.
    pub fn begin(&mut self, order: OpOrder, peer: &Arc<Peer>, now: Instant) -> Option<OpAnswer> {
        self.next += 1;
        let number = self.next;
        let new = match &order.operation {
            _ if self.audit.is_none() => Value::Null,
            Operation::Put(put) => audit::new_value(&put.value),
            Operation::Call(call) => {
                let named = |(name, value): &(String, _)| (name.clone(), audit::new_value(value));
                Value::Object(call.arguments.iter().map(named).collect())
            }
        };
        let grace = match order.operation {
            Operation::Put(_) => Duration::ZERO,
            Operation::Call(_) => CALL_GRACE,
        };
        let mut open = Open {
            client: order.client,
            identity: order.identity,
            peer: Arc::clone(peer),
            request: order.request,
            name: order.name,
            is_call: matches!(order.operation, Operation::Call(_)),
            held: Some(order.operation),
            ticket: None,
            pv: None,
            begun: now,
            deadline: now + order.timeout + grace,
            timeout: order.timeout,
            waits_for_record: false,
            old: Value::Null,
            new,
        };
        let is_too_fast = matches!(order.held_back, Some(HeldBack::TooFast));
        let permitted = match &order.held_back {
            Some(why) => Err(why.end()),
            None if open.is_call => {
                let permitted = self
                    .registry
                    .permit(&open.name, &open.identity, Access::Put);
                permitted.map_err(OpEnd::from)
            }
            None => {
                let acquired =
                    self.registry
                        .acquire_to_put(&open.name, &open.identity, &order.owner);
                acquired.map(|pv| open.pv = Some(pv)).map_err(OpEnd::from)
            }
        };
        if let Err(mut end) = permitted {
            if is_too_fast && !self.records_refusal(&mut end, now) {
                return Some(OpAnswer {
                    client: open.client,
                    request: open.request,
                    is_call: open.is_call,
                    end,
                });
            }
            return Some(self.answer(number, open, end, now));
        }
        self.deadlines.insert((open.deadline, number));
        let Some((_, pv)) = self.audit.as_ref().zip(open.pv) else {
            return self.record_and_send(number, open, now);
        };
        let (peeked, wake) = (Arc::clone(&self.peeked), Arc::clone(&self.wake));
        let answer = Box::new(move |value: Option<&RowValue>| {
            peeked.push((number, value.map_or(Value::Null, audit::old_value)));
            wake();
        });
        let answer = Peeked(answer);
        self.control.push(ControlRequest::Peek { pv, answer });
        self.open.insert(number, open);
        None
    }

    /// Sends a permitted operation, after its record is written if that is required; returns the
    /// answer if it is refused.
    fn record_and_send(&mut self, number: u64, mut open: Open, now: Instant) -> Option<OpAnswer> {
        match self.put_on_record(number, &open) {
            Ok(false) => {
                self.send(number, open);
                None
            }
            Ok(true) => {
                open.waits_for_record = true;
                self.record_deadlines
                    .push_back((now + audit::PATIENCE, number));
                self.open.insert(number, open);
                None
            }
            Err(end) => {
                self.deadlines.remove(&(open.deadline, number));
                Some(self.answer(number, open, end, now))
            }
        }
    }

    fn send(&mut self, number: u64, mut open: Open) {
        let done = self.done(number);
        open.waits_for_record = false;
        open.ticket = match (open.held.take(), open.pv) {
            (Some(Operation::Call(call)), _) => {
                Some(self.registry.call(&open.name, &open.identity, call, done))
            }
            (Some(Operation::Put(put)), Some(pv)) => Some(self.registry.put(pv, put, done)),
            // A permitted put has a PV, and nothing is sent twice.
            (Some(Operation::Put(_)) | None, _) => Some(Box::new(Sent)),
        };
        self.open.insert(number, open);
    }

    /// Whether a refusal of a too fast operation is logged and recorded: one per second, with the
    /// number of refusals before it.
    fn records_refusal(&mut self, end: &mut OpEnd, now: Instant) -> bool {
        let is_new = |at: Instant| now.saturating_duration_since(at) < REFUSALS_RECORDED_EVERY;
        if self.refusal_recorded.is_some_and(is_new) {
            self.refusals_unrecorded += 1;
            return false;
        }
        self.refusal_recorded = Some(now);
        let before = std::mem::take(&mut self.refusals_unrecorded);
        if before > 0 {
            end.message += &format!("; {before} more were refused before this one");
        }
        true
    }

    fn done(&self, number: u64) -> OpDone {
        let (ended, wake) = (Arc::clone(&self.ended), Arc::clone(&self.wake));
        Box::new(move |end| {
            ended.push((number, end));
            wake();
        })
    }

    /// Continues with the puts whose old value is known now.
    fn record_held(&mut self, now: Instant) -> Vec<OpAnswer> {
        let mut answers = Vec::new();
        while let Some((number, old)) = self.peeked.pop() {
            let Some(mut open) = self.take_permitted(number, &mut answers, now) else {
                continue;
            };
            open.old = old;
            answers.extend(self.record_and_send(number, open, now));
        }
        answers
    }

    /// Sends the operations that are recorded now, and refuses those that weren't in time.
    fn send_recorded(&mut self, now: Instant) -> Vec<OpAnswer> {
        let mut answers = Vec::new();
        while let Some((number, recorded)) = self.recorded.pop() {
            match recorded {
                Ok(()) => {
                    if let Some(open) = self.take_permitted(number, &mut answers, now) {
                        self.send(number, open);
                    }
                }
                Err(why) => {
                    answers.extend(self.end(number, unrecorded(&why.to_string()), now));
                }
            }
        }
        while let Some(&(deadline, number)) = self.record_deadlines.front() {
            let waits = self
                .open
                .get(&number)
                .is_some_and(|open| open.waits_for_record);
            if waits && now < deadline {
                break;
            }
            self.record_deadlines.pop_front();
            if waits {
                let why = format!("not done within {} s", audit::PATIENCE.as_secs());
                answers.extend(self.end(number, unrecorded(&why), now));
            }
        }
        answers
    }

    /// A held operation, unless it was given up meanwhile or the present rules forbid it.
    fn take_permitted(
        &mut self,
        number: u64,
        answers: &mut Vec<OpAnswer>,
        now: Instant,
    ) -> Option<Open> {
        self.open.get(&number)?.held.as_ref()?;
        let open = self.open.remove(&number)?;
        let identity = &open.identity;
        match self.registry.permit(&open.name, identity, Access::Put) {
            Ok(()) => Some(open),
            Err(refusal) => {
                self.deadlines.remove(&(open.deadline, number));
                answers.push(self.answer(number, open, OpEnd::from(refusal), now));
                None
            }
        }
    }

    /// An attempt, as the audit file records it.
    fn attempt<'a>(
        &self,
        number: u64,
        open: &'a Open,
        result: &'a str,
        message: &'a str,
        now: Instant,
    ) -> Attempt<'a> {
        Attempt {
            kind: if open.is_call { "call" } else { "put" },
            number: (self.shard, number),
            identity: &open.identity,
            peer: &open.peer.address,
            origin: &open.peer.origin,
            pv: &open.name,
            old: &open.old,
            new: &open.new,
            result,
            message,
            latency: now.saturating_duration_since(open.begun),
        }
    }

    /// Records that an operation begins, if that is required; returns whether the operation waits
    /// for it.
    fn put_on_record(&self, number: u64, open: &Open) -> Result<bool, OpEnd> {
        let Some(audit) = &self.audit else {
            return Ok(false);
        };
        let attempt = self.attempt(number, open, "Begun", "", open.begun);
        let (recorded, wake) = (Arc::clone(&self.recorded), Arc::clone(&self.wake));
        let told = Box::new(move |result| {
            recorded.push((number, result));
            wake();
        });
        let begun = audit.begin(&attempt, told);
        begun.map_err(|why| unrecorded(&why.to_string()))
    }

    /// Records the end of an operation; returns its answer.
    fn answer(&self, number: u64, open: Open, mut end: OpEnd, now: Instant) -> OpAnswer {
        let is_call = open.is_call;
        let may_read = |registry: &Registry| {
            let identity = &open.identity;
            registry.permit(&open.name, identity, Access::Read).is_ok()
        };
        if !is_call && end.result.is_some() && !may_read(&self.registry) {
            end = OpEnd::DONE;
        }
        let kind = if is_call { "call" } else { "put" };
        let result = format!("{:?}", end.outcome);
        // Names come from clients and may hold anything.
        let name: String = open.name.chars().take(MAX_NAME_BYTES).collect();
        log::info!("{kind} of {name:?}: {result} {:?}", end.message);
        if let Some(audit) = &self.audit {
            audit.end(&self.attempt(number, &open, &result, &end.message, now));
        }
        self.registry.release(open.pv, now);
        OpAnswer {
            client: open.client,
            request: open.request,
            is_call,
            end,
        }
    }

    /// The next deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let end = self.deadlines.first().map(|(deadline, _)| *deadline);
        let record = self.record_deadlines.front().map(|(deadline, _)| *deadline);
        end.into_iter().chain(record).min()
    }

    /// The answers to the operations that have ended or timed out.
    pub fn answers(&mut self, now: Instant) -> Vec<OpAnswer> {
        let mut answers = self.record_held(now);
        answers.extend(self.send_recorded(now));
        while let Some((number, end)) = self.ended.pop() {
            answers.extend(self.end(number, end, now));
        }
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            let open = &self.open[&number];
            let waited = open.timeout.as_millis();
            let end = if open.waits_for_record {
                unrecorded(&format!("not done within {waited} ms"))
            } else if open.cancel() {
                let message = format!(
                    "not sent within {waited} ms, because the PV is not connected or an earlier put \
                     to it is still being processed; nothing was written"
                );
                OpEnd::failed(Outcome::NotConnected, message)
            } else {
                let message =
                    format!("no answer within {waited} ms; it may have been done, or still be");
                OpEnd::failed(Outcome::TimedOut, message)
            };
            answers.extend(self.end(number, end, now));
        }
        answers
    }

    /// Ends the operations that were not sent and that their clients may no longer make.
    pub fn recheck(&mut self, now: Instant) -> Vec<OpAnswer> {
        self.recheck_of(|_| true, now)
    }

    fn recheck_of(&mut self, asked: impl Fn(&Open) -> bool, now: Instant) -> Vec<OpAnswer> {
        let refused: Vec<_> = (self.open.iter())
            .filter(|(_, open)| asked(open))
            .filter_map(|(number, open)| {
                let identity = &open.identity;
                let permitted = self.registry.permit(&open.name, identity, Access::Put);
                let refusal = permitted.err()?;
                open.cancel().then_some((*number, refusal))
            })
            .collect();
        let mut answers = Vec::new();
        for (number, refusal) in refused {
            let message = format!(
                "nothing was written: rights changed before it was sent; {}",
                refusal.message
            );
            let end = OpEnd::failed(Outcome::NotAllowed, message);
            answers.extend(self.end(number, end, now));
        }
        answers
    }

    /// A client has logged in again: checks its operations that were not sent for this identity.
    pub fn renew(
        &mut self,
        client: ClientId,
        identity: &Arc<Identity>,
        now: Instant,
    ) -> Vec<OpAnswer> {
        for open in self.open.values_mut() {
            if open.client == client {
                open.identity = Arc::clone(identity);
            }
        }
        self.recheck_of(|open| open.client == client, now)
    }

    /// The client is gone: its operations that were not sent won't be sent.
    pub fn forget(&mut self, client: ClientId, now: Instant) {
        let of_client = |open: &Open| open.client == client && open.cancel();
        let numbers: Vec<u64> = (self.open.iter())
            .filter(|(_, open)| of_client(open))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            let end = OpEnd::failed(Outcome::NotConnected, "the client left before it was sent");
            self.end(number, end, now);
        }
    }

    fn end(&mut self, number: u64, end: OpEnd, now: Instant) -> Option<OpAnswer> {
        let open = self.open.remove(&number)?;
        self.deadlines.remove(&(open.deadline, number));
        Some(self.answer(number, open, end, now))
    }
}

/// The outcome of an operation that is refused because it can't be recorded.
fn unrecorded(why: &str) -> OpEnd {
    let message = format!(
        "nothing was written: the relay's audit file can't be written ({why}), and it takes no puts without a \
         record (audit_fail = closed); tell the relay's operator"
    );
    OpEnd::failed(Outcome::NotAllowed, message)
}
