//! The audit file: one line of JSON for each attempted put or call, with its outcome.
//!
//! A separate thread writes the file, so that a full or hanging disk delays no client.

mod chain;
mod check;
mod file;
mod record;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;

pub use self::check::{CheckError, Findings, check};
use self::file::LogFile;
pub use self::record::{Attempt, new_value, old_value};
use crate::config::AuditSync;
use crate::ops::rhythm;

/// Maximum number of records that wait for the disk, 16 MiB. Beyond this `audit_fail = open` loses
/// the record and `closed` refuses the put.
const MAX_QUEUED: usize = 4096;

/// With `audit_fail = closed`, the part of the queue that is reserved for outcomes of puts already
/// made.
const KEPT_FOR_ENDS: usize = MAX_QUEUED / 2;

/// Maximum number of records in one write.
const MAX_AT_ONCE: usize = 256;

/// Time limit for writing a record; after it the disk counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Interval at which an idle writer checks whether the file was moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval at which the log repeats that the file can't be written.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// Shortest interval between log lines about the file: a disk can be full for moments again and
/// again.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Why an attempt has no record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The file can't be written.
    #[error("{0}")]
    Write(String),
    /// The disk hangs.
    #[error("no answer from its disk for {} s", PATIENCE.as_secs())]
    Hangs,
    /// The queue is full.
    #[error("too many records wait for its disk")]
    QueueFull,
}

/// Receives, on the writer's thread, whether a record was written.
pub type Recorded = Box<dyn FnOnce(Result<(), AuditError>) + Send>;

/// The audit file, as other threads use it.
pub struct Audit {
    path: PathBuf,
    /// `audit_fail = closed`: puts are sent only after their record is written.
    closed: bool,
    entries: SyncSender<Entry>,
    shared: Arc<AuditShared>,
}

enum Entry {
    Record(String, Option<Recorded>),
    Look,
    Finish(SyncSender<()>),
}

/// State shared by the writer's thread and the others.
struct AuditShared {
    started: Instant,
    queued: AtomicUsize,
    written: AtomicU64,
    lost: AtomicU64,
    /// Milliseconds past the POSIX epoch of the last record that was written; 0 for none.
    last_written_millis: AtomicU64,
    /// Start of the writer's current disk operation, in milliseconds after `started` plus one; 0
    /// for none.
    busy_since: AtomicU64,
    /// When the writer last finished some records, or the first of those that wait was added; in the
    /// same milliseconds.
    advanced_at: AtomicU64,
    /// Error of the last write, if it failed.
    failure: Mutex<Option<String>>,
}

/// Whether the audit file can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It can be written.
    Writes,
    /// The last write failed, for this reason.
    Fails(String),
    /// A system call has taken longer than `PATIENCE`.
    Hangs,
}

/// State of the audit file, for operators.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether the file can be written.
    pub state: State,
    /// Whether puts are refused while it can't be written.
    pub closed: bool,
    /// Records that wait for the disk.
    pub queued: usize,
    /// Number of records written.
    pub written: u64,
    /// Number of records lost, or possibly not on the disk.
    pub lost: u64,
    /// Time of the last write.
    pub last_written: Option<SystemTime>,
}

impl Health {
    /// Whether puts are refused because of the audit file.
    #[must_use]
    pub fn stops_puts(&self) -> bool {
        self.closed && self.state != State::Writes
    }
}

impl State {
    /// Why the file can't be written, for messages.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Writes => None,
            Self::Fails(why) => Some(why.clone()),
            Self::Hangs => Some(AuditError::Hangs.to_string()),
        }
    }
}

impl AuditShared {
    fn state(&self) -> State {
        let busy = self.busy_since.load(Ordering::Acquire);
        let waits = self.queued.load(Ordering::Acquire) > 0;
        let waits = waits.then(|| self.advanced_at.load(Ordering::Acquire));
        let since = waits.into_iter().chain((busy > 0).then_some(busy)).min();
        let millis = since.map(|since| self.millis().saturating_sub(since));
        if millis.is_some_and(|millis| u128::from(millis) > PATIENCE.as_millis()) {
            return State::Hangs;
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(State::Writes, State::Fails)
    }

    fn millis(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 + 1
    }
}

impl Audit {
    /// Opens a file to append to. With `closed` a put is sent only after a record of it is written.
    /// A disk that hangs delays the start by at most `PATIENCE`.
    ///
    /// # Errors
    /// When the file can't be opened, or the system gives no thread.
    pub fn start(path: &str, closed: bool, sync: AuditSync) -> io::Result<Self> {
        let (entries, coming) = sync_channel(MAX_QUEUED);
        let (opening, opened) = sync_channel(1);
        let shared = Arc::new(AuditShared {
            started: Instant::now(),
            queued: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            last_written_millis: AtomicU64::new(0),
            busy_since: AtomicU64::new(0),
            advanced_at: AtomicU64::new(0),
            failure: Mutex::default(),
        });
        let writer = Writer {
            file: LogFile::new(Path::new(path), sync),
            shared: Arc::clone(&shared),
            lost_on_record: 0,
        };
        thread::Builder::new()
            .name("audit".into())
            .spawn(move || writer.run(&opening, &coming))?;
        // The file on a disk that hangs is opened when the disk answers; `state` says so until
        // then.
        if let Ok(result) = opened.recv_timeout(PATIENCE) {
            result?;
        }
        Ok(Self {
            path: path.into(),
            closed,
            entries,
            shared,
        })
    }

