//! Reads files while the relay runs, from disks that may hang.
//!
//! A separate thread reads: the one that serves HTTP must go on, or probes would find the relay dead.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a read may take; after that the disk is assumed to hang.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The error that operators read then.
pub const NO_ANSWER: &str = "no answer from its disk for 5 s";

/// Repeats one read, one at a time: while a read hangs, no other is started.
#[derive(Debug)]
pub struct FileReads<T>(Option<JoinHandle<T>>);

impl<T> Default for FileReads<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> FileReads<T> {
    /// The result of `read`; `None` when it takes longer than `PATIENCE`. The next call then waits for the
    /// same read, and its own `read` is not started.
    pub async fn read(&mut self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let reading = self
            .0
            .get_or_insert_with(|| tokio::task::spawn_blocking(read));
        let done = timeout(PATIENCE, reading).await.ok()?;
        self.0 = None;
        // A read that panicked has no result; the next call reads again.
        done.ok()
    }
}
