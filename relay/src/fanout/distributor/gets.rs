//! Gets: each waits for the first values of its PVs and is answered between two ticks.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, FrameKind, NameError, NameProblem, PvId, Reply};

use super::subscriptions::too_much_load;
use super::{Distributor, held};
use crate::fanout::control::ClientId;
use crate::fanout::frame::Frame;
use crate::fanout::output::Order;
use crate::limits::memory::Owner;
use crate::state::table::{MAX_VALUE_BYTES, Now, Table, bytes_of};

/// After so many bytes were copied into answers to gets, the other gets wait for the next tick: to copy more
/// would hold up everybody's updates.
const GET_BYTES_PER_TICK: usize = 8 << 20;

/// How long a get waits for descriptions after it has everything else: longer than an IOC takes to
/// answer, and short for the servers that have none.
const DESCRIPTION_WAIT: Duration = Duration::from_secs(2);

pub(super) struct PendingGet {
    pub(super) client: ClientId,
    pub(super) request: u32,
    pub(super) ids: Vec<PvId>,
    /// Those of them whose description is waited for.
    pub(super) described: Vec<PvId>,
    pub(super) errors: Vec<NameError>,
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
    pub(super) owner: Arc<Owner>,
    /// When to stop waiting for descriptions, once nothing else is.
    pub(super) describe_until: Option<Instant>,
}

impl PendingGet {
    /// Whether descriptions are still to be waited for, when everything else is there.
    fn waits_for_description(&mut self, table: &Table, now: Now) -> bool {
        let is_open =
            |id: &PvId| table.entry(*id).is_complete() && !table.entry(*id).is_described();
        if !self.described.iter().any(is_open) {
            return false;
        }
        let until = *(self.describe_until).get_or_insert(now.instant + DESCRIPTION_WAIT);
        now.instant < until
    }
}

impl Distributor {
    /// Keeps a get that waits for first values, without the PVs that are too much for its client.
    pub(super) fn get(&mut self, mut get: PendingGet, now: Now) {
        let loads = self.registry.loads(&get.ids);
        let mut load = self.load_of(get.client, &loads);
        let mut surplus = Vec::new();
        for (index, (id, more)) in get.ids.iter_mut().zip(loads).enumerate() {
            if more > 0 && load + more > self.limits.load {
                surplus.push(std::mem::replace(id, PvId::NONE));
                get.errors.push(NameError {
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

    /// Answers the gets that have all they wait for, or waited long enough.
    pub(super) fn answer_gets(
        &mut self,
        table: &Table,
        now: Now,
        tick: u64,
        orders: &mut [Vec<Order>],
    ) {
        let pending = mem::take(&mut self.gets);
        let mut copied = 0;
        self.has_gets = false;
        for mut get in pending {
            let complete = |id: PvId| table.entry(id).is_complete();
            let is_denied = |id: PvId| {
                let connection = table.entry(id).connection;
                connection.state == ConnectionState::Connected && !connection.read
            };
            let settled =
                |id: PvId| complete(id) || is_denied(id) || table.entry(id).missing().is_some();
            let all = held(&get.ids).all(settled) && !get.waits_for_description(table, now);
            if (!all && now.instant < get.deadline) || copied > GET_BYTES_PER_TICK {
                self.has_gets |= all;
                self.gets.push(get);
                continue;
            }
            self.registry.release(held(&get.ids), now.instant);
            let (mut told, mut room) = (HashSet::new(), MAX_VALUE_BYTES);
            let mut charge = get.owner.charge(0).ok();
            for (index, id) in get.ids.iter_mut().enumerate() {
                if *id != PvId::NONE && complete(*id) && told.insert(*id) {
                    let latest = table.entry(*id).latest.as_ref();
                    let bytes = latest.map_or(0, |latest| bytes_of(&latest.value));
                    let fits = match (room.checked_sub(bytes), &mut charge) {
                        (None, _) => Err(format!(
                            "the values have more than {MAX_VALUE_BYTES} bytes together: get fewer \
                             PVs at a time"
                        )),
                        (Some(rest), Some(charge)) if bytes > 0 => charge
                            .resize(charge.bytes() + bytes)
                            .map(|()| rest)
                            .map_err(|too_much| too_much.to_string()),
                        (Some(rest), _) => Ok(rest),
                    };
                    match fits {
                        Ok(rest) => room = rest,
                        Err(message) => {
                            told.remove(id);
                            get.errors.push(NameError {
                                index: index as u32,
                                problem: NameProblem::TooManyPvs,
                                message,
                            });
                            *id = PvId::NONE;
                        }
                    }
                }
                if *id != PvId::NONE && !complete(*id) {
                    let waited = get.timeout.as_millis();
                    let entry = table.entry(*id);
                    let timed_out = |message| (NameProblem::TimedOut, message);
                    let (problem, message) = match (entry.missing(), entry.connection.state) {
                        (Some(missing), _) => (NameProblem::NoSuchField, missing.to_owned()),
                        (None, ConnectionState::Connected) if is_denied(*id) => (
                            NameProblem::NotAllowed,
                            "no read access: the IOC doesn't let the relay read this PV".into(),
                        ),
                        (None, ConnectionState::Connected) => {
                            timed_out(format!("connected, but no value within {waited} ms"))
                        }
                        (None, ConnectionState::Disconnected) => timed_out("disconnected".into()),
                        (None, ConnectionState::Connecting | ConnectionState::NotFound) => {
                            timed_out(format!("not found within {waited} ms"))
                        }
                    };
                    get.errors.push(NameError {
                        index: index as u32,
                        problem,
                        message,
                    });
                    *id = PvId::NONE;
                }
            }
            let mut ids: Vec<PvId> = held(&get.ids).collect();
            ids.sort_unstable();
            ids.dedup();
            let reply = Reply::Got {
                ids: get.ids,
                errors: get.errors,
            };
            let parts = (table, ids.as_slice());
            let frame = self.maker.packing(get.client.lz4).reply_with(
                FrameKind::Answer,
                tick,
                get.request,
                &reply,
                parts,
            );
            copied += frame.copied();
            let frame = charge.into_iter().fold(frame, Frame::charged);
            let (client, frame) = (get.client, Arc::new(frame));
            let large = Arc::default();
            orders[client.shard].push(Order::Answer {
                client,
                frame,
                large,
            });
        }
    }
}
