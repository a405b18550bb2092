//! Metrics of the process from /proc, under the names that Prometheus's client libraries use.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::register;

/// Clock ticks per second in /proc; Linux always shows this number to user space.
const TICKS_PER_S: f64 = 100.0;

/// Metrics of the process.
#[derive(Debug)]
pub(super) struct Process {
    registry: Registry,
    cpu_seconds: Counter<f64, AtomicU64>,
    resident_bytes: Gauge,
    virtual_bytes: Gauge,
    threads: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
}

impl Default for Process {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("process");
        let cpu_seconds = Counter::default();
        register(
            &mut registry,
            "cpu_seconds",
            "CPU time of all threads, user and system",
            cpu_seconds.clone(),
        );
        let start = Gauge::<f64, AtomicU64>::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        start.set(now.unwrap_or_default().as_secs_f64());
        register(
            &mut registry,
            "start_time_seconds",
            "When the relay started, in seconds past the POSIX epoch",
            start,
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            register(&mut registry, name, help, gauge.clone());
            gauge
        };
        let resident_bytes = gauge(
            "resident_memory_bytes",
            "Resident memory, which max_memory_mib limits; without socket buffers",
        );
        let virtual_bytes = gauge("virtual_memory_bytes", "Size of the address space");
        let threads = gauge("threads", "Threads of the relay and of the EPICS libraries");
        let open_fds = gauge("open_fds", "Open file descriptors; each client takes one");
        let max_fds = gauge("max_fds", "Maximum number of open file descriptors");
        Self {
            registry,
            cpu_seconds,
            resident_bytes,
            virtual_bytes,
            threads,
            open_fds,
            max_fds,
        }
    }
}

impl Process {
    /// The present values.
    pub(super) fn read(&self) -> &Registry {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<i64>().ok()
        };
        self.resident_bytes.set(field("VmRSS:").unwrap_or(0) << 10);
        self.virtual_bytes.set(field("VmSize:").unwrap_or(0) << 10);
        self.threads.set(field("Threads:").unwrap_or(0));
        let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.open_fds.set(open as i64);
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let files = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        let soft = files.and_then(|line| line.split_whitespace().next()?.parse().ok());
        self.max_fds.set(soft.unwrap_or(0));
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in parentheses may have spaces in it. User and system time are fields 14 and 15.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = times.filter_map(|time| time.parse::<f64>().ok()).sum();
        let since = ticks / TICKS_PER_S - self.cpu_seconds.get();
        self.cpu_seconds.inc_by(since.max(0.0));
        &self.registry
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn process_says_what_it_uses() {
        let process = Process::default();
        let mut text = String::new();
        encode(&mut text, process.read()).unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse::<f64>().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e5, "{text}");
        assert!(value("process_open_fds ") >= 3.0, "{text}");
        assert!(
            value("process_max_fds ") >= value("process_open_fds "),
            "{text}"
        );
        assert!(value("process_threads ") >= 1.0, "{text}");
        assert!(value("process_start_time_seconds ") > 1.7e9, "{text}");
        assert!(value("process_cpu_seconds_total ") >= 0.0, "{text}");
    }
}
