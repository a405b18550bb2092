//! A put: its value, its errors, and the job that waits to be sent.

use std::fmt;

use super::event::NativeType;
use crate::ticket::{Phase, Ticket};

/// A value to write; it is converted to the channel's own type when it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum PutValue {
    /// A number, or the index of a choice.
    Number(f64),
    /// A string, the label of a choice, or a number as text.
    Text(String),
    /// An array of numbers.
    Numbers(Vec<f64>),
    /// An array of strings.
    Texts(Vec<String>),
    /// Acknowledges alarms of the channel's record up to a severity (`ACKS`).
    Acknowledged(u16),
    /// Whether alarms of the channel's record that are gone need to be acknowledged (`ACKT`).
    AcknowledgeGone(bool),
}

/// Why a value was not written, or why that is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// Nothing was written: the value doesn't fit the channel, for this reason.
    #[error("{0}")]
    BadValue(String),
    /// Nothing was written: the text is longer than a string of Channel Access.
    #[error("too long: {length} bytes, but a string of Channel Access has at most 39")]
    LongText {
        /// Bytes of the text.
        length: usize,
    },
    /// Nothing was written: the server grants no write access.
    #[error("the IOC gives no write access")]
    NoAccess,
    /// Nothing was written: the channel is not connected.
    #[error("not connected")]
    NotConnected,
    /// Nothing was written: the condition of the put was no longer met when it was about to be
    /// sent.
    #[error("the PV has changed since")]
    Changed,
    /// The server refused, and the channel holds another value afterwards; its reason.
    #[error("{0}")]
    Failed(String),
    /// The server reported a failure, but the channel holds the value or can't be read: it is unknown whether the
    /// value was written.
    #[error("{0}")]
    Unsure(String),
    /// The connection broke before the answer arrived: it is unknown whether the value was written.
    #[error("the connection broke before the IOC answered: it may have been written")]
    Interrupted,
}

/// Called when the put is about to be sent; returns whether to send it.
pub type Condition = Box<dyn FnOnce() -> bool + Send>;

/// The value of a channel when it was read after a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Type of an element.
    pub element: NativeType,
    /// Whether the channel is a scalar.
    pub scalar: bool,
    /// Number of elements.
    pub count: u32,
    /// The elements in this machine's byte order. A string has 40 bytes including a NUL.
    pub bytes: Vec<u8>,
}

/// Receives the result of a put, once, in a thread of libca or in the ca-cmd thread. After a
/// successful put the result is the channel's value, if that differs from the one put.
pub type Done = Box<dyn FnOnce(Result<Option<Held>, PutError>) + Send>;

/// A put on its way to the server.
pub(super) struct Job {
    pub(super) value: PutValue,
    /// Whether to answer only when the record has finished processing.
    pub(super) wait: bool,
    condition: Option<Condition>,
    ticket: Ticket,
    done: Option<Done>,
}

impl Job {
    pub(super) fn new(
        value: PutValue,
        wait: bool,
        ticket: Ticket,
        condition: Option<Condition>,
        done: Done,
    ) -> Self {
        Self {
            value,
            wait,
            condition,
            ticket,
            done: Some(done),
        }
    }

    /// Whether to send the put now. If not, `done` was called or dropped.
    pub(super) fn begin(&mut self) -> bool {
        if !self.ticket.begin() {
            self.done = None;
            return false;
        }
        if self.condition.take().is_some_and(|condition| !condition()) {
            self.finish(Err(PutError::Changed));
            return false;
        }
        true
    }

    /// Calls `done`, the first time only.
    pub(super) fn finish(&mut self, result: Result<Option<Held>, PutError>) {
        if let Some(done) = self.done.take() {
            done(result);
        }
    }
}

impl Drop for Job {
    /// A put that is dropped before it is sent was not written; for a sent one this is unknown.
    fn drop(&mut self) {
        match self.ticket.phase() {
            Phase::Waiting => self.finish(Err(PutError::NotConnected)),
            Phase::Sent => self.finish(Err(PutError::Interrupted)),
            Phase::Cancelled => {}
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("value", &self.value)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn result_is_told_once_however_a_put_ends() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let job = |condition: Option<Condition>| {
            let told = Arc::clone(&told);
            let done: Done = Box::new(move |result| told.lock().unwrap().push(result));
            let ticket = Ticket::default();
            let value = PutValue::Number(0.0);
            let job = Job::new(value, false, ticket.clone(), condition, done);
            (job, ticket)
        };
        let (mut finished, _) = job(None);
        assert!(finished.begin());
        finished.finish(Ok(None));
        drop(finished);
        let (mut sent, ticket) = job(None);
        assert!(sent.begin());
        assert!(!ticket.cancel(), "it is on its way");
        drop(sent);
        drop(job(None));
        let (mut changed, _) = job(Some(Box::new(|| false)));
        assert!(!changed.begin());
        drop(changed);
        let (mut cancelled, ticket) = job(None);
        assert!(ticket.cancel());
        assert!(!cancelled.begin());
        drop(cancelled);
        assert_eq!(
            *told.lock().unwrap(),
            [
                Ok(None),
                Err(PutError::Interrupted),
                Err(PutError::NotConnected),
                Err(PutError::Changed)
            ]
        );
    }
}
