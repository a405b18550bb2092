//! Follows one PV for its caller: each state that a tick brings, and the numbers of updates that were left out.

use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::{Filter, NameProblem, PvId};

use super::internal::Queries;
use super::watch::{PvState, Watch};
use crate::access::caller::Caller;
use crate::limits::memory::Charge;
use crate::limits::subscriptions::{MAX_LOAD_PER_CLIENT, NewNames};
use crate::state::registry::{Refusal, Registry};

/// Bytes of a follower on its way and on the tick thread, with the state that waits for it.
const FOLLOWER_BYTES: usize = 1 << 10;

/// Holds a PV until it is dropped.
struct Held {
    pv: PvId,
    registry: Arc<Registry>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.registry.release([self.pv], Instant::now());
    }
}

/// A PV that is followed until this is dropped. The first state comes with the next tick.
pub struct Follower {
    held: Held,
    watch: Arc<Watch>,
    _charge: Charge,
}

impl Follower {
    /// Waits for the next state. No state is lost when the wait is cancelled.
    pub async fn next(&self) -> PvState {
        self.watch.next().await
    }

    /// Takes a state that waits already.
    #[must_use]
    pub fn take(&self) -> Option<PvState> {
        self.watch.take()
    }

    /// Requests the PV's description; returns whether it arrives as a separate change.
    pub fn describe(&self) -> bool {
        let held = &self.held;
        !held.registry.describe(&[held.pv]).is_empty()
    }
}

impl Queries {
    /// Follows a PV. With a filter, the caps of `max_rate` apply as to a subscription. Up to `waiting` states wait for
    /// the reader; beyond this the oldest is dropped.
    ///
    /// # Errors
    /// When the rules or limits refuse the name to the caller.
    pub fn follow(
        &self,
        caller: &Caller,
        name: &str,
        filter: Option<Filter>,
        waiting: usize,
    ) -> Result<Follower, Refusal> {
        let charge = caller.owner.charge(FOLLOWER_BYTES)?;
        let held = self.acquire(caller, name, filter)?;
        let watch = Watch::new(held.pv, waiting);
        self.watches.push(Arc::clone(&watch));
        Ok(Follower {
            held,
            watch,
            _charge: charge,
        })
    }

    fn acquire(
        &self,
        caller: &Caller,
        name: &str,
        filter: Option<Filter>,
    ) -> Result<Held, Refusal> {
        let mut room = NewNames {
            new: caller.rates.names_left(Instant::now()).min(1),
            ..NewNames::ONE
        };
        let new = room.new;
        let names = [name.to_owned()];
        let acquired = (self.registry).acquire_filtered(&names, filter, caller, &mut room);
        caller.rates.take_names(new - room.new);
        let mut pvs = Vec::new();
        for pv in acquired {
            pvs.push(pv?);
        }
        let pv = pvs.pop().expect("one name was requested");
        let load: u64 = self.registry.loads(&[pv]).into_iter().sum();
        if load > MAX_LOAD_PER_CLIENT {
            self.registry.discard([pv], Instant::now());
            return Err(Refusal {
                problem: NameProblem::TooManyPvs,
                message: "this simulated PV computes too many elements per second".to_owned(),
            });
        }
        let registry = Arc::clone(&self.registry);
        Ok(Held { pv, registry })
    }
}
