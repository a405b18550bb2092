//! A put that libca has and its server hasn't answered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::encode::Encoded;
use super::put::{Held, Job, PutError};

/// A put that libca has.
pub(super) struct SentPut {
    pub(super) job: Mutex<Job>,
    /// Whether libca answers the put itself; if not, a failure is reported as an exception.
    pub(super) has_answer: bool,
    /// The error of the exception.
    pub(super) failure: Mutex<Option<PutError>>,
    /// The sent value, which is compared with the value read afterwards.
    pub(super) value: Encoded,
    /// Whether the channel was a scalar when the put was sent.
    pub(super) scalar: bool,
    /// Whether libca still has a callback for this put to call, and holds a reference to it.
    pub(super) awaits_call: AtomicBool,
    /// The server has reported that it is written.
    pub(super) written: AtomicBool,
    /// The read after it was requested, or no read is needed.
    pub(super) read: AtomicBool,
    /// The value that was read afterwards was compared with the one put.
    pub(super) is_compared: AtomicBool,
}

impl SentPut {
    pub(super) fn value(&self) -> &Encoded {
        &self.value
    }

    /// Number of elements to read afterwards; 0 requests all elements.
    pub(super) fn read_count(&self) -> u32 {
        u32::from(self.scalar && self.value.count != 0)
    }

    pub(super) fn unlike(&self, count: u32, elements: &[u8]) -> Option<Held> {
        self.is_compared.store(true, Ordering::Release);
        self.value.unlike(self.scalar, count, elements)
    }

    /// The error of a put that the server reported as failed, with what is known from reading the channel: a server
    /// may report a failure after it has written the value.
    pub(super) fn failed(
        &self,
        failure: PutError,
        read: &Result<Option<Held>, PutError>,
    ) -> PutError {
        let PutError::Failed(why) = failure else {
            return failure;
        };
        match read {
            Ok(Some(_)) => PutError::Failed(why),
            Ok(None) if self.is_compared.load(Ordering::Acquire) => PutError::Unsure(format!(
                "{why}; but the PV holds the value now: it may have been written"
            )),
            _ => PutError::Unsure(format!(
                "{why}; the PV could not be read afterwards: it may have been written"
            )),
        }
    }

    /// Sets whether libca holds a reference to this put.
    pub(super) fn set_awaits_call(&self, awaits: bool) {
        self.awaits_call.store(awaits, Ordering::Release);
    }

    pub(super) fn awaits_call(&self) -> bool {
        self.awaits_call.load(Ordering::Acquire)
    }

    /// The result if no answer arrives any more.
    pub(super) fn cut_off(&self) -> Result<Option<Held>, PutError> {
        if self.written.load(Ordering::Acquire) {
            Ok(None)
        } else {
            Err(PutError::Interrupted)
        }
    }
}
