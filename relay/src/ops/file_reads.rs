//! How are files read again while the relay runs, if their disk may hang?
//!
//! On a thread of their own: the one that serves HTTP must go on, or the relay would be taken for dead.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a read may take. Then the disk hangs, for all that is known.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What an operator is told then.
pub const NO_ANSWER: &str = "no answer from its disk for 5 s";

/// Reads one thing again and again, one at a time: what hangs is not asked a second time.
#[derive(Debug)]
pub struct FileReads<T>(Option<JoinHandle<T>>);

impl<T> Default for FileReads<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> FileReads<T> {
    /// What `read` returns; `None` when it takes longer than `PATIENCE`. The next call waits for the same
    /// read, and its own is not begun.
    pub async fn read(&mut self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let reading = self
            .0
            .get_or_insert_with(|| tokio::task::spawn_blocking(read));
        let done = timeout(PATIENCE, reading).await.ok()?;
        self.0 = None;
        // After a panic there is nothing; the next call reads again.
        done.ok()
    }
}
