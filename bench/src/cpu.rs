//! How much CPU time has a process used, by thread?

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// Nanoseconds of CPU by thread name, threads of one name added up, numbers at its end left off.
///
/// From /proc/PID/task/*/schedstat, which is exact and holds the softirq work that the kernel does
/// inside the thread's own system calls. Threads that have ended are not in it.
pub(crate) fn by_thread(pid: &str) -> io::Result<BTreeMap<String, u64>> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        let name = fs::read_to_string(path.join("comm"))?;
        let stat = fs::read_to_string(path.join("schedstat"))?;
        let nanoseconds: u64 = stat
            .split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        let name = name
            .trim()
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        *times.entry(name.to_owned()).or_default() += nanoseconds;
    }
    Ok(times)
}

/// What was used between two readings.
pub(crate) fn between(
    start: &BTreeMap<String, u64>,
    end: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let used = |(name, to): (&String, &u64)| {
        (
            name.clone(),
            to.saturating_sub(start.get(name).copied().unwrap_or(0)),
        )
    };
    end.iter().map(used).collect()
}
