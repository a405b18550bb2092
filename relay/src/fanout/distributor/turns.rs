//! The requests of clients that wait for a tick, and whose is carried out next.
//!
//! A tick carries out a bounded amount of control work, so that no client's requests delay the updates of others.
//! Work is counted in names: the PVs that a request subscribes, reads or ends, because a request may have ten
//! thousand of them. Clients take turns, and in each a client may have a bounded number of names, so that a client
//! with few of them doesn't wait for those with many.

use std::collections::{HashMap, VecDeque};

use pvwire_schema::types::PvId;

use super::held;
use crate::fanout::control::{ClientId, ControlRequest};

/// Names that one tick carries out: 4 to 8 ms of work.
const NAMES_PER_TICK: usize = 4_000;

/// Further names for each client that waits: a thousand clients that come back together are served in some ticks.
const NAMES_PER_CLIENT: usize = 100;

/// Names that one tick carries out at most, however many clients wait.
const MAX_NAMES_PER_TICK: usize = 40_000;

/// Names that a client may have carried out in one of its turns. A request with more takes several.
const NAMES_PER_TURN: usize = 1_000;

/// How much less than a new snapshot the same bytes for another client cost.
pub(super) const SHARED_DISCOUNT: usize = 16;

/// How much less than one in a snapshot a PV costs that is only looked up.
pub(super) const LOOKUP_DISCOUNT: usize = 16;

/// How much less than one in a snapshot a PV costs in a set that is made again.
pub(super) const REGROUP_DISCOUNT: usize = 64;

/// Recognizes requests for the same PVs in the same order. Different PVs may have the same one.
pub(super) type Fingerprint = u64;

/// The fingerprint of these PVs.
pub(super) fn fingerprint(ids: &[PvId]) -> Fingerprint {
    // 2⁶⁴ divided by the golden ratio: spreads neighbouring numbers.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, id: &PvId| (hash.rotate_left(5) ^ u64::from(id.0)).wrapping_mul(FACTOR);
    ids.iter().fold(ids.len() as u64, mix)
}

/// The requests of one client.
#[derive(Default)]
struct Waiting {
    requests: VecDeque<(ControlRequest, Fingerprint)>,
    /// Names that it may have carried out in its present turn.
    names: usize,
}

/// All requests that wait.
#[derive(Default)]
pub(super) struct Turns {
    /// Requests without a client; each names few PVs.
    others: VecDeque<ControlRequest>,
    waiting: HashMap<ClientId, Waiting>,
    /// The clients with requests, the next one first.
    order: VecDeque<ClientId>,
    /// Names that the present tick may still carry out.
    left: usize,
    /// The present tick has carried out a request with names.
    has_begun: bool,
}

