//! The timer of simulated PVs: one thread that runs every generator at its interval.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ops::latency::wall_ns;
use crate::ops::shutdown::Indispensable;

/// What the thread runs when a job is due.
pub(super) trait Task: Send + 'static {
    /// Runs once. `time_ns` is the time at which it was due, in nanoseconds past the POSIX epoch.
    fn run(&mut self, time_ns: i64);
}

/// Runs that are late by at most this are made up for, so that rates are kept on a busy machine.
/// Later ones are left out, so that an overloaded thread doesn't accumulate them.
const MAKE_UP: Duration = Duration::from_millis(100);

/// Room for this many tasks is kept when most of them have ended.
const MANY: usize = 256;

/// One thread that runs tasks at their intervals; ends when dropped.
pub(super) struct Timer<T: Task> {
    shared: Arc<TimerShared<T>>,
    thread: Option<JoinHandle<()>>,
}

struct TimerShared<T> {
    schedule: Mutex<Schedule<T>>,
    /// A task is due earlier than before, or the timer ends.
    changed: Condvar,
    ended: AtomicBool,
}

/// A task in the timer. Dropping it ends the task.
pub(super) struct Job<T: Task> {
    shared: Arc<TimerShared<T>>,
    id: u64,
}

impl<T: Task> Timer<T> {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(TimerShared {
            schedule: Mutex::new(Schedule::new(Instant::now())),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new().name("sim".into()).spawn(move || {
            let _guard = Indispensable("sim");
            serving.serve();
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Runs a task at once and then at each multiple of `interval` from the timer's start, so that
    /// tasks of one interval run together, as records of one scan do.
    pub(super) fn add(&self, interval: Duration, task: T) -> Job<T> {
        let id = self.shared.lock().add(Instant::now(), interval, task);
        self.job(id)
    }

    /// Runs a task after `interval`, and then one `interval` after the run before.
    pub(super) fn add_later(&self, interval: Duration, task: T) -> Job<T> {
        let id = (self.shared.lock()).add_later(Instant::now(), interval, task);
        self.job(id)
    }

    fn job(&self, id: u64) -> Job<T> {
        self.shared.changed.notify_one();
        Job {
            shared: Arc::clone(&self.shared),
            id,
        }
    }
}

impl<T: Task> Drop for Timer<T> {
    fn drop(&mut self) {
        let schedule = self.shared.lock();
        self.shared.ended.store(true, Ordering::Relaxed);
        drop(schedule);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The guard has reported a panic.
            let _ = thread.join();
        }
    }
}

impl<T: Task> Drop for Job<T> {
    fn drop(&mut self) {
        let task = self.shared.lock().remove(self.id);
        // Outside the lock, because an array may be large.
        drop(task);
    }
}

impl<T: Task> TimerShared<T> {
    fn lock(&self) -> MutexGuard<'_, Schedule<T>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut batch = Vec::new();
        while self.wait(&mut batch) {
            let (now, wall_ns) = (Instant::now(), wall_ns());
            for due in &mut batch {
                if self.ended.load(Ordering::Relaxed) {
                    return;
                }
                let late = now.saturating_duration_since(due.at);
                due.task.run(wall_ns - late.as_nanos() as i64);
            }
            let mut schedule = self.lock();
            let now = Instant::now();
            let closed: Vec<T> = (batch.drain(..))
                .filter_map(|due| schedule.give_back(now, due))
                .collect();
            if batch.capacity() > MANY.max(8 * schedule.entries.len()) {
                batch.shrink_to(MANY);
            }
            drop(schedule);
            drop(closed);
        }
    }

    /// Waits until a task is due. Returns false at the end.
    fn wait(&self, batch: &mut Vec<Due<T>>) -> bool {
        let mut schedule = self.lock();
        loop {
            if self.ended.load(Ordering::Relaxed) {
                return false;
            }
            let now = Instant::now();
            schedule.take_due(now, batch);
            if !batch.is_empty() {
                return true;
            }
            schedule = match schedule.next() {
                None => self.changed.wait(schedule),
                Some(at) => (self.changed)
                    .wait_timeout(schedule, at.saturating_duration_since(now))
                    .map(|(schedule, _)| schedule)
                    .map_err(|poisoned| PoisonError::new(poisoned.into_inner().0)),
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Tasks by the time at which they are due. Times are passed in.
struct Schedule<T> {
    start: Instant,
    next_id: u64,
    /// May name tasks that were removed.
    order: BinaryHeap<Reverse<(Instant, u64)>>,
    entries: HashMap<u64, Entry<T>>,
}

struct Entry<T> {
    interval: Duration,
    /// It runs at multiples of the interval from here.
    from: Instant,
    /// `None` while it runs.
    task: Option<T>,
}

struct Due<T> {
    id: u64,
    at: Instant,
    task: T,
}

impl<T> Schedule<T> {
    fn new(start: Instant) -> Self {
        Self {
            start,
            next_id: 0,
            order: BinaryHeap::new(),
            entries: HashMap::new(),
        }
    }

    fn add(&mut self, now: Instant, interval: Duration, task: T) -> u64 {
        self.insert(now, (self.start, interval), task)
    }

    fn add_later(&mut self, now: Instant, interval: Duration, task: T) -> u64 {
        self.insert(now + interval, (now, interval), task)
    }

    fn insert(&mut self, first: Instant, (from, interval): (Instant, Duration), task: T) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let entry = Entry {
            interval,
            from,
            task: Some(task),
        };
        self.entries.insert(id, entry);
        self.order.push(Reverse((first, id)));
        id
    }

    fn remove(&mut self, id: u64) -> Option<T> {
        let entry = self.entries.remove(&id);
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order
                .retain(|Reverse((_, id))| entries.contains_key(id));
        }
        if self.entries.capacity() > MANY.max(8 * self.entries.len()) {
            self.entries.shrink_to(MANY);
            self.order.shrink_to(MANY);
        }
        entry?.task
    }

    fn next(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, _))| *at)
    }

    fn take_due(&mut self, now: Instant, batch: &mut Vec<Due<T>>) {
        while let Some(&Reverse((at, id))) = self.order.peek()
            && at <= now
        {
            self.order.pop();
            let entry = self.entries.get_mut(&id);
            if let Some(task) = entry.and_then(|entry| entry.task.take()) {
                batch.push(Due { id, at, task });
            }
        }
    }

    /// Schedules the next run of a task that has run. Returns the task if it was removed meanwhile.
    fn give_back(&mut self, now: Instant, due: Due<T>) -> Option<T> {
        let Due { id, at, task } = due;
        let Some(entry) = self.entries.get_mut(&id) else {
            return Some(task);
        };
        let keeps_up = now.saturating_duration_since(at) <= MAKE_UP;
        let after = if keeps_up { at } else { now };
        let since = after.saturating_duration_since(entry.from).as_nanos();
        let interval = entry.interval.as_nanos().max(1);
        let next = (since / interval + 1) * interval;
        entry.task = Some(task);
        let next = entry.from + Duration::from_nanos(next as u64);
        self.order.push(Reverse((next, id)));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Times of the runs, in ms from the start, if the thread checks at these times.
    fn runs(schedule: &mut Schedule<char>, start: Instant, looks: &[u32]) -> Vec<(char, u128)> {
        let mut runs = Vec::new();
        for look in looks {
            let now = start + MS * *look;
            let mut batch = Vec::new();
            schedule.take_due(now, &mut batch);
            for due in batch {
                runs.push((due.task, (due.at - start).as_millis()));
                assert_eq!(schedule.give_back(now, due), None);
            }
        }
        runs
    }

    #[test]
    fn task_runs_at_once_and_then_with_others_of_its_interval() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.add(start + MS * 3, MS * 10, 'a');
        schedule.add(start + MS * 4, MS * 10, 'b');
        let runs = runs(&mut schedule, start, &[2, 3, 4, 5, 9, 10, 20]);
        let expected = [
            ('a', 3),
            ('b', 4),
            ('a', 10),
            ('b', 10),
            ('a', 20),
            ('b', 20),
        ];
        assert_eq!(runs, expected);
        assert_eq!(schedule.next(), Some(start + MS * 30));
    }

    #[test]
    fn later_task_runs_after_one_interval_and_then_at_each() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.add_later(start + MS * 3, MS * 10, 'a');
        let runs = runs(&mut schedule, start, &[3, 10, 12, 13, 20, 23]);
        assert_eq!(runs, [('a', 13), ('a', 23)]);
    }

    #[test]
    fn little_delay_is_made_up_for_and_a_long_one_is_left_out() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        schedule.add(start, MS * 10, 'a');
        let runs = runs(&mut schedule, start, &[0, 35, 35, 35, 35, 940, 940, 950]);
        let times: Vec<_> = runs.iter().map(|(_, at)| *at).collect();
        assert_eq!(times, [0, 10, 20, 30, 40, 950]);
    }

    #[test]
    fn removed_task_runs_no_more_and_leaves_nothing() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        let running = schedule.add(start, MS, 'a');
        let mut batch = Vec::new();
        schedule.take_due(start, &mut batch);
        assert_eq!(schedule.remove(running), None, "it runs");
        assert_eq!(schedule.give_back(start, batch.remove(0)), Some('a'));
        for _ in 0..1000 {
            let id = schedule.add(start, MS, 'b');
            assert_eq!(schedule.remove(id), Some('b'));
        }
        assert!(schedule.order.len() <= 65, "{}", schedule.order.len());
        assert_eq!(runs(&mut schedule, start, &[1000]), []);
        assert_eq!(schedule.next(), None);
    }
}
