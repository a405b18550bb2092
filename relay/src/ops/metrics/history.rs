//! Metrics of the past of PVs; all zero in a relay that keeps none.

use std::fmt;
use std::sync::OnceLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::register;
use super::raise;

/// Numbers of the past, read when `/metrics` is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryReadings {
    /// PVs with a past.
    pub pvs: u64,
    /// Samples that are kept.
    pub samples: u64,
    /// Memory that they use.
    pub bytes: u64,
    /// Samples taken since the start.
    pub samples_total: u64,
    /// Samples removed since the start.
    pub evicted_total: u64,
    /// Ticks that the thread was too slow for.
    pub lost_ticks_total: u64,
    /// Bytes in the folder for the past.
    pub disk_bytes: u64,
    /// Its disk can't be written.
    pub disk_failing: bool,
    /// Its files of which a part was damaged at the start.
    pub disk_damaged: u64,
}

/// Where the numbers come from.
type Source = Box<dyn Fn() -> HistoryReadings + Send + Sync>;

/// The metrics of the past.
#[derive(Default)]
pub(super) struct HistoryMetrics {
    source: OnceLock<Source>,
    pvs: Gauge,
    samples: Gauge,
    bytes: Gauge,
    taken: Counter,
    evicted: Counter,
    lost_ticks: Counter,
    disk_bytes: Gauge,
    disk_failing: Gauge,
    disk_damaged: Gauge,
}

impl fmt::Debug for HistoryMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryMetrics").finish_non_exhaustive()
    }
}

impl HistoryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let (pvs, samples, bytes) = (&metrics.pvs, &metrics.samples, &metrics.bytes);
        let mut gauge = |name: &str, help: &str, metric: &Gauge| {
            register(registry, name, help, metric.clone());
        };
        gauge("history_pvs", "PVs of which past updates are kept", pvs);
        gauge("history_samples", "Past updates that are kept", samples);
        gauge(
            "history_bytes",
            "Memory of the past updates that are kept, which history_memory limits",
            bytes,
        );
        gauge(
            "history_disk_bytes",
            "Bytes of the past updates in history_dir, which history_disk limits",
            &metrics.disk_bytes,
        );
        gauge(
            "history_disk_failing",
            "1 while history_dir can't be written: past updates are kept in memory alone, and the log gives the reason",
            &metrics.disk_failing,
        );
        gauge(
            "history_disk_damaged_files",
            "Files in history_dir of which a damaged part was not read when the relay started",
            &metrics.disk_damaged,
        );
        let mut counter = |name: &str, help: &str, metric: &Counter| {
            register(registry, name, help, metric.clone());
        };
        counter(
            "history_samples_taken",
            "Updates added to the past of their PV",
            &metrics.taken,
        );
        counter(
            "history_samples_evicted",
            "Past updates removed, because they were too old or history_memory was used up",
            &metrics.evicted,
        );
        counter(
            "history_ticks_lost",
            "Ticks whose updates are missing in the past of all PVs, because the relay was too slow to keep them",
            &metrics.lost_ticks,
        );
        metrics
    }

    /// Sets where the numbers come from, once.
    pub(super) fn watch(&self, source: Source) {
        // A relay has one history.
        let _ = self.source.set(source);
    }

    /// Takes the numbers as they are now.
    pub(super) fn take(&self) {
        let Some(source) = self.source.get() else {
            return;
        };
        let readings = source();
        self.pvs.set(readings.pvs as i64);
        self.samples.set(readings.samples as i64);
        self.bytes.set(readings.bytes as i64);
        self.disk_bytes.set(readings.disk_bytes as i64);
        self.disk_failing.set(readings.disk_failing.into());
        self.disk_damaged.set(readings.disk_damaged as i64);
        raise(&self.taken, readings.samples_total);
        raise(&self.evicted, readings.evicted_total);
        raise(&self.lost_ticks, readings.lost_ticks_total);
    }
}
