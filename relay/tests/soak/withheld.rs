//! How long the machine let threads on the way of an update wait for a core.
//!
//! Other work of the machine may keep both cores busy. The kernel counts for each thread how long it could have run
//! and did not. The relay can't help this time, so clients' waits are measured without it.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

/// Time between two readings.
const PERIOD: Duration = Duration::from_millis(100);
/// The threads that an update passes, by the beginnings of their names. One that receives belongs to each circuit.
const ON_THE_WAY: [&str; 4] = ["CAC-TCP-recv", "tick", "shard", STEADY];
/// The name of the threads of the clients whose waits are measured.
pub(super) const STEADY: &str = "steady";

/// Readings of the relay's threads and this program's, made until it is dropped.
#[derive(Default)]
pub(super) struct Withheld {
    /// Oldest first.
    readings: Arc<Mutex<Vec<Reading>>>,
    /// The process of the relay.
    relay: Arc<Mutex<Option<u32>>>,
}

impl Withheld {
    pub(super) fn start() -> Self {
        let withheld = Self::default();
        let (readings, relay) = (Arc::downgrade(&withheld.readings), withheld.relay.clone());
        thread::spawn(move || {
            while let Some(readings) = readings.upgrade() {
                let reading = Reading::new(*relay.lock().unwrap());
                readings.lock().unwrap().push(reading);
                drop(readings);
                thread::sleep(PERIOD);
            }
        });
        withheld
    }

    /// From now on this process is the relay.
    pub(super) fn follow(&self, relay: u32) {
        *self.relay.lock().unwrap() = Some(relay);
    }

    /// The longest that the threads on the way of one update can have waited for a core from `begin` to `end`.
    pub(super) fn between(&self, begin: SystemTime, end: SystemTime) -> Duration {
        let readings = self.readings.lock().unwrap();
        let before = readings.partition_point(|reading| reading.at <= begin);
        let before = &readings[before.saturating_sub(1)..];
        let after = before.iter().find(|reading| reading.at >= end);
        let both = before.first().zip(after.or_else(|| before.last()));
        both.map_or(Duration::ZERO, |(first, last)| first.until(last))
    }
}

/// How long each thread has waited for a core since its start.
struct Reading {
    at: SystemTime,
    by_thread: HashMap<Thread, Duration>,
}

/// A thread on the way of an update.
#[derive(PartialEq, Eq, Hash)]
struct Thread {
    id: String,
    part: &'static str,
}

impl Reading {
    fn new(relay: Option<u32>) -> Self {
        let processes = [Some(std::process::id()), relay];
        let folders = processes.into_iter().flatten().filter_map(|process| {
            // It may have ended.
            fs::read_dir(format!("/proc/{process}/task")).ok()
        });
        let threads = folders.flatten().flatten().filter_map(|thread| {
            let name = fs::read_to_string(thread.path().join("comm")).ok()?;
            let part = ON_THE_WAY.into_iter().find(|part| name.starts_with(part))?;
            let id = thread.file_name().into_string().ok()?;
            // Nanoseconds on a core and in wait for one, and how often it ran.
            let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let waited = times.split(' ').nth(1)?.parse().ok()?;
            Some((Thread { id, part }, Duration::from_nanos(waited)))
        });
        Self {
            at: SystemTime::now(),
            by_thread: threads.collect(),
        }
    }

    /// From this reading to a later one: of each part the thread that waited longest, summed.
    fn until(&self, later: &Self) -> Duration {
        let mut longest = HashMap::<&str, Duration>::new();
        for (thread, waited) in &later.by_thread {
            let before = self.by_thread.get(thread).copied().unwrap_or_default();
            let longest = longest.entry(thread.part).or_default();
            *longest = waited.saturating_sub(before).max(*longest);
        }
        longest.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_of_each_part_between_two_readings_counts() {
        let reading = |waited: [u64; 4]| {
            let threads = [("1", "tick"), ("2", "shard"), ("3", "shard"), ("4", STEADY)];
            let threads = threads.map(|(id, part)| Thread {
                id: id.into(),
                part,
            });
            Reading {
                at: SystemTime::now(),
                by_thread: threads
                    .into_iter()
                    .zip(waited.map(Duration::from_millis))
                    .collect(),
            }
        };
        let (first, last) = (reading([100, 10, 20, 0]), reading([130, 15, 21, 2]));
        assert_eq!(first.until(&last), Duration::from_millis(30 + 5 + 2));
    }
}
