//! What does an operation ask of a source, and when is it too late for a put?

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pvwire_schema::types::{Expected, Node, NodeValue, Outcome, PutValue};

/// After a put was answered, its own update may take so long to arrive.
const ECHO: Duration = Duration::from_secs(1);

/// A value on its way to a PV.
#[derive(Debug)]
pub struct Put {
    /// What to write.
    pub value: PutValue,
    /// Answer only when the record has finished processing.
    pub wait: bool,
    /// Write only if the PV is still at this update.
    pub expected: Option<Expected>,
    /// As whom the IOC is to see it; without a name, as the relay.
    pub user: Option<String>,
    /// After how long nobody waits for the answer any more.
    pub timeout: Duration,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OpEnd {
    /// For programs.
    pub outcome: Outcome,
    /// For people; empty when it is done as asked.
    pub message: String,
    /// What a service answered, or what a PV holds after a put if that isn't what was put.
    pub result: Option<Node>,
}

/// Arrays of more elements aren't told after a put.
const MOST_HELD: usize = 4_096;

impl OpEnd {
    /// The server took it.
    pub const DONE: Self = Self {
        outcome: Outcome::Done,
        message: String::new(),
        result: None,
    };

    /// The server took a put, and the PV holds something else now.
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

    /// It is not done, or nobody knows.
    pub fn failed(outcome: Outcome, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            outcome,
            message,
            result: None,
        }
    }
}

/// A service to be called.
#[derive(Debug)]
pub struct Call {
    /// By name.
    pub arguments: Vec<(String, PutValue)>,
    /// How long the service may take.
    pub timeout: Duration,
    /// As whom the service is to see it; without a name, as the relay.
    pub user: Option<String>,
}

/// Learns what became of an operation, once, from any thread. It is quick and waits for nothing.
pub type OpDone = Box<dyn FnOnce(OpEnd) + Send>;

/// An operation that may still be stopped.
pub trait OpTicket: Send {
    /// Whether nothing was sent yet; then nothing will be, and no outcome is told. A call that was sent
    /// is ended at the service if it can be, and still told.
    fn cancel(&self) -> bool;
}

/// Ticket of an operation that is on its way or has ended.
#[derive(Debug)]
pub struct Sent;

impl OpTicket for Sent {
    fn cancel(&self) -> bool {
        false
    }
}

/// Tells puts that must not overtake each other when they are too late.
///
/// Two clients that saw the same update may both ask to write only if it is still the last one. The
/// first put's own update needs a moment to come back, and until then the second would find nothing
/// changed.
#[derive(Debug, Default)]
pub struct LastPut(Mutex<Option<Begun>>);

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Expected,
    ended: Option<Instant>,
}

impl LastPut {
    /// Whether a put may be sent while the PV is `at` an update; it is then the last one.
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

    /// The last put that began was answered; `written` unless nothing was.
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
    fn of_two_that_saw_the_same_update_one_is_too_late() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, Some(AT), now));
        assert!(!last.begin(AT, Some(AT), now), "the first is under way");
        last.end(true, now);
        assert!(!last.begin(AT, Some(AT), now), "its update isn't here yet");
        assert!(!last.begin(NEXT, Some(AT), now), "now it is");
        assert!(last.begin(NEXT, Some(NEXT), now));
    }

    #[test]
    fn put_that_wrote_nothing_is_in_nobodys_way() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, Some(AT), now));
        last.end(false, now);
        assert!(last.begin(AT, Some(AT), now));
    }

    #[test]
    fn put_that_changed_nothing_is_forgotten_after_a_moment() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, None, now));
        last.end(true, now);
        assert!(last.begin(AT, Some(AT), now + ECHO));
    }

    #[test]
    fn put_without_a_condition_is_never_too_late() {
        let (last, now) = (LastPut::default(), Instant::now());
        assert!(last.begin(AT, None, now));
        assert!(last.begin(AT, None, now));
    }
}
