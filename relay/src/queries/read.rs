//! Reads PVs once: waits for the first value, and for the description if it is requested.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::follow::Follower;
use super::internal::Queries;
use super::watch::PvState;
use crate::access::caller::Caller;
use crate::config::Access;
use crate::fanout::distributor::DESCRIPTION_WAIT;
use crate::state::batch::PvValue;
use crate::state::registry::Refusal;

/// The first state comes with the next tick. The wait for it doesn't count.
const FIRST: Duration = Duration::from_secs(5);

/// A read that has begun.
pub struct Reading {
    follower: Follower,
    name: String,
    /// It waits for the description.
    describe: bool,
    /// It has had a state.
    has_begun: bool,
}

impl Queries {
    /// Reads a PV; the inner error says why it has no value within `patience`, if that is known.
    ///
    /// # Errors
    /// When the rules or limits refuse the name to the caller.
    pub async fn read(
        &self,
        caller: &Caller,
        name: &str,
        patience: Duration,
    ) -> Result<Result<PvValue, String>, Refusal> {
        let mut reading = self.begin_read(caller, name, false)?;
        let until = Instant::now() + patience;
        self.end_read(caller, &mut reading, until).await
    }

    /// Begins to read a PV. `describe`: with its description, if there is one.
    ///
    /// # Errors
    /// As `read`.
    pub fn begin_read(
        &self,
        caller: &Caller,
        name: &str,
        describe: bool,
    ) -> Result<Reading, Refusal> {
        let follower = self.follow(caller, name, None, 1)?;
        Ok(Reading {
            describe: describe && follower.describe(),
            name: name.to_owned(),
            has_begun: false,
            follower,
        })
    }

    /// Waits for the value. The inner error says why the PV has none at the end; it is empty if that isn't known.
    ///
    /// # Errors
    /// As `read`: the rules may have changed meanwhile.
    pub async fn end_read(
        &self,
        caller: &Caller,
        reading: &mut Reading,
        until: Instant,
    ) -> Result<Result<PvValue, String>, Refusal> {
        let last = reading.wait(until, PvState::is_settled).await;
        self.registry
            .permit(&reading.name, &caller.identity, Access::Read)?;
        Ok(last.map_or_else(
            || Err(String::new()),
            |state| {
                let reason = state.reason().to_owned();
                state.into_value().ok_or(reason)
            },
        ))
    }
}

impl Reading {
    /// Waits for a state that fits, and its description if that is requested; returns the last state at the end. In
    /// the first wait it is `None` only if the tick thread doesn't answer; later ones begin with the next change.
    pub async fn wait(
        &mut self,
        until: Instant,
        fits: impl Fn(&PvState) -> bool,
    ) -> Option<PvState> {
        let (mut last, mut described_until) = (None::<PvState>, until);
        loop {
            let deadline = match &last {
                None if self.has_begun => until,
                None => until.max(Instant::now() + FIRST),
                Some(state) if !fits(state) => until,
                Some(state) if !self.describe || state.is_described || !state.is_complete() => {
                    return last;
                }
                Some(_) => {
                    described_until = described_until.min(Instant::now() + DESCRIPTION_WAIT);
                    described_until
                }
            };
            match timeout_at(deadline, self.follower.next()).await {
                Ok(state) => {
                    self.has_begun = true;
                    last = Some(state);
                }
                Err(_) => return last,
            }
        }
    }
}
