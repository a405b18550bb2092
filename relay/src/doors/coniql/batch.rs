//! Queries and mutations: the batch that carries one out, and the response that its outcome makes.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pvwire_coniql::{
    ChannelRequest, Dialect, Failure, Operation, Request, Sample, Snapshot, Writer, put_value,
};
use pvwire_schema::types::Outcome;

use super::full_name;
use crate::ingest::{OpEnd, RowValue};
use crate::limits::memory::{Charge, Owner, TooMuch};
use crate::limits::requests::{LONGEST_GET, LONGEST_PUT};
use crate::state::batch::{Batch, BatchPut, BatchResult, PvValue, ReadError};

/// How each channel of an operation is answered, in the order of the response.
#[derive(Debug, Default)]
pub struct Plan {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// It can't be carried out.
    Failed(Failure),
    /// The read of this number, after the put of this number.
    Read {
        name: String,
        read: usize,
        put: Option<usize>,
    },
}

/// Channels whose whole values take no more bytes are not charged while they are written.
const MOST_UNCHARGED: usize = 4 << 10;

/// A name that only programs of Coniql's simulation have.
const SIMULATED: &str = "ssim://";

impl Plan {
    /// What a query or mutation asks of the relay.
    #[must_use]
    pub fn new(operation: &Operation, dialect: Dialect) -> (Self, Batch) {
        let (mut plan, mut batch) = (Self::default(), Batch::default());
        for root in operation.roots() {
            batch.describe |= (root.selection()).is_some_and(|it| it.shows_description());
            match root.request() {
                Request::Nothing
                | Request::Introspect { .. }
                | Request::History { .. }
                | Request::Subscribe { .. } => {}
                Request::Get { names, timeout } => {
                    for name in names {
                        plan.read(&mut batch, name, *timeout, None);
                    }
                }
                Request::Put {
                    names,
                    values,
                    timeout,
                    wait,
                } => {
                    batch.wait |= wait;
                    batch.put_timeout = batch.put_timeout.max((*timeout).min(LONGEST_PUT));
                    let refusal = unwritable(dialect, names, values);
                    for (name, text) in names.iter().zip(values) {
                        match (&refusal, put_value(text, false)) {
                            (Some(refusal), _) => plan.steps.push(Step::Failed(refusal.clone())),
                            (None, Err(why)) => {
                                let failure = Failure {
                                    may_be_written: Some(false),
                                    ..Failure::new(why.to_string(), "INVALID")
                                };
                                plan.steps.push(Step::Failed(failure));
                            }
                            (None, Ok(value)) => {
                                let put = batch.puts.len();
                                let literal = (dialect == Dialect::Pvwire).then(|| text.clone());
                                batch.puts.push(BatchPut {
                                    name: full_name(name),
                                    value,
                                    literal,
                                });
                                plan.read(&mut batch, name, *timeout, Some(put));
                            }
                        }
                    }
                }
            }
        }
        (plan, batch)
    }

    fn read(&mut self, batch: &mut Batch, name: &str, timeout: Duration, put: Option<usize>) {
        let name = full_name(name);
        let read = batch.reads.len();
        batch.reads.push((name.clone(), timeout.min(LONGEST_GET)));
        self.steps.push(Step::Read { name, read, put });
    }

    /// Writes the response, with its charge to the owner. A document may name a large value any number of times: what each
    /// channel takes is charged before it is written.
    pub fn respond(
        &self,
        operation: &Operation,
        (result, owner): (&BatchResult, &Arc<Owner>),
    ) -> (Vec<u8>, Result<Charge, TooMuch>) {
        let mut response = Vec::new();
        let (mut steps, mut charges) = (self.steps.iter(), Vec::new());
        let write = |channel: ChannelRequest<'_>, out: &mut Vec<u8>| {
            let (name, seen, is_put) = match steps.next() {
                None => return Err(Failure::new("not carried out", "RELAY_FAULT")),
                Some(Step::Failed(failure)) => return Err(failure.clone()),
                Some(Step::Read { name, read, put }) => {
                    let end = put.and_then(|put| result.puts.get(put));
                    if let Some(failure) = end.and_then(failed) {
                        return Err(failure);
                    }
                    let seen = match result.reads.get(*read) {
                        Some(Ok(seen)) => seen,
                        Some(Err(why)) => return Err(unread(why)),
                        None => return Err(Failure::new("not carried out", "RELAY_FAULT")),
                    };
                    (name, seen, put.is_some())
                }
            };
            let pv = snapshot(name, seen);
            let length = channel.selection.length(&pv);
            if length > MOST_UNCHARGED {
                let charge = owner.charge(length).map_err(|too_much| Failure {
                    may_be_written: is_put.then_some(true),
                    ..Failure::new(too_much.to_string(), "REFUSED")
                })?;
                charges.push(charge);
            }
            WRITER.with_borrow_mut(|writer| writer.write(channel.selection, &pv, out));
            Ok(())
        };
        operation.respond(write, &mut response);
        let charge = match charges.pop() {
            Some(mut one) => one.resize(response.len()).map(|()| one),
            None => owner.charge(response.len()),
        };
        (response, charge)
    }
}

thread_local! {
    static WRITER: RefCell<Writer> = RefCell::new(writer());
    static ZONE: TimeZone = TimeZone::system();
}

/// A writer that knows local time.
pub(super) fn writer() -> Writer {
    Writer::new(|seconds| {
        let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
        ZONE.with(|zone| zone.to_offset(time).seconds())
    })
}

/// A value for the engine.
pub(super) fn sample(value: &RowValue) -> Sample<'_> {
    match value {
        RowValue::Number(number) => Sample::Number(*number),
        RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => Sample::Blob(blob),
    }
}

fn snapshot<'a>(name: &'a str, seen: &'a PvValue) -> Snapshot<'a> {
    let latest = &seen.latest;
    Snapshot::new(name, &seen.connection, Some(&*seen.metadata)).with_value(
        sample(&latest.value),
        latest.time_ns,
        latest.alarm,
        latest.detail.as_deref(),
    )
}

/// Why a read failed, with the code that pvwire's own clients have for it.
fn unread(why: &ReadError) -> Failure {
    let code = match why {
        ReadError::NoValue { .. } => "TIMED_OUT",
        ReadError::NotAllowed(_) => "NOT_ALLOWED",
        ReadError::Refused(_) => "REFUSED",
    };
    Failure::new(why.to_string(), code)
}

/// Why a put failed; `None` if it is done.
fn failed(end: &OpEnd) -> Option<Failure> {
    (end.outcome != Outcome::Done).then(|| Failure {
        may_be_written: Some(end.outcome.may_be_done()),
        ..Failure::new(end.message.as_str(), end.outcome.code())
    })
}

/// Coniql's refusal to write its simulated PVs, as Python shows the lists.
fn unwritable(dialect: Dialect, names: &[String], values: &[String]) -> Option<Failure> {
    let are_simulated = names.iter().all(|name| name.starts_with(SIMULATED));
    if dialect != Dialect::Coniql || names.is_empty() || !are_simulated {
        return None;
    }
    let list = |texts: &mut dyn Iterator<Item = &str>| {
        let texts: Vec<_> = texts.map(|text| format!("'{text}'")).collect();
        format!("[{}]", texts.join(", "))
    };
    let values = list(&mut values.iter().map(String::as_str));
    let names = list(&mut names.iter().map(|name| name.trim_start_matches(SIMULATED)));
    let message = format!("Cannot put {values} to {names}, as they aren't writeable");
    Some(Failure::new(message, "NOT_ALLOWED"))
}
