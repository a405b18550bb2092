//! Batches of clients: puts and reads that belong together and wait for several PVs.
//!
//! A shard only begins them. They are carried out in `queries`, because HTTP requests ask for the same.

use std::time::Instant;

use pvwire_schema::types::Outcome;
use tokio::sync::mpsc::UnboundedSender;

use crate::access::caller::Caller;
use crate::fanout::control::ClientId;
use crate::ingest::OpEnd;
use crate::limits::requests::RequestBudget;
use crate::session::operation::{Action, Ends};
use crate::state::batch::{Batch, BatchResult, ReadError, Respond};

/// A batch of a shard's client.
pub struct ClientBatch {
    /// The client.
    pub client: ClientId,
    /// Who it is.
    pub caller: Caller,
    /// The batch.
    pub batch: Batch,
    /// Writes the response.
    pub respond: Respond,
}

/// Where shards send batches. A client's budget of open requests bounds them.
pub type Batches = UnboundedSender<ClientBatch>;

/// Counts the puts of a batch and the PVs that it names.
///
/// # Errors
/// When they are more than the rates allow: the outcome of the batch, of which nothing is carried out then.
pub fn count(batch: &Batch, budget: &mut RequestBudget, now: Instant) -> Result<(), BatchResult> {
    if !budget.take_puts(batch.puts.len(), now) {
        return Err(refused(batch, OpEnd::too_fast()));
    }
    let named = budget.take_names(batch.puts.len() + batch.reads.len(), now);
    named.map_err(|why| refused(batch, OpEnd::failed(Outcome::NotAllowed, why.to_string())))
}

/// The outcome of a batch of which each put ends like this, and each read has the same message.
fn refused(batch: &Batch, end: OpEnd) -> BatchResult {
    let unread = || Err(ReadError::NotAllowed(end.message.clone()));
    BatchResult {
        reads: batch.reads.iter().map(|_| unread()).collect(),
        puts: vec![end; batch.puts.len()],
    }
}

/// Puts of a batch, which a shard carries out in this order.
pub struct Puts {
    /// The client, which may be one that no shard has. Its puts that were not sent end with it.
    pub client: ClientId,
    /// Who makes them.
    pub caller: Caller,
    /// The puts with the names of the PVs.
    pub actions: Vec<(String, Action)>,
    /// Refuse values outside the control limits of their PVs.
    pub within_limits: bool,
    /// Refuse all, because they come too fast.
    pub is_too_fast: bool,
    /// Receives the outcomes.
    pub ends: Ends,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pvwire_schema::types::PutValue;

    use super::*;
    use crate::limits::requests::RequestLimits;
    use crate::state::batch::BatchPut;

    fn batch(puts: usize, reads: usize) -> Batch {
        let put = BatchPut {
            name: "ca://x".to_owned(),
            value: PutValue::Number(1.0),
            literal: None,
        };
        Batch {
            puts: vec![put; puts],
            reads: vec![("ca://x".to_owned(), Duration::ZERO); reads],
            ..Batch::default()
        }
    }

    #[test]
    fn batch_beyond_a_rate_is_refused_as_a_whole_and_takes_nothing() {
        let now = Instant::now();
        let limits = RequestLimits {
            requests_per_s: 1,
            puts_per_s: 1,
            names_at_once: 30,
        };
        let mut budget = RequestBudget::new(limits, now);
        for (puts, reads, refused_for) in [
            (11, 0, Some("max_puts_per_s")),
            (0, 31, Some("max_requests_per_s")),
            (5, 5, None),
            (6, 0, Some("max_puts_per_s")),
            (0, 20, None),
            (0, 1, Some("max_requests_per_s")),
        ] {
            let batch = batch(puts, reads);
            let refused = count(&batch, &mut budget, now).err();
            assert_eq!(refused.is_some(), refused_for.is_some(), "{puts} {reads}");
            let Some((refused, key)) = refused.zip(refused_for) else {
                continue;
            };
            assert_eq!((refused.puts.len(), refused.reads.len()), (puts, reads));
            let told =
                |end: &OpEnd| end.outcome == Outcome::NotAllowed && end.message.contains(key);
            assert!(refused.puts.iter().all(told), "{refused:?}");
            let told = |read: &Result<_, ReadError>| match read {
                Err(ReadError::NotAllowed(why)) => why.contains(key),
                _ => false,
            };
            assert!(refused.reads.iter().all(told), "{refused:?}");
        }
    }
}
