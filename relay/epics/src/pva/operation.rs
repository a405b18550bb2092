//! A get, put or call in progress: the state that its callback and the pva-cmd thread share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::command::Command;
use super::node::Node;
use super::request::{Completion, Gate, OpError};
use crate::command_thread::Commands;

/// State shared by the callback of one operation and the pva-cmd thread: the completion, until one
/// of them takes it.
pub(super) struct OperationState {
    id: u64,
    completion: Mutex<Option<Completion>>,
    gate: Option<Gate>,
    /// Whether the request may have reached the server; always true for an operation without side
    /// effects.
    sent: AtomicBool,
    commands: Commands<Command>,
}

impl OperationState {
    pub(super) fn new(
        id: u64,
        completion: Completion,
        gate: Option<Gate>,
        changes: bool,
        commands: Commands<Command>,
    ) -> Self {
        Self {
            id,
            completion: Mutex::new(Some(completion)),
            gate,
            sent: AtomicBool::new(!changes),
            commands,
        }
    }

    /// Returns whether to send the operation, which is about to be sent.
    pub(super) fn begin_to_send(&self) -> bool {
        let goes = self.gate.as_ref().is_none_or(|gate| gate());
        if goes {
            self.sent.store(true, Ordering::Release);
        }
        goes
    }

    /// No answer arrived in time. The operation is already cancelled.
    pub(super) fn late(&self) {
        let sent = self.sent.load(Ordering::Acquire);
        self.complete(Err(if sent {
            OpError::TimedOut
        } else {
            OpError::NotConnected
        }));
    }

    /// The caller gave it up. The operation is already cancelled.
    pub(super) fn given_up(&self) {
        let sent = self.sent.load(Ordering::Acquire);
        self.complete(Err(if sent {
            OpError::Disconnected
        } else {
            OpError::NotConnected
        }));
    }

    /// The operation ended with this result, unless it had ended before.
    pub(super) fn complete(&self, result: Result<Option<Node>, OpError>) {
        let completion = match self.completion.lock() {
            Ok(mut completion) => completion.take(),
            Err(_) => None,
        };
        if let Some(completion) = completion {
            completion.complete(result);
            // Fails if the client was dropped, which ends all operations.
            let _ = self.commands.send(Command::Done(self.id));
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
        let (commands, _received) = Commands::for_test();
        let results = Arc::new(Mutex::new(Vec::new()));
        let state = |id| {
            let results = Arc::clone(&results);
            let completion =
                Completion::new(move |result| results.lock().unwrap().push((id, result)));
            OperationState::new(id, completion, None, true, commands.clone())
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
