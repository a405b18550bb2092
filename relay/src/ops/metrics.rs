//! The relay's metrics, and their text for Prometheus.

mod fleet;
mod history;
mod labels;
mod process;
mod readings;
mod text_format;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Outcome, SkipCause};

use self::fleet::FleetMetrics;
pub use self::fleet::FleetReadings;
use self::history::HistoryMetrics;
pub use self::history::HistoryReadings;
use self::labels::register;
pub use self::labels::{
    BuildLabel, CauseLabel, CodeLabel, OutcomeLabel, PvLabel, ServerLabel, StateLabel, ThreadLabel,
};
use self::process::Process;
pub use self::readings::{AuditReadings, PvCounts, Readings};
pub use self::text_format::TextFormat;
use crate::ops::latency::{AgeCounter, AgeMetric};

/// Maximum number of PVs, and of servers, that have separate series.
const MOST_LABELS: usize = 20;

/// A gauge with a fraction.
type FloatGauge = Gauge<f64, AtomicU64>;

/// Declares `Metrics`: each field with its type, its name and its help, which is also its documentation.
macro_rules! metrics {
    ($($visibility:vis $field:ident: $type:ty = $name:literal, $help:literal;)*) => {
        /// Counters that the data path adds to, and the registry that they are read from.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            process: Process,
            fleet: FleetMetrics,
            history: HistoryMetrics,
            /// Ages of updates when they were handed to sockets.
            pub ages_sent: Arc<AgeCounter>,
            ages_received: Arc<AgeCounter>,
            $(#[doc = $help] $visibility $field: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("pvwire");
                $(
                    let $field = <$type>::default();
                    register(&mut registry, $name, $help, $field.clone());
                )*
                let [ages_received, ages_sent] = ages(&mut registry);
                let fleet = FleetMetrics::register(&mut registry);
                let history = HistoryMetrics::register(&mut registry);
                let metrics = Self {
                    registry,
                    process: Process::default(),
                    fleet,
                    history,
                    ages_sent,
                    ages_received,
                    $($field,)*
                };
                metrics.show_constants();
                metrics
            }
        }
    };
}

