//! Requests: gets, puts and calls of procedures, and the ways in which they end.

use std::time::Duration;

use super::element::ElementType;
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

/// Receives the result of an operation, once: what was fetched or answered, or after a put what the field
/// holds if that isn't what was put. Dropped without a call it reports [`OpError::Disconnected`].
pub(super) struct Completion(Option<Done>);

type Done = Box<dyn FnOnce(Result<Option<Node>, OpError>) + Send>;

impl Completion {
    pub(super) fn new(done: impl FnOnce(Result<Option<Node>, OpError>) + Send + 'static) -> Self {
        Self(Some(Box::new(done)))
    }

    pub(super) fn complete(mut self, result: Result<Option<Node>, OpError>) {
        self.call(result);
    }

    fn call(&mut self, result: Result<Option<Node>, OpError>) {
        if let Some(done) = self.0.take() {
            guard("completion", || done(result));
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.call(Err(OpError::Disconnected));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
