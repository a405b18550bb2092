//! Errands: a client's request goes to the thread that carries it out, the puts come back to the shard, and the
//! outcome becomes the client's answer.

use std::sync::Arc;
use std::time::Instant;

use pvwire_schema::types::Outcome;

use super::{Run, ShardHandle};
use crate::fanout::control::ClientId;
use crate::fanout::dialogue::{Errand, Ran, ReadError, Respond};
use crate::fanout::encoding::Encoding;
use crate::ingest::OpEnd;
use crate::limits::requests::{RequestBudget, TooManyNames};
use crate::session::errand::{Asker, Order, Puts};
use crate::session::operation::Operation;
use crate::session::socket::Broken;

impl Run {
    /// Sends out a client's errand.
    pub(super) fn send_out(
        &mut self,
        place: usize,
        errand: Errand,
        respond: Respond,
    ) -> Result<(), Broken> {
        let now = Instant::now();
        let client = &mut self.clients[place];
        if !client.budget.has_room() {
            return Err(Broken::TooManyWaiting);
        }
        client.budget.open()?;
        // The puts count when they are carried out; this counts those of all errands of the client.
        let within = errand.puts.iter().all(|_| client.budget.take_put(now));
        let names = errand.puts.len() + errand.reads.len();
        let refusal = if within {
            let named = client.budget.take_names(names, now);
            let refused = |why: TooManyNames| OpEnd::failed(Outcome::NotAllowed, why.to_string());
            named.err().map(refused)
        } else {
            Some(OpEnd::too_fast())
        };
        let (id, number) = (client.id, errand.number);
        if let Some(end) = refusal {
            let too_fast = || Err(ReadError::NotAllowed(end.message.clone()));
            let refused = Ran {
                puts: vec![end.clone(); errand.puts.len()],
                reads: errand.reads.iter().map(|_| too_fast()).collect(),
            };
            let share = client.owner.cpu().clone();
            let handle = ShardHandle::new(Arc::clone(&self.mailbox));
            handle.respond(&self.context.pool, &share, (id, number), respond, refused);
            return Ok(());
        }
        let asker = Asker {
            peer: Arc::clone(&client.peer),
            identity: Arc::clone(&client.identity),
            owner: Arc::clone(&client.owner),
        };
        let caller = client.caller.clone();
        let order = Order {
            client: id,
            asker,
            caller,
            errand,
            respond,
        };
        // The receiver is gone only when the relay ends.
        let _ = self.context.errands.send(order);
        Ok(())
    }

    /// Carries out the puts of an errand.
    pub(super) fn put_for(&mut self, puts: Puts) {
        let now = Instant::now();
        let Puts {
            client,
            asker,
            actions,
            ends,
        } = puts;
        let mut budget = RequestBudget::new(self.context.limits.requests, now);
        let id = client.unwrap_or_else(|| ClientId {
            shard: self.number,
            index: usize::MAX,
            generation: 0,
            encoding: Encoding::default(),
        });
        for (at, action) in (0..).zip(actions) {
            let Asker {
                peer,
                identity,
                owner,
            } = &asker;
            let mut operation = Operation::new((id, at), peer, identity, owner, action, now)
                .reporting_to(ends.clone());
            if !budget.take_put(now) {
                operation.refuse_too_fast();
            }
            let ended = self.operations.begin(operation);
            self.tell(ended.into_iter().collect());
        }
    }

    /// An errand has been carried out: answers the client, if it is still connected.
    pub(super) fn came_back(&mut self, id: ClientId, number: u32, response: &[u8]) {
        if !self.serves(id) {
            return;
        }
        let client = &mut self.clients[id.index];
        client.budget.answered();
        let with = client.conversation.as_mut();
        let Some(frame) = with.and_then(|with| with.dialogue.ran(number, response)) else {
            return;
        };
        let said = match client.owner.charge(frame.length()) {
            Ok(charge) => client.socket.answer(&Arc::new(frame.charged(charge))),
            Err(_) => Err(Broken::TooManyWaiting),
        };
        self.settle(id.index, said.map(|()| false));
    }
}
