//! CPU time of a process, by thread.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds of CPU by thread name.
pub(crate) type Times = BTreeMap<String, u64>;

/// The kernel adds up a thread's time when it stops running; after this rest it has.
const REST: Duration = Duration::from_millis(1);

/// CPU time of a process, threads of one name added up, numbers at its end left off.
///
/// From /proc/PID/task/*/schedstat, which is exact for threads that sleep and holds the softirq work
/// that the kernel does inside the thread's own system calls. Threads that have ended are not in it.
pub(crate) fn by_thread(pid: u32) -> io::Result<Times> {
    read(Path::new(&format!("/proc/{pid}/task")))
}

/// Time for which a process's threads could have run but had no core, in nanoseconds.
pub(crate) fn waited_ns(pid: u32) -> io::Result<u64> {
    let mut waited = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while its files are read.
        if let Ok(stat) = fs::read_to_string(task?.path().join("schedstat")) {
            waited += waited_of(&stat).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("schedstat is {stat:?}"))
            })?;
        }
    }
    Ok(waited)
}

fn waited_of(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(1)?.parse().ok()
}

/// Pages that a process touched for the first time since they were given to it: what it costs to
/// take fresh memory for large values.
pub(crate) fn page_faults(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    minor_faults(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("stat is {stat:?}")))
}

/// The tenth field; the second is a name in brackets, which may hold anything.
fn minor_faults(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(7)?.parse().ok()
}

/// CPU time of the calling process, the calling thread's all counted.
pub(crate) fn own() -> io::Result<Times> {
    thread::sleep(REST);
    by_thread(std::process::id())
}

fn read(tasks: &Path) -> io::Result<Times> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir(tasks)? {
        let path = task?.path();
        let files = ["comm", "schedstat"].map(|file| fs::read_to_string(path.join(file)));
        // A thread may end while its files are read.
        let [Ok(name), Ok(stat)] = files else {
            continue;
        };
        let nanoseconds = stat.split_whitespace().next().and_then(|n| n.parse().ok());
        let nanoseconds: u64 = nanoseconds.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("schedstat is {stat:?}"))
        })?;
        let name = name
            .trim()
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        *times.entry(name.to_owned()).or_default() += nanoseconds;
    }
    Ok(times)
}

/// What was used between two readings.
pub(crate) fn between(start: &Times, end: &Times) -> Times {
    let used = |(name, to): (&String, &u64)| {
        (
            name.clone(),
            to.saturating_sub(start.get(name).copied().unwrap_or(0)),
        )
    };
    end.iter().map(used).collect()
}

/// Measures what a process and this program use from one moment to another.
pub(crate) struct Meter {
    pid: u32,
    page_faults: u64,
    own: Times,
    waited_ns: [u64; 2],
    by_thread: Times,
    started: Instant,
}

/// What was used from one moment to another.
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// CPU time of the process.
    pub(crate) by_thread: Times,
    pub(crate) page_faults: u64,
    pub(crate) waited_ns: u64,
    /// CPU time of this program.
    pub(crate) own: Times,
    pub(crate) own_waited_ns: u64,
}

impl Meter {
    pub(crate) fn start(pid: u32) -> io::Result<Self> {
        let own_pid = std::process::id();
        Ok(Self {
            pid,
            page_faults: page_faults(pid)?,
            own: by_thread(own_pid)?,
            waited_ns: [waited_ns(pid)?, waited_ns(own_pid)?],
            by_thread: by_thread(pid)?,
            started: Instant::now(),
        })
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn stop(&self) -> io::Result<Used> {
        let own_pid = std::process::id();
        let [waited, own_waited] = self.waited_ns;
        Ok(Used {
            seconds: self.started.elapsed().as_secs_f64(),
            by_thread: between(&self.by_thread, &by_thread(self.pid)?),
            page_faults: page_faults(self.pid)? - self.page_faults,
            own: between(&self.own, &by_thread(own_pid)?),
            waited_ns: waited_ns(self.pid)?.saturating_sub(waited),
            own_waited_ns: waited_ns(own_pid)?.saturating_sub(own_waited),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(&str, u64)]) -> Times {
        of.iter()
            .map(|(name, time)| ((*name).to_owned(), *time))
            .collect()
    }

    #[test]
    fn threads_of_one_name_are_added_up() {
        let folder = std::env::temp_dir().join(format!("pvwire-cpu-{}", std::process::id()));
        let tasks = [
            ("1", "tick", "700 5 1"),
            ("2", "shard-0", "40 0 1"),
            ("3", "shard-1", "2 0 1"),
        ];
        for (id, name, stat) in tasks {
            fs::create_dir_all(folder.join(id)).unwrap();
            fs::write(folder.join(id).join("comm"), format!("{name}\n")).unwrap();
            fs::write(folder.join(id).join("schedstat"), format!("{stat}\n")).unwrap();
        }
        fs::create_dir_all(folder.join("4")).unwrap();
        let read = read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.unwrap(), times(&[("shard", 42), ("tick", 700)]));
    }

    #[test]
    fn new_threads_count_from_zero_and_ended_ones_not_at_all() {
        let start = times(&[("tick", 100), ("gone", 50)]);
        let end = times(&[("tick", 130), ("new", 7)]);
        assert_eq!(between(&start, &end), times(&[("new", 7), ("tick", 30)]));
    }

    #[test]
    fn page_faults_are_the_tenth_field_whatever_the_name_is() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 915 22 3 4 5 6\n";
        assert_eq!(minor_faults(stat), Some(915));
        assert_eq!(minor_faults("7 (cut) S 1"), None);
        assert!(page_faults(std::process::id()).unwrap() > 0);
    }

    #[test]
    fn time_without_a_core_is_the_second_field() {
        assert_eq!(waited_of("700 5 1\n"), Some(5));
        assert_eq!(waited_of("700"), None);
        assert!(waited_ns(std::process::id()).is_ok());
    }

    #[test]
    fn own_work_is_counted() {
        let before = own().unwrap();
        let mut number = 1_u64;
        for _ in 0..200_000 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let used: u64 = between(&before, &own().unwrap()).values().sum();
        assert!(used > 10_000, "{used} ns");
    }
}
