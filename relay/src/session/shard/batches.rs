//! Batches: a client's request goes to the thread that carries it out, the puts come back to the shard, and the
//! outcome becomes the client's answer.

use std::sync::Arc;
use std::time::Instant;

use super::{Run, ShardHandle};
use crate::fanout::control::ClientId;
use crate::limits::requests::RequestBudget;
use crate::session::batch::{self, ClientBatch, Puts};
use crate::session::operation::Operation;
use crate::session::socket::Disconnect;
use crate::state::batch::{Batch, Respond};

impl Run {
    /// Sends out a client's batch.
    pub(super) fn send_batch(
        &mut self,
        slot: usize,
        batch: Batch,
        respond: Respond,
    ) -> Result<(), Disconnect> {
        let now = Instant::now();
        let client = &mut self.clients[slot];
        if !client.budget.has_room() {
            return Err(Disconnect::TooManyWaiting);
        }
        client.budget.open()?;
        let (id, number) = (client.id, batch.number);
        // The puts count when they are carried out; this counts those of all batches of the client.
        if let Err(refused) = batch::count(&batch, &mut client.budget, now) {
            let owner = Arc::clone(&client.caller.owner);
            let handle = ShardHandle::new(Arc::clone(&self.mailbox));
            handle.respond(&self.context.pool, &owner, (id, number), respond, refused);
            return Ok(());
        }
        let order = ClientBatch {
            client: id,
            caller: client.caller.clone(),
            batch,
            respond,
        };
        // The receiver is gone only when the relay ends.
        let _ = self.context.batches.send(order);
        Ok(())
    }

    /// Carries out the puts of a batch.
    pub(super) fn put_for(&mut self, puts: Puts) {
        let now = Instant::now();
        let Puts {
            client,
            caller,
            actions,
            within_limits,
            is_too_fast,
            ends,
        } = puts;
        let mut budget = RequestBudget::new(self.context.limits.requests, now);
        for (at, action) in (0..).zip(actions) {
            let mut operation =
                Operation::new((client, at), &caller, action, now).within_limits(within_limits);
            operation = operation.reporting_to(ends.clone());
            if is_too_fast || !budget.take_put(now) {
                operation.refuse_too_fast();
            }
            let ended = self.operations.begin(operation);
            self.tell(ended.into_iter().collect());
        }
    }

    /// A batch has been carried out: answers the client, if it is still connected.
    pub(super) fn batch_done(&mut self, id: ClientId, number: u32, response: &[u8]) {
        if !self.serves(id) {
            return;
        }
        let client = &mut self.clients[id.index];
        client.budget.answered();
        let with = client.door.as_mut();
        let Some(frame) = with.and_then(|with| with.session.batch_done(number, response)) else {
            return;
        };
        let said = match client.caller.owner.charge(frame.length()) {
            Ok(charge) => client.socket.answer(&Arc::new(frame.charged(charge))),
            Err(_) => Err(Disconnect::TooManyWaiting),
        };
        self.finish_turn(id.index, said.map(|()| false));
    }
}