metrics! {
    pub sessions_opened: Counter = "sessions_opened",
        "Sessions since the start, ended ones included: WebSockets, and requests below /pv/. Refused ones are not counted";
    pub sessions_closed: Family<CodeLabel, Counter> = "sessions_closed",
        "Ended sessions, by WebSocket close code";
    pub requests: Counter = "requests",
        "Messages from clients, acknowledgements included; WebSocket pings are not counted";
    pub frames_encoded: Counter = "frames_encoded_private",
        "Data frames encoded for one client alone; frames shared by a group are not counted";
    pub frames_sent: Counter = "frames_sent",
        "Data frames handed to sockets, one per client and tick; answers and catch-up frames are not counted";
    pub large_frames_encoded: Counter = "large_frames_encoded",
        "Frames encoded for large values, once each however many clients receive them";
    pub large_frames_sent: Counter = "large_frames_sent",
        "Frames of large values handed to sockets, one per client";
    pub large_frames_streamed: Counter = "large_frames_streamed",
        "Frames of large values sent by an HTTP stream in place of the WebSocket";
    pub frames_skipped: Counter = "frames_skipped",
        "Data frames not sent because the client was behind";
    pub catch_ups: Counter = "catch_ups",
        "Catch-up frames, which bring a client that was behind up to date";
    pub updates_sent: Counter = "updates_sent",
        "Updates handed to sockets, once per client; those in snapshots and catch-up frames included";
    pub bytes_sent: Counter = "bytes_sent",
        "Bytes of data frames and large values handed to sockets, with WebSocket headers; without answers, catch-up frames and the overhead of TCP and TLS";
    pub handshakes_refused: Family<CodeLabel, Counter> = "handshakes_refused",
        "Refused WebSocket handshakes and HTTP requests, by HTTP status; 429 is an address or user with too many connections or too many new ones";
    pub answers_cut: Counter = "http_answers_cut",
        "HTTP answers, streams included, that were aborted because the client did not read them in time";
    pub archiver_requests: Counter = "archiver_requests",
        "Requests forwarded to archivers";
    pub archiver_failures: Counter = "archiver_failures",
        "Requests to archivers without a whole answer: not reached, too slow, refused, cut or too long; without PVs that an archiver doesn't have";
    pub archiver_bytes: Counter = "archiver_bytes",
        "Bytes of archivers' answers passed on to clients";
    pub archiver_names: Gauge = "archiver_names",
        "Names that archivers list, as they were last read";
    pub archiver_names_failing: Gauge = "archiver_names_failing",
        "Archivers whose names cannot be read, so that those that were read before stay";
    pub channelfinder_names: Gauge = "channelfinder_names",
        "Names that ChannelFinder lists, as they were last read";
    pub channelfinder_reads: Counter = "channelfinder_reads",
        "Times that all names were read from ChannelFinder";
    pub channelfinder_failures: Counter = "channelfinder_failures",
        "Attempts to read all names from ChannelFinder that failed; the log gives the reason";
    pub channelfinder_failing: Gauge = "channelfinder_failing",
        "1 while names cannot be read from ChannelFinder and those that were read before stay; otherwise 0";
    pub channelfinder_read: Gauge = "channelfinder_read_timestamp_seconds",
        "When all names were last read from ChannelFinder, in seconds past the POSIX epoch; 0 for never";
    pub images_skipped: Counter = "http_images_skipped",
        "Images that clients of /pv/NAME.mjpeg did not get, because they read more slowly than images came";
    pub tls_handshakes_failed: Counter = "tls_handshakes_failed",
        "Failed TLS handshakes: connections without TLS, handshakes that took too long, and clients that do not trust the certificate";
    pub sources_renewed: Counter = "sources_renewed",
        "Times that all Channel Access or pvAccess PVs were searched again because a host name in EPICS's address lists or name server lists resolved to other addresses";
    pub rules_changed: Counter = "rules_changed",
        "Times that changed rules, or a changed pvlist or access security file, took effect";
    pub rules_stale: Gauge = "rules_stale",
        "1 while the configuration file, pvlist or access security file contains an error and the previous rules stay in effect; otherwise 0";
    pub keys_stale: Gauge = "keys_stale",
        "1 while jwt_keys cannot be read or contains no key and the previous keys stay valid, for at most jwt_keys_keep_ms; otherwise 0";
    pub keys_read: Gauge = "keys_read_timestamp_seconds",
        "When jwt_keys was last read successfully, in seconds past the POSIX epoch; 0 for never";
    pub tls_stale: Gauge = "tls_stale",
        "1 while a changed certificate or key cannot be used and the previous one stays in use; otherwise 0";
    operations: Family<OutcomeLabel, Counter> = "operations",
        "Puts and calls of clients, by outcome";
    monitors_active: Gauge = "monitors_active",
        "Open monitors, lingering ones included";
    pvs: Family<StateLabel, Gauge> = "pvs",
        "Monitored PVs by connection state, as in /status; disconnected PVs were connected before";
    pv_bytes: Family<PvLabel, Counter> = "pv_received_bytes",
        "Bytes of the values received of a PV since it was opened, for the 20 PVs with the most: eight for a number, the contents of arrays, strings and structures";
    server_bytes: Family<ServerLabel, Counter> = "server_received_bytes",
        "Bytes of the values received from a server for the PVs that are open, for the 20 servers with the most";
    sessions_active: Gauge = "sessions_active",
        "Connected clients";
    connections: Gauge = "connections_open",
        "Open TCP connections: clients, their streams of large values, and HTTP requests";
    threads: Family<ThreadLabel, FloatGauge> = "thread_turned_ago_seconds",
        "Time since the last loop iteration of the tick thread (tick) and of each writer thread (shard-0 …); normally below 2.5 s. After 10 s /live answers 503";
    ticks_late: Counter = "ticks_late",
        "Ticks whose updates were handed on more than half a second after the first of them was received";
    deliveries_late: Counter = "shard_deliveries_late",
        "Ticks handed to a writer thread that had finished none for half a second; its clients fall behind";
    memory_charged: Gauge = "memory_charged_bytes",
        "Memory charged to the budgets of clients, users and addresses: open PVs, their values and answers to gets";
    memory_short: Gauge = "memory_short",
        "1 while the relay uses more memory than max_memory_mib and refuses new clients and new PVs; otherwise 0";
    memory_refused: Counter = "memory_refused",
        "PVs, values and answers that were refused because they exceeded a memory budget";
    tick_length: FloatGauge = "tick_length_seconds",
        "Current length of a tick";
    updates_received: Counter = "updates_received",
        "Updates received from all sources, once per PV however many clients; those left out at the intake are not counted";
    updates_skipped: Family<CauseLabel, Counter> = "updates_skipped",
        "Updates left out, by cause: relay (more than the relay could take in; once per PV), source (merged by the server or its library; pvAccess only, a lower bound), filter (a subscription's filter; once per PV and filter), bus (lost between two relays; once per PV), behind (the client did not keep up; once per client), paced (the client asked for updates at intervals; once per client)";
    updates_stale: Counter = "updates_stale",
        "Updates discarded because their PV was closed or had changed type";
    array_bytes_copied: Counter = "array_bytes_copied",
        "Bytes of arrays copied out of a library's buffer, once each (Channel Access)";
    array_bytes_shared: Counter = "array_bytes_shared",
        "Bytes of arrays shared with the library that received them (pvAccess)";
    ca_reads: Counter = "ca_reads",
        "Reads from Channel Access circuits";
    ca_paced_reads: Counter = "ca_paced_reads",
        "Reads from busy Channel Access circuits that waited a moment for more data";
    ca_circuits_cut: Counter = "ca_circuits_cut",
        "Channel Access circuits closed because their server sent a message after which no other could be found; the log names the server";
    ca_messages_ignored: Counter = "ca_messages_ignored",
        "Invalid messages of Channel Access servers that were ignored; the log names the server, and connection.reason of a PV says why it has no value";
    callback_panics: Counter = "callback_panics",
        "Panics caught in callbacks from C; each is a bug in the relay";
    audit_written: Counter = "audit_records_written",
        "Records written to the audit file";
    audit_lost: Counter = "audit_records_lost",
        "Attempts to write whose record could not be written to the audit file or flushed to disk";
    audit_queued: Gauge = "audit_queue_length",
        "Records waiting to be written to the audit file";
    audit_failing: Gauge = "audit_failing",
        "1 while the audit file cannot be written, because of an error or because its disk does not respond; otherwise 0";
    audit_last_written: FloatGauge = "audit_last_written_timestamp_seconds",
        "When a record was last written to the audit file, in seconds past the POSIX epoch; 0 for never";
    log_lines_lost: Counter = "log_lines_lost",
        "Log lines dropped because stderr was not read fast enough";
    build: Family<BuildLabel, Gauge> = "build_info",
        "Always 1; the label is the relay's version";
}

