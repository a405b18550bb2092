//! The folder of the past on a disk: one relay uses it, and it has segments, which are files that are only appended to.
//!
//! A segment begins with a head. Each batch in it follows its length and a checksum, so that what was cut off by the end
//! of the relay, or damaged, is not read. All of this may block; only the start and the thread that writes call it.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::batch::BatchReader;
use super::restore::Restore;
use crate::ops::file_reads::{open_regular, sync_folder};

/// First bytes of a segment, before the version of its format and their checksum.
const MAGIC: &[u8; 7] = b"PVWPAST";
const VERSION: u8 = b'2';

/// The version before it is read, too: it has no times as codes of Rice.
const VERSIONS: [u8; 2] = [b'1', VERSION];

/// Bytes of a segment before its batches.
pub(super) const HEAD_BYTES: usize = 12;

/// Bytes before a batch: its length and a checksum of both.
const FRAME_BYTES: usize = 8;

/// Longest batch that is read; written ones are several times shorter.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Bytes of a segment that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Ending of the names of segments.
const ENDING: &str = ".past";

/// The file whose lock says that a relay uses the folder.
const LOCK: &str = "lock";

/// What an operator can do besides removing what is no regular file.
const OTHERWISE: &str = "change history_dir";

/// A folder that can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder or a file in it can't be used.
    #[error("history_dir: {path}: {source}")]
    File {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another relay uses it.
    #[error(
        "history_dir: {0}: another relay writes its past there: give each relay a separate folder"
    )]
    InUse(PathBuf),
    /// A file has another format.
    #[error(
        "history_dir: {0} has the format of another version of pvwire: move it to another folder, or start the relay \
         of that version"
    )]
    OtherVersion(PathBuf),
}

impl FolderError {
    /// Whether the operator has to name another folder, or to free this one. Otherwise its disk fails.
    pub(in crate::state::history) fn is_refusal(&self) -> bool {
        let Self::File { source, .. } = self else {
            return true;
        };
        let kinds = [ErrorKind::InvalidInput, ErrorKind::NotADirectory];
        kinds.contains(&source.kind())
    }
}

/// How the batches of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::state::history) enum End {
    /// With a whole batch.
    Whole,
    /// Behind this position is a part of a batch, as the end of a relay leaves it.
    Torn(usize),
    /// What follows this position is damaged.
    Damaged(usize),
    /// The segment has the format of another version.
    OtherVersion,
}

fn checksum(length: [u8; 4], batch: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(batch);
    hasher.finalize().to_le_bytes()
}

fn head(version: u8) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..7].copy_from_slice(MAGIC);
    head[7] = version;
    let checksum = crc32fast::hash(&head[..8]).to_le_bytes();
    head[8..].copy_from_slice(&checksum);
    head
}

/// Reads until the buffer is full or nothing more comes; returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads the batches of a segment, one after the other: a damaged file may have any length. Returns the time of the
/// last one, in nanoseconds past the POSIX epoch, if there is any, and how they end.
///
/// # Errors
/// When the disk doesn't give them.
pub(in crate::state::history) fn read(
    segment: &mut impl Read,
    restore: &mut Restore,
) -> io::Result<(Option<i64>, End)> {
    let mut found = [0; HEAD_BYTES];
    let filled = fill(segment, &mut found)?;
    if filled < HEAD_BYTES {
        let is_begin = |version| head(version).starts_with(&found[..filled]);
        let end = if VERSIONS.into_iter().any(is_begin) {
            End::Torn(0)
        } else {
            End::Damaged(0)
        };
        return Ok((None, end));
    }
    if !VERSIONS.map(head).contains(&found) {
        let is_head =
            found.starts_with(MAGIC) && found[8..] == crc32fast::hash(&found[..8]).to_le_bytes();
        let end = if is_head {
            End::OtherVersion
        } else {
            End::Damaged(0)
        };
        return Ok((None, end));
    }
    let mut reader = BatchReader::new(restore);
    let (mut at, mut last_ns, mut batch) = (HEAD_BYTES, None, Vec::new());
    loop {
        let mut frame = [0; FRAME_BYTES];
        let filled = fill(segment, &mut frame)?;
        let [a, b, c, d, checked @ ..] = frame;
        let length = [a, b, c, d];
        let bytes = u32::from_le_bytes(length) as usize;
        match filled {
            0 => return Ok((last_ns, End::Whole)),
            1..4 => return Ok((last_ns, End::Torn(at))),
            _ if bytes > MAX_BATCH_BYTES => return Ok((last_ns, End::Damaged(at))),
            _ => {}
        }
        batch.resize(bytes, 0);
        if filled < FRAME_BYTES || fill(segment, &mut batch)? < bytes {
            return Ok((last_ns, End::Torn(at)));
        }
        let is_whole = checked == checksum(length, &batch);
        let Some(time_ns) = is_whole.then(|| reader.take(&batch)).flatten() else {
            return Ok((last_ns, End::Damaged(at)));
        };
        last_ns = last_ns.max(Some(time_ns));
        at += FRAME_BYTES + bytes;
    }
}

