//! The puts and calls of one shard's clients, from the request to the answer or the time-out.

mod asker;
mod within_limits;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_queue::SegQueue;
use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::{Outcome, PutValue, PvId};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use self::within_limits::KnownLimits;
use crate::access::audit::{self, Attempt, Audit, AuditError};
use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::config::Access;
use crate::fanout::control::{ClientId, ControlQueue, ControlRequest, TableRead};
use crate::ingest::{Call, OpDone, OpEnd, OpTicket, Put};
use crate::limits::memory::Charge;
use crate::limits::rate::Bucket;
use crate::limits::subscriptions::NewNames;
use crate::state::last_writes::LastWrite;
use crate::state::registry::Registry;

/// How often a refusal of puts and calls that come too fast is recorded.
const REFUSALS_RECORDED_EVERY: Duration = Duration::from_secs(1);

/// Refused operations of all clients that are each recorded and logged: a second, and at once. Anyone may try.
const REFUSED_LINES_PER_S: usize = 10;
const REFUSED_LINES_AT_ONCE: usize = 10_000;

/// Lines of the log about operations of other relays: a second, and at once. Those relays log them as well.
const RELAYED_LINES_PER_S: usize = 200;
const RELAYED_LINES_AT_ONCE: usize = 1_000;

/// PVs that puts of all other relays together may open: a second, and at once. One client may put as often, and half as
/// many at once.
const RELAYED_NAMES_PER_S: usize = 200;
const RELAYED_NAMES_AT_ONCE: usize = 4_000;

/// Values of an operation that are not charged, in bytes: a client has few operations that wait.
const MOST_UNCHARGED: usize = 4 << 10;

/// A source ends a call at its time-out and knows whether it was sent. The relay gives the call up
/// this much later.
const CALL_GRACE: Duration = Duration::from_secs(1);

/// Receives the numbers of operations and their outcomes, where no client gets them.
pub type Ends = UnboundedSender<(u32, OpEnd)>;

/// What an operation does.
#[derive(Debug)]
pub enum Action {
    /// Writes a PV.
    Put(Put),
    /// Calls a service.
    Call(Call),
}

impl Action {
    /// Bytes of the values that it writes or passes.
    fn bytes(&self) -> usize {
        match self {
            Self::Put(put) => bytes_of(&put.value),
            Self::Call(call) => {
                let arguments = call.arguments.iter();
                arguments
                    .map(|(name, value)| name.len() + bytes_of(value))
                    .sum()
            }
        }
    }
}

fn bytes_of(value: &PutValue) -> usize {
    match value {
        PutValue::Number(_) | PutValue::Int64(_) | PutValue::UInt64(_) => size_of::<PutValue>(),
        PutValue::Text(text) => text.len(),
        PutValue::TextArray(texts) => {
            let each = texts.iter().map(|text| size_of::<String>() + text.len());
            each.sum()
        }
        PutValue::Array(array) => array.data.len(),
    }
}

/// A put or call of a client, until it is answered.
pub struct Operation {
    client: ClientId,
    request: u32,
    /// Its `owner` owns the PV's memory if the PV isn't open.
    caller: Caller,
    name: String,
    /// The name as the log and the audit file spell it, however the client spelled it.
    plain_name: String,
    is_call: bool,
    /// A value outside the control limits of the PV is refused.
    within_limits: bool,
    /// It waits until the limits are known.
    reads_limits: bool,
    /// `Some` until it is sent: while the old value isn't known, or its record isn't written.
    action: Option<Action>,
    /// The charge for its values, if they are large.
    held: Option<Charge>,
    /// `Some` when it is refused without an attempt.
    refusal: Option<OpEnd>,
    /// The client asks for more than `max_puts_per_s`.
    is_too_fast: bool,
    /// Another relay asks for it.
    is_relayed: bool,
    /// Receives the outcome instead of the client.
    ends: Option<Ends>,
    /// `Some` when it is sent.
    ticket: Option<OpTicket>,
    /// The PV that a put holds.
    pv: Option<PvId>,
    begun: Instant,
    timeout: Duration,
    deadline: Instant,
    /// It is sent when its record is written.
    waits_for_record: bool,
    /// The value before, for the audit file alone, and the one after.
    old: Value,
    new: Value,
}