/// Registers the histograms of ages, on receipt and when sent.
fn ages(registry: &mut Registry) -> [Arc<AgeCounter>; 2] {
    let ages = [
        (
            "update_age_received_seconds",
            "Time from the IOC's time stamp until the relay received the update; one in 16 updates of each PV. Includes the difference between the clocks of IOC and relay; a time stamp in the future counts as 0",
        ),
        (
            "update_age_sent_seconds",
            "Time from the IOC's time stamp until a tick's frames were handed to the sockets of one writer thread; eight updates per tick and thread. Without snapshots, catch-up frames and large values",
        ),
    ];
    ages.map(|(name, help)| {
        let ages = Arc::<AgeCounter>::default();
        register(registry, name, help, AgeMetric(Arc::clone(&ages)));
        ages
    })
}

/// Sets a counter to what another module counted.
fn raise(counter: &Counter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

impl Metrics {
    /// Counts the end of a session.
    pub fn closed(&self, code: CloseCode) {
        let code = code.number();
        self.sessions_closed
            .get_or_create(&CodeLabel { code })
            .inc();
    }

    /// Counts a put or call that was answered.
    pub fn operation_ended(&self, outcome: Outcome) {
        let outcome = format!("{outcome:?}");
        self.operations
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
    }

    /// Puts and calls that were answered.
    #[must_use]
    pub fn operations_total(&self) -> u64 {
        let ended = Outcome::ALL.iter().filter_map(|outcome| {
            let outcome = format!("{outcome:?}");
            let count = self.operations.get(&OutcomeLabel { outcome })?;
            Some(count.get())
        });
        ended.sum()
    }

    /// Counts updates that were left out.
    pub fn skipped(&self, cause: SkipCause, count: u64) {
        let cause = CauseLabel::from(cause);
        self.updates_skipped.get_or_create(&cause).inc_by(count);
    }

    /// Updates that were left out for this cause.
    #[must_use]
    pub fn skipped_total(&self, cause: SkipCause) -> u64 {
        let cause = CauseLabel::from(cause);
        self.updates_skipped.get_or_create(&cause).get()
    }

    /// Counts a handshake or request that was refused with this HTTP status.
    pub fn refused(&self, status: u16) {
        self.handshakes_refused
            .get_or_create(&CodeLabel { code: status })
            .inc();
    }

    /// Sets where the numbers of the fleet come from, which this relay joins; `None` after it has left the fleet.
    pub fn watch_fleet(&self, read: impl Fn() -> Option<FleetReadings> + Send + Sync + 'static) {
        self.fleet.watch(Box::new(read));
    }

    /// Sets where the numbers of the past come from, which this relay keeps.
    pub fn watch_history(&self, read: impl Fn() -> HistoryReadings + Send + Sync + 'static) {
        self.history.watch(Box::new(read));
    }

    /// All metrics as text.
    #[must_use]
    pub fn text(&self, readings: Readings, format: TextFormat) -> String {
        self.take_updates(&readings);
        self.take_audit(readings.audit);
        self.take_threads(&readings);
        self.take_pvs(readings.pvs);
        self.take_bytes(&readings);
        self.fleet.take();
        self.history.take();
        raise(&self.callback_panics, readings.callback_panics);
        raise(&self.log_lines_lost, readings.log_lines_lost);
        raise(&self.memory_refused, readings.memory_refused);
        self.monitors_active.set(readings.monitors as i64);
        self.sessions_active.set(readings.sessions as i64);
        self.connections.set(readings.connections as i64);
        self.memory_charged.set(readings.memory_charged as i64);
        self.memory_short.set(readings.memory_short.into());
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, self.process.read()))
            .and_then(|()| encode_eof(&mut text));
        // A `String` takes any text.
        debug_assert!(written.is_ok());
        format.of_open_metrics(text)
    }

    /// Shows the version, and each cause as 0 from the start.
    fn show_constants(&self) {
        let version = env!("CARGO_PKG_VERSION");
        self.build.get_or_create(&BuildLabel { version }).set(1);
        for cause in SkipCause::ALL.iter().skip(1) {
            drop(
                self.updates_skipped
                    .get_or_create(&CauseLabel::from(*cause)),
            );
        }
    }

    fn take_updates(&self, readings: &Readings) {
        self.ages_received.set(readings.ages_received);
        raise(&self.updates_received, readings.updates_received);
        for (cause, total) in [
            (SkipCause::Relay, readings.skipped_by_relay),
            (SkipCause::Source, readings.skipped_by_source),
            (SkipCause::Filter, readings.skipped_by_filter),
            (SkipCause::Bus, readings.lost_on_bus),
        ] {
            let counter = self.updates_skipped.get_or_create(&cause.into());
            raise(&counter, total);
        }
        raise(&self.updates_stale, readings.updates_stale);
        raise(&self.array_bytes_copied, readings.array_bytes_copied);
        raise(&self.array_bytes_shared, readings.array_bytes_shared);
        raise(&self.ca_reads, readings.ca_reads);
        raise(&self.ca_paced_reads, readings.ca_paced_reads);
        raise(&self.ca_circuits_cut, readings.ca_circuits_cut);
        raise(&self.ca_messages_ignored, readings.ca_messages_ignored);
    }

    fn take_audit(&self, audit: AuditReadings) {
        raise(&self.audit_written, audit.written);
        raise(&self.audit_lost, audit.lost);
        self.audit_queued.set(audit.queued as i64);
        self.audit_failing.set(audit.failing.into());
        self.audit_last_written.set(audit.last_written);
    }

    fn take_threads(&self, readings: &Readings) {
        raise(&self.ticks_late, readings.ticks_late);
        raise(&self.deliveries_late, readings.deliveries_late);
        self.tick_length.set(readings.tick_length.as_secs_f64());
        let set = |thread: String, ago: Duration| {
            let gauge = self.threads.get_or_create(&ThreadLabel { thread });
            gauge.set(ago.as_secs_f64());
        };
        set("tick".to_owned(), readings.ticks_turned_ago);
        for (number, ago) in readings.shards_turned_ago.iter().enumerate() {
            set(format!("shard-{number}"), *ago);
        }
    }

    /// Shows those with the most bytes; the others would make too many series.
    fn take_bytes(&self, readings: &Readings) {
        self.pv_bytes.clear();
        for (pv, bytes) in readings.largest_pvs.iter().take(MOST_LABELS) {
            let pv = pv.to_string();
            self.pv_bytes.get_or_create(&PvLabel { pv }).inc_by(*bytes);
        }
        self.server_bytes.clear();
        for (server, bytes) in readings.servers.iter().take(MOST_LABELS) {
            let label = ServerLabel {
                server: server.to_string(),
            };
            self.server_bytes.get_or_create(&label).inc_by(*bytes);
        }
    }

    fn take_pvs(&self, pvs: Option<PvCounts>) {
        let Some(pvs) = pvs else {
            // No counts are better than old ones.
            self.pvs.clear();
            return;
        };
        for (state, count) in [
            ("connecting", pvs.connecting),
            ("notFound", pvs.not_found),
            ("connected", pvs.connected),
            ("disconnected", pvs.disconnected),
        ] {
            let gauge = self.pvs.get_or_create(&StateLabel { state });
            gauge.set(count as i64);
        }
    }
}
