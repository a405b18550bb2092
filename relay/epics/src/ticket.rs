//! A request that waits to be sent and may be cancelled until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Decides between sending a request and cancelling it: the first of the two wins. Clones belong to
/// the same request.
#[derive(Clone, Debug, Default)]
pub struct Ticket(Arc<AtomicU8>);

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Neither sent nor cancelled.
    Waiting,
    /// Sent, or about to be.
    Sent,
    /// Cancelled; it will never be sent.
    Cancelled,
}

impl Ticket {
    /// The request is about to be sent; returns false if it must not be sent, because it was
    /// cancelled or sent before.
    pub fn begin(&self) -> bool {
        self.leave_waiting_for(Phase::Sent)
    }

    /// Cancels the request; returns false if it was sent or cancelled before.
    pub fn cancel(&self) -> bool {
        self.leave_waiting_for(Phase::Cancelled)
    }

    /// The current state of the request.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Waiting,
            1 => Phase::Sent,
            _ => Phase::Cancelled,
        }
    }

    fn leave_waiting_for(&self, next: Phase) -> bool {
        let waiting = Phase::Waiting as u8;
        (self.0)
            .compare_exchange(waiting, next as u8, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_sent_or_cancelled_and_never_both() {
        let (sent, cancelled) = (Ticket::default(), Ticket::default());
        assert_eq!(sent.phase(), Phase::Waiting);
        assert!(sent.clone().begin());
        assert!(!sent.begin() && !sent.cancel());
        assert_eq!(sent.phase(), Phase::Sent);
        assert!(cancelled.cancel());
        assert!(!cancelled.cancel() && !cancelled.begin());
        assert_eq!(cancelled.phase(), Phase::Cancelled);
    }
}
