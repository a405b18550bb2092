//! Gets: each waits for the first values of its PVs and is answered between two ticks.

use std::collections::HashSet;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, FrameKind, NameError, NameProblem, PvId, Reply};

use super::subscriptions::too_much_load;
use super::{Distributor, held};
use crate::fanout::control::Get;
use crate::fanout::frame::Frame;
use crate::fanout::output::Order;
use crate::limits::memory::{Charge, TooMuch};
use crate::state::table::{Entry, MAX_VALUE_BYTES, Now, Table, bytes_of};

/// Bytes that may be copied into answers to gets between two ticks; further gets wait for the next tick, so
/// that copying doesn't delay updates.
const GET_BYTES_PER_TICK: usize = 8 << 20;

/// How long a get waits for descriptions once it has everything else: longer than an IOC takes to answer,
/// and short for servers without descriptions.
pub const DESCRIPTION_WAIT: Duration = Duration::from_secs(2);

/// A get that waits for first values.
pub(super) struct PendingGet {
    get: Get,
    /// Index of the PV that it waits for. The PVs before it had come at the last check.
    waits_for: usize,
    /// When to stop waiting for descriptions, once everything else is there.
    describe_until: Option<Instant>,
}

impl From<Get> for PendingGet {
    fn from(get: Get) -> Self {
        Self {
            get,
            waits_for: 0,
            describe_until: None,
        }
    }
}

impl Deref for PendingGet {
    type Target = Get;

    fn deref(&self) -> &Get {
        &self.get
    }
}

impl PendingGet {
    /// Whether it still waits for descriptions when everything else is there.
    fn waits_for_description(&mut self, table: &Table, now: Now) -> bool {
        let is_open =
            |id: &PvId| table.entry(*id).is_complete() && !table.entry(*id).is_described();
        if !self.get.described.iter().any(is_open) {
            return false;
        }
        let until = *(self.describe_until).get_or_insert(now.instant + DESCRIPTION_WAIT);
        now.instant < until
    }

    /// Whether everything that it waits for has come, or is known not to come.
    fn is_complete(&mut self, table: &Table, now: Now) -> bool {
        let is_settled = |id: &PvId| {
            *id == PvId::NONE || {
                let entry = table.entry(*id);
                let is_refused = entry.missing().or_else(|| entry.refusal()).is_some();
                entry.is_complete() || is_denied(entry) || is_refused
            }
        };
        let awaited = |ids: &[PvId]| ids.iter().position(|id| !is_settled(id));
        // Each tick checks the PV that did not come until then, and all PVs only when it has come.
        if let Some(further) = awaited(&self.get.ids[self.waits_for..]) {
            self.waits_for += further;
            return false;
        }
        self.waits_for = 0;
        if let Some(gone) = awaited(&self.get.ids) {
            self.waits_for = gone;
            return false;
        }
        !self.waits_for_description(table, now)
    }

    /// Decides which PVs the answer has; the others get an error. Returns the charge for the answer's values.
    fn finish(&mut self, table: &Table) -> Option<Charge> {
        let mut room = AnswerRoom {
            told: HashSet::new(),
            bytes_left: MAX_VALUE_BYTES,
            charge: self.owner.charge(0).ok(),
        };
        let timeout = self.timeout;
        for (index, id) in self.get.ids.iter_mut().enumerate() {
            if *id == PvId::NONE {
                continue;
            }
            let entry = table.entry(*id);
            let problem = if entry.is_complete() {
                let refused = room.add(*id, entry).err();
                refused.map(|why| (NameProblem::TooManyPvs, why.to_string()))
            } else {
                Some(without_value(entry, timeout))
            };
            if let Some((problem, message)) = problem {
                *id = PvId::NONE;
                self.get.errors.push(NameError {
                    index: index as u32,
                    problem,
                    message,
                });
            }
        }
        room.charge
    }
}

/// What still fits in the answer to a get.
struct AnswerRoom {
    /// PVs in the answer.
    told: HashSet<PvId>,
    bytes_left: usize,
    charge: Option<Charge>,
}

/// Why a PV isn't in the answer to a get.
#[derive(Debug, thiserror::Error)]
enum NoRoom {
    #[error("the values have more than {MAX_VALUE_BYTES} bytes together: get fewer PVs at a time")]
    Answer,
    #[error("{0}")]
    Memory(TooMuch),
}

