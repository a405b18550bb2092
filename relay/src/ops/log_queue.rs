//! The log: a bounded queue of lines that a separate thread writes to stderr.
//!
//! Writing to a pipe that is not read, or to a stopped terminal, blocks. The other threads therefore
//! only queue their lines; lines that find the queue full are dropped and counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use env_logger::Target;

/// Bytes of lines that may wait.
const MAX_BYTES: usize = 1 << 20;

thread_local! {
    /// Set in the thread that writes the log out: its only lines say how many were dropped, and are never dropped.
    static WRITES_OUT: Cell<bool> = const { Cell::new(false) };
}

static QUEUE: Queue = Queue::new();

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting {
    text: Vec<u8>,
    /// Lines in `text`.
    lines: u64,
    /// Lines dropped since the start.
    lost: u64,
    is_writing: bool,
}

/// Takes whole lines for the log, and never blocks.
#[derive(Debug)]
pub struct LogQueue(&'static Queue);

/// Sends the log to the queue. Levels that `asked` sets for one module leave the others at `info`.
pub fn init(asked: &str) {
    env_logger::Builder::new()
        .parse_filters(&format!("info,{asked}"))
        .format_target(false)
        .target(Target::Pipe(Box::new(LogQueue(&QUEUE))))
        .init();
}

/// Logs a panic. The standard library's hook would write to stderr, and block with it.
pub fn log_panic(panic: &PanicHookInfo<'_>) {
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => log::error!("{panic}\n{trace}"),
        _ => log::error!("{panic}"),
    }
}

/// Starts the thread that writes the log to stderr.
///
/// # Errors
/// When the system has no thread left.
pub fn start() -> io::Result<()> {
    thread::Builder::new()
        .name("log".into())
        .spawn(|| QUEUE.write_out(io::stderr()))?;
    Ok(())
}

/// Lines dropped since the start.
#[must_use]
pub fn lines_lost() -> u64 {
    QUEUE.lock().lost
}

/// Waits until all lines are written, but no longer than `within`; called at the end of the process.
pub fn flush(within: Duration) {
    QUEUE.flush(within);
}

/// Waits up to a second for the log to be written when it is dropped.
#[derive(Debug)]
pub struct FlushAtEnd;

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        flush(Duration::from_secs(1));
    }
}

impl Write for LogQueue {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.add(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Queue {
    const fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                text: Vec::new(),
                lines: 0,
                lost: 0,
                is_writing: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.text.len() + line.len() > MAX_BYTES && !WRITES_OUT.get() {
            waiting.lost += 1;
            return;
        }
        waiting.text.extend_from_slice(line);
        waiting.lines += 1;
        drop(waiting);
        self.changed.notify_all();
    }

    fn write_out(&self, mut to: impl Write) {
        WRITES_OUT.set(true);
        let mut said = 0;
        loop {
            let mut waiting = self.lock();
            while waiting.text.is_empty() {
                waiting = (self.changed.wait(waiting)).unwrap_or_else(PoisonError::into_inner);
            }
            let (text, lines) = (std::mem::take(&mut waiting.text), waiting.lines);
            waiting.lines = 0;
            waiting.is_writing = true;
            drop(waiting);
            let written = to.write_all(&text);
            let mut waiting = self.lock();
            waiting.is_writing = false;
            if written.is_err() {
                waiting.lost += lines;
            }
            let lost = waiting.lost;
            drop(waiting);
            self.changed.notify_all();
            if written.is_ok() && lost > said {
                log::warn!(
                    "{} lines of the log were dropped: stderr was not read fast enough",
                    lost - said
                );
                said = lost;
            }
        }
    }

    fn flush(&self, within: Duration) {
        let is_open = |waiting: &mut Waiting| waiting.is_writing || !waiting.text.is_empty();
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), within, is_open);
        drop(waited);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A writer that takes bytes only when told to.
    struct Reader {
        may: Receiver<()>,
        has: SyncSender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.may.recv().map_err(io::Error::other)?;
            self.has.send(text.to_vec()).map_err(io::Error::other)?;
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unread_log_is_bounded_blocks_no_thread_and_counts_losses() {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new()));
        let ((go, may), (has, got)) = (sync_channel(0), sync_channel(0));
        thread::spawn(move || queue.write_out(Reader { may, has }));
        let line = [b'x'; 1024];
        let mut log = LogQueue(queue);
        for number in 0..4096 {
            log.write_all(&line).unwrap();
            // The reader has the first line, and stops.
            while number == 0 && !queue.lock().is_writing {
                thread::yield_now();
            }
        }
        assert!(queue.lock().text.len() <= MAX_BYTES);
        let lost = queue.lock().lost;
        assert!((2048..=3072).contains(&lost), "{lost}");
        queue.flush(Duration::from_millis(1));
        assert!(queue.lock().is_writing, "the reader has stopped");
        let mut read = 0;
        while read < (4096 - lost as usize) * line.len() {
            go.send(()).unwrap();
            read += got.recv().unwrap().len();
        }
        queue.flush(Duration::from_secs(20));
        assert!(!queue.lock().is_writing);
        assert_eq!(queue.lock().lost, lost);
    }
}
