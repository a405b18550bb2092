//! Carries out batches: puts, and reads that show what the puts have changed.

use std::time::Duration;

use pvwire_schema::types::{NameProblem, Outcome, PutValue, ValueType};
use tokio::task::yield_now;
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

/// Reads that begin or end in one go: a batch may have thousands, and its thread serves others.
const READS_AT_ONCE: usize = 64;

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

/// Lets others of the thread have their turns before the read with this number in its batch.
async fn take_turns(read: usize) {
    if read > 0 && read.is_multiple_of(READS_AT_ONCE) {
        yield_now().await;
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
        let names = batch.reads.iter().map(|(name, _)| name);
        let readings = self.begin_all(caller, names, batch.describe).await;
        let mut reads = Vec::with_capacity(batch.reads.len());
        for (at, (reading, (name, patience))) in readings.into_iter().zip(&batch.reads).enumerate()
        {
            take_turns(at).await;
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

    /// Begins to read PVs.
    async fn begin_all(
        &self,
        caller: &Caller,
        names: impl Iterator<Item = &String>,
        describe: bool,
    ) -> Vec<Result<Reading, Refusal>> {
        let mut readings = Vec::new();
        for (at, name) in names.enumerate() {
            take_turns(at).await;
            readings.push(self.begin_read(caller, name, describe));
        }
        readings
    }

    /// What is known of the PVs before they are written.
    async fn before(&self, caller: &Caller, batch: &Batch) -> Vec<Option<Before>> {
        let until = Instant::now() + BEFORE;
        let names = batch.puts.iter().map(|put| &put.name);
        let readings = self.begin_all(caller, names, false).await;
        let mut before = Vec::with_capacity(readings.len());
        for (at, reading) in readings.into_iter().enumerate() {
            take_turns(at).await;
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Poll;

    use tokio::runtime;

    use super::*;
    use crate::access::auth::Peer;
    use crate::access::rule::Rules;
    use crate::compute::Pool;
    use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, Source};
    use crate::limits::connections::SharedBudgets;
    use crate::limits::memory::Owner;
    use crate::queries::watch::WatchQueue;
    use crate::state::registry::Registry;

    struct Quiet;
    struct QuietMonitor(#[expect(dead_code, reason = "it lives as long")] Line);
    impl Monitor for QuietMonitor {}
    impl Source for Quiet {
        fn scheme(&self) -> &'static str {
            "ca"
        }
        fn open(
            &self,
            _name: &str,
            line: Line,
            _queue: Queue,
        ) -> Result<Box<dyn Monitor>, OpenError> {
            Ok(Box::new(QuietMonitor(line)))
        }
    }

    #[test]
    fn batch_of_thousands_of_names_lets_others_have_their_turns_while_it_begins() {
        let intake = Intake::new();
        let names = || (0..5_000).map(|number| format!("SR:{number}"));
        let reads = Batch {
            reads: names().map(|name| (name, Duration::ZERO)).collect(),
            ..Batch::default()
        };
        let put = |name| BatchPut {
            name,
            value: PutValue::Text("1".into()),
            literal: None,
        };
        let puts = Batch {
            puts: names().map(put).collect(),
            ..Batch::default()
        };
        let mut runtime = runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        let (pool, owner) = (Pool::start().unwrap(), Owner::unlimited());
        let caller = Caller::new(Peer::default(), owner, SharedBudgets::default());
        for batch in [reads, puts] {
            let sources: Vec<Box<dyn Source>> = vec![Box::new(Quiet)];
            let (rules, none) = (Rules::default(), Duration::ZERO);
            let registry = Registry::new(Arc::clone(&intake), sources, "ca", none, rules);
            let registry = Arc::new(registry);
            let watches = WatchQueue::new(Arc::clone(&intake));
            let queries = Queries::new(Arc::clone(&registry), watches, Vec::new(), pool.handle());
            let mut run = pin!(queries.run(&caller, None, batch));
            for turn in 1..=3 {
                runtime.block_on(poll_fn(|context| {
                    assert!(run.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                }));
                let open = registry.monitors();
                assert!((1..=turn * READS_AT_ONCE).contains(&open), "{open} at once");
            }
        }
    }
}
