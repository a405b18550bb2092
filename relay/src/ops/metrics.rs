//! What does the relay count, and how is it read by Prometheus?

mod process;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{Outcome, SkipCause};

use self::process::Process;
use crate::ops::latency::{AgeCounter, AgeMetric, Ages};

/// Close code of an ended session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CodeLabel {
    code: u16,
}

/// What became of a put or call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    outcome: String,
}

/// Connection state of PVs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StateLabel {
    state: &'static str,
}

/// A thread of the relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ThreadLabel {
    thread: String,
}

/// What this relay was built from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildLabel {
    version: &'static str,
}

/// Why updates were left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CauseLabel {
    cause: String,
}

impl From<SkipCause> for CauseLabel {
    fn from(cause: SkipCause) -> Self {
        let cause = format!("{cause:?}").to_lowercase();
        Self { cause }
    }
}

/// Counters that the data path adds to, and the registry that they are read from.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    process: Process,
    /// Sessions since the start.
    pub sessions_opened: Counter,
    /// Sessions that ended, by close code.
    pub sessions_closed: Family<CodeLabel, Counter>,
    /// Clients' messages.
    pub requests: Counter,
    /// Frames written for one client alone; groups' shared frames count as `frames_sent` only.
    pub frames_encoded: Counter,
    /// Data frames handed to sockets, one per client and tick.
    pub frames_sent: Counter,
    /// Frames made for large values: once for each, however many clients get it.
    pub large_frames_encoded: Counter,
    /// Frames of large values handed to sockets, one per client.
    pub large_frames_sent: Counter,
    /// Those of them that took the stream beside the WebSocket.
    pub large_frames_streamed: Counter,
    /// Frames that were not sent because the client was behind.
    pub frames_skipped: Counter,
    /// Frames that brought a client up to date again.
    pub catch_ups: Counter,
    /// Updates handed to sockets.
    pub updates_sent: Counter,
    /// Bytes of data frames handed to sockets.
    pub bytes_sent: Counter,
    /// Handshakes and requests that were refused, by HTTP status.
    pub handshakes_refused: Family<CodeLabel, Counter>,
    /// HTTP answers that were ended because the client didn't take them.
    pub answers_cut: Counter,
    /// Connections that ended before TLS was agreed on.
    pub tls_handshakes_failed: Counter,
    /// Times that a source looked for all its servers again because their host names had moved.
    pub sources_renewed: Counter,
    /// Times that changed rules took effect.
    pub rules_changed: Counter,
    /// Whether there are changed rules that can't take effect.
    pub rules_stale: Gauge,
    /// Whether the keys of tokens can't be read again.
    pub keys_stale: Gauge,
    /// When they were read last, in seconds since 1970.
    pub keys_read: Gauge,
    /// Whether there is a changed certificate or key that can't be used.
    pub tls_stale: Gauge,
    /// How old updates were when they had been handed to sockets.
    pub ages_sent: Arc<AgeCounter>,
    ages_received: Arc<AgeCounter>,
    operations: Family<OutcomeLabel, Counter>,
    monitors_active: Gauge,
    pvs: Family<StateLabel, Gauge>,
    sessions_active: Gauge,
    connections: Gauge,
    threads: Family<ThreadLabel, Gauge<f64, AtomicU64>>,
    ticks_late: Counter,
    deliveries_late: Counter,
    memory_charged: Gauge,
    memory_short: Gauge,
    memory_refused: Counter,
    tick_micros: Gauge,
    updates_received: Counter,
    updates_skipped: Family<CauseLabel, Counter>,
    updates_stale: Counter,
    array_bytes_copied: Counter,
    array_bytes_shared: Counter,
    ca_reads: Counter,
    ca_paced_reads: Counter,
    ca_circuits_cut: Counter,
    callback_panics: Counter,
    audit_written: Counter,
    audit_lost: Counter,
    audit_queued: Gauge,
    audit_failing: Gauge,
    audit_last_written: Gauge<f64, AtomicU64>,
    log_lines_lost: Counter,
}

