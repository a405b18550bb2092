//! Carries out batches: puts, and reads that show what the puts have changed.

use std::time::Duration;

use pvwire_schema::types::{NameProblem, Outcome, PutValue, ValueType};
use tokio::time::Instant;

use super::internal::Queries;
use super::read::Reading;
use super::watch::PvState;
use super::write::Write;
use crate::access::caller::Caller;
use crate::fanout::control::ClientId;
use crate::ingest::{OpEnd, Put};
use crate::state::batch::{Batch, BatchPut, BatchResult, PvValue, ReadError};
use crate::state::registry::Refusal;

/// How long to wait for the value of a PV before it is written. A PV that isn't open yet needs this time to
/// connect.
const BEFORE: Duration = Duration::from_millis(500);

/// How long the update of a put may arrive after the put's answer. A put of the value that a PV has already may
/// bring none.
const ECHO: Duration = Duration::from_millis(250);

/// What identifies an update: the epoch of its PV, and its number there.
type Update = (u32, u32);

fn update(value: &PvValue) -> Update {
    (value.metadata.epoch, value.latest.sequence)
}

/// What is known of a PV before it is written.
#[derive(Clone, Copy, Debug)]
struct Before {
    update: Update,
    /// Its value is a single string.
    is_text: bool,
}

impl Before {
    fn of(value: &PvValue) -> Self {
        let metadata = &value.metadata;
        Self {
            update: update(value),
            is_text: metadata.value_type == ValueType::String && metadata.element_count == 1,
        }
    }
}

/// The error of a read that the rules or limits refuse.
fn refused(refusal: Refusal) -> ReadError {
    match refusal.problem {
        NameProblem::NotAllowed => ReadError::NotAllowed(refusal.message),
        _ => ReadError::Refused(refusal.message),
    }
}

impl Queries {
    /// Carries out a batch. `client` is the client of a shard that makes it, if there is one.
    pub async fn run(
        &self,
        caller: &Caller,
        client: Option<ClientId>,
        mut batch: Batch,
    ) -> BatchResult {
        let before = self.before(caller, &batch).await;
        for (put, before) in batch.puts.iter_mut().zip(&before) {
            if let (Some(Before { is_text: true, .. }), Some(text)) = (before, put.literal.take()) {
                put.value = PutValue::Text(text);
            }
        }
        let puts = self.put_all(caller, client, &mut batch).await;
        let begun = Instant::now();
        let readings: Vec<_> = (batch.reads.iter())
            .map(|(name, _)| self.begin_read(caller, name, batch.describe))
            .collect();
        let mut reads = Vec::with_capacity(batch.reads.len());
        for (at, (reading, (name, patience))) in readings.into_iter().zip(&batch.reads).enumerate()
        {
            let is_written = (puts.get(at)).is_some_and(|end| end.outcome == Outcome::Done);
            let old = before.get(at).copied().flatten().filter(|_| is_written);
            let old = old.map(|before| before.update);
            let read = self
                .read_after(caller, reading, begun, (*patience, old))
                .await;
            reads.push(read.map_err(refused).and_then(|value| {
                value.map_err(|reason| ReadError::NoValue {
                    name: name.clone(),
                    waited: *patience,
                    reason,
                })
            }));
        }
        BatchResult { puts, reads }
    }

    /// Reads a PV after a put. `old`: its update before the put; a newer one is waited for.
    async fn read_after(
        &self,
        caller: &Caller,
        reading: Result<Reading, Refusal>,
        begun: Instant,
        (patience, old): (Duration, Option<Update>),
    ) -> Result<Result<PvValue, String>, Refusal> {
        let mut reading = reading?;
        let value = self
            .end_read(caller, &mut reading, begun + patience)
            .await?;
        if old.is_none() || value.as_ref().ok().map(update) != old {
            return Ok(value);
        }
        let is_newer = |state: &PvState| {
            let value = state.clone().into_value();
            value.is_some_and(|value| Some(update(&value)) != old)
        };
        let newer = reading.wait(begun + ECHO, is_newer).await;
        Ok(newer.and_then(PvState::into_value).map_or(value, Ok))
    }

    /// What is known of the PVs before they are written.
    async fn before(&self, caller: &Caller, batch: &Batch) -> Vec<Option<Before>> {
        let until = Instant::now() + BEFORE;
        let names = batch.puts.iter().map(|put| &put.name);
        let readings: Vec<_> = names
            .map(|name| self.begin_read(caller, name, false))
            .collect();
        let mut before = Vec::with_capacity(readings.len());
        for reading in readings {
            let value = match reading {
                Ok(mut reading) => self.end_read(caller, &mut reading, until).await,
                Err(refusal) => Err(refusal),
            };
            before.push(value.ok().and_then(Result::ok).as_ref().map(Before::of));
        }
        before
    }

    /// Writes the PVs of a batch in order, and waits for all outcomes.
    async fn put_all(
        &self,
        caller: &Caller,
        client: Option<ClientId>,
        batch: &mut Batch,
    ) -> Vec<OpEnd> {
        let (wait, timeout) = (batch.wait, batch.put_timeout);
        let puts = std::mem::take(&mut batch.puts).into_iter();
        let puts = puts.map(|BatchPut { name, value, .. }| {
            let put = Put {
                value,
                wait,
                expected: None,
                user: caller.identity.user.clone(),
                timeout,
                by: None,
            };
            (name, put)
        });
        let write = Write {
            puts: puts.collect(),
            within_limits: false,
            is_too_fast: false,
            client,
        };
        self.write(caller, write).await
    }
}
