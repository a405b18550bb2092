//! Writes PVs in order, and waits for the outcome of each.
//!
//! A shard carries the puts out: its rules, limits, time-outs and the audit file are those of every put.

use std::sync::atomic::Ordering;

use pvwire_schema::types::Outcome;
use tokio::sync::mpsc::unbounded_channel;

use super::internal::Queries;
use crate::access::caller::Caller;
use crate::fanout::control::ClientId;
use crate::fanout::encoding::Encoding;
use crate::ingest::{OpEnd, Put};
use crate::session::batch::Puts;
use crate::session::operation::Action;
use crate::session::shard::ShardHandle;

/// Puts of one request, with the names of their PVs.
#[derive(Debug, Default)]
pub struct Write {
    /// The puts.
    pub puts: Vec<(String, Put)>,
    /// Refuse values outside the control limits of their PVs.
    pub within_limits: bool,
    /// Refuse all: the address or the user of the caller writes more than `max_puts_per_s` allows.
    pub is_too_fast: bool,
    /// The client of a shard that makes the request. Puts that were not sent end with it, or, without a client, with
    /// the wait for their outcomes.
    pub client: Option<ClientId>,
}

/// Ends puts that were not sent, when no one waits for them.
struct Waiting<'a> {
    shard: &'a ShardHandle,
    client: Option<ClientId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            self.shard.end_puts(client);
        }
    }
}

impl Queries {
    /// Writes PVs in order; returns the outcome of each.
    pub async fn write(&self, caller: &Caller, write: Write) -> Vec<OpEnd> {
        let lost = OpEnd::failed(
            Outcome::Interrupted,
            "the relay ended before it knew whether the put was done",
        );
        let mut outcomes = vec![lost; write.puts.len()];
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let index = match write.client {
            Some(client) => client.shard,
            None => number as usize % self.shards.len().max(1),
        };
        let Some(shard) = self.shards.get(index).filter(|_| !outcomes.is_empty()) else {
            return outcomes;
        };
        let client = write.client.unwrap_or_else(|| ClientId {
            shard: index,
            // No client of the shard.
            index: usize::MAX,
            generation: number,
            encoding: Encoding::default(),
        });
        let mut waiting = Waiting {
            shard,
            client: write.client.is_none().then_some(client),
        };
        let actions = write.puts.into_iter();
        let (ends, mut ended) = unbounded_channel();
        shard.put_for(Puts {
            client,
            caller: caller.clone(),
            actions: actions
                .map(|(name, put)| (name, Action::Put(put)))
                .collect(),
            within_limits: write.within_limits,
            is_too_fast: write.is_too_fast,
            ends,
        });
        while let Some((at, end)) = ended.recv().await {
            if let Some(outcome) = outcomes.get_mut(at as usize) {
                *outcome = end;
            }
        }
        waiting.client = None;
        outcomes
    }
}
