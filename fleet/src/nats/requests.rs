//! Requests that wait for their answers. Each gets exactly one outcome.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::bus::{Answer, AskError};

/// The requests of one member.
#[derive(Default)]
pub(super) struct Requests {
    open: Mutex<Open>,
    /// A request came that may end before all others.
    opened: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    requests: HashMap<u64, Request>,
}

struct Request {
    deadline: Instant,
    sent: bool,
    answer: Answer,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("no holder of the lock panics")
    }

    /// Opens a request, and returns its number.
    pub(super) fn open(&self, timeout: Duration, answer: Answer) -> u64 {
        let request = Request {
            deadline: Instant::now() + timeout,
            sent: false,
            answer,
        };
        let mut open = self.lock();
        open.next += 1;
        let number = open.next;
        open.requests.insert(number, request);
        drop(open);
        self.opened.notify_one();
        number
    }

    /// Marks a request as sent. False when its outcome is known already: it must not be sent any more.
    pub(super) fn send(&self, number: u64) -> bool {
        let mut open = self.lock();
        let request = open.requests.get_mut(&number);
        request.map(|request| request.sent = true).is_some()
    }

    /// Gives a request its outcome, unless it has one.
    pub(super) fn end(&self, number: u64, outcome: Result<Bytes, AskError>) {
        let request = self.lock().requests.remove(&number);
        if let Some(request) = request {
            (request.answer)(outcome);
        }
    }

    /// The connection is lost: no answer will come.
    pub(super) fn end_sent(&self) {
        self.end_those(|request| request.sent, AskError::Broken);
    }

    /// The bus ends.
    pub(super) fn end_all(&self) {
        self.end_those(|request| request.sent, AskError::Broken);
        self.end_those(|_| true, AskError::NotSent);
    }

    fn end_those(&self, which: impl Fn(&Request) -> bool, error: AskError) {
        let mut open = self.lock();
        let ended = open.requests.extract_if(|_, request| which(request));
        let ended: Vec<Request> = ended.map(|(_, request)| request).collect();
        // An answer may open another request.
        drop(open);
        for request in ended {
            (request.answer)(Err(error));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let open = self.lock();
        open.requests.values().map(|request| request.deadline).min()
    }

    /// Ends requests whose time is over, for as long as it is polled.
    pub(super) async fn expire(&self) {
        loop {
            let next = self.next_deadline();
            let opened = self.opened.notified();
            match next {
                None => opened.await,
                Some(deadline) => {
                    // A request whose time-out is over says whether it was sent.
                    let timed_out = tokio::time::timeout_at(deadline.into(), opened)
                        .await
                        .is_err();
                    if timed_out {
                        let now = Instant::now();
                        self.end_those(
                            |request| request.deadline <= now && request.sent,
                            AskError::TimedOut,
                        );
                        self.end_those(|request| request.deadline <= now, AskError::NotSent);
                    }
                }
            }
        }
    }
}
