//! The audit file on disk: it stays one chain when it is moved, cut, full, or left by a crash.
//!
//! All of this may block; only the writer's thread calls it.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::chain::{Note, hash, link};
use crate::config::AuditSync;
use crate::ops::file_reads::{open_regular, sync_folder};

/// How much of a file's end is read to find its last two lines: several times the longest line.
const TAIL_BYTES: u64 = 64 << 10;

/// With `AuditSync::EverySecond`, how often what was written is brought to the disk.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How often the log says that a file that was moved can't be replaced.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The audit file, wherever it is at present.
pub(super) struct LogFile {
    path: PathBuf,
    sync: AuditSync,
    place: Option<Place>,
    /// Hash of the last line.
    last: Option<String>,
    /// What the next line must say first.
    cut: Option<Note>,
    synced: Instant,
    complained: Option<Instant>,
}

/// An open file.
struct Place {
    file: File,
    /// Device and inode.
    id: (u64, u64),
    bytes: u64,
    is_new: bool,
    /// The last line may have been cut off.
    torn: bool,
    /// Something was written that may not be on the disk.
    unsynced: bool,
}

/// How a file ends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tail {
    last: Option<String>,
    cut: Option<Note>,
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl LogFile {
    pub(super) fn new(path: &Path, sync: AuditSync) -> Self {
        Self {
            path: path.to_owned(),
            sync,
            place: None,
            last: None,
            cut: None,
            synced: Instant::now(),
            complained: None,
        }
    }

    /// Hash of the last line, if there is one.
    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Opens the file if it isn't open, or if another one is at its place now.
    pub(super) fn look(&mut self) -> io::Result<()> {
        let Some(place) = &mut self.place else {
            return self.open();
        };
        let found = fs::symlink_metadata(&self.path);
        if let Ok(found) = &found
            && id(found) == place.id
        {
            // Shorter: copytruncate. Longer: a foreign line, which doesn't fit and is found by a
            // check.
            place.bytes = found.len();
            return Ok(());
        }
        let before = self.place.take();
        let Err(error) = self.open() else {
            if let Some(mut before) = before
                && self.sync != AuditSync::Never
            {
                before.sync()?;
            }
            let last = self.last().map_or_else(String::new, |last| {
                format!(" and goes on from the line with the SHA-256 {last}")
            });
            log::info!("the audit file was moved: a new one is open{last}");
            return Ok(());
        };
        let is_somewhere = |place: &Place| place.file.metadata().is_ok_and(|file| file.nlink() > 0);
        if !before.as_ref().is_some_and(is_somewhere) {
            return Err(error);
        }
        // Records are better in the file that was moved than lost.
        self.place = before;
        if self
            .complained
            .is_none_or(|at| at.elapsed() > COMPLAIN_EVERY)
        {
            self.complained = Some(Instant::now());
            log::warn!(
                "the audit file was moved, and a new one can't be opened ({error}): the relay goes on \
                 writing to the one that was moved"
            );
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        let (file, metadata, is_created) = open_regular(&self.path, "change audit_file")?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(io::Error::new(
                ErrorKind::ResourceBusy,
                "another process writes to it: give each relay a separate file",
            ));
        }
        let bytes = metadata.len();
        let tail = read_tail(&file, bytes)?;
        if is_created && self.sync != AuditSync::Never {
            let folder = self.path.parent();
            let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
            sync_folder(folder.unwrap_or_else(|| Path::new(".")));
        }
        if tail.last.is_some() {
            (self.last, self.cut) = (tail.last, tail.cut);
        }
        self.place = Some(Place {
            file,
            id: id(&metadata),
            bytes,
            is_new: bytes == 0,
            torn: self.cut.is_some(),
            unsynced: false,
        });
        Ok(())
    }

    /// Adds records, and before them that `lost` others could not be written. After an error none
    /// of them is in the file.
    pub(super) fn write(&mut self, records: &[&str], lost: u64, now: SystemTime) -> io::Result<()> {
        self.look()?;
        let place = self.place.as_mut().expect("look opens it");
        let (mut text, mut last) = (String::new(), self.last.clone());
        if place.torn {
            text.push('\n');
        }
        let is_empty = place.bytes == 0 || place.is_new;
        let notes = [
            is_empty.then_some(Note::Begin),
            self.cut.clone(),
            (lost > 0).then_some(Note::Lost(lost)),
        ];
        let notes: Vec<_> = (notes.iter().flatten())
            .map(|note| note.record(now))
            .collect();
        for record in notes
            .iter()
            .map(String::as_str)
            .chain(records.iter().copied())
        {
            let line = link(record, last.as_deref());
            last = Some(hash(line.as_bytes()));
            text += &line;
        }
        if let Err((error, ends_as_before)) = place.write(text.as_bytes()) {
            if !ends_as_before {
                // Its end is read when it is opened again.
                self.place = None;
            }
            return Err(error);
        }
        (self.last, self.cut) = (last, None);
        match self.sync {
            AuditSync::Each => place.sync(),
            AuditSync::EverySecond | AuditSync::Never => Ok(()),
        }
    }

    /// Brings to the disk what was written, where that is asked for once a second and a second is
    /// over.
    pub(super) fn sync_when_due(&mut self) -> io::Result<()> {
        if self.sync != AuditSync::EverySecond || self.synced.elapsed() < SYNC_EVERY {
            return Ok(());
        }
        self.synced = Instant::now();
        self.place.as_mut().map_or(Ok(()), Place::sync)
    }

    /// Brings everything to the disk, unless that is never asked for.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.place {
            Some(place) if self.sync != AuditSync::Never => place.sync(),
            _ => Ok(()),
        }
    }
}

impl Place {
    /// Adds text. An error says whether the file ends as it did before.
    fn write(&mut self, text: &[u8]) -> Result<(), (io::Error, bool)> {
        let Err(error) = self.file.write_all(text) else {
            self.bytes += text.len() as u64;
            (self.is_new, self.torn, self.unsynced) = (false, false, true);
            return Ok(());
        };
        let bytes = self.bytes;
        let is_longer = |file: Metadata| file.len() > bytes;
        let taken_back = match self.file.metadata().map(is_longer) {
            Ok(true) => self.file.set_len(bytes).is_ok(),
            Ok(false) => true,
            Err(_) => false,
        };
        Err((error, taken_back))
    }

    fn sync(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.unsynced) {
            return Ok(());
        }
        self.file.sync_data()
    }
}

fn read_tail(file: &File, bytes: u64) -> io::Result<Tail> {
    let from = bytes.saturating_sub(TAIL_BYTES);
    let mut end = vec![0; (bytes - from) as usize];
    file.read_exact_at(&mut end, from)?;
    Ok(tail(&end))
}

fn tail(end: &[u8]) -> Tail {
    let mut lines = end.split_inclusive(|byte| *byte == b'\n').rev();
    let Some(last) = lines.next() else {
        return Tail::default();
    };
    if last.ends_with(b"\n") {
        return Tail {
            last: Some(hash(last)),
            cut: None,
        };
    }
    let ended = [last, b"\n"].concat();
    Tail {
        last: Some(hash(&ended)),
        cut: Some(Note::Cut(lines.next().map(hash))),
    }
}
