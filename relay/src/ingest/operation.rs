//! Operations of sources: puts, calls, their outcomes, and the condition of a put.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pvwire_epics::{Phase, Ticket, pva};
use pvwire_schema::limits::TOO_FAST;
use pvwire_schema::types::{Expected, Node, NodeValue, Outcome, PutValue};

/// The update of a put may arrive this long after its answer.
const ECHO: Duration = Duration::from_secs(1);

/// The client for which a relay asks another one for an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnBehalf {
    /// Its user; without one it is anonymous.
    pub user: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Its address, as the relay that it is connected to knows it.
    pub address: String,
    /// Origin of its page; empty for programs.
    pub origin: String,
}

/// A value on its way to a PV.
#[derive(Debug)]
pub struct Put {
    /// What to write.
    pub value: PutValue,
    /// Answer only when the record has finished processing.
    pub wait: bool,
    /// Write only if this is still the PV's newest update.
    pub expected: Option<Expected>,
    /// The user that the IOC sees; without one it sees the relay.
    pub user: Option<String>,
    /// Time limit of the answer.
    pub timeout: Duration,
    /// Who asks, if another relay may carry it out.
    pub by: Option<Box<OnBehalf>>,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OpEnd {
    /// For programs.
    pub outcome: Outcome,
    /// For users; empty if it was done as requested.
    pub message: String,
    /// The answer of a service, or the value of the PV after a put if it differs from the one put.
    pub result: Option<Node>,
}

/// Maximum number of elements of an array that is returned after a put.
const MOST_HELD: usize = 4_096;

impl OpEnd {
    /// Its client asks for more than `max_puts_per_s`.
    #[must_use]
    pub fn too_fast() -> Self {
        let why = format!("{TOO_FAST}: ask more slowly (max_puts_per_s)");
        Self::failed(Outcome::NotAllowed, why)
    }

    /// The server has accepted it.
    pub const DONE: Self = Self {
        outcome: Outcome::Done,
        message: String::new(),
        result: None,
    };

    /// The server has accepted a put, and the PV holds another value now.
    pub fn holds(value: Node) -> Self {
        let message = match &value.value {
            NodeValue::Number(_, number) => format!("the PV now holds {number}"),
            NodeValue::Int64(integer) => format!("the PV now holds {integer}"),
            NodeValue::UInt64(integer) => format!("the PV now holds {integer}"),
            NodeValue::Text(text) => {
                format!("the PV now holds {text:?}, {} bytes of text", text.len())
            }
            NodeValue::Array(array) => {
                format!("the PV now holds other elements: {}", array.count)
            }
            NodeValue::TextArray(texts) => {
                format!("the PV now holds other strings: {}", texts.len())
            }
            _ => "the PV now holds something else".to_owned(),
        };
        let told = match &value.value {
            NodeValue::Array(array) => array.count as usize <= MOST_HELD,
            NodeValue::TextArray(texts) => texts.len() <= MOST_HELD,
            _ => true,
        };
        Self {
            message,
            result: told.then_some(value),
            ..Self::DONE
        }
    }

    /// It was not done, or the outcome is unknown.
    pub fn failed(outcome: Outcome, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            outcome,
            message,
            result: None,
        }
    }
}

/// A call of a service.
#[derive(Debug)]
pub struct Call {
    /// Names and values.
    pub arguments: Vec<(String, PutValue)>,
    /// Time limit of the service.
    pub timeout: Duration,
    /// The user that the service sees; without one it sees the relay.
    pub user: Option<String>,
    /// Who asks, if another relay may carry it out.
    pub by: Option<Box<OnBehalf>>,
}

/// Called once with the outcome of an operation, on any thread. It returns quickly and doesn't
/// block.
pub type OpDone = Box<dyn FnOnce(OpEnd) + Send>;

/// Keeps a user's context, or something in it, from being closed.
pub(super) type InUse = Arc<()>;

/// Ticket of an operation, by which it can be cancelled. Clones belong to the same operation.
#[derive(Clone, Debug, Default)]
pub struct OpTicket(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    ticket: Ticket,
    /// What the operation keeps open.
    uses: Mutex<Vec<InUse>>,
    /// Ends a call at its service; empty until the call has begun.
    stop: OnceLock<pva::Stop>,
}

impl OpTicket {
    /// The ticket of an operation that has ended.
    #[must_use]
    pub fn ended() -> Self {
        let ended = Self::default();
        ended.0.ticket.begin();
        ended
    }

