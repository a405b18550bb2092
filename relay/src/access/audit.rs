//! Who tried to write what, and what became of it: one line of JSON for each attempt.
//!
//! A separate thread writes them, so that a disk that hangs or is full holds up no client.

mod chain;
mod check;
mod file;
mod record;
mod text;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use self::check::{Findings, check};
use self::file::LogFile;
pub use self::record::{Attempt, new_value, old_value};
use crate::config::AuditSync;

/// Records that may wait for the disk: 16 MiB at most. Of what comes then `audit_fail = open` loses the
/// record and `closed` refuses the put.
const MAX_QUEUED: usize = 4096;

/// With `audit_fail = closed`, what puts that are about to be made leave for the ends of those that were.
const KEPT_FOR_ENDS: usize = MAX_QUEUED / 2;

/// Records that are written at once.
const MAX_AT_ONCE: usize = 256;

/// How long a record may take to be written. Then the disk hangs, for all that is known.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How often the writer looks whether the file is still at its place, if nothing is written.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the log says that the file still can't be written.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// How often the log says anything of it at most: a disk may be full and have room in turns.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Learns whether a record was written, or why not, from the writer's thread.
pub type Recorded = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Where attempts are put on record.
pub struct Audit {
    path: PathBuf,
    /// Nothing may be written to a PV that isn't on record.
    closed: bool,
    entries: SyncSender<Entry>,
    shared: Arc<Shared>,
}

enum Entry {
    Record(String, Option<Recorded>),
    Look,
    Finish(SyncSender<()>),
}

/// What the writer's thread and the others know of each other.
struct Shared {
    started: Instant,
    queued: AtomicUsize,
    written: AtomicU64,
    lost: AtomicU64,
    /// Milliseconds past the POSIX epoch of the last record that was written; 0 for none.
    last_written_millis: AtomicU64,
    /// Milliseconds after the start since when the writer has been at the disk, and one more; 0 when it
    /// isn't.
    busy_since: AtomicU64,
    /// Why the last try to write failed, unless it worked.
    failure: Mutex<Option<String>>,
}

/// Whether the audit file can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Writes,
    /// It can't, because of this.
    Fails(String),
    /// The system has not come back from a call for longer than `PATIENCE`.
    Hangs,
}

/// What operators are told.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether the file can be written.
    pub state: State,
    /// Whether puts are refused while it can't.
    pub closed: bool,
    /// Records that wait for the disk.
    pub queued: usize,
    /// Records that were written.
    pub written: u64,
    /// Records that weren't, or that may not have reached the disk.
    pub lost: u64,
    /// When the last one was written.
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
    /// Why the file can't be written, for people.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Writes => None,
            Self::Fails(why) => Some(why.clone()),
            Self::Hangs => Some(format!(
                "no answer from its disk for {} s",
                PATIENCE.as_secs()
            )),
        }
    }
}