    /// Records an attempt before it is made, with `audit_fail = closed`. `true` when `recorded`
    /// will be called, and the attempt has to wait for that; `false` when no record is needed.
    ///
    /// # Errors
    /// When the attempt must not be made.
    pub fn begin(&self, attempt: &Attempt<'_>, recorded: Recorded) -> Result<bool, AuditError> {
        if !self.closed {
            return Ok(false);
        }
        if self.shared.state() == State::Hangs {
            return Err(AuditError::Hangs);
        }
        let has_room = self.shared.queued.load(Ordering::Relaxed) < MAX_QUEUED - KEPT_FOR_ENDS;
        if has_room && self.add(attempt, Some(recorded)) {
            Ok(true)
        } else {
            Err(AuditError::QueueFull)
        }
    }

    /// Records the outcome of an attempt. Records that can't be written are counted.
    pub fn end(&self, attempt: &Attempt<'_>) {
        self.add(attempt, None);
    }

    fn add(&self, attempt: &Attempt<'_>, recorded: Option<Recorded>) -> bool {
        // An attempt that isn't made needs no record of its beginning; its outcome says why.
        let counts = u64::from(recorded.is_none());
        let entry = Entry::Record(attempt.record(SystemTime::now()), recorded);
        let shared = &self.shared;
        if shared.queued.load(Ordering::Acquire) == 0 {
            shared.advanced_at.store(shared.millis(), Ordering::Release);
        }
        shared.queued.fetch_add(1, Ordering::AcqRel);
        let added = self.entries.try_send(entry).is_ok();
        if !added {
            self.shared.queued.fetch_sub(1, Ordering::Relaxed);
            self.shared.lost.fetch_add(counts, Ordering::Relaxed);
        }
        added
    }

    /// Makes the writer check at once whether the file was moved.
    pub fn look(&self) {
        // With a full queue the writer is busy, and it checks before each write.
        let _ = self.entries.try_send(Entry::Look);
    }

    /// The state of the file.
    #[must_use]
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let millis = shared.last_written_millis.load(Ordering::Relaxed);
        Health {
            state: shared.state(),
            closed: self.closed,
            queued: shared.queued.load(Ordering::Relaxed),
            written: shared.written.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
            last_written: (millis > 0).then(|| UNIX_EPOCH + Duration::from_millis(millis)),
        }
    }

    /// Waits until all records are written, at most for `within`.
    pub fn finish(&self, within: Duration) {
        let (done, is_done) = sync_channel(1);
        let asked = self.entries.try_send(Entry::Finish(done));
        if asked.is_err() || is_done.recv_timeout(within).is_err() {
            let left = self.shared.queued.load(Ordering::Relaxed);
            log::error!(
                "the audit file can't be written: {left} records are lost at the relay's end"
            );
        }
    }

    /// Logs when the file can't be written and when it can be written again, for ever.
    pub async fn watch(self: Arc<Self>) {
        let mut watched = Watched::default();
        loop {
            rhythm::next(LOOK_EVERY).await;
            if let Some((level, line)) = watched.line(&self.health(), Instant::now()) {
                log::log!(level, "the audit file {} {line}", self.path.display());
            }
        }
    }
}

/// What was logged last.
#[derive(Debug, Default)]
struct Watched {
    reason: Option<String>,
    lost: u64,
    said: Option<Instant>,
}

impl Watched {
    /// The next log line, if one is due.
    fn line(&mut self, health: &Health, now: Instant) -> Option<(log::Level, String)> {
        let reason = health.state.reason();
        let lost = health.lost - self.lost;
        let since = self.said.map(|at| now.saturating_duration_since(at));
        if since.is_some_and(|since| since < SAY_EVERY) {
            return None;
        }
        let is_reminder = reason.is_some() && since.is_none_or(|since| since >= REMIND_EVERY);
        if reason == self.reason && !is_reminder && (lost == 0 || reason.is_some()) {
            return None;
        }
        self.said = Some(now);
        self.reason.clone_from(&reason);
        self.lost = health.lost;
        let Some(reason) = reason else {
            let level = if lost > 0 {
                log::Level::Error
            } else {
                log::Level::Warn
            };
            return Some((level, format!("can be written; {lost} records are lost")));
        };
        let what = match health.closed {
            true => "puts are refused until it can be (audit_fail = closed)",
            false => "puts go on without a record (audit_fail = open)",
        };
        let line = format!("can't be written: {reason}; {what}; {lost} records are lost");
        Some((log::Level::Error, line))
    }
}

