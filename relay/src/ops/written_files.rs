//! Opens files that the relay writes: regular ones only, and never by a link.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

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
