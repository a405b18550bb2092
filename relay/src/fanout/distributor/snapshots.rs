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
use crate::fanout::set::PvSet;
use crate::limits::memory::{Charge, Owner};
use crate::state::table::{Now, Table};

/// Estimated bytes of a PV in a snapshot, which are charged before it is made.
const PV_BYTES: usize = 220;

/// A snapshot, and the large values that follow it.
type Snapshot = (Arc<Frame>, Arc<[Arc<LargeValue>]>);

/// The snapshots of one tick whose requests had no refused names.
#[derive(Default)]
pub(super) struct Snapshots(HashMap<(Encoding, Fingerprint), Made>);

/// A snapshot that was made. Its bytes are shared by the answers to all requests for it.
struct Made {
    /// The PVs of its request.
    ids: Vec<PvId>,
    snapshot: Snapshot,
    /// Number and PVs of the group of clients that have made this request alone, each name once. Its PVs are within
    /// the limits of every client that has no other PVs.
    group: Option<(usize, Arc<PvSet>)>,
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

    fn get_mut(&mut self, encoding: Encoding, ids: &[PvId]) -> Option<&mut Made> {
        let made = self.0.get_mut(&(encoding, fingerprint(ids)))?;
        (made.ids == ids).then_some(made)
    }

    fn insert(&mut self, encoding: Encoding, made: Made) {
        self.0.insert((encoding, fingerprint(&made.ids)), made);
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
        let mut subscribed = match self.subscribe_alike(client, &ids, &errors, made) {
            Some(group) => Subscribed {
                group: Some(group),
                joined: None,
                fresh: ids.clone(),
                reply: Reply::Subscribed { ids, errors },
            },
            None => self.subscribe(client, ids, errors, table, now),
        };
        let refused = self.refused(client, &mut subscribed.reply);
        let group = subscribed.group;
        let (frame, large) =
            self.snapshot((client, request), subscribed, (table, tick), charge, made);
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

    /// Puts a client without PVs into the group of an equal request of this tick; returns the group's number.
    fn subscribe_alike(
        &mut self,
        client: ClientId,
        ids: &[PvId],
        errors: &[NameError],
        made: &mut Snapshots,
    ) -> Option<usize> {
        if !errors.is_empty() {
            return None;
        }
        let (number, set) = made.get_mut(client.encoding, ids)?.group.as_ref()?;
        self.groups.join(client, *number, set).then_some(*number)
    }

    /// The values of the PVs that a client has subscribed, charged to it.
    fn snapshot(
        &mut self,
        (client, request): (ClientId, u32),
        subscribed: Subscribed,
        (table, tick): (&Table, u64),
        mut charge: Charge,
        made: &mut Snapshots,
    ) -> Snapshot {
        let Subscribed {
            fresh,
            reply,
            joined,
            ..
        } = subscribed;
        let encoder = self.encoders.of(client.encoding);
        let shareable = match &reply {
            Reply::Subscribed { ids, errors } if errors.is_empty() => Some(&**ids),
            _ => None,
        };
        if let Some(same) = shareable.and_then(|ids| made.get_mut(client.encoding, ids))
            && let Some(frame) = encoder.readdressed(&same.snapshot.0, request)
        {
            same.group = same.group.take().or(joined);
            let (body, large) = &same.snapshot;
            let _ = charge.resize(body.copied());
            return (Arc::new(frame.charged(charge)), Arc::clone(large));
        }
        let values = (table, &*fresh);
        let frame = encoder.reply_with(FrameKind::Snapshot, tick, request, &reply, values);
        let large = self.large.changed(table, &fresh, 0);
        // What exceeds the estimate is small, and is made already.
        let _ = charge.resize(frame.copied());
        let mut body = Arc::new(frame);
        if let Some(ids) = shareable
            && let Some(frame) = encoder.readdressed(&body, request)
        {
            let made_now = Made {
                ids: ids.to_vec(),
                snapshot: (body, Arc::clone(&large)),
                group: joined,
            };
            made.insert(client.encoding, made_now);
            return (Arc::new(frame.charged(charge)), large);
        }
        // No other answer shares it.
        if let Some(frame) = Arc::get_mut(&mut body) {
            frame.charge(charge);
        }
        (body, large)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use pvwire_schema::decode;
    use pvwire_schema::types::Skips;

    use super::*;
    use crate::access::rule::{Identity, Rules};
    use crate::fanout::control::{ControlQueue, ControlRequest};
    use crate::fanout::flat;
    use crate::fanout::output::{FrameSink, TickFrames};
    use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, RowValue, Source};
    use crate::limits::memory::{Memory, MemoryLimits};
    use crate::limits::subscriptions::{NewNames, SubscriptionLimits};
    use crate::state::registry::Registry;
    use crate::state::table::{ChangedRow, Changes};
    use crate::state::tick::TickSink;

    /// Opens every name; values never come.
    struct Quiet;
    struct QuietMonitor(#[expect(dead_code, reason = "dropping it closes the PV")] Line);
    impl Monitor for QuietMonitor {}
    impl Source for Quiet {
        fn scheme(&self) -> &'static str {
            "ca"
        }
        fn open(&self, _: &str, line: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
            Ok(Box::new(QuietMonitor(line)))
        }
    }

    /// Keeps the answers and the groups of clients, and the ticks in which frames or orders came.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Order>>>, Arc<Mutex<Vec<(&'static str, u64)>>>);
    impl FrameSink for Kept {
        fn deliver(&self, frames: &Arc<TickFrames>, orders: Vec<Order>) {
            self.1.lock().unwrap().push(("frames", frames.tick));
            self.0.lock().unwrap().extend(orders);
        }
        fn follow(&self, tick: u64, orders: Vec<Order>) {
            self.1.lock().unwrap().push(("orders", tick));
            self.0.lock().unwrap().extend(orders);
        }
        fn is_ready(&self) -> bool {
            true
        }
        fn round(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn equal_requests_of_one_tick_share_the_bytes_of_their_answer_and_updates_go_first() {
        let intake = Intake::new();
        let linger = Duration::from_secs(10);
        let sources: Vec<Box<dyn Source>> = vec![Box::new(Quiet)];
        let registry = Registry::new(Arc::clone(&intake), sources, "ca", linger, Rules::default());
        let (registry, control) = (Arc::new(registry), ControlQueue::new(Arc::clone(&intake)));
        let kept = Kept::default();
        let limits = SubscriptionLimits {
            subscriptions: 100,
            unresolved: 100,
            load: 1,
        };
        let shards: Vec<Box<dyn FrameSink>> = vec![Box::new(kept.clone())];
        let (queue, encodings) = (Arc::clone(&control), flat::encodings());
        let stage = Distributor::new(queue, Arc::clone(&registry), shards, limits, &encodings);
        let mut stage = stage.unwrap();
        let names: Vec<_> = (0..50).map(|n| format!("SR:{n}")).collect();
        let memory = Memory::new(MemoryLimits::NONE);
        let client = |index| ClientId {
            shard: 0,
            index,
            generation: 1,
            encoding: Encoding::default(),
        };
        for index in 0..4 {
            let owner = memory.owner("10.0.0.1:1", None);
            let mut room = NewNames { fresh: 50, new: 50 };
            let ids = registry.acquire(&names, &Identity::default(), &owner, &mut room);
            control.push(ControlRequest::Subscribe {
                client: client(index),
                request: index as u32 + 7,
                ids: ids.into_iter().map(Result::unwrap).collect(),
                errors: Vec::new(),
                owner,
            });
        }
        let (mut table, mut changes) = (Table::new(linger), Changes::default());
        let now = Now {
            instant: Instant::now(),
            wall_ns: 0,
        };
        changes.tick = 1;
        stage.collect();
        intake.drain(|taken| table.apply(&mut changes, now, taken));
        let before = memory.used();
        stage.tick(&table, &Arc::new(changes), now);
        let orders = std::mem::take(&mut *kept.0.lock().unwrap());
        let frames: Vec<_> = orders
            .iter()
            .filter_map(|order| match order {
                Order::Answer { frame, .. } => Some(frame),
                _ => None,
            })
            .collect();
        let groups: Vec<_> = orders
            .iter()
            .filter_map(|order| match order {
                Order::Regroup { group, .. } => *group,
                _ => None,
            })
            .collect();
        assert_eq!(groups, [groups[0]; 4]);
        let mut begins = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            let slices = frame.slices(0, usize::MAX);
            begins.push(slices[0].as_ptr());
            let message = slices.map(|slice| slice.to_vec()).concat();
            // The header of a message of this length has 4 bytes.
            let message = decode::frame(&message[4..]).unwrap();
            assert_eq!(message.reply_to(), index as u32 + 7);
            assert!(frame.copied() < 10, "{} bytes are copied", frame.copied());
        }
        assert_eq!(begins, [begins[0]; 4], "one answer was made");
        // Each client pays for what it keeps alive.
        assert!(memory.used() - before >= 4 * (frames[0].length() - 10));
        drop(orders);
        assert_eq!(memory.used(), before);

        control.push(ControlRequest::Unsubscribe {
            client: client(0),
            request: 20,
            ids: vec![PvId(0)],
        });
        let mut changes = Changes {
            tick: 2,
            ..Changes::default()
        };
        changes.rows.push(ChangedRow {
            pv: PvId(0),
            time_ns: 0,
            value: RowValue::Number(1.0),
            alarm: None,
            detail: None,
            skips: Skips::NONE,
        });
        stage.collect();
        stage.tick(&table, &Arc::new(changes), now);
        let came = [("frames", 1), ("frames", 2), ("orders", 2)];
        assert_eq!(*kept.1.lock().unwrap(), came);
    }
}