/// The writer's thread.
struct Writer {
    file: LogFile,
    shared: Arc<AuditShared>,
    /// Number of lost records that the file mentions.
    lost_on_record: u64,
}

impl Writer {
    fn run(mut self, opening: &SyncSender<io::Result<()>>, coming: &Receiver<Entry>) {
        let opened = self.at_the_disk(LogFile::look);
        self.note(opened.as_ref().err(), 0, 0);
        let _ = opening.send(opened);
        loop {
            let first = match coming.recv_timeout(LOOK_EVERY) {
                Ok(entry) => Some(entry),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (mut records, mut told, mut finished) = (Vec::new(), Vec::new(), Vec::new());
            for entry in first.into_iter().chain(coming.try_iter()).take(MAX_AT_ONCE) {
                match entry {
                    Entry::Record(record, recorded) => {
                        records.push(record);
                        told.extend(recorded);
                    }
                    Entry::Look => {}
                    Entry::Finish(done) => finished.push(done),
                }
            }
            let ends = records.len() - told.len();
            let result = self.write(&records, ends, !finished.is_empty());
            for recorded in told {
                let failed = |error: &io::Error| AuditError::Write(error.to_string());
                recorded(result.as_ref().copied().map_err(failed));
            }
            if !finished.is_empty()
                && let Some(last) = self.file.last()
            {
                log::info!("the last line of the audit file has the SHA-256 {last}");
            }
            for done in finished {
                let _ = done.send(());
            }
        }
    }

    fn write(&mut self, records: &[String], ends: usize, is_last: bool) -> io::Result<()> {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        let unsaid = lost - self.lost_on_record;
        let lines: Vec<&str> = records.iter().map(String::as_str).collect();
        let result = self.at_the_disk(|file| {
            if lines.is_empty() && unsaid == 0 {
                file.look()?;
            } else {
                file.write(&lines, unsaid, SystemTime::now())?;
            }
            if is_last {
                file.finish()
            } else {
                file.sync_when_due()
            }
        });
        if result.is_ok() {
            self.lost_on_record = lost;
        }
        self.note(result.as_ref().err(), records.len(), ends);
        result
    }

    /// Runs what may block, and shows other threads how long it has taken so far.
    fn at_the_disk(&mut self, act: impl FnOnce(&mut LogFile) -> io::Result<()>) -> io::Result<()> {
        let shared = &self.shared;
        shared.busy_since.store(shared.millis(), Ordering::Release);
        let result = act(&mut self.file);
        shared.busy_since.store(0, Ordering::Release);
        result
    }

    /// Counts written or lost records, of which `ends` are outcomes.
    fn note(&self, error: Option<&io::Error>, records: usize, ends: usize) {
        let shared = &self.shared;
        match error {
            Some(_) => shared.lost.fetch_add(ends as u64, Ordering::Relaxed),
            None => shared.written.fetch_add(records as u64, Ordering::Relaxed),
        };
        shared.advanced_at.store(shared.millis(), Ordering::Release);
        shared.queued.fetch_sub(records, Ordering::AcqRel);
        if error.is_none() && records > 0 {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let millis = since.as_millis() as u64;
            shared.last_written_millis.store(millis, Ordering::Relaxed);
        }
        let mut failure = shared
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *failure = error.map(ToString::to_string);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After a panic nothing more can be written.
        let mut failure = (self.shared.failure.lock()).unwrap_or_else(PoisonError::into_inner);
        *failure = Some("the thread that writes it has ended; this is a bug of the relay".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_logged_at_once_and_repeated_each_minute() {
        let (mut watched, start) = (Watched::default(), Instant::now());
        let mut told = |state: &State, lost: u64, second: u64| {
            let health = Health {
                state: state.clone(),
                closed: false,
                queued: 0,
                written: 0,
                lost,
                last_written: None,
            };
            let line = watched.line(&health, start + Duration::from_secs(second));
            line.map_or_else(String::new, |(_, line)| line)
        };
        let fails = State::Fails("No space left on device".into());
        assert_eq!(told(&State::Writes, 0, 0), "");
        let first = told(&fails, 3, 1);
        assert!(first.ends_with("without a record (audit_fail = open); 3 records are lost"));
        for second in 2..61 {
            assert_eq!(told(&fails, 3 + second, second), "");
        }
        assert!(told(&fails, 70, 61).ends_with("67 records are lost"));
        assert_eq!(told(&State::Hangs, 70, 62), "", "ten seconds later");
        assert!(told(&State::Hangs, 70, 71).contains("no answer from its disk"));
        assert!(told(&State::Writes, 72, 81).ends_with("; 2 records are lost"));
        assert_eq!(told(&State::Writes, 72, 100), "");
        // A failure too short to be seen.
        assert!(told(&State::Writes, 73, 101).ends_with("; 1 records are lost"));
    }
}