/// Numbers that other parts keep, read when somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Open monitors.
    pub monitors: usize,
    /// PVs in each connection state; `None` while the tick thread doesn't say.
    pub pvs: Option<PvCounts>,
    /// Connected clients.
    pub sessions: usize,
    /// Open connections, those of clients included.
    pub connections: usize,
    /// How long ago each of the threads that write to clients last turned.
    pub shards_turned_ago: Vec<Duration>,
    /// The same of the thread that makes ticks.
    pub ticks_turned_ago: Duration,
    /// Ticks that were late.
    pub ticks_late: u64,
    /// Deliveries that were given to a late shard.
    pub deliveries_late: u64,
    /// Bytes that clients' PVs and answers take in memory.
    pub memory_charged: usize,
    /// Whether memory is short.
    pub memory_short: bool,
    /// Times that a memory budget had no room.
    pub memory_refused: u64,
    /// Length of a tick in microseconds.
    pub tick_micros: u64,
    /// How old updates were on receipt.
    pub ages_received: Ages,
    /// Updates taken in.
    pub updates_received: u64,
    /// Updates lost on the way in.
    pub skipped_by_relay: u64,
    /// Updates that a source put into others.
    pub skipped_by_source: u64,
    /// Updates withheld by filters.
    pub skipped_by_filter: u64,
    /// Updates of a type or PV that was no more.
    pub updates_stale: u64,
    /// Bytes of arrays that were copied out of a library's buffer.
    pub array_bytes_copied: u64,
    /// Bytes of arrays that stayed where a library had put them.
    pub array_bytes_shared: u64,
    /// Reads from circuits of Channel Access.
    pub ca_reads: u64,
    /// Those that waited for more.
    pub ca_paced_reads: u64,
    /// Circuits whose server sent what no server may send.
    pub ca_circuits_cut: u64,
    /// Panics caught in callbacks.
    pub callback_panics: u64,
    /// What became of the audit file's records.
    pub audit: AuditReadings,
    /// Lines of the log that were lost.
    pub log_lines_lost: u64,
}

/// What became of the audit file's records; nothing without an audit file.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditReadings {
    /// Records that were written.
    pub written: u64,
    /// Records that were not.
    pub lost: u64,
    /// Records that wait.
    pub queued: usize,
    /// Whether the file can't be written.
    pub failing: bool,
    /// When the last record was written, in seconds past the POSIX epoch.
    pub last_written: f64,
}