/// An operation that has ended, and its outcome.
pub type Ended = (Operation, OpEnd);

impl Operation {
    /// An operation on the PV or service `name`, which may begin with a source. Its answer goes to
    /// `client` under the number `request`.
    #[must_use]
    pub fn new(
        (client, request): (ClientId, u32),
        caller: &Caller,
        (name, action): (String, Action),
        now: Instant,
    ) -> Self {
        let (timeout, grace) = match &action {
            Action::Put(put) => (put.timeout, Duration::ZERO),
            Action::Call(call) => (call.timeout, CALL_GRACE),
        };
        Self {
            client,
            request,
            caller: caller.clone(),
            plain_name: String::new(),
            name,
            is_call: matches!(action, Action::Call(_)),
            within_limits: false,
            reads_limits: false,
            action: Some(action),
            held: None,
            refusal: None,
            is_too_fast: false,
            is_relayed: false,
            ends: None,
            ticket: None,
            pv: None,
            begun: now,
            timeout,
            deadline: now + timeout + grace,
            waits_for_record: false,
            old: Value::Null,
            new: Value::Null,
        }
    }

    /// The same operation; `ends` receives its number and outcome.
    #[must_use]
    pub fn reporting_to(mut self, ends: Ends) -> Self {
        self.ends = Some(ends);
        self
    }

    /// The same operation of another relay, which may ask for many: few of those that are refused are recorded and
    /// logged.
    #[must_use]
    pub fn of_another_relay(mut self) -> Self {
        self.is_relayed = true;
        self
    }

    /// Reports the outcome to the requester; returns whether that isn't the client.
    #[must_use]
    pub fn report(&self, end: &OpEnd) -> bool {
        if let Some(ends) = &self.ends {
            // The receiver may be gone meanwhile.
            let _ = ends.send((self.request, end.clone()));
        }
        self.ends.is_some()
    }

    /// The client that gets the answer.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// The number of the answer.
    #[must_use]
    pub fn request(&self) -> u32 {
        self.request
    }

    /// Whether it is a call.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.is_call
    }

    /// Refuses it, because its client asks for more than `max_puts_per_s`.
    pub fn refuse_too_fast(&mut self) {
        self.is_too_fast = true;
        self.refusal = Some(OpEnd::too_fast());
    }

    /// Charges its values, which are held until it is answered.
    fn charge(&mut self) -> Result<(), OpEnd> {
        let bytes = self.action.as_ref().map_or(0, Action::bytes);
        if bytes > MOST_UNCHARGED {
            let charged = self.caller.owner.charge(bytes);
            let refused = |why| {
                let message = format!("nothing was written: {why}");
                OpEnd::failed(Outcome::NotAllowed, message)
            };
            self.held = Some(charged.map_err(refused)?);
        }
        Ok(())
    }

    /// Stops it if nothing was sent; returns whether that is so.
    fn cancel(&self) -> bool {
        self.ticket.as_ref().is_none_or(OpTicket::cancel)
    }

    /// The value after, as the audit file records it.
    fn new_value(&self) -> Value {
        match &self.action {
            Some(Action::Put(put)) => audit::new_value(&put.value),
            Some(Action::Call(call)) => {
                let named = |(name, value): &(String, _)| (name.clone(), audit::new_value(value));
                Value::Object(call.arguments.iter().map(named).collect())
            }
            None => Value::Null,
        }
    }
}

