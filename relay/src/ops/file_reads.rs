//! Reads files of operators: regular files only, and while the relay runs on separate threads, because a disk
//! that hangs must not stop the thread that serves HTTP. Opens the files that the relay writes by the same rule.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a read may take; after that the disk is assumed to hang.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Interval between attempts to open a file that another program has leased and is asked to give back.
const LEASE_CHECK: Duration = Duration::from_millis(20);

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
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String, RegularFileError> {
    text(read_regular(path, limit)?)
}

/// The same of a file that the relay itself has written: it follows no link, see [`open_regular`].
///
/// # Errors
/// As [`read_text`], and when a link is there.
pub fn read_own_text(path: &Path, limit: u64) -> Result<String, RegularFileError> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(RegularFileError::NotRegular);
    }
    text(content(open_with(path, libc::O_NOFOLLOW)?, limit)?)
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
pub fn read_regular(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, RegularFileError> {
    content(open_to_read(path.as_ref())?, limit)
}

/// The content of an open file of at most `limit` bytes.
fn content(file: File, limit: u64) -> Result<Vec<u8>, RegularFileError> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(RegularFileError::TooLong(limit));
    }
    Ok(bytes)
}

/// Opens a regular file to read. Never waits for the other end of a pipe.
///
/// # Errors
/// When it can't be opened, or isn't a regular file.
pub fn open_to_read(path: &Path) -> Result<File, RegularFileError> {
    // Before it is opened: to open a device may do something.
    if !fs::metadata(path)?.is_file() {
        return Err(RegularFileError::NotRegular);
    }
    open_if_regular(path)
}

/// Opens what is at a path now, which may have been replaced since it was checked. Waits for no pipe; while another
/// program has leased a regular file, as a file server does for its clients, it waits as for a slow disk.
///
/// # Errors
/// When it can't be opened, or isn't a regular file.
pub fn open_if_regular(path: &Path) -> Result<File, RegularFileError> {
    open_with(path, 0)
}

/// The same with further flags.
fn open_with(path: &Path, flags: i32) -> Result<File, RegularFileError> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | flags);
    let file = loop {
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(LEASE_CHECK),
            opened => break opened?,
        }
    };
    if !file.metadata()?.is_file() {
        return Err(RegularFileError::NotRegular);
    }
    Ok(file)
}

/// Opens a regular file to read and append, and creates it if nothing is there; returns whether it did. Never waits
/// for the other end of a pipe, and follows no link: a user who may write the folder, but not the file that a link
/// leads to, would direct what the relay writes there. `otherwise` says what an operator can do besides removing what
/// is no regular file.
///
/// # Errors
/// When something else is there, or the system can't open it.
pub fn open_regular(path: &Path, otherwise: &str) -> io::Result<(File, Metadata, bool)> {
    let found = fs::symlink_metadata(path);
    if let Ok(found) = &found {
        refuse_other(found, otherwise)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o640);
    // It may have been replaced meanwhile.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    refuse_other(&metadata, otherwise)?;
    let is_created = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
    Ok((file, metadata, is_created))
}

/// What the name of a new file ends with until it replaces the old one.
const NEW: &str = ".new";

/// Age from which a new file that replaced none is left over from a relay that was killed.
const LEFT_OVER: Duration = Duration::from_secs(60);

/// Creates a file to write, which is to be renamed to `path`. Its name is one that nothing has, and that no other
/// program can know before: a link or a pipe can't be there already.
///
/// # Errors
/// When the folder takes no file, or the system has no random numbers.
pub fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)?;
    let number = u64::from_ne_bytes(random);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}-{number:016x}{NEW}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o640);
    Ok((options.open(&new)?, new))
}

/// Removes files of [`create_beside`] that a relay has left when it was killed, if that is possible. Another relay may
/// just be writing one.
///
/// # Errors
/// When the folder can't be read.
pub fn remove_left_over(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let found = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)));
        let Ok((path, metadata)) = found else {
            // It was removed meanwhile.
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let age = metadata.modified()?.elapsed().unwrap_or_default();
        let is_new = name.starts_with('.') && name.ends_with(NEW) && metadata.is_file();
        if is_new && age >= LEFT_OVER {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Refuses what is no regular file.
fn refuse_other(found: &Metadata, otherwise: &str) -> io::Result<()> {
    let kind = found.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let expected = format!("it is {what}, expected a regular file: remove it, or {otherwise}");
    Err(io::Error::new(ErrorKind::InvalidInput, expected))
}

/// Brings the names in a folder to the disk: a new file is on it when its folder is. Not all file systems know that.
pub fn sync_folder(folder: &Path) {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    if let Err(error) = synced {
        log::debug!("the folder {} can't be synced: {error}", folder.display());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn file_that_is_replaced_by_a_pipe_after_it_was_checked_holds_up_no_read() {
        let name = format!("pvwire-pipe-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // Without a writer, for which another way to open it would wait.
        let opened = open_if_regular(&path);
        assert!(matches!(opened, Err(RegularFileError::NotRegular)));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn new_files_of_a_relay_that_was_killed_are_removed_and_no_others() {
        let folder = std::env::temp_dir().join(format!("pvwire-new-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("a.json");
        let (fresh, old) = (create_beside(&path).unwrap(), create_beside(&path).unwrap());
        fs::write(&path, "{}").unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * LEFT_OVER;
        old.0.set_modified(long_ago).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        remove_left_over(&folder).unwrap();
        assert!(fresh.1.exists() && path.exists() && !old.1.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
