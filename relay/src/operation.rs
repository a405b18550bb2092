//! Which puts and calls are under way for the clients of one shard, and when is one given up?

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use pvwire_schema::types::{Outcome, PvId};

use crate::group::ClientId;
use crate::registry::Registry;
use crate::rule::Person;
use crate::source::{Call, OpEnd, OpTicket, Put, Sent};

/// What is to be done.
#[derive(Debug)]
pub enum Operation {
    /// A PV is to be written.
    Put(Put),
    /// A service is to be called.
    Call(Call),
}

/// An operation as a client asked for it.
#[derive(Debug)]
pub struct OpOrder {
    /// Who.
    pub client: ClientId,
    /// Who that is.
    pub person: Arc<Person>,
    /// The request's number.
    pub request: u32,
    /// Name of the PV or service, with or without a source.
    pub name: String,
    /// What to do.
    pub operation: Operation,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The answer to an operation.
#[derive(Debug, PartialEq)]
pub struct OpAnswer {
    /// Who asked.
    pub client: ClientId,
    /// The request's number.
    pub request: u32,
    /// Whether it was a call.
    pub is_call: bool,
    /// What became of it.
    pub end: OpEnd,
}

struct Open {
    client: ClientId,
    request: u32,
    name: String,
    /// The PV that a put holds.
    pv: Option<PvId>,
    ticket: Box<dyn OpTicket>,
    deadline: Instant,
    timeout: Duration,
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
}

impl Operations {
    /// None yet.
    #[must_use]
    pub fn new(registry: Arc<Registry>, wake: Wake) -> Self {
        Self {
            registry,
            wake,
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            ended: Arc::default(),
            next: 0,
        }
    }

    /// Begins an operation, or says at once why not.
    pub fn begin(&mut self, order: OpOrder, now: Instant) -> Option<OpAnswer> {
        self.next += 1;
        let number = self.next;
        let (ended, wake) = (Arc::clone(&self.ended), Arc::clone(&self.wake));
        let done = Box::new(move |end| {
            ended.push((number, end));
            wake();
        });
        let (pv, ticket): (_, Box<dyn OpTicket>) = match order.operation {
            Operation::Call(call) => {
                self.registry.call(&order.name, &order.person, call, done);
                (None, Box::new(Sent))
            }
            Operation::Put(put) => match self.registry.acquire_to_put(&order.name, &order.person) {
                Ok(pv) => (Some(pv), self.registry.put(pv, put, done)),
                Err(refusal) => {
                    log::info!("put to {} refused: {}", order.name, refusal.message);
                    return Some(OpAnswer {
                        client: order.client,
                        request: order.request,
                        is_call: false,
                        end: refusal.into(),
                    });
                }
            },
        };
        let deadline = now + order.timeout;
        self.deadlines.insert((deadline, number));
        let open = Open {
            client: order.client,
            request: order.request,
            name: order.name,
            pv,
            ticket,
            deadline,
            timeout: order.timeout,
        };
        self.open.insert(number, open);
        None
    }

    /// When the next operation is to be given up.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The answers to the operations that ended or were given up by now.
    pub fn answers(&mut self, now: Instant) -> Vec<OpAnswer> {
        let mut answers = Vec::new();
        while let Some((number, end)) = self.ended.pop() {
            answers.extend(self.end(number, end, now));
        }
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            let open = &self.open[&number];
            let waited = open.timeout.as_millis();
            let end = if open.ticket.cancel() {
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

    /// The client is gone: what was not sent yet won't be.
    pub fn forget(&mut self, client: ClientId, now: Instant) {
        let of_client = |open: &Open| open.client == client && open.ticket.cancel();
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
        let is_call = open.pv.is_none();
        self.registry.release(open.pv, now);
        let what = if is_call { "call of" } else { "put to" };
        log::info!("{what} {}: {:?} {}", open.name, end.outcome, end.message);
        Some(OpAnswer {
            client: open.client,
            request: open.request,
            is_call,
            end,
        })
    }
}
