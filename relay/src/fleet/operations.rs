//! Puts and calls between relays: those that clients of other relays ask of this one, and those that this one asks
//! of others for its clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_fleet::{AskError, Bus, Kind, MemberId, Refusal, Refusals, Reply};
use pvwire_schema::types::{Outcome, PutRequest};

use super::command::FleetCommand;
use super::counters::{FleetCounters, Unread};
use super::message::{self, Operation, RemoteOperation};
use super::pv::FleetPv;
use crate::access::auth::Peer;
use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::fanout::control::ClientId;
use crate::ingest::{Call, OnBehalf, OpDone, OpEnd, OpTicket, Put};
use crate::limits::connections::SharedBudgets;
use crate::limits::memory::Memory;
use crate::limits::rate::Bucket;
use crate::limits::requests::LONGEST_PUT;
use crate::session::operation::{self, Action, Ended, Operations};

/// The owner gives an operation up this much earlier than the client's relay, so that its outcome is the one that
/// counts.
const EARLIER: Duration = Duration::from_millis(250);

/// The bus gives a request up this much later.
const LATER: Duration = Duration::from_secs(1);

/// Operations of one other relay: a second, and at once. Its clients have separate limits.
const OPERATIONS_PER_S: usize = 5_000;
const OPERATIONS_AT_ONCE: usize = 10_000;

/// Operations of one other relay that have no outcome yet.
const MOST_OPEN: usize = 4_096;

/// What one other relay may still ask for.
struct Budget {
    operations: Bucket,
    open: usize,
    /// The relay is lost: the budget remains until nothing is open, or it would come back with a new one.
    is_lost: bool,
}

/// The operations that other relays ask for. Rules, audit and time-outs are the same as for clients of this relay.
pub(super) struct Served {
    operations: Operations,
    memory: Arc<Memory>,
    /// Stands for the other relays.
    client: ClientId,
    next: u32,
    replies: HashMap<u32, (MemberId, Reply)>,
    unread: Unread,
    budgets: HashMap<MemberId, Budget>,
    refusals: Arc<Refusals>,
}

impl Served {
    pub(super) fn new(
        operations: Operations,
        memory: Arc<Memory>,
        client: ClientId,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self {
            budgets: HashMap::new(),
            refusals,
            operations,
            memory,
            client,
            next: 0,
            replies: HashMap::new(),
            unread: Unread::default(),
        }
    }

    /// A relay is lost.
    pub(super) fn lost(&mut self, member: MemberId) {
        if let Some(budget) = self.budgets.get_mut(&member) {
            budget.is_lost = true;
        }
        self.budgets
            .retain(|_, budget| !budget.is_lost || budget.open > 0);
    }

    /// Begins an operation.
    pub(super) fn requested(
        &mut self,
        from: MemberId,
        body: &[u8],
        reply: Reply,
        is_before: impl FnOnce(u64) -> bool,
        now: Instant,
    ) {
        let full = || Budget {
            operations: Bucket::new(OPERATIONS_PER_S, OPERATIONS_AT_ONCE, now),
            open: 0,
            is_lost: false,
        };
        let budget = self.budgets.entry(from).or_insert_with(full);
        budget.is_lost = false;
        if budget.open >= MOST_OPEN || !budget.operations.take_one(now) {
            let what = format_args!("an operation of relay {from}");
            self.refusals.note(Refusal::Budget, what);
            return reply.send(message::outcome(&OpEnd::too_fast()).into());
        }
        let request = match message::read_operation(body) {
            Ok(request) => request,
            Err(error) => {
                let what =
                    format_args!("relay {from} asked for an operation that can't be read: {error}");
                self.unread.warn(what, now);
                let why = format!("the relay that holds this PV can't read the request: {error}");
                let end = OpEnd::failed(Outcome::Failed, why);
                return reply.send(message::outcome(&end).into());
            }
        };
        let RemoteOperation {
            by,
            until_millis,
            operation,
        } = request;
        if !until_millis.is_none_or(is_before) {
            // The client has been answered with a time-out.
            let why = "the relay that holds this PV got the request too late; nothing was written";
            let end = OpEnd::failed(Outcome::NotConnected, why);
            return reply.send(message::outcome(&end).into());
        }
        self.next = self.next.wrapping_add(1);
        let identity = Identity {
            user: by.user.clone(),
            groups: by.groups,
        };
        let owner = self.memory.owner(&by.address, by.user.as_deref());
        let peer = Peer {
            address: by.address,
            origin: by.origin,
            identity,
        };
        let action = match operation {
            Operation::Put(put) => {
                let action = Action::Put(Put {
                    value: put.value,
                    wait: put.wait,
                    expected: put.expected,
                    user: by.user,
                    timeout: Duration::from_millis(put.timeout_ms.into()).min(LONGEST_PUT),
                    by: None,
                });
                (put.name, action)
            }
            Operation::Call {
                name,
                arguments,
                timeout_ms,
            } => {
                let action = Action::Call(Call {
                    arguments,
                    timeout: Duration::from_millis(timeout_ms.into()).min(LONGEST_PUT),
                    user: by.user,
                    by: None,
                });
                (name, action)
            }
        };
        let to = (self.client, self.next);
        let caller = Caller::new(peer, owner, SharedBudgets::default());
        let operation = operation::Operation::new(to, &caller, action, now);
        let operation = operation.of_another_relay();
        self.replies.insert(self.next, (from, reply));
        if let Some(budget) = self.budgets.get_mut(&from) {
            budget.open += 1;
        }
        let ended = self.operations.begin(operation);
        self.tell(ended);
    }

    /// Sends the outcomes that have come.
    pub(super) fn answer(&mut self, now: Instant) {
        let ended = self.operations.ended(now);
        self.tell(ended);
    }

