//! Answers to requests to subscribe: snapshots, of which equal ones are made once in a tick.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use pvwire_schema::types::{FrameKind, NameError, PvId, Reply, RequestProblem};

use super::subscriptions::Subscribed;
use super::turns::{Fingerprint, SHARED_DISCOUNT, fingerprint};
use super::{Distributor, held};
use crate::fanout::control::ClientId;
use crate::fanout::encoding::Encoding;
use crate::fanout::frame::Frame;
use crate::fanout::large::LargeValue;
use crate::fanout::output::Order;
use crate::limits::memory::{Charge, Owner};
use crate::state::table::{Now, Table};

/// Estimated bytes of a PV in a snapshot, which are charged before it is made.
const PV_BYTES: usize = 220;

/// A snapshot, and the large values that follow it.
type Snapshot = (Arc<Frame>, Arc<[Arc<LargeValue>]>);

/// The snapshots of one tick whose requests had no refused names.
#[derive(Default)]
pub(super) struct Snapshots(HashMap<(Encoding, Fingerprint), Made>);

/// A snapshot that was made.
struct Made {
    /// The PVs of its request.
    ids: Vec<PvId>,
    snapshot: Snapshot,
}

impl Snapshots {
    /// The names that a snapshot of `count` PVs costs a tick.
    pub(super) fn cost(&self, encoding: Encoding, fingerprint: Fingerprint, count: usize) -> usize {
        if self.0.contains_key(&(encoding, fingerprint)) {
            count / SHARED_DISCOUNT + 1
        } else {
            count
        }
    }

    fn get(&self, encoding: Encoding, ids: &[PvId]) -> Option<&Snapshot> {
        let made = self.0.get(&(encoding, fingerprint(ids)))?;
        (made.ids == ids).then_some(&made.snapshot)
    }

    fn insert(&mut self, encoding: Encoding, ids: &[PvId], snapshot: &Snapshot) {
        let made = Made {
            ids: ids.to_vec(),
            snapshot: snapshot.clone(),
        };
        self.0.insert((encoding, fingerprint(ids)), made);
    }
}

impl Distributor {
    /// Carries out a client's request to subscribe the PVs `ids`, beside which `errors` names were refused.
    pub(super) fn answer_subscribe(
        &mut self,
        (client, request): (ClientId, u32),
        (ids, errors): (Vec<PvId>, Vec<NameError>),
        owner: &Arc<Owner>,
        (table, now, tick): (&Table, Now, u64),
        made: &mut Snapshots,
    ) -> [Option<Order>; 3] {
        let charge = match owner.charge(ids.len() * PV_BYTES) {
            Ok(charge) => charge,
            Err(too_much) => {
                self.registry.release(held(&ids), now.instant);
                let (problem, message) = (RequestProblem::Refused, too_much.to_string());
                let reply = Reply::Error { problem, message };
                let encoder = self.encoders.of(client.encoding);
                let frame = Arc::new(encoder.answer(tick, request, &reply));
                let large = Arc::default();
                let answer = Order::Answer {
                    client,
                    frame,
                    large,
                };
                return [Some(answer), None, None];
            }
        };
        let mut subscribed = self.subscribe(client, ids, errors, table, now);
        let refused = self.refused(client, &mut subscribed.reply);
        let group = subscribed.group;
        let (frame, large) =
            self.snapshot((client, request), &subscribed, (table, tick), charge, made);
        let answer = Order::Answer {
            client,
            frame,
            large,
        };
        [
            refused,
            Some(answer),
            Some(Order::Regroup { client, group }),
        ]
    }

    /// Takes the refused names out of the answer to a client of a door, which is told of them by name.
    fn refused(&self, client: ClientId, reply: &mut Reply) -> Option<Order> {
        let Reply::Subscribed { errors, .. } = reply else {
            return None;
        };
        if errors.is_empty() || !self.groups.is_door(client.encoding) {
            return None;
        }
        let errors = mem::take(errors);
        Some(Order::Refused { client, errors })
    }

    /// The values of the PVs that a client has subscribed, charged to it.
    fn snapshot(
        &mut self,
        (client, request): (ClientId, u32),
        subscribed: &Subscribed,
        (table, tick): (&Table, u64),
        mut charge: Charge,
        made: &mut Snapshots,
    ) -> Snapshot {
        let Subscribed { fresh, reply, .. } = subscribed;
        let encoder = self.encoders.of(client.encoding);
        let shareable = match reply {
            Reply::Subscribed { ids, errors } if errors.is_empty() => Some(&**ids),
            _ => None,
        };
        let known = shareable.and_then(|ids| made.get(client.encoding, ids));
        let shared = known.and_then(|(frame, large)| {
            let frame = encoder.readdressed(frame, request)?;
            Some((frame, Arc::clone(large)))
        });
        let is_new = shared.is_none();
        let (frame, large) = shared.unwrap_or_else(|| {
            let values = (table, &**fresh);
            let frame = encoder.reply_with(FrameKind::Snapshot, tick, request, reply, values);
            (frame, self.large.changed(table, fresh, 0))
        });
        // What exceeds the estimate is small, and is made already.
        let _ = charge.resize(frame.copied());
        let snapshot = (Arc::new(frame.charged(charge)), large);
        if let Some(ids) = shareable.filter(|_| is_new) {
            made.insert(client.encoding, ids, &snapshot);
        }
        snapshot
    }
}
