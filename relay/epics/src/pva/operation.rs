//! A get, put or call in progress: the state that its callback and the pva-cmd thread share.

use std::sync::{Mutex, PoisonError};

use super::node::Node;
use super::request::OpError;
use crate::ticket::{Phase, Ticket};

/// Receives the result of an operation, once: the fetched value or the answer; after a put the
/// field's value if that differs from the one put.
pub(super) type Done = Box<dyn FnOnce(Result<Option<Node>, OpError>) + Send>;

/// State of one operation. The client, the callback of the operation and the pva-cmd thread share
/// it; one of them reports the result. If it is dropped without a result, it reports
/// [`OpError::Disconnected`].
pub(super) struct OperationState {
    done: Mutex<Option<Done>>,
    /// Shows whether the request may have reached the server. An operation without side effects
    /// counts as sent from the start.
    ticket: Ticket,
}

impl OperationState {
    pub(super) fn new(ticket: Ticket, done: Done) -> Self {
        let done = Mutex::new(Some(done));
        Self { done, ticket }
    }

    /// Returns whether to send the operation, which is about to be sent.
    pub(super) fn begin_to_send(&self) -> bool {
        self.ticket.begin()
    }

    /// No answer arrived in time. The operation is already cancelled.
    pub(super) fn late(&self) {
        self.complete(Err(self.unless_sent(OpError::TimedOut)));
    }

    /// The caller gave it up. The operation is already cancelled.
    pub(super) fn given_up(&self) {
        self.complete(Err(self.unless_sent(OpError::Disconnected)));
    }

    fn unless_sent(&self, error: OpError) -> OpError {
        match self.ticket.phase() {
            Phase::Sent => error,
            Phase::Waiting | Phase::Cancelled => OpError::NotConnected,
        }
    }

    /// The operation ended with this result, unless it had ended before.
    pub(super) fn complete(&self, result: Result<Option<Node>, OpError>) {
        let done = self
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(done) = done {
            done(result);
        }
    }
}

impl Drop for OperationState {
    fn drop(&mut self) {
        self.complete(Err(OpError::Disconnected));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn operation_completes_once_also_when_it_is_dropped() {
        let results = Arc::new(Mutex::new(Vec::new()));
        let state = |id| {
            let results = Arc::clone(&results);
            let done = Box::new(move |result| results.lock().unwrap().push((id, result)));
            OperationState::new(Ticket::default(), done)
        };

        let answered = state(1);
        answered.complete(Ok(None));
        answered.complete(Err(OpError::TimedOut));
        drop(answered);
        drop(state(2));

        assert_eq!(
            *results.lock().unwrap(),
            [(1, Ok(None)), (2, Err(OpError::Disconnected))]
        );
    }
}