impl Turns {
    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.order.is_empty()
    }

    /// Adds a request. Those of one client stay in their order.
    pub(super) fn push(&mut self, request: ControlRequest) {
        let Some(client) = request.client() else {
            return self.others.push_back(request);
        };
        let waiting = self.waiting.entry(client).or_default();
        if waiting.requests.is_empty() {
            self.order.push_back(client);
        }
        let fingerprint = match &request {
            ControlRequest::Subscribe { ids, .. } => fingerprint(ids),
            _ => 0,
        };
        waiting.requests.push_back((request, fingerprint));
    }

    /// The client is gone: drops what it waits for. Returns the PVs that its requests have acquired.
    pub(super) fn withdraw(&mut self, client: ClientId) -> Vec<PvId> {
        let Some(waiting) = self.waiting.remove(&client) else {
            return Vec::new();
        };
        self.order.retain(|other| *other != client);
        let requests = waiting.requests.iter().map(|(request, _)| request);
        let acquired = requests.filter_map(|request| match request {
            ControlRequest::Subscribe { ids, .. } => Some(&**ids),
            ControlRequest::Get(get) => Some(&*get.ids),
            _ => None,
        });
        acquired.flat_map(held).collect()
    }

    /// A tick begins.
    pub(super) fn begin(&mut self) {
        let names = NAMES_PER_TICK + NAMES_PER_CLIENT * self.order.len();
        self.left = names.min(MAX_NAMES_PER_TICK);
        self.has_begun = false;
    }

    /// Whether the tick may carry out a request of this cost. The first one always passes.
    pub(super) fn take(&mut self, cost: usize) -> bool {
        if self.has_begun && cost > self.left {
            return false;
        }
        self.left = self.left.saturating_sub(cost);
        self.has_begun |= cost > 0;
        true
    }

    /// The next request that this tick carries out. `cost` counts the names of a request, with its fingerprint.
    pub(super) fn next(
        &mut self,
        cost: impl Fn(&ControlRequest, Fingerprint) -> usize,
    ) -> Option<ControlRequest> {
        if let Some(request) = self.others.pop_front() {
            return Some(request);
        }
        loop {
            let client = *self.order.front()?;
            let waiting = self.waiting.get_mut(&client)?;
            let (request, fingerprint) = waiting.requests.front()?;
            let cost = cost(request, *fingerprint);
            if cost > waiting.names {
                // The next client's turn. Its own goes on later, with more names.
                waiting.names += NAMES_PER_TURN;
                self.order.rotate_left(1);
                continue;
            }
            if !self.take(cost) {
                return None;
            }
            let waiting = self.waiting.get_mut(&client)?;
            waiting.names -= cost;
            let (request, _) = waiting.requests.pop_front()?;
            if waiting.requests.is_empty() {
                self.waiting.remove(&client);
                self.order.pop_front();
            }
            return Some(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::encoding::Encoding;
    use crate::limits::memory::Owner;

    fn client(index: usize) -> ClientId {
        ClientId {
            shard: 0,
            index,
            generation: 1,
            encoding: Encoding::default(),
        }
    }

    fn unsubscribe(index: usize, request: u32, names: usize) -> ControlRequest {
        ControlRequest::Unsubscribe {
            client: client(index),
            request,
            ids: vec![PvId(7); names],
        }
    }

    /// The client and the number of each request of one tick.
    fn tick(turns: &mut Turns) -> Vec<(usize, u32)> {
        let cost = |request: &ControlRequest, _| match request {
            ControlRequest::Unsubscribe { ids, .. } => ids.len(),
            _ => 0,
        };
        turns.begin();
        let mut done = Vec::new();
        while let Some(request) = turns.next(cost) {
            let ControlRequest::Unsubscribe {
                client, request, ..
            } = request
            else {
                unreachable!("there is no other");
            };
            done.push((client.index, request));
        }
        done
    }

    #[test]
    fn tick_carries_out_a_bounded_number_of_names_however_many_wait() {
        let mut turns = Turns::default();
        for request in 0..5 {
            turns.push(unsubscribe(1, request, 10_000));
        }
        for request in 0..5 {
            assert_eq!(tick(&mut turns), [(1, request)], "one in each tick");
        }
        assert!(turns.is_empty());
        assert_eq!(tick(&mut turns), []);
        for request in 0..100 {
            turns.push(unsubscribe(1, request, 100));
        }
        assert_eq!(tick(&mut turns).len(), 41);
    }

    #[test]
    fn client_with_few_names_does_not_wait_for_clients_with_many() {
        let mut turns = Turns::default();
        for greedy in 0..24 {
            for request in 0..64 {
                turns.push(unsubscribe(greedy, request, 10_000));
            }
        }
        turns.push(unsubscribe(24, 0, 1_000));
        turns.push(unsubscribe(24, 1, 10));
        assert_eq!(tick(&mut turns)[..2], [(24, 0), (24, 1)]);
        // The others follow one after the other, not one before the other.
        let mut clients: Vec<_> = (0..23).flat_map(|_| tick(&mut turns)).collect();
        clients.sort_unstable();
        clients.dedup_by_key(|(client, _)| *client);
        assert!(clients.len() >= 22, "{clients:?}");
    }

    #[test]
    fn thousand_clients_that_come_back_are_served_in_some_ticks() {
        let mut turns = Turns::default();
        for index in 0..1_000 {
            turns.push(unsubscribe(index, 1, 1_000));
        }
        let mut ticks = 0;
        while !turns.is_empty() {
            assert!(!tick(&mut turns).is_empty());
            ticks += 1;
        }
        assert!(ticks < 100, "{ticks}");
    }

    #[test]
    fn requests_of_a_client_stay_in_their_order_and_end_with_it() {
        let mut turns = Turns::default();
        for request in 0..3 {
            turns.push(unsubscribe(1, request, 3_000));
            turns.push(unsubscribe(2, request, 10));
        }
        turns.push(ControlRequest::Subscribe {
            client: client(1),
            request: 3,
            ids: vec![PvId(4), PvId::NONE, PvId(5)],
            errors: Vec::new(),
            owner: Owner::unlimited(),
        });
        let first = tick(&mut turns);
        let of_first: Vec<_> = first.iter().filter(|(client, _)| *client == 1).collect();
        assert_eq!(of_first, [&(1, 0)]);
        assert_eq!(first.len(), 4, "{first:?}");
        assert_eq!(turns.withdraw(client(1)), [PvId(4), PvId(5)]);
        assert!(turns.is_empty());
    }
}