    fn tell(&mut self, ended: impl IntoIterator<Item = Ended>) {
        for (operation, end) in ended {
            if let Some((from, reply)) = self.replies.remove(&operation.request()) {
                if let Some(budget) = self.budgets.get_mut(&from) {
                    budget.open = budget.open.saturating_sub(1);
                }
                reply.send(message::outcome(&end).into());
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.operations.next_deadline()
    }
}

/// An owner, and until when by its clock it may carry out the operation.
type To = (MemberId, Option<u64>);

/// The operations that this relay has sent to others.
pub(super) struct Sent {
    bus: Arc<dyn Bus>,
    commands: Sender<FleetCommand>,
    next: u64,
    open: HashMap<u64, OpenOperation>,
    counters: Arc<FleetCounters>,
    /// For PVs with open puts: the owner that got all of them, and their number.
    puts: HashMap<u64, (MemberId, usize)>,
}

/// An operation without an outcome.
struct OpenOperation {
    owner: MemberId,
    /// The PV of a put.
    pv: Option<u64>,
    done: OpDone,
}

impl Sent {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        commands: Sender<FleetCommand>,
        counters: Arc<FleetCounters>,
    ) -> Self {
        Self {
            bus,
            commands,
            counters,
            next: 0,
            open: HashMap::new(),
            puts: HashMap::new(),
        }
    }

    /// Whether another relay than `owner` has a put to this PV and has not answered: a put to `owner`
    /// might overtake it.
    pub(super) fn awaits_other(&self, pv: u64, owner: MemberId) -> bool {
        (self.puts.get(&pv)).is_some_and(|(sent_to, _)| *sent_to != owner)
    }

    pub(super) fn put(&mut self, (owner, until): To, pv: &FleetPv, put: Put, done: OpDone) {
        self.puts.entry(pv.number).or_insert((owner, 0)).1 += 1;
        let by = asker(put.by, put.user);
        let timeout = put.timeout;
        let request = Operation::Put(PutRequest {
            name: pv.whole_name(),
            value: put.value,
            wait: put.wait,
            timeout_ms: millis(earlier(timeout)),
            expected: put.expected,
        });
        let body = message::operation(&by, until, request);
        let pv = Some(pv.number);
        self.send(OpenOperation { owner, pv, done }, body, timeout);
    }

    pub(super) fn call(&mut self, (owner, until): To, name: String, call: Call, done: OpDone) {
        let by = asker(call.by, call.user);
        let timeout = call.timeout;
        let request = Operation::Call {
            name,
            arguments: call.arguments,
            timeout_ms: millis(earlier(timeout)),
        };
        let body = message::operation(&by, until, request);
        let pv = None;
        self.send(OpenOperation { owner, pv, done }, body, timeout);
    }

    fn send(&mut self, open: OpenOperation, body: Vec<u8>, timeout: Duration) {
        self.next += 1;
        let (number, commands) = (self.next, self.commands.clone());
        let owner = open.owner;
        self.open.insert(number, open);
        let answer = Box::new(move |answer| {
            let _ = commands.send(FleetCommand::Outcome(number, answer));
        });
        (self.bus).ask(owner, Kind::Operation, body.into(), timeout + LATER, answer);
    }

    /// The owner has answered, or not.
    pub(super) fn answered(&mut self, number: u64, answer: Result<Bytes, AskError>) {
        if let Some(open) = self.open.remove(&number) {
            let end = match answer {
                Ok(bytes) => message::read_outcome(&bytes),
                Err(error) => failed(error),
            };
            self.end(open, end);
        }
    }

    /// A relay is lost: the outcome of the operations that it got is unknown.
    pub(super) fn lost(&mut self, owner: MemberId) {
        let of_owner = |_: &u64, open: &mut OpenOperation| open.owner == owner;
        for (_, open) in self.open.extract_if(of_owner).collect::<Vec<_>>() {
            let why =
                "the relay that holds this PV was lost before it answered; it may have been done";
            self.end(open, OpEnd::failed(Outcome::Interrupted, why));
        }
    }

    /// An operation has an outcome.
    fn end(&mut self, open: OpenOperation, end: OpEnd) {
        let is_put = open.pv.is_some();
        self.counters.operation_ended(is_put, end.outcome);
        if let Some(pv) = open.pv
            && let Some((_, count)) = self.puts.get_mut(&pv)
        {
            *count -= 1;
            if *count == 0 {
                self.puts.remove(&pv);
            }
        }
        (open.done)(end);
    }
}

fn asker(by: Option<Box<OnBehalf>>, user: Option<String>) -> OnBehalf {
    by.map_or_else(
        || OnBehalf {
            user,
            ..OnBehalf::default()
        },
        |by| *by,
    )
}

/// How long the owner may take, if the client's relay takes this long.
pub(super) fn earlier(timeout: Duration) -> Duration {
    timeout.saturating_sub(EARLIER).max(timeout * 3 / 4)
}

fn millis(timeout: Duration) -> u32 {
    timeout.as_millis().try_into().unwrap_or(u32::MAX)
}

fn failed(error: AskError) -> OpEnd {
    let (outcome, what) = match error {
        AskError::TimedOut => (Outcome::TimedOut, "it may have been done"),
        error if error.may_have_arrived() => (Outcome::Interrupted, "it may have been done"),
        _ => (Outcome::NotConnected, "nothing was written"),
    };
    let message = format!("the relay that holds this PV was asked over the bus: {error}; {what}");
    OpEnd::failed(outcome, message)
}

/// A put whose PV no relay holds now. It is sent when one does, unless its client gives it up before.
pub(super) struct Waiting {
    pub(super) pv: Arc<FleetPv>,
    pub(super) put: Put,
    pub(super) done: OpDone,
    pub(super) ticket: OpTicket,
}
