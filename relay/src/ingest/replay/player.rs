//! The thread of a replay: reads the recording and passes on what is due.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::control::Control;
use super::locked;
use super::recorded::Recorded;
use crate::ingest::recording::{Reader, RecordingError, Timed};

/// How often the position is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// The work of the thread.
pub(super) struct Player {
    reader: Reader,
    recorded: Arc<Mutex<Recorded>>,
    control: Arc<Control>,
    is_looped: bool,
    /// Items of the chunk that is under way.
    items: VecDeque<Timed>,
    /// The recording can't be read: it has ended until the next seek.
    is_broken: bool,
}

impl Player {
    pub(super) fn new(
        reader: Reader,
        recorded: Arc<Mutex<Recorded>>,
        control: Arc<Control>,
        is_looped: bool,
    ) -> Self {
        Self {
            reader,
            recorded,
            control,
            is_looped,
            items: VecDeque::new(),
            is_broken: false,
        }
    }

    pub(super) fn run(mut self, ended: &AtomicBool) {
        let (first_ns, _) = self.reader.span_ns();
        self.control.go_to(first_ns, Instant::now());
        let mut shown = None::<Instant>;
        while !ended.load(Ordering::Acquire) {
            let now = Instant::now();
            if let Some(to_ns) = self.control.take_seek() {
                self.seek(to_ns);
                shown = None;
            }
            if shown.is_none_or(|shown| shown.elapsed() >= SHOW_EVERY) {
                shown = Some(now);
                self.control.show();
            }
            let wait = match self.next_ns() {
                Some(due_ns) => self.control.wait_for(due_ns, now),
                None if self.is_looped => {
                    let wait = self.control.wait_for_repeat(now);
                    if wait.is_zero() {
                        self.seek(first_ns);
                        continue;
                    }
                    wait
                }
                None => SHOW_EVERY,
            };
            match (wait.is_zero(), self.items.pop_front_if(|_| wait.is_zero())) {
                (true, Some(item)) => locked(&self.recorded).take(item),
                _ => thread::park_timeout(wait.min(SHOW_EVERY)),
            }
        }
    }

    /// Time of the next item; `None` at the end.
    fn next_ns(&mut self) -> Option<i64> {
        while self.items.is_empty() && !self.is_broken {
            match self.reader.next_items() {
                Ok(items) => self.items.extend(items?),
                Err(error) => self.break_off(&error),
            }
        }
        self.items.front().map(|(time_ns, _)| *time_ns)
    }

    /// Shows the state at a time. What came between the last whole state and this time is not shown update by update.
    fn seek(&mut self, to_ns: i64) {
        self.items.clear();
        self.is_broken = false;
        self.reader.go_to(to_ns);
        locked(&self.recorded).restart();
        self.pass_chunks(to_ns);
        while self.next_ns().is_some_and(|next_ns| next_ns <= to_ns) {
            if let Some(timed) = self.items.pop_front() {
                locked(&self.recorded).pass_item(&timed);
            }
        }
        locked(&self.recorded).show_passed();
        self.control.go_to(to_ns, Instant::now());
    }

    /// Takes the chunks that came before a time.
    fn pass_chunks(&mut self, to_ns: i64) {
        loop {
            match self.reader.next_past(to_ns) {
                Ok(Some(past)) => locked(&self.recorded).pass(&past),
                Ok(None) => return,
                Err(error) => return self.break_off(&error),
            }
        }
    }

    fn break_off(&mut self, error: &RecordingError) {
        let until = "its last state stays until the position is set";
        log::error!("the recording can't be read: {error}; {until}");
        self.is_broken = true;
    }
}