/// PVs in each connection state.
#[derive(Clone, Copy, Debug, Default)]
pub struct PvCounts {
    /// Searched, not answered yet.
    pub connecting: usize,
    /// Searched for as long as `not_found_after_ms`.
    pub not_found: usize,
    /// Connected.
    pub connected: usize,
    /// Were connected and are not.
    pub disconnected: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("pvwire");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let sessions_opened = counter(
            "sessions_opened",
            "WebSocket sessions since the start, ended ones included; refused handshakes are not",
        );
        let requests = counter(
            "requests",
            "Messages from clients, acknowledgements included; pings of WebSocket are not",
        );
        let memory_refused = counter(
            "memory_refused",
            "Times that a PV, value or answer was refused because a memory budget had no room for it",
        );
        let frames_encoded = counter(
            "frames_encoded_private",
            "Frames encoded for one client alone",
        );
        let frames_sent = counter(
            "frames_sent",
            "Data frames handed to sockets, one per client and tick; answers and catch-ups are not",
        );
        let large_frames_encoded = counter(
            "large_frames_encoded",
            "Frames made for large values, once each however many clients get them",
        );
        let large_frames_sent = counter(
            "large_frames_sent",
            "Frames of large values handed to sockets, one per client",
        );
        let large_frames_streamed = counter(
            "large_frames_streamed",
            "Frames of large values that took the stream beside the WebSocket",
        );
        let frames_skipped = counter(
            "frames_skipped",
            "Frames not sent because the client was behind",
        );
        let catch_ups = counter("catch_ups", "Frames that brought a client up to date again");
        let updates_sent = counter(
            "updates_sent",
            "Updates handed to sockets, once per client; those of snapshots and catch-ups included",
        );
        let bytes_sent = counter(
            "bytes_sent",
            "Bytes of data frames and large values handed to sockets, with their WebSocket headers; answers, \
             catch-ups and what TCP and TLS add are not",
        );
        let answers_cut = counter(
            "http_answers_cut",
            "HTTP answers that were ended because the client didn't take them in time; those of streams included",
        );
        let ticks_late = counter(
            "ticks_late",
            "Ticks whose updates were handed on more than half a second after the first of them came",
        );
        let deliveries_late = counter(
            "shard_deliveries_late",
            "Ticks handed to a writer thread that had not finished one for half a second; its clients fall behind",
        );
        let tls_handshakes_failed = counter(
            "tls_handshakes_failed",
            "Connections that ended before TLS was agreed on: plain ones, those too slow, and those by which \
             a client shows that it doesn't trust the certificate",
        );
        let sources_renewed = counter(
            "sources_renewed",
            "Times that all PVs of Channel Access or of pvAccess were searched again because a host name in \
             EPICS's address lists or name servers stood for other addresses",
        );
        let rules_changed = counter(
            "rules_changed",
            "Times that changed rules, a changed pvlist or access security file took effect",
        );
        let updates_received = counter(
            "updates_received",
            "Updates taken in from all sources, once per PV however many clients; those left out on the way in are not",
        );
        let updates_stale = counter("updates_stale", "Updates of a type or PV that was no more");
        let array_bytes_copied = counter(
            "array_bytes_copied",
            "Bytes of arrays copied out of a library's buffer, once each (Channel Access)",
        );
        let array_bytes_shared = counter(
            "array_bytes_shared",
            "Bytes of arrays shared with the library that received them (pvAccess)",
        );
        let ca_reads = counter("ca_reads", "Reads from circuits of Channel Access");
        let ca_paced_reads = counter(
            "ca_paced_reads",
            "Reads that waited a moment for more, because the circuit was busy",
        );
        let ca_circuits_cut = counter(
            "ca_circuits_cut",
            "Circuits of Channel Access that were cut because their server sent what no server may send; the log names it",
        );
        let callback_panics = counter(
            "callback_panics",
            "Panics caught in callbacks from C: each is a fault of the relay",
        );
        let audit_written = counter(
            "audit_records_written",
            "Records of attempts to write that were written to the audit file",
        );
        let audit_lost = counter(
            "audit_records_lost",
            "Attempts to write whose end could not be put on record in the audit file, or not be brought to the \
             disk",
        );
        let log_lines_lost = counter(
            "log_lines_lost",
            "Lines of the log that were lost because what reads them did not keep up",
        );
        let sessions_closed = Family::<CodeLabel, Counter>::default();
        registry.register(
            "sessions_closed",
            "Sessions that ended, by WebSocket close code",
            sessions_closed.clone(),
        );
        let handshakes_refused = Family::<CodeLabel, Counter>::default();
        registry.register(
            "handshakes_refused",
            "WebSocket handshakes and requests for pages that were refused, by HTTP status; 429 when an address or \
             user has or opens too many connections",
            handshakes_refused.clone(),
        );
        let operations = Family::<OutcomeLabel, Counter>::default();
        registry.register(
            "operations",
            "Puts and calls that clients asked for, by outcome",
            operations.clone(),
        );
        let updates_skipped = Family::<CauseLabel, Counter>::default();
        for cause in SkipCause::ALL.iter().skip(1) {
            // Shown as 0 from the beginning.
            drop(updates_skipped.get_or_create(&CauseLabel::from(*cause)));
        }
        registry.register(
            "updates_skipped",
            "Updates left out, by cause: relay (more came than it could take in; once per PV), source (the \
             server or its library put them into others: pvAccess only, at least so many), filter (a \
             subscription asked for fewer; once per PV and filter), behind (a client didn't keep up; once \
             per client), paced (a client asked to be brought up to date at intervals; likewise)",
            updates_skipped.clone(),
        );
        let mut ages = |name: &str, help: &str| {
            let ages = Arc::<AgeCounter>::default();
            registry.register(name, help, AgeMetric(Arc::clone(&ages)));
            ages
        };
        let ages_received = ages(
            "update_age_received_seconds",
            "From the IOC's stamp until the relay has the update, of one update in 16 of each PV. Differences \
             between the clocks of IOC and relay are in it; a stamp that is still to come counts as 0",
        );
        let ages_sent = ages(
            "update_age_sent_seconds",
            "From the IOC's stamp until a tick's frames have been handed to the sockets of one shard's clients, \
             of eight updates a tick and shard; snapshots, catch-ups and large values are not among them",
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let pvs = Family::<StateLabel, Gauge>::default();
        let monitors_active = gauge("monitors_active", "Open monitors, lingering ones included");
        let rules_stale = gauge(
            "rules_stale",
            "1 while the configuration file, pvlist or access security file has an error and so what it said \
             before holds; 0 otherwise",
        );
        let keys_stale = gauge(
            "keys_stale",
            "1 while jwt_keys can't be read or holds no key for tokens, and so the keys from before hold, for \
             jwt_keys_keep_ms at most; 0 otherwise",
        );
        let keys_read = gauge(
            "keys_read_timestamp_seconds",
            "When jwt_keys was last read without an error, in seconds since 1970; 0 for never",
        );
        let tls_stale = gauge(
            "tls_stale",
            "1 while a changed certificate or key can't be used, and so the one before is shown; 0 otherwise",
        );
        let sessions_active = gauge("sessions_active", "Connected clients");
        let connections = gauge(
            "connections_open",
            "Open TCP connections of clients, with their streams of large values, and of HTTP requests",
        );
        let memory_charged = gauge(
            "memory_charged_bytes",
            "Memory of open PVs, their values and answers to gets, which the budgets of clients, users and \
             addresses bound",
        );
        let memory_short = gauge(
            "memory_short",
            "1 while the relay uses more memory than max_memory_mib, so that new clients and new PVs are \
             refused; 0 otherwise",
        );
        let tick_micros = gauge("tick_length_microseconds", "Present length of a tick");
        let audit_queued = gauge(
            "audit_queue_length",
            "Records that wait to be written to the audit file",
        );
        let audit_failing = gauge(
            "audit_failing",
            "1 while the audit file can't be written, because of an error or because its disk does not answer; \
             0 otherwise and without an audit file",
        );
        let audit_last_written = Gauge::<f64, AtomicU64>::default();
        registry.register(
            "audit_last_written_timestamp_seconds",
            "When a record was last written to the audit file, in seconds past the POSIX epoch; 0 before the \
             first",
            audit_last_written.clone(),
        );
        registry.register(
            "pvs",
            "Monitored PVs by connection state, as in /status; disconnected ones were connected before",
            pvs.clone(),
        );
        let threads = Family::<ThreadLabel, Gauge<f64, AtomicU64>>::default();
        registry.register(
            "thread_turned_ago_seconds",
            "Time since the thread that makes ticks (tick) or writes to clients (shard-0 …) last turned; they turn \
             at least twice a second, and /live is 503 after 10 s",
            threads.clone(),
        );
        let build = Family::<BuildLabel, Gauge>::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&BuildLabel { version }).set(1);
        registry.register("build_info", "1, with the relay's version", build);
        Self {
            registry,
            process: Process::default(),
            sessions_opened,
            sessions_closed,
            requests,
            frames_encoded,
            frames_sent,
            large_frames_encoded,
            large_frames_sent,
            large_frames_streamed,
            frames_skipped,
            catch_ups,
            updates_sent,
            bytes_sent,
            handshakes_refused,
            answers_cut,
            tls_handshakes_failed,
            sources_renewed,
            rules_changed,
            rules_stale,
            keys_stale,
            keys_read,
            tls_stale,
            ages_sent,
            ages_received,
            operations,
            monitors_active,
            pvs,
            sessions_active,
            connections,
            threads,
            ticks_late,
            deliveries_late,
            memory_charged,
            memory_short,
            memory_refused,
            tick_micros,
            updates_received,
            updates_skipped,
            updates_stale,
            array_bytes_copied,
            array_bytes_shared,
            ca_reads,
            ca_paced_reads,
            ca_circuits_cut,
            callback_panics,
            audit_written,
            audit_lost,
            audit_queued,
            audit_failing,
            audit_last_written,
            log_lines_lost,
        }
    }
}