impl AnswerRoom {
    /// Adds the latest value of a PV, unless the answer has it already.
    fn add(&mut self, id: PvId, entry: &Entry) -> Result<(), NoRoom> {
        if self.told.contains(&id) {
            return Ok(());
        }
        let latest = entry.latest.as_ref();
        let bytes = latest.map_or(0, |latest| bytes_of(&latest.value));
        let bytes_left = self.bytes_left.checked_sub(bytes).ok_or(NoRoom::Answer)?;
        if let Some(charge) = self.charge.as_mut().filter(|_| bytes > 0) {
            let resized = charge.resize(charge.bytes() + bytes);
            resized.map_err(NoRoom::Memory)?;
        }
        self.bytes_left = bytes_left;
        self.told.insert(id);
        Ok(())
    }
}

/// Why a PV has no value in time.
fn without_value(entry: &Entry, timeout: Duration) -> (NameProblem, String) {
    let waited = timeout.as_millis();
    let timed_out = |message| (NameProblem::TimedOut, message);
    match (entry.missing(), entry.connection.state) {
        (Some(missing), _) => (NameProblem::NoSuchField, missing.to_owned()),
        (None, ConnectionState::Connected) if is_denied(entry) => (
            NameProblem::NotAllowed,
            "no read access: the IOC doesn't let the relay read this PV".into(),
        ),
        (None, ConnectionState::Connected) => {
            let unsent = || format!("connected, but no value within {waited} ms");
            timed_out(entry.awaited().map_or_else(unsent, ToOwned::to_owned))
        }
        (None, ConnectionState::Disconnected) => timed_out("disconnected".into()),
        (None, ConnectionState::Connecting | ConnectionState::NotFound) => {
            let not_found = || format!("not found within {waited} ms");
            timed_out(
                entry
                    .unconnected()
                    .map_or_else(not_found, ToOwned::to_owned),
            )
        }
    }
}

impl Distributor {
    /// Keeps a get that waits for first values, without the PVs that exceed its client's limits.
    pub(super) fn get(&mut self, mut get: PendingGet, now: Now) {
        let loads = self.registry.loads(&get.ids);
        let mut load = self.load_of(get.client, &loads);
        let mut surplus = Vec::new();
        for (index, (id, more)) in get.get.ids.iter_mut().zip(loads).enumerate() {
            if more > 0 && load + more > self.limits.load {
                surplus.push(mem::replace(id, PvId::NONE));
                get.get.errors.push(NameError {
                    index: index as u32,
                    problem: NameProblem::TooManyPvs,
                    message: too_much_load(load + more, self.limits.load),
                });
            } else {
                load += more;
            }
        }
        if !surplus.is_empty() {
            self.next_sweep = None;
        }
        self.registry.discard(surplus, now.instant);
        self.gets.push(get);
    }

    /// Answers the gets that are complete or whose time is over.
    pub(super) fn answer_gets(
        &mut self,
        table: &Table,
        now: Now,
        tick: u64,
        orders: &mut [Vec<Order>],
    ) {
        let pending = mem::take(&mut self.gets);
        let (mut copied, mut answered) = (0, HashSet::new());
        self.has_gets = false;
        for mut get in pending {
            let is_complete = get.is_complete(table, now);
            let is_due = is_complete || now.instant >= get.deadline;
            if !is_due || copied > GET_BYTES_PER_TICK || !self.turns.take(get.ids.len()) {
                self.has_gets |= is_due;
                self.gets.push(get);
                continue;
            }
            answered.insert(get.client);
            self.registry.release(held(&get.ids), now.instant);
            let charge = get.finish(table);
            let mut ids: Vec<PvId> = held(&get.ids).collect();
            ids.sort_unstable();
            ids.dedup();
            let Get {
                client,
                request,
                errors,
                ..
            } = get.get;
            let reply = Reply::Got {
                ids: get.get.ids,
                errors,
            };
            let frame = self.encoders.of(client.encoding).reply_with(
                FrameKind::Answer,
                tick,
                request,
                &reply,
                (table, &ids),
            );
            copied += frame.copied();
            let frame = charge.into_iter().fold(frame, Frame::charged);
            orders[client.shard].push(Order::Answer {
                client,
                frame: Arc::new(frame),
                large: Arc::default(),
            });
        }
        if self.has_gets {
            // The next tick begins with the clients that got no answer.
            self.gets.sort_by_key(|get| answered.contains(&get.client));
        }
    }
}

/// Whether the IOC doesn't let the relay read a connected PV.
fn is_denied(entry: &Entry) -> bool {
    entry.connection.state == ConnectionState::Connected && !entry.connection.read
}
