//! Questions of clients to services of the relay, and the pages of their answers.
//!
//! A shard passes a client's question on and sends the pages, one at a time. The services implement [`Services`].

use std::fmt;

use pvwire_schema::types::Outcome;

use crate::access::caller::Caller;

/// Questions of one client that may wait for their last pages at the same time.
pub const MAX_OPEN_QUESTIONS: usize = 8;

/// A question to a service.
#[derive(Clone)]
pub struct Question {
    /// Who asks.
    pub caller: Caller,
    /// Name of the service.
    pub service: String,
    /// In the form that the service defines.
    pub body: Vec<u8>,
}

/// One page of an answer, and what makes the next one.
pub struct Page {
    /// At most `MAX_PAGE_BYTES`.
    pub content: Vec<u8>,
    /// `None` if this is the last page.
    pub rest: Option<Box<dyn Pages>>,
}

/// Why there is no answer, or no further page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// For programs.
    pub outcome: Outcome,
    /// For users.
    pub message: String,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { outcome, message }
    }
}

/// The pages of an answer that are not made yet. Dropping them ends the answer.
pub trait Pages: Send {
    /// Makes the next page. Called on a thread that computes for clients, in the client's turn and charged to its CPU
    /// budget: a page that may take more than some milliseconds is made in several calls, those before the last with
    /// fewer or no entries. A service that waits for something keeps `reply` meanwhile instead of the thread.
    fn next(self: Box<Self>, reply: Reply);
}

/// All services of the relay.
pub trait Services: Send + Sync {
    /// Answers a question with the first page, or says why it is missing. Called like [`Pages::next`].
    fn ask(&self, question: &Question, reply: Reply);
}

/// Receives a page.
type Give = Box<dyn FnOnce(Result<Page, Problem>) + Send>;

/// Where a page goes. A reply that is dropped without a page reports that the service failed.
pub struct Reply(Option<Give>);

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl Reply {
    /// A reply that passes the page to `give`.
    pub fn new(give: impl FnOnce(Result<Page, Problem>) + Send + 'static) -> Self {
        Self(Some(Box::new(give)))
    }

    /// Gives the page.
    pub fn give(mut self, page: Result<Page, Problem>) {
        if let Some(give) = self.0.take() {
            give(page);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            let why = "the relay failed to answer; see its log";
            give(Err(Problem::new(Outcome::Failed, why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn reply_that_is_dropped_or_whose_service_panics_reports_a_failure_once() {
        let (sent, got) = channel();
        let reply = || {
            let sent = sent.clone();
            Reply::new(move |page| sent.send(page.map(|page| page.content)).unwrap())
        };
        let page = Page {
            content: vec![1],
            rest: None,
        };
        reply().give(Ok(page));
        drop(reply());
        let failing = reply();
        let panics = std::panic::AssertUnwindSafe(move || {
            let _held = failing;
            panic!("a fault of a service");
        });
        std::panic::catch_unwind(panics).unwrap_err();
        drop(sent);
        let outcomes: Vec<_> = (got.iter().skip(1))
            .map(|page| page.unwrap_err().outcome)
            .collect();
        assert_eq!(outcomes, [Outcome::Failed, Outcome::Failed]);
    }
}