impl Metrics {
    /// Counts the end of a session.
    pub fn closed(&self, code: CloseCode) {
        self.sessions_closed
            .get_or_create(&CodeLabel {
                code: code.number(),
            })
            .inc();
    }

    /// Counts a put or call that was answered.
    pub fn operation_ended(&self, outcome: Outcome) {
        let outcome = format!("{outcome:?}");
        self.operations
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
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

    /// Counts a handshake that was refused.
    pub fn refused(&self, status: u16) {
        self.handshakes_refused
            .get_or_create(&CodeLabel { code: status })
            .inc();
    }

    /// All of it in OpenMetrics text, which Prometheus reads.
    #[must_use]
    pub fn text(&self, readings: Readings) -> String {
        let raise = |counter: &Counter, to: u64| {
            counter.inc_by(to.saturating_sub(counter.get()));
        };
        self.ages_received.set(readings.ages_received);
        raise(&self.updates_received, readings.updates_received);
        for (cause, total) in [
            (SkipCause::Relay, readings.skipped_by_relay),
            (SkipCause::Source, readings.skipped_by_source),
            (SkipCause::Filter, readings.skipped_by_filter),
        ] {
            let counter = self.updates_skipped.get_or_create(&cause.into());
            raise(&counter, total);
        }
        raise(&self.ticks_late, readings.ticks_late);
        raise(&self.deliveries_late, readings.deliveries_late);
        let shards = (readings.shards_turned_ago.iter().enumerate())
            .map(|(number, ago)| (format!("shard-{number}"), *ago));
        for (thread, ago) in shards.chain([("tick".to_owned(), readings.ticks_turned_ago)]) {
            let gauge = self.threads.get_or_create(&ThreadLabel { thread });
            gauge.set(ago.as_secs_f64());
        }
        raise(&self.updates_stale, readings.updates_stale);
        raise(&self.array_bytes_copied, readings.array_bytes_copied);
        raise(&self.array_bytes_shared, readings.array_bytes_shared);
        raise(&self.ca_reads, readings.ca_reads);
        raise(&self.ca_paced_reads, readings.ca_paced_reads);
        raise(&self.ca_circuits_cut, readings.ca_circuits_cut);
        raise(&self.callback_panics, readings.callback_panics);
        let audit = readings.audit;
        raise(&self.audit_written, audit.written);
        raise(&self.audit_lost, audit.lost);
        raise(&self.log_lines_lost, readings.log_lines_lost);
        self.audit_queued.set(audit.queued as i64);
        self.audit_failing.set(audit.failing.into());
        self.audit_last_written.set(audit.last_written);
        self.monitors_active.set(readings.monitors as i64);
        match readings.pvs {
            Some(pvs) => {
                for (state, count) in [
                    ("connecting", pvs.connecting),
                    ("notFound", pvs.not_found),
                    ("connected", pvs.connected),
                    ("disconnected", pvs.disconnected),
                ] {
                    self.pvs
                        .get_or_create(&StateLabel { state })
                        .set(count as i64);
                }
            }
            // Better none than old ones.
            None => self.pvs.clear(),
        }
        self.sessions_active.set(readings.sessions as i64);
        self.connections.set(readings.connections as i64);
        self.tick_micros.set(readings.tick_micros as i64);
        self.memory_charged.set(readings.memory_charged as i64);
        self.memory_short.set(readings.memory_short.into());
        raise(&self.memory_refused, readings.memory_refused);
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, self.process.read()))
            .and_then(|()| encode_eof(&mut text));
        if written.is_err() {
            text.clear();
            let _ = writeln!(text, "# the metrics couldn't be written");
        }
        text
    }
}