impl Shared {
    fn state(&self) -> State {
        let since = self.busy_since.load(Ordering::Acquire);
        let busy = (since > 0).then(|| self.millis().saturating_sub(since));
        if busy.is_some_and(|millis| u128::from(millis) > PATIENCE.as_millis()) {
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
    /// Begins to add to a file. With `closed` nothing is written to a PV unless a line that says so was
    /// written before. A disk that hangs is not waited for for ever.
    ///
    /// # Errors
    /// When the file can't be opened, or the system gives no thread.
    pub fn start(path: &str, closed: bool, sync: AuditSync) -> io::Result<Self> {
        let (entries, coming) = sync_channel(MAX_QUEUED);
        let (opening, opened) = sync_channel(1);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            queued: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            last_written_millis: AtomicU64::new(0),
            busy_since: AtomicU64::new(0),
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
        // A disk that hangs is opened when it answers; until then that is a state like another.
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

    /// Puts an attempt that is about to be made on record, where nothing may be written otherwise. `true`
    /// when `recorded` will be told whether it is; it must not be made before. `false` when it may be made
    /// at once.
    ///
    /// # Errors
    /// When it must not be made, because of this.
    pub fn begin(&self, attempt: &Attempt<'_>, recorded: Recorded) -> Result<bool, String> {
        if !self.closed {
            return Ok(false);
        }
        let state = self.shared.state();
        if state == State::Hangs {
            return Err(state.reason().unwrap_or_default());
        }
        let full = || Err("too many records wait for its disk".to_owned());
        if self.shared.queued.load(Ordering::Relaxed) >= MAX_QUEUED - KEPT_FOR_ENDS {
            return full();
        }
        if self.add(attempt, Some(recorded)) {
            Ok(true)
        } else {
            full()
        }
    }

    /// Puts on record what became of an attempt. What can't be written is counted.
    pub fn end(&self, attempt: &Attempt<'_>) {
        self.add(attempt, None);
    }

    fn add(&self, attempt: &Attempt<'_>, recorded: Option<Recorded>) -> bool {
        // What isn't made needs no record that it begins; its end says what became of it.
        let counts = u64::from(recorded.is_none());
        let entry = Entry::Record(attempt.record(SystemTime::now()), recorded);
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        let added = self.entries.try_send(entry).is_ok();
        if !added {
            self.shared.queued.fetch_sub(1, Ordering::Relaxed);
            self.shared.lost.fetch_add(counts, Ordering::Relaxed);
        }
        added
    }

    /// Has the writer look at once whether the file was moved.
    pub fn look(&self) {
        // A full queue is worked off soon, and the writer looks before it writes.
        let _ = self.entries.try_send(Entry::Look);
    }

    /// How it is.
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

    /// Waits until all records are written, at most this long.
    pub fn finish(&self, within: Duration) {
        let (done, is_done) = sync_channel(1);
        let asked = self.entries.try_send(Entry::Finish(done));
        if asked.is_err() || is_done.recv_timeout(within).is_err() {
            let left = self.shared.queued.load(Ordering::Relaxed);
            log::error!("the audit file can't be written: {left} records are lost at the end");
        }
    }

    /// Tells the log when the file can't be written any more and when it can again, for ever.
    pub async fn watch(self: Arc<Self>) {
        let mut watched = Watched::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if let Some((level, line)) = watched.line(&self.health(), Instant::now()) {
                log::log!(level, "the audit file {} {line}", self.path.display());
            }
        }
    }
}

/// What the log was told last.
#[derive(Debug, Default)]
struct Watched {
    reason: Option<String>,
    lost: u64,
    said: Option<Instant>,
}

impl Watched {
    /// What the log is to be told now.
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

/// What the writer's thread has.
struct Writer {
    file: LogFile,
    shared: Arc<Shared>,
    /// Lost records that the file says to be so.
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
                recorded(result.as_ref().copied().map_err(ToString::to_string));
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

    /// Does what may block, so that others can see how long it has been doing so.
    fn at_the_disk(&mut self, act: impl FnOnce(&mut LogFile) -> io::Result<()>) -> io::Result<()> {
        let shared = &self.shared;
        shared.busy_since.store(shared.millis(), Ordering::Release);
        let result = act(&mut self.file);
        shared.busy_since.store(0, Ordering::Release);
        result
    }

    /// Counts what became of records, of which some say how attempts ended.
    fn note(&self, error: Option<&io::Error>, records: usize, ends: usize) {
        let shared = &self.shared;
        match error {
            Some(_) => shared.lost.fetch_add(ends as u64, Ordering::Relaxed),
            None => shared.written.fetch_add(records as u64, Ordering::Relaxed),
        };
        shared.queued.fetch_sub(records, Ordering::Relaxed);
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
        // After a panic: what comes now can't be written.
        let mut failure = (self.shared.failure.lock()).unwrap_or_else(PoisonError::into_inner);
        *failure =
            Some("the thread that writes it has ended, which is a fault of the relay".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_told_of_a_change_at_once_and_reminded_once_a_minute() {
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