/// Wakes the thread that owns the operations; called from sources' threads.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The operations of one shard.
pub struct Operations {
    registry: Arc<Registry>,
    wake: Wake,
    open: HashMap<u64, Operation>,
    deadlines: BTreeSet<(Instant, u64)>,
    ended: Arc<SegQueue<(u64, OpEnd)>>,
    next: u64,
    /// Refusals that are left to be recorded each.
    refused_lines: Bucket,
    /// When one of the further refusals was last recorded; `refusals_unrecorded` counts those since.
    refusal_recorded: Option<Instant>,
    refusals_unrecorded: u64,
    /// Lines of the log that are left for operations of other relays.
    relayed_lines: Bucket,
    /// Lines that were left out.
    relayed_unsaid: u64,
    /// PVs that puts of other relays may still open.
    relayed_names: Bucket,
    shard: usize,
    control: Arc<ControlQueue>,
    audit: Option<Arc<Audit>>,
    limits_found: Arc<SegQueue<(u64, KnownLimits)>>,
    /// Some put waited for limits.
    has_limit_checks: bool,
    /// When limits that weren't known are read again, in order.
    limit_reads: VecDeque<(Instant, u64)>,
    peeked: Arc<SegQueue<(u64, Value)>>,
    recorded: Arc<SegQueue<(u64, Result<(), AuditError>)>>,
    /// Deadlines for records, in order.
    record_deadlines: VecDeque<(Instant, u64)>,
}