#[derive(Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    /// When its last batch was written, in nanoseconds past the POSIX epoch.
    last_ns: i64,
}

/// The segment that is appended to.
#[derive(Debug)]
struct Current {
    file: File,
    segment: Segment,
    begun_ns: i64,
    is_synced: bool,
}

/// The folder, which no other relay uses.
#[derive(Debug)]
pub(in crate::state::history) struct Folder {
    pub(in crate::state::history) path: PathBuf,
    /// Its lock ends when it is closed.
    _lock: File,
    /// Oldest first, without the current one.
    segments: VecDeque<Segment>,
    current: Option<Current>,
    next: u64,
    max_bytes: u64,
    /// What was written may not be on the disk.
    is_unsynced: bool,
}

/// What is read from a folder.
#[derive(Debug, Default)]
pub(in crate::state::history) struct Found {
    pub(in crate::state::history) restore: Restore,
    /// Segments of which a part is damaged.
    pub(in crate::state::history) damaged: u64,
}

impl Folder {
    /// Locks a folder, creates it if it doesn't exist, and reads it. At most `max_bytes` are used in it.
    ///
    /// # Errors
    /// When another relay uses it, or a file is of another version, or no regular one.
    pub(in crate::state::history) fn open(
        path: &Path,
        max_bytes: u64,
    ) -> Result<(Self, Found), FolderError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::File { path, source }
        };
        if let Err(error) = DirBuilder::new().mode(0o750).create(path)
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(failed(path)(error));
        }
        let lock_path = path.join(LOCK);
        let (lock, ..) = open_regular(&lock_path, OTHERWISE).map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path)(error)),
        }
        let mut numbers = Vec::new();
        for entry in fs::read_dir(path).map_err(failed(path))? {
            let name = entry.map_err(failed(path))?.file_name();
            numbers.extend(name.to_str().and_then(number_of));
        }
        numbers.sort_unstable();
        let mut folder = Self {
            path: path.to_owned(),
            _lock: lock,
            segments: VecDeque::new(),
            current: None,
            next: numbers.last().map_or(1, |last| last + 1),
            max_bytes,
            is_unsynced: false,
        };
        let mut found = Found::default();
        for number in &numbers {
            let is_last = numbers.last() == Some(number);
            folder.read(*number, is_last, &mut found)?;
        }
        Ok((folder, found))
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:010}{ENDING}"))
    }

    fn read(&mut self, number: u64, is_last: bool, found: &mut Found) -> Result<(), FolderError> {
        let path = self.file(number);
        let failed = |source| FolderError::File {
            path: path.clone(),
            source,
        };
        let (file, metadata, _) = open_regular(&path, OTHERWISE).map_err(failed)?;
        let mut content = BufReader::with_capacity(READ_BYTES, &file);
        let (last_ns, end) = read(&mut content, &mut found.restore).map_err(failed)?;
        let length = metadata.len();
        let behind = |at: usize| length.saturating_sub(at as u64);
        let mut bytes = length;
        let damage = match end {
            End::OtherVersion => return Err(FolderError::OtherVersion(path)),
            End::Whole => None,
            End::Torn(at) if is_last => {
                log::info!(
                    "history_dir: {}: the last {} bytes are an unfinished write and are cut off",
                    path.display(),
                    behind(at)
                );
                file.set_len(at as u64).map_err(failed)?;
                bytes = at as u64;
                None
            }
            End::Torn(at) | End::Damaged(at) => {
                // What is behind it, which may have any length, makes no other segment go.
                bytes = at as u64;
                Some(format!("its last {} bytes are damaged", behind(at)))
            }
        };
        if let Some(why) = &damage {
            found.damaged += 1;
            found.restore.damaged();
            log::error!(
                "history_dir: {}: {why} and are not read; check the disk. What is read is written again",
                path.display()
            );
        }
        match last_ns {
            Some(last_ns) => self.segments.push_back(Segment {
                number,
                bytes,
                last_ns,
            }),
            None => remove(&path).map_err(failed)?,
        }
        Ok(())
    }

    /// Bytes of all segments.
    pub(in crate::state::history) fn bytes(&self) -> u64 {
        let current = self.current.as_ref().map(|current| &current.segment);
        let segments = self.segments.iter().chain(current);
        segments.map(|segment| segment.bytes).sum()
    }

    /// Whether the next batch begins a segment.
    pub(in crate::state::history) fn is_between(&self) -> bool {
        self.current.is_none()
    }

    /// Appends a batch of this time.
    ///
    /// # Errors
    /// When it can't be written. Then nothing of it is in the folder, and the next one begins a segment.
    pub(in crate::state::history) fn append(
        &mut self,
        batch: &[u8],
        now_ns: i64,
    ) -> io::Result<()> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(now_ns)?,
        };
        let length = (batch.len() as u32).to_le_bytes();
        let frame = [&length[..], &checksum(length, batch), batch].concat();
        if let Err(error) = current.file.write_all(&frame) {
            let Segment { number, bytes, .. } = current.segment;
            if bytes == HEAD_BYTES as u64 {
                let _ = remove(&self.file(number));
            } else {
                // If it can't be cut, the next start finds it damaged behind this position.
                let _ = current.file.set_len(bytes);
                self.segments.push_back(current.segment);
            }
            return Err(error);
        }
        current.segment.bytes += frame.len() as u64;
        current.segment.last_ns = now_ns;
        current.is_synced = false;
        self.current = Some(current);
        Ok(())
    }

    fn begin(&mut self, now_ns: i64) -> io::Result<Current> {
        let number = self.next;
        let path = self.file(number);
        let (mut file, ..) = open_regular(&path, OTHERWISE)?;
        if let Err(error) = file
            .set_len(0)
            .and_then(|()| file.write_all(&head(VERSION)))
        {
            let _ = remove(&path);
            return Err(error);
        }
        sync_folder(&self.path);
        self.next += 1;
        let segment = Segment {
            number,
            bytes: HEAD_BYTES as u64,
            last_ns: now_ns,
        };
        Ok(Current {
            file,
            segment,
            begun_ns: now_ns,
            is_synced: false,
        })
    }

    /// Brings to the disk what was written.
    ///
    /// # Errors
    /// When the disk can't take it. Then the next batch begins a segment.
    pub(in crate::state::history) fn sync(&mut self) -> io::Result<()> {
        match &mut self.current {
            Some(current) if !current.is_synced => {
                current.is_synced = true;
                let synced = current.file.sync_data();
                if synced.is_err() {
                    self.is_unsynced = true;
                    self.segments
                        .extend(self.current.take().map(|current| current.segment));
                }
                synced
            }
            _ => Ok(()),
        }
    }

    /// Ends the current segment if it is long, or begun more than `age_ns` ago.
    ///
    /// # Errors
    /// When the disk can't take it.
    pub(in crate::state::history) fn end_full(
        &mut self,
        now_ns: i64,
        age_ns: i64,
    ) -> io::Result<()> {
        let full = (self.max_bytes / 16).clamp(64 << 10, 8 << 20);
        let is_full = self.current.as_ref().is_some_and(|current| {
            current.segment.bytes >= full || now_ns.saturating_sub(current.begun_ns) >= age_ns
        });
        if is_full { self.end() } else { Ok(()) }
    }

    /// Ends the current segment.
    ///
    /// # Errors
    /// When the disk can't take it.
    pub(in crate::state::history) fn end(&mut self) -> io::Result<()> {
        self.sync()?;
        self.segments
            .extend(self.current.take().map(|current| current.segment));
        Ok(())
    }

    /// Whether what was written is possibly not on the disk, since the last call of this.
    pub(in crate::state::history) fn take_unsynced(&mut self) -> bool {
        std::mem::take(&mut self.is_unsynced)
    }

    /// The number of the next segment.
    pub(in crate::state::history) fn next_number(&self) -> u64 {
        self.next
    }

    /// Removes the oldest segments until the rest is within the bound, and those that ended before this time.
    ///
    /// # Errors
    /// When one can't be removed.
    pub(in crate::state::history) fn bound(&mut self, oldest_ns: i64) -> io::Result<()> {
        let max_bytes = self.max_bytes;
        while let Some(oldest) = self.segments.front()
            && (oldest.last_ns < oldest_ns || self.bytes() > max_bytes)
        {
            remove(&self.file(oldest.number))?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// Removes the segments before this one. The newest goes first, so that those that are left if the relay ends
    /// meanwhile are without a hole.
    ///
    /// # Errors
    /// When one can't be removed.
    pub(in crate::state::history) fn remove_before(&mut self, number: u64) -> io::Result<()> {
        while let Some(at) = self
            .segments
            .iter()
            .rposition(|segment| segment.number < number)
        {
            remove(&self.file(self.segments[at].number))?;
            self.segments.remove(at);
        }
        Ok(())
    }
}

/// The number of a segment, if this is a name of one.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING)?;
    let is_number = digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
