//! Position and speed of a replay, and the PVs by which pages show and set them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pvwire_schema::types::{Alarm, Limits, Metadata, Outcome, PutValue, Severity, ValueType};

use crate::config::ReplaySpeed;
use crate::ingest::{
    Event, Line, Monitor, OpDone, OpEnd, OpTicket, OpenError, Put, Queue, RowValue, Source,
};
use crate::ops::latency::wall_ns;

/// Scheme of the PVs.
const SCHEME: &str = "replay";

/// A wait without an end, as of a paused replay.
const LONG: Duration = Duration::from_secs(3600);

/// A PV that controls the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// Seconds since the begin.
    Position,
    /// Times the speed of the recording; 0 pauses.
    Speed,
}

/// Where the replay is.
#[derive(Debug)]
struct Clock {
    /// Time of the recording, and when it was reached.
    reached: (i64, Instant),
    speed: f64,
    seek_ns: Option<i64>,
    /// The open PVs.
    lines: Vec<(Setting, Weak<Line>)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Control {
    span_ns: (i64, i64),
    clock: Mutex<Clock>,
    thread: OnceLock<Thread>,
}

impl Clock {
    fn now_ns(&self, now: Instant) -> i64 {
        let (at_ns, at) = self.reached;
        let passed = now.saturating_duration_since(at).as_nanos() as f64 * self.speed;
        at_ns.saturating_add(passed as i64)
    }

    fn wait_for(&self, due_ns: i64, now: Instant) -> Duration {
        let left_ns = due_ns.saturating_sub(self.now_ns(now));
        if left_ns <= 0 {
            return Duration::ZERO;
        }
        let wait = Duration::try_from_secs_f64(left_ns as f64 / 1e9 / self.speed);
        wait.unwrap_or(LONG).clamp(Duration::from_nanos(1), LONG)
    }
}

impl Control {
    pub(super) fn new(span_ns: (i64, i64), speed: f64) -> Self {
        Self {
            span_ns,
            clock: Mutex::new(Clock {
                reached: (span_ns.0, Instant::now()),
                speed,
                seek_ns: None,
                lines: Vec::new(),
            }),
            thread: OnceLock::new(),
        }
    }

    /// The thread that is woken when something is set.
    pub(super) fn wakes(&self, thread: Thread) {
        // A replay has one thread.
        let _ = self.thread.set(thread);
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        // Each change is one assignment.
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn go_to(&self, time_ns: i64, now: Instant) {
        self.clock().reached = (time_ns, now);
    }

    pub(super) fn take_seek(&self) -> Option<i64> {
        self.clock().seek_ns.take()
    }

    /// How long until this time of the recording.
    pub(super) fn wait_for(&self, due_ns: i64, now: Instant) -> Duration {
        self.clock().wait_for(due_ns, now)
    }

    /// How long until a looped recording begins again: its last state stays for a second.
    pub(super) fn wait_for_repeat(&self, now: Instant) -> Duration {
        let clock = self.clock();
        if clock.speed == 0.0 {
            return LONG;
        }
        let end_ns = self.span_ns.1.saturating_add((clock.speed * 1e9) as i64);
        clock.wait_for(end_ns, now)
    }

    fn length_s(&self) -> f64 {
        (self.span_ns.1 - self.span_ns.0) as f64 / 1e9
    }

    fn value(&self, setting: Setting, clock: &Clock) -> f64 {
        match setting {
            Setting::Speed => clock.speed,
            Setting::Position => {
                let (first, last) = self.span_ns;
                let now_ns = clock.now_ns(Instant::now()).clamp(first, last);
                ((now_ns - first) as f64 / 1e6).round() / 1e3
            }
        }
    }

    /// Shows where the replay is.
    pub(super) fn show(&self) {
        let mut clock = self.clock();
        clock.lines.retain(|(_, line)| line.strong_count() > 0);
        for (setting, line) in &clock.lines {
            if let Some(line) = line.upgrade() {
                show(&line, self.value(*setting, &clock));
            }
        }
    }

    fn put(&self, setting: Setting, value: &PutValue) -> OpEnd {
        let number = match value {
            PutValue::Number(number) => Some(*number),
            PutValue::Int64(number) => Some(*number as f64),
            PutValue::UInt64(number) => Some(*number as f64),
            PutValue::Text(text) => text.trim().parse().ok(),
            PutValue::TextArray(_) | PutValue::Array(_) => None,
        };
        let refused = |why: String| OpEnd::failed(Outcome::BadValue, why);
        let mut clock = self.clock();
        match (setting, number) {
            (Setting::Position, Some(number)) if (0.0..=self.length_s()).contains(&number) => {
                clock.seek_ns = Some(self.span_ns.0 + (number * 1e9) as i64);
            }
            (Setting::Position, _) => {
                return refused(format!("expected seconds from 0 to {}", self.length_s()));
            }
            (Setting::Speed, Some(number)) if number == 0.0 || ReplaySpeed::fits(number) => {
                let now = Instant::now();
                clock.reached = (clock.now_ns(now), now);
                clock.speed = number;
            }
            (Setting::Speed, _) => {
                return refused("expected 0 (pause) or a number from 0.1 to 100".to_owned());
            }
        }
        drop(clock);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        OpEnd::DONE
    }
}

fn show(line: &Line, value: f64) {
    let alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };
    line.update(wall_ns(), RowValue::Number(value), alarm);
}

/// The source `replay`.
pub(super) struct ControlSource(pub(super) Arc<Control>);

impl Source for ControlSource {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let (setting, units, high, description) = match name {
            "position" => {
                let description = "Position of the replay; write it to seek";
                (Setting::Position, "s", self.0.length_s(), description)
            }
            "speed" => {
                let description = "Speed of the replay; 0 pauses it";
                (Setting::Speed, "", 100.0, description)
            }
            _ => {
                return Err(OpenError::name(
                    "expected replay://position or replay://speed",
                ));
            }
        };
        line.event(Event::Access {
            read: true,
            write: true,
        });
        line.connected(false);
        let limits = Limits { low: 0.0, high };
        line.event(Event::Metadata(Box::new(Metadata {
            value_type: ValueType::Float64,
            element_count: 1,
            units: units.to_owned(),
            precision: Some(1),
            display: limits,
            control: limits,
            description: description.to_owned(),
            epoch: line.epoch(),
            ..Metadata::default()
        })));
        let mut clock = self.0.clock();
        show(&line, self.0.value(setting, &clock));
        let line = Arc::new(line);
        clock.lines.push((setting, Arc::downgrade(&line)));
        Ok(Box::new(ControlMonitor {
            control: Arc::clone(&self.0),
            setting,
            _line: line,
        }))
    }
}

struct ControlMonitor {
    control: Arc<Control>,
    setting: Setting,
    /// Until it is dropped the PV is shown.
    _line: Arc<Line>,
}

impl Monitor for ControlMonitor {
    fn put(&self, put: Put, done: OpDone) -> OpTicket {
        done(self.control.put(self.setting, &put.value));
        self.control.show();
        OpTicket::ended()
    }
}