impl Operations {
    /// No operations.
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
            limits_found: Arc::default(),
            has_limit_checks: false,
            limit_reads: VecDeque::new(),
            peeked: Arc::default(),
            recorded: Arc::default(),
            record_deadlines: VecDeque::new(),
            registry,
            wake,
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            ended: Arc::default(),
            next: 0,
            refused_lines: Bucket::new(REFUSED_LINES_PER_S, REFUSED_LINES_AT_ONCE, Instant::now()),
            refusal_recorded: None,
            refusals_unrecorded: 0,
            relayed_lines: Bucket::new(RELAYED_LINES_PER_S, RELAYED_LINES_AT_ONCE, Instant::now()),
            relayed_unsaid: 0,
            relayed_names: Bucket::new(RELAYED_NAMES_PER_S, RELAYED_NAMES_AT_ONCE, Instant::now()),
        }
    }

    /// Refuses all puts of a request when one of them is refused.
    pub fn refuse_unless_all_permitted(&self, puts: &mut [Operation]) {
        let is_refused = |put: &Operation| {
            let permitted = || (self.registry).permit(&put.name, &put.caller.identity, Access::Put);
            put.refusal.is_some() || permitted().is_err()
        };
        let Some(refused) = puts.iter().position(is_refused) else {
            return;
        };
        let name = &puts[refused].name;
        let why = format!("nothing was written: this relay refuses the put to {name}");
        for put in puts {
            if !is_refused(put) {
                put.refusal = Some(OpEnd::failed(Outcome::Withheld, why.clone()));
            }
        }
    }

    /// Begins an operation; returns it if it is refused.
    pub fn begin(&mut self, mut operation: Operation) -> Option<Ended> {
        self.next += 1;
        let (number, now) = (self.next, operation.begun);
        let plain_name = self.registry.plain_name(&operation.name);
        operation.plain_name = plain_name.unwrap_or_else(|| operation.name.clone());
        operation.new = operation.new_value();
        if let Err(mut end) = self.permitted(&mut operation) {
            let lines = if operation.is_relayed {
                &mut self.relayed_lines
            } else {
                &mut self.refused_lines
            };
            let is_one_of_many = operation.is_too_fast || !lines.take_one(now);
            if is_one_of_many && !self.records_refusal(&mut end, now) {
                return Some((operation, end));
            }
            return Some(self.finish(number, operation, end, now));
        }
        self.deadlines.insert((operation.deadline, number));
        match operation.pv {
            Some(pv) if self.waits_for_limits(&operation) => {
                self.read_limits(number, pv, operation);
                None
            }
            _ => self.note_old_value(number, operation, now),
        }
    }

    /// Reads the value that a put replaces, if that is recorded; returns the put if it is refused.
    fn note_old_value(&mut self, number: u64, operation: Operation, now: Instant) -> Option<Ended> {
        let Some((_, pv)) = self.audit.as_ref().zip(operation.pv) else {
            return self.record_and_send(number, operation, now);
        };
        let (peeked, wake) = (Arc::clone(&self.peeked), Arc::clone(&self.wake));
        let read = TableRead::new(move |table| {
            let latest = table.get(pv).and_then(|entry| entry.latest.as_ref());
            let old = latest.map(|latest| audit::old_value(&latest.value));
            peeked.push((number, old.unwrap_or_default()));
            wake();
        });
        self.control.push(ControlRequest::Read(read));
        self.open.insert(number, operation);
        None
    }

    /// Whether an operation may be attempted; a put acquires its PV.
    fn permitted(&mut self, operation: &mut Operation) -> Result<(), OpEnd> {
        if let Some(refusal) = operation.refusal.take() {
            return Err(refusal);
        }
        operation.charge()?;
        let (name, identity) = (&operation.name, &operation.caller.identity);
        if operation.is_call {
            return Ok(self.registry.permit(name, identity, Access::Put)?);
        }
        let mut room = NewNames::ONE;
        if operation.is_relayed {
            room.new = room.new.min(self.relayed_names.left(operation.begun));
        }
        let before = room.new;
        let owner = &operation.caller.owner;
        let acquired = (self.registry).acquire_to_put(name, identity, owner, &mut room);
        if operation.is_relayed {
            self.relayed_names.take(before - room.new);
        }
        operation.pv = Some(acquired?);
        Ok(())
    }

    /// Sends a permitted operation, after its record is written if that is required; returns the
    /// answer if it is refused.
    fn record_and_send(
        &mut self,
        number: u64,
        mut operation: Operation,
        now: Instant,
    ) -> Option<Ended> {
        match self.put_on_record(number, &operation) {
            Ok(false) => {
                self.send(number, operation);
                None
            }
            Ok(true) => {
                operation.waits_for_record = true;
                self.record_deadlines
                    .push_back((now + audit::PATIENCE, number));
                self.open.insert(number, operation);
                None
            }
            Err(end) => {
                self.deadlines.remove(&(operation.deadline, number));
                Some(self.finish(number, operation, end, now))
            }
        }
    }

    fn send(&mut self, number: u64, mut operation: Operation) {
        let done = self.done(number);
        operation.waits_for_record = false;
        if self.registry.is_shared() {
            operation.name_asker();
        }
        let (name, identity) = (&operation.name, &operation.caller.identity);
        operation.ticket = Some(match (operation.action.take(), operation.pv) {
            (Some(Action::Call(call)), _) => self.registry.call(name, identity, call, done),
            (Some(Action::Put(put)), Some(pv)) => self.registry.put(pv, put, done),
            // A permitted put has a PV, and nothing is sent twice.
            (Some(Action::Put(_)) | None, _) => OpTicket::ended(),
        });
        self.open.insert(number, operation);
    }

    /// Whether one of many refusals is logged and recorded: one per second, with the number of refusals
    /// before it.
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
    fn record_held(&mut self, now: Instant) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some((number, old)) = self.peeked.pop() {
            let Some(mut operation) = self.take_permitted(number, &mut ended, now) else {
                continue;
            };
            operation.old = old;
            ended.extend(self.record_and_send(number, operation, now));
        }
        ended
    }

    /// Sends the operations that are recorded now, and refuses the ones that are late.
    fn send_recorded(&mut self, now: Instant) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some((number, recorded)) = self.recorded.pop() {
            match recorded {
                Ok(()) => {
                    if let Some(operation) = self.take_permitted(number, &mut ended, now) {
                        self.send(number, operation);
                    }
                }
                Err(why) => {
                    ended.extend(self.end(number, unrecorded(&why.to_string()), now));
                }
            }
        }
        while let Some(&(deadline, number)) = self.record_deadlines.front() {
            let waits = self
                .open
                .get(&number)
                .is_some_and(|operation| operation.waits_for_record);
            if waits && now < deadline {
                break;
            }
            self.record_deadlines.pop_front();
            if waits {
                let why = format!("not done within {} s", audit::PATIENCE.as_secs());
                ended.extend(self.end(number, unrecorded(&why), now));
            }
        }
        ended
    }

    /// A waiting operation, unless it was given up meanwhile or the present rules forbid it.
    fn take_permitted(
        &mut self,
        number: u64,
        ended: &mut Vec<Ended>,
        now: Instant,
    ) -> Option<Operation> {
        self.open.get(&number)?.action.as_ref()?;
        let operation = self.open.remove(&number)?;
        let identity = &operation.caller.identity;
        match self.registry.permit(&operation.name, identity, Access::Put) {
            Ok(()) => Some(operation),
            Err(refusal) => {
                self.deadlines.remove(&(operation.deadline, number));
                ended.push(self.finish(number, operation, OpEnd::from(refusal), now));
                None
            }
        }
    }

    /// An attempt, as the audit file records it.
    fn attempt<'a>(
        &self,
        number: u64,
        operation: &'a Operation,
        result: &'a str,
        message: &'a str,
        now: Instant,
    ) -> Attempt<'a> {
        Attempt {
            kind: if operation.is_call { "call" } else { "put" },
            number: (self.shard, number),
            identity: &operation.caller.identity,
            peer: &operation.caller.peer.address,
            origin: &operation.caller.peer.origin,
            pv: &operation.plain_name,
            old: &operation.old,
            new: &operation.new,
            result,
            message,
            latency: now.saturating_duration_since(operation.begun),
        }
    }

    /// Records that an operation begins, if that is required; returns whether the operation waits
    /// for it.
    fn put_on_record(&self, number: u64, operation: &Operation) -> Result<bool, OpEnd> {
        let Some(audit) = &self.audit else {
            return Ok(false);
        };
        let attempt = self.attempt(number, operation, "Begun", "", operation.begun);
        let (recorded, wake) = (Arc::clone(&self.recorded), Arc::clone(&self.wake));
        let told = Box::new(move |result| {
            recorded.push((number, result));
            wake();
        });
        let begun = audit.begin(&attempt, told);
        begun.map_err(|why| unrecorded(&why.to_string()))
    }

    /// Records the end of an operation, and releases its PV.
    fn finish(&mut self, number: u64, operation: Operation, mut end: OpEnd, now: Instant) -> Ended {
        let is_call = operation.is_call;
        let may_read = |registry: &Registry| {
            let identity = &operation.caller.identity;
            registry
                .permit(&operation.name, identity, Access::Read)
                .is_ok()
        };
        if !is_call && end.result.is_some() && !may_read(&self.registry) {
            end = OpEnd::DONE;
        }
        let kind = if is_call { "call" } else { "put" };
        let result = format!("{:?}", end.outcome);
        if !operation.is_relayed || self.has_line_for_relays(now) {
            log_end(kind, &operation, &result, &end.message);
        }
        if let Some(audit) = &self.audit {
            audit.end(&self.attempt(number, &operation, &result, &end.message, now));
        }
        let is_confirmed = end.outcome == Outcome::Done;
        let may_be_done = matches!(end.outcome, Outcome::TimedOut | Outcome::Interrupted);
        if !is_call && (is_confirmed || may_be_done) {
            let caller = &operation.caller;
            let write = LastWrite {
                at: SystemTime::now(),
                user: caller.identity.user.clone(),
                address: caller.peer.address.clone(),
                value: operation.new.clone(),
                is_confirmed,
            };
            self.registry.note_write(&operation.name, write);
        }
        self.registry.release(operation.pv, now);
        (operation, end)
    }

    /// Whether one more operation of another relay is logged.
    fn has_line_for_relays(&mut self, now: Instant) -> bool {
        if !self.relayed_lines.take_one(now) {
            self.relayed_unsaid += 1;
            return false;
        }
        match std::mem::take(&mut self.relayed_unsaid) {
            0 => {}
            unsaid => log::info!("{unsaid} more puts and calls of other relays were not logged"),
        }
        true
    }

    /// The next deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let end = self.deadlines.first().map(|(deadline, _)| *deadline);
        let record = self.record_deadlines.front().map(|(deadline, _)| *deadline);
        let limits = self.limit_reads.front().map(|(due, _)| *due);
        end.into_iter().chain(record).chain(limits).min()
    }

    /// The operations that have ended or timed out.
    pub fn ended(&mut self, now: Instant) -> Vec<Ended> {
        let mut ended = self.check_limits(now);
        ended.extend(self.record_held(now));
        ended.extend(self.send_recorded(now));
        while let Some((number, end)) = self.ended.pop() {
            ended.extend(self.end(number, end, now));
        }
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            let operation = &self.open[&number];
            let waited = operation.timeout.as_millis();
            let end = if operation.waits_for_record {
                unrecorded(&format!("not done within {waited} ms"))
            } else if operation.cancel() {
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
            ended.extend(self.end(number, end, now));
        }
        ended
    }

    /// Ends the operations that were not sent and that their clients may no longer make.
    pub fn recheck(&mut self, now: Instant) -> Vec<Ended> {
        self.recheck_of(|_| true, now)
    }

    fn recheck_of(&mut self, asked: impl Fn(&Operation) -> bool, now: Instant) -> Vec<Ended> {
        let refused: Vec<_> = (self.open.iter())
            .filter(|(_, operation)| asked(operation))
            .filter_map(|(number, operation)| {
                let identity = &operation.caller.identity;
                let permitted = self.registry.permit(&operation.name, identity, Access::Put);
                let refusal = permitted.err()?;
                operation.cancel().then_some((*number, refusal))
            })
            .collect();
        let mut ended = Vec::new();
        for (number, refusal) in refused {
            let message = format!(
                "nothing was written: rights changed before it was sent; {}",
                refusal.message
            );
            let end = OpEnd::failed(Outcome::NotAllowed, message);
            ended.extend(self.end(number, end, now));
        }
        ended
    }

    /// A client has logged in again: checks its operations that were not sent for this identity.
    pub fn renew(
        &mut self,
        client: ClientId,
        identity: &Arc<Identity>,
        now: Instant,
    ) -> Vec<Ended> {
        for operation in self.open.values_mut() {
            if operation.client == client {
                operation.caller.identity = Arc::clone(identity);
            }
        }
        self.recheck_of(|operation| operation.client == client, now)
    }

    /// The client is gone: its operations that were not sent won't be sent.
    pub fn forget(&mut self, client: ClientId, now: Instant) {
        let of_client = |operation: &Operation| operation.client == client && operation.cancel();
        let numbers: Vec<u64> = (self.open.iter())
            .filter(|(_, operation)| of_client(operation))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            let end = OpEnd::failed(Outcome::NotConnected, "the client left before it was sent");
            self.end(number, end, now);
        }
    }

    fn end(&mut self, number: u64, end: OpEnd, now: Instant) -> Option<Ended> {
        let operation = self.open.remove(&number)?;
        self.deadlines.remove(&(operation.deadline, number));
        Some(self.finish(number, operation, end, now))
    }
}

/// Logs the end of an operation.
fn log_end(kind: &str, operation: &Operation, result: &str, message: &str) {
    // Clients, other relays and servers may say anything.
    let cut = |text: &str| text.chars().take(MAX_NAME_BYTES).collect::<String>();
    let name = cut(&operation.plain_name);
    let identity = cut(&operation.caller.identity.to_string());
    let address = cut(&operation.caller.peer.address);
    let why = match cut(message) {
        why if why.is_empty() => String::new(),
        why => format!(" {why:?}"),
    };
    log::info!("{kind} of {name:?} by {identity} at {address}: {result}{why}");
}

/// The outcome of an operation that is refused because it can't be recorded.
fn unrecorded(why: &str) -> OpEnd {
    let message = format!(
        "nothing was written: the relay's audit file can't be written ({why}), and it takes no puts without a \
         record (audit_fail = closed); tell the relay's operator"
    );
    OpEnd::failed(Outcome::NotAllowed, message)
}
