//! Requests that wait for their answers. Each gets exactly one outcome.

use std::collections::{BTreeSet, HashMap};
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
    /// Of all requests, with their numbers.
    deadlines: BTreeSet<(Instant, u64)>,
}

impl Open {
    fn remove(&mut self, number: u64) -> Option<Request> {
        let request = self.requests.remove(&number)?;
        self.deadlines.remove(&(request.deadline, number));
        Some(request)
    }
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
        open.deadlines.insert((request.deadline, number));
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

    /// Whether a request was sent and has no outcome.
    pub(super) fn is_sent(&self, number: u64) -> bool {
        let open = self.lock();
        open.requests
            .get(&number)
            .is_some_and(|request| request.sent)
    }

    /// Gives a request its outcome, unless it has one.
    pub(super) fn end(&self, number: u64, outcome: Result<Bytes, AskError>) {
        let request = self.lock().remove(number);
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
        let ended = open.requests.iter().filter(|(_, request)| which(request));
        let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        let ended: Vec<Request> = ended
            .into_iter()
            .filter_map(|number| open.remove(number))
            .collect();
        // An answer may open another request.
        drop(open);
        for request in ended {
            (request.answer)(Err(error));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let open = self.lock();
        open.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends the requests whose time is over; each says whether it was sent.
    fn end_overdue(&self, now: Instant) {
        let mut open = self.lock();
        let mut ended = Vec::new();
        while let Some((_, number)) = open.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            ended.extend(open.remove(number));
        }
        // An answer may open another request.
        drop(open);
        for request in ended {
            let error = if request.sent {
                AskError::TimedOut
            } else {
                AskError::NotSent
            };
            (request.answer)(Err(error));
        }
    }

    /// Ends requests whose time is over, for as long as it is polled.
    pub(super) async fn expire(&self) {
        loop {
            let next = self.next_deadline();
            let opened = self.opened.notified();
            match next {
                None => opened.await,
                Some(deadline) => {
                    let timed_out = tokio::time::timeout_at(deadline.into(), opened)
                        .await
                        .is_err();
                    if timed_out {
                        self.end_overdue(Instant::now());
                    }
                }
            }
        }
    }
}
