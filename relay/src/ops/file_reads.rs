//! Reads files of operators: regular files only, and while the relay runs on separate threads, because a disk
//! that hangs must not stop the thread that serves HTTP.

use std::fs::{self, File};
use std::io::{self, Read};
use std::time::Duration;

use thiserror::Error;
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

/// Why a file can't be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegularFileError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its path leads to a pipe, a device or a folder. Reading a pipe could wait for ever.
    #[error("not a regular file")]
    NotRegular,
    /// It is longer than any such file.
    #[error("longer than {0} bytes")]
    TooLong(u64),
    /// It isn't text; the line is the first that isn't.
    #[error("line {0} is not UTF-8")]
    NotUtf8(usize),
}

impl From<RegularFileError> for io::Error {
    fn from(error: RegularFileError) -> Self {
        match error {
            RegularFileError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
/// When it can't be read, isn't a regular file, is longer or isn't UTF-8.
pub fn read_text(path: &str, limit: u64) -> Result<String, RegularFileError> {
    text(read_regular(path, limit)?)
}

/// The text of a file with this content.
///
/// # Errors
/// When it isn't UTF-8.
pub fn text(content: Vec<u8>) -> Result<String, RegularFileError> {
    String::from_utf8(content).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let lines = valid.iter().filter(|byte| **byte == b'\n').count();
        RegularFileError::NotUtf8(1 + lines)
    })
}

/// The content of a regular file of at most `limit` bytes.
///
/// # Errors
/// When it can't be read, isn't a regular file or is longer.
pub fn read_regular(path: &str, limit: u64) -> Result<Vec<u8>, RegularFileError> {
    // Before it is opened: opening a pipe waits for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(RegularFileError::NotRegular);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(RegularFileError::TooLong(limit));
    }
    Ok(bytes)
}
