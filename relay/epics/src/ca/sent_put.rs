//! A put that libca has and its server hasn't answered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::encode::Encoded;
use super::put::{Held, Job, PutError};

/// A put that libca has.
pub(super) struct SentPut {
    pub(super) job: Mutex<Job>,
    /// Whether libca answers to the put itself; if not, a failure comes as an exception.
    pub(super) has_answer: bool,
    /// What the exception said.
    pub(super) failure: Mutex<Option<PutError>>,
    /// What was sent, which a read afterwards is compared with.
    pub(super) value: Encoded,
    /// Whether the channel was a scalar then.
    pub(super) scalar: bool,
    /// Whether libca has a callback of this put to make, which holds a count of it.
    pub(super) awaits_call: AtomicBool,
    /// The server has said that it is written.
    pub(super) written: AtomicBool,
    /// The read behind it was asked for, or there is to be none.
    pub(super) read: AtomicBool,
}

impl SentPut {
    pub(super) fn value(&self) -> &Encoded {
        &self.value
    }

    /// Number of elements to read afterwards; 0 asks for as many as there are.
    pub(super) fn read_count(&self) -> u32 {
        u32::from(self.scalar)
    }

    pub(super) fn unlike(&self, count: u32, elements: &[u8]) -> Option<Held> {
        self.value.unlike(self.scalar, count, elements)
    }

    /// libca is given a count of this put, or gives it back.
    pub(super) fn set_awaits_call(&self, awaits: bool) {
        self.awaits_call.store(awaits, Ordering::Release);
    }

    pub(super) fn awaits_call(&self) -> bool {
        self.awaits_call.load(Ordering::Acquire)
    }

    /// How it ends when no answer comes any more.
    pub(super) fn cut_off(&self) -> Result<Option<Held>, PutError> {
        if self.written.load(Ordering::Acquire) {
            Ok(None)
        } else {
            Err(PutError::Interrupted)
        }
    }
}
