//! How are values fetched and put and procedures called, and how does each end, once?

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::command::Command;
use super::event::ElementType;
use super::node::Node;
use crate::guard::guard;

/// A value to put, or an argument of a procedure.
///
/// It need not be of the PV's type but must fit it exactly: 300 fits no 8-bit integer, and 2.5 no
/// integer at all. For an enumeration it is the index or the label of a choice.
#[derive(Clone, Debug, PartialEq)]
pub enum PutValue {
    /// Any number.
    Number(f64),
    /// Integer.
    Int64(i64),
    /// Unsigned integer.
    UInt64(u64),
    /// Boolean.
    Boolean(bool),
    /// String, the label of a choice, or a number in decimal.
    Text(String),
    /// Array of numbers or booleans.
    Array {
        /// Type of an element.
        element: ElementType,
        /// The elements in this machine's byte order.
        bytes: Vec<u8>,
    },
    /// Array of strings.
    TextArray(Vec<String>),
}

impl PutValue {
    /// Whether C++ can read it.
    pub(super) fn check(&self) -> Result<(), OpError> {
        let Self::Array { element, bytes } = self else {
            return Ok(());
        };
        let size = element.element_bytes();
        let whole = size != 0 && bytes.len() % size == 0;
        let flags = *element != ElementType::Bool || bytes.iter().all(|&byte| byte <= 1);
        if whole && flags {
            Ok(())
        } else {
            Err(OpError::Invalid(format!(
                "{} bytes are no array of {element:?}",
                bytes.len()
            )))
        }
    }
}

/// Asked right before a value is sent, from the thread of the context: whether it still is to be.
pub type Gate = Box<dyn Fn() -> bool + Send + Sync>;

/// How a value is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOptions {
    /// Whether it is done only when the record has been processed, and all that this causes. Else
    /// it is done when the value is written.
    pub wait: bool,
    /// When to give up.
    pub timeout: Duration,
}

/// Why an operation did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The server was not there in time, or is no longer wanted: nothing was sent.
    #[error("not connected; nothing was sent")]
    NotConnected,
    /// The connection broke, or the client was dropped. The server may have done it or not.
    #[error("disconnected; unknown whether it was done")]
    Disconnected,
    /// No answer in time. The server may have done it, or do it later.
    #[error("timed out; unknown whether it was done")]
    TimedOut,
    /// The server refused; its reason.
    #[error("the server refused: {0}")]
    Remote(String),
    /// Nothing was sent, because the value or name is wrong for the PV; why.
    #[error("{0}")]
    Invalid(String),
}

/// What is to be done.
pub(super) enum Request {
    Get,
    Put {
        /// Names on the way to the field, with dots between.
        field: String,
        value: PutValue,
        wait: bool,
    },
    Call {
        arguments: Vec<(String, PutValue)>,
    },
}

/// Called with what was fetched or answered; of a put, what the field holds if it isn't what was put.
pub(super) type Completion = Box<dyn FnOnce(Result<Option<Node>, OpError>) + Send>;

/// What the callback of one operation and the pva-cmd thread share: the completion, until one of
/// them takes it.
pub(super) struct OperationState {
    id: u64,
    completion: Mutex<Option<Completion>>,
    gate: Option<Gate>,
    /// Whether the server may know of it; of one that changes nothing in any case.
    sent: AtomicBool,
    commands: Sender<Command>,
}

impl OperationState {
    pub(super) fn new(
        id: u64,
        completion: Completion,
        gate: Option<Gate>,
        changes: bool,
        commands: Sender<Command>,
    ) -> Self {
        Self {
            id,
            completion: Mutex::new(Some(completion)),
            gate,
            sent: AtomicBool::new(!changes),
            commands,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// It is about to be sent: whether it is to be.
    pub(super) fn begin_to_send(&self) -> bool {
        let goes = self.gate.as_ref().is_none_or(|gate| gate());
        if goes {
            self.sent.store(true, Ordering::Release);
        }
        goes
    }

    /// No answer came in time. The operation is cancelled already.
    pub(super) fn late(&self) {
        let sent = self.sent.load(Ordering::Acquire);
        self.complete(Err(if sent {
            OpError::TimedOut
        } else {
            OpError::NotConnected
        }));
    }

    /// Nobody wants it any more. The operation is cancelled already.
    pub(super) fn unwanted(&self) {
        let sent = self.sent.load(Ordering::Acquire);
        self.complete(Err(if sent {
            OpError::Disconnected
        } else {
            OpError::NotConnected
        }));
    }

    /// The operation ended in this way, if it has not ended before.
    pub(super) fn complete(&self, result: Result<Option<Node>, OpError>) {
        let completion = match self.completion.lock() {
            Ok(mut completion) => completion.take(),
            Err(_) => None,
        };
        if let Some(completion) = completion {
            guard("completion", || completion(result));
            // Fails when the client is gone, which ends all operations.
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
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn operation_completes_once_also_when_it_is_dropped() {
        let (commands, _received) = channel();
        let results = Arc::new(Mutex::new(Vec::new()));
        let state = |id| {
            let results = Arc::clone(&results);
            let completion: Completion =
                Box::new(move |result| results.lock().unwrap().push((id, result)));
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

    #[test]
    fn array_that_is_not_whole_is_refused() {
        let array = |element, bytes| PutValue::Array { element, bytes }.check();

        assert_eq!(array(ElementType::Int16, vec![0; 4]), Ok(()));
        assert_eq!(array(ElementType::Int16, vec![]), Ok(()));
        assert!(array(ElementType::Int16, vec![0; 3]).is_err());
        assert!(array(ElementType::Text, vec![0; 3]).is_err());
        assert!(array(ElementType::Bool, vec![0, 1, 2]).is_err());
    }
}