    /// Cancels the operation. Returns true if nothing was sent; then nothing will be sent, and
    /// there is no outcome. A call that was sent is stopped at the service if possible, and has an
    /// outcome.
    #[must_use]
    pub fn cancel(&self) -> bool {
        let is_cancelled = self.0.ticket.cancel();
        if is_cancelled {
            self.release();
        }
        if let Some(stop) = self.0.stop.get() {
            stop.stop();
        }
        is_cancelled
    }

    /// Whether it was cancelled before anything was sent.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.ticket.phase() == Phase::Cancelled
    }

    /// Another relay is asked for it now. Returns false if it was cancelled before.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.0.ticket.begin()
    }

    /// The part by which the library asks whether to send the operation.
    pub(super) fn of_library(&self) -> Ticket {
        self.0.ticket.clone()
    }

    /// The call has begun.
    pub(super) fn called(&self, stop: pva::Stop) {
        let _ = self.0.stop.set(stop);
    }

    /// Keeps contexts and channels open until the operation has ended. Returns false if it was
    /// cancelled before.
    pub(super) fn keep(&self, uses: Vec<InUse>) -> bool {
        let mut kept = self.0.uses.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, because a cancellation releases what is kept.
        if self.0.ticket.phase() == Phase::Cancelled {
            return false;
        }
        *kept = uses;
        true
    }

    /// The operation has ended: closes what it kept open.
    pub(super) fn release(&self) {
        let mut kept = self.0.uses.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
    }
}

/// Checks the condition of puts that name the update that they expect.
///
/// Two clients that saw the same update may both put on the condition that it is still the newest.
/// The update of the first put takes a moment to arrive. Until then the second put would find
/// nothing changed, so puts are remembered here.
#[derive(Debug, Default)]
pub struct LastPut(Mutex<Option<Begun>>);

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Expected,
    ended: Option<Instant>,
}

impl LastPut {
    /// Whether a put may be sent while `at` is the PV's newest update. If so, it is the last put.
    pub fn begin(&self, at: Expected, expected: Option<Expected>, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(expected) = expected {
            let recent = |begun: &Begun| {
                begun.at == at
                    && begun
                        .ended
                        .is_none_or(|ended| now.saturating_duration_since(ended) < ECHO)
            };
            if expected != at || last.as_ref().is_some_and(recent) {
                return false;
            }
        }
        *last = Some(Begun { at, ended: None });
        true
    }

    /// The last put was answered. `written`: it may have written something.
    pub fn end(&self, written: bool, now: Instant) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_mut() {
            Some(begun) if written => begun.ended = Some(now),
            _ => *last = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Expected = Expected {
        sequence: 7,
        epoch: 2,
    };
    const NEXT: Expected = Expected {
        sequence: 8,
        epoch: 2,
    };

    #[test]
    fn second_of_two_puts_on_the_same_update_is_refused() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, Some(AT), now));
        assert!(!last.begin(AT, Some(AT), now), "the first is under way");
        last.end(true, now);
        assert!(!last.begin(AT, Some(AT), now), "its update isn't here yet");
        assert!(!last.begin(NEXT, Some(AT), now), "now it is");
        assert!(last.begin(NEXT, Some(NEXT), now));
    }

    #[test]
    fn put_that_wrote_nothing_does_not_block_others() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, Some(AT), now));
        last.end(false, now);
        assert!(last.begin(AT, Some(AT), now));
    }

    #[test]
    fn put_that_changed_nothing_blocks_others_for_a_moment_only() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, None, now));
        last.end(true, now);
        assert!(last.begin(AT, Some(AT), now + ECHO));
    }

    #[test]
    fn put_is_either_cancelled_or_sent() {
        let (ticket, context) = (OpTicket::default(), InUse::default());
        assert!(ticket.keep(vec![Arc::clone(&context)]));
        assert!(ticket.cancel());
        assert_eq!(Arc::strong_count(&context), 1);
        assert!(!ticket.of_library().begin());
        assert!(!ticket.keep(vec![Arc::clone(&context)]));
        let sent = OpTicket::default();
        assert!(sent.of_library().begin());
        assert!(sent.keep(vec![Arc::clone(&context)]));
        assert!(!sent.cancel());
        assert_eq!(Arc::strong_count(&context), 2);
        sent.release();
        assert_eq!(Arc::strong_count(&context), 1);
    }

    #[test]
    fn put_without_a_condition_is_never_refused() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, None, now));
        assert!(last.begin(AT, None, now));
    }
}
