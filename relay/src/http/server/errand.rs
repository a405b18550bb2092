//! Carries out errands: puts, and reads that show what the puts have changed.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use pvwire_schema::types::{Outcome, PutValue, ValueType};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep};

use super::Server;
use super::answer::Refusal;
use super::read::Reader;
use crate::fanout::control::ClientId;
use crate::fanout::dialogue::{Errand, Ran, ReadError, Seen, Written};
use crate::ingest::{OpEnd, Put};
use crate::session::errand::{Asker, Order, Puts};
use crate::session::operation::Action;

/// How long to wait for the value of a PV before it is written. A PV that isn't open yet needs this time to
/// connect.
const BEFORE: Duration = Duration::from_millis(500);

/// How long the update of a put may arrive after the put's answer. A put of the value that a PV has already may
/// bring none.
const ECHO: Duration = Duration::from_millis(250);

/// Interval between looks for the update of a put.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What identifies an update: the epoch of its PV, and its number there.
type Update = (u32, u32);

fn update(seen: &Seen) -> Update {
    (seen.metadata.epoch, seen.latest.sequence)
}

/// What is known of a PV before it is written.
#[derive(Clone, Copy, Debug)]
struct Before {
    update: Update,
    /// Its value is a single string.
    is_text: bool,
}

impl Before {
    fn of(seen: &Seen) -> Self {
        let metadata = &seen.metadata;
        Self {
            update: update(seen),
            is_text: metadata.value_type == ValueType::String && metadata.element_count == 1,
        }
    }
}

impl Server {
    /// Carries out the errands of shards' clients for ever.
    pub async fn run_errands(self: Arc<Self>, mut orders: UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            let server = Arc::clone(&self);
            tokio::task::spawn_local(async move {
                let Order {
                    client,
                    asker,
                    caller,
                    errand,
                    respond,
                } = order;
                let reader = Reader::of(&asker, caller);
                let number = errand.number;
                let ran = server.run(&reader, asker, Some(client), errand).await;
                if let Some(shard) = server.admin.shards.get(client.shard) {
                    shard.respond(&server.pool, reader.cpu(), (client, number), respond, ran);
                }
            });
        }
    }

    /// Carries out one errand.
    pub(super) async fn run(
        &self,
        reader: &Reader,
        asker: Asker,
        client: Option<ClientId>,
        errand: Errand,
    ) -> Ran {
        let before = self.before(reader, &errand).await;
        let (reads, describe, mut errand) = (errand.reads.clone(), errand.describe, errand);
        for (put, before) in errand.puts.iter_mut().zip(&before) {
            if let (Some(Before { is_text: true, .. }), Some(text)) = (before, put.literal.take()) {
                put.value = PutValue::Text(text);
            }
        }
        let puts = self.put_all(asker, client, errand).await;
        let begun = Instant::now();
        let readings: Vec<_> = (reads.iter())
            .map(|(name, _)| self.begin_read(reader, name, describe))
            .collect();
        let mut ran = Ran {
            puts,
            reads: Vec::with_capacity(reads.len()),
        };
        for (at, (reading, (name, patience))) in readings.into_iter().zip(&reads).enumerate() {
            let left = patience.saturating_sub(begun.elapsed());
            let seen = match reading {
                Ok(reading) => self.end_read(reader, name, reading, left).await,
                Err(refusal) => Err(refusal),
            };
            let is_written = (ran.puts.get(at)).is_some_and(|end| end.outcome == Outcome::Done);
            let old = before.get(at).copied().flatten().filter(|_| is_written);
            let old = old.map(|before| before.update);
            ran.reads.push(match seen {
                Ok(Some(seen)) if Some(update(&seen)) == old => {
                    Ok(self.newer(reader, name, seen, begun).await)
                }
                Ok(Some(seen)) => Ok(seen),
                Ok(None) => Err(ReadError::NoValue {
                    name: name.clone(),
                    waited: *patience,
                }),
                Err(Refusal { status, message }) => {
                    let why = message.trim_end().to_owned();
                    Err(match status {
                        StatusCode::FORBIDDEN => ReadError::NotAllowed(why),
                        _ => ReadError::Refused(why),
                    })
                }
            });
        }
        ran
    }

    /// What is known of the PVs before they are written.
    async fn before(&self, reader: &Reader, errand: &Errand) -> Vec<Option<Before>> {
        let begun = Instant::now();
        let names: Vec<_> = errand.puts.iter().map(|put| &put.name).collect();
        let readings: Vec<_> = (names.iter())
            .map(|name| self.begin_read(reader, name, false))
            .collect();
        let mut before = Vec::with_capacity(names.len());
        for (reading, name) in readings.into_iter().zip(names) {
            let left = BEFORE.saturating_sub(begun.elapsed());
            let seen = match reading {
                Ok(reading) => self.end_read(reader, name, reading, left).await,
                Err(refusal) => Err(refusal),
            };
            before.push(seen.ok().flatten().as_ref().map(Before::of));
        }
        before
    }

    /// The update after `seen`, or `seen` if none comes in time.
    async fn newer(&self, reader: &Reader, name: &str, mut seen: Seen, begun: Instant) -> Seen {
        let old = update(&seen);
        while update(&seen) == old && begun.elapsed() < ECHO {
            sleep(LOOK_EVERY).await;
            if let Ok(Some(now)) = self.read(reader, name, ECHO).await {
                seen = now;
            }
        }
        seen
    }

    /// Writes PVs in order, and waits for all outcomes.
    async fn put_all(&self, asker: Asker, client: Option<ClientId>, errand: Errand) -> Vec<OpEnd> {
        let count = errand.puts.len();
        let lost = OpEnd::failed(Outcome::Failed, "the relay ended before the put was done");
        let mut outcomes = vec![lost; count];
        if count == 0 {
            return outcomes;
        }
        let user = asker.identity.user.clone();
        let action = |Written { name, value, .. }| {
            let put = Put {
                value,
                wait: errand.wait,
                expected: None,
                user: user.clone(),
                timeout: errand.put_timeout,
                by: None,
            };
            (name, Action::Put(put))
        };
        let actions = errand.puts.into_iter().map(action).collect();
        let (ends, mut ended) = unbounded_channel();
        let shard = client.map_or(0, |client| client.shard);
        if let Some(shard) = self.admin.shards.get(shard) {
            shard.put_for(Puts {
                client,
                asker,
                actions,
                ends,
            });
        }
        while let Some((at, end)) = ended.recv().await {
            if let Some(outcome) = outcomes.get_mut(at as usize) {
                *outcome = end;
            }
        }
        outcomes
    }
}
