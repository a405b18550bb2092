//! Callbacks of a pvAccess monitor, which become rows and events of the PVs that it serves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pvwire_epics::Ticket;
use pvwire_epics::pva::{self, OpError, PvaEvents, TypeInfo, ValueKind};
use pvwire_schema::types::{
    Alarm, BlobValue, Detail, Expected, Metadata, Outcome, Severity, ValueType,
};

use super::field::{Field, NoSuchField};
use super::value::{field, limits, node, op_end, put_value, structure, value_type, whole};
use crate::ingest::{Event, LastPut, Line, OpDone, OpEnd, Put, RowValue};

/// Offset of the alarm status numbers that are pvAccess's alarm classes.
const CLASS: u16 = 100;

/// Number of these classes.
const CLASSES: u16 = 8;

/// The class "undefined", also for numbers that aren't classes.
const UNDEFINED: u16 = 6;

/// Alarm conditions of Channel Access by number. An IOC sends them as the message of a record's
/// alarm.
const CONDITIONS: [&str; 22] = [
    "NO_ALARM",
    "READ",
    "WRITE",
    "HIHI",
    "HIGH",
    "LOLO",
    "LOW",
    "STATE",
    "COS",
    "COMM",
    "TIMEOUT",
    "HWLIMIT",
    "CALC",
    "SCAN",
    "LINK",
    "SOFT",
    "BAD_SUB",
    "UDF",
    "DISABLE",
    "SIMM",
    "READ_ACCESS",
    "WRITE_ACCESS",
];

/// The callbacks of one structure's monitor, for all of its PVs.
pub(super) struct Events {
    wirings: Vec<Arc<Wiring>>,
    /// Whether this monitor has connected before.
    has_connected: AtomicBool,
}

impl Events {
    pub(super) fn new(wirings: Vec<Arc<Wiring>>) -> Self {
        Self {
            wirings,
            has_connected: AtomicBool::new(false),
        }
    }
}

/// What was last sent of a field.
#[derive(Default)]
struct Shown {
    /// The structure's type differs from that of the connection before.
    is_changed: bool,
    /// Why there is no such field.
    missing: Option<NoSuchField>,
    /// The metadata of this connection.
    metadata: Option<Metadata>,
    /// Type and element count, of this or an earlier connection.
    kind: Option<(ValueType, u32)>,
    /// Whether pvAccess can write it.
    is_writable: bool,
}

/// A row as it was sent: value, time, alarm and detail.
type Row = (RowValue, i64, Alarm, Option<Arc<Detail>>);

/// What was last sent of a PV.
#[derive(Default)]
struct Sent {
    row: Option<Row>,
    /// The monitor was replaced since: the server sends its present value once more.
    is_again: bool,
}

impl Sent {
    /// Whether a row only repeats the last one.
    fn repeats(&mut self, row: &Row) -> bool {
        let is_again = std::mem::take(&mut self.is_again);
        is_again && self.row.as_ref().is_some_and(|last| is_same(last, row))
    }
}

fn is_same(last: &Row, row: &Row) -> bool {
    let values = [&last.0, &row.0].map(|value| value.clone().into_whole());
    let is_same_value = match &values {
        // Also when it is not a number.
        [RowValue::Number(last), RowValue::Number(value)] => last.to_bits() == value.to_bits(),
        [last, value] => last == value,
    };
    is_same_value && (last.1, last.2, &last.3) == (row.1, row.2, &row.3)
}

/// One PV: a structure, or a field of it.
pub(super) struct Wiring {
    pub(super) line: Line,
    /// Names of the fields down to this one, separated by `/`; empty for the structure.
    path: String,
    pub(super) is_connected: AtomicBool,
    pub(super) was_connected: AtomicBool,
    /// Whether the structure is that of a scalar, an array or an enumeration.
    is_plain: AtomicBool,
    /// Whether `detail` is present.
    has_detail: AtomicBool,
    /// As last sent, so that it isn't made again for every update. Locked by the callback only.
    detail: Mutex<Option<Arc<Detail>>>,
    /// Whether the last put by the relay itself was accepted, since the PV connected.
    was_accepted: AtomicBool,
    /// Of a field. Locked by the callback, and briefly by puts.
    shown: Mutex<Shown>,
    /// Locked by the callback only.
    sent: Mutex<Sent>,
    last_put: LastPut,
    /// The server's error, while it refuses the monitor. Locked by callbacks other than `update`.
    refusal: Mutex<Option<String>>,
}

impl PvaEvents for Events {
    fn searched(&self) {
        for wiring in &self.wirings {
            wiring.line.event(Event::Searched);
        }
    }

    fn server(&self, server: &str) {
        let server: Arc<str> = server.into();
        for wiring in &self.wirings {
            wiring.line.event(Event::Server(Arc::clone(&server)));
        }
    }

    fn connected(&self, info: TypeInfo) {
        let is_new = !self.has_connected.swap(true, Ordering::Relaxed);
        for wiring in &self.wirings {
            wiring.connected(&info, is_new);
        }
    }

    fn disconnected(&self) {
        for wiring in &self.wirings {
            wiring.is_connected.store(false, Ordering::Release);
            *wiring.refusal() = None;
            wiring.line.event(Event::Disconnected);
        }
    }

    fn heard(&self, at_ns: i64) {
        for wiring in &self.wirings {
            wiring.line.event(Event::Heard(at_ns));
        }
    }

    fn unresponsive(&self, heard_ns: i64) {
        for wiring in &self.wirings {
            wiring.line.event(Event::Unresponsive { heard_ns });
        }
    }

    fn responsive(&self) {
        for wiring in &self.wirings {
            wiring.line.event(Event::Responsive);
        }
    }

    fn wants_structure(&self) -> bool {
        let of_part = |wiring: &Arc<Wiring>| !["", "value"].contains(&wiring.path.as_str());
        self.wirings.iter().any(of_part)
    }

    fn metadata(&self, metadata: pva::Metadata) {
        for wiring in &self.wirings {
            if !wiring.is_field() {
                wiring.metadata(&metadata);
            }
        }
    }

    fn reads(&self) -> Vec<*const [u8]> {
        let of_wirings = self.wirings.iter().map(|wiring| pva::memory(&**wiring));
        [pva::memory(self), pva::memory(&*self.wirings)]
            .into_iter()
            .chain(of_wirings)
            .collect()
    }

    fn update(&self, update: pva::Update<'_>) {
        for wiring in &self.wirings {
            wiring.update(&update);
        }
    }

    fn unreadable(&self, reason: &str) {
        for wiring in &self.wirings {
            wiring.sent().row = None;
            wiring.line.missing(reason.to_owned());
        }
    }

    fn reason(&self, reason: &str) {
        for wiring in &self.wirings {
            wiring.line.event(Event::Reason(reason.to_owned()));
        }
    }

    fn failed(&self, reason: &str) {
        log::warn!("a pvAccess monitor failed and is tried again: {reason}");
        for wiring in &self.wirings {
            wiring.failed(reason);
        }
    }
}

impl Wiring {
    /// A PV that isn't connected. `path` is that of a field, or empty.
    pub(super) fn new(line: Line, path: &str) -> Self {
        Self {
            line,
            path: path.to_owned(),
            is_connected: AtomicBool::new(false),
            was_connected: AtomicBool::new(false),
            is_plain: AtomicBool::new(false),
            has_detail: AtomicBool::new(false),
            detail: Mutex::default(),
            was_accepted: AtomicBool::new(false),
            shown: Mutex::default(),
            sent: Mutex::default(),
            last_put: LastPut::default(),
            refusal: Mutex::default(),
        }
    }

    fn refusal(&self) -> MutexGuard<'_, Option<String>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server ended the monitor, and the end of the connection follows; or it refuses the monitor, and the PV is
    /// connected without a value.
    fn failed(&self, reason: &str) {
        let mut refusal = self.refusal();
        if refusal.is_none() && self.is_connected.load(Ordering::Acquire) {
            return self.line.event(Event::Reason(reason.to_owned()));
        }
        if refusal.as_deref() == Some(reason) {
            return;
        }
        self.is_connected.store(true, Ordering::Release);
        self.was_connected.store(true, Ordering::Release);
        self.sent().row = None;
        self.line.event(Event::AccessUntried);
        self.line.connected(false);
        self.line
            .refused(format!("the server refuses to send it: {reason}"));
        *refusal = Some(reason.to_owned());
    }

    /// Whether the PV is a field that is looked up in the structure.
    fn is_field(&self) -> bool {
        match self.path.as_str() {
            "" => false,
            "value" => !self.is_plain.load(Ordering::Relaxed),
            _ => true,
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        // Every change under the lock is complete.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `is_new` says that the monitor has just been opened, also to replace one that didn't have all fields.
    fn connected(&self, info: &TypeInfo, is_new: bool) {
        let was_connected = self.is_connected.swap(true, Ordering::AcqRel);
        let mut sent = self.sent();
        // After a disconnection also an equal row is news: it shows that the value is current.
        sent.is_again = is_new && was_connected;
        if info.changed {
            sent.row = None;
        }
        drop(sent);
        self.was_connected.store(true, Ordering::Release);
        *self.refusal() = None;
        let is_plain = info.kind != ValueKind::Structure;
        self.is_plain.store(is_plain, Ordering::Relaxed);
        self.was_accepted.store(false, Ordering::Release);
        if self.is_field() {
            // The first update shows whether there is such a field.
            let mut shown = self.shown();
            shown.metadata = None;
            // A missing one is reported again, because the end of the connection has replaced the report.
            let was_missing = shown.missing.take().is_some();
            shown.is_changed |= info.changed || was_missing;
            return;
        }
        // pvAccess has no access rights.
        self.line.event(Event::AccessUntried);
        self.line.connected(info.changed);
    }

    /// Why no value can be put to it.
    pub(super) fn unfit(&self) -> Option<OpEnd> {
        if !self.is_field() || !self.is_connected.load(Ordering::Acquire) {
            return None;
        }
        let shown = self.shown();
        if let Some(why) = &shown.missing {
            return Some(OpEnd::failed(Outcome::BadName, why.to_string()));
        }
        let why = "only fields that are scalars, arrays of these or enumerations can be written, and \
                   that lie in structures alone";
        (shown.metadata.is_some() && !shown.is_writable)
            .then(|| OpEnd::failed(Outcome::NotSupported, why))
    }

    /// Sends a put that may begin.
    pub(super) fn put(
        self: &Arc<Self>,
        client: &pva::Client,
        structure: &str,
        put: Put,
        ticket: Ticket,
        done: OpDone,
    ) {
        let options = pva::PutOptions {
            wait: put.wait,
            timeout: put.timeout,
        };
        let wiring = Arc::clone(self);
        let field = match self.path.as_str() {
            "" => "value".to_owned(),
            path => path.replace('/', "."),
        };
        let ended = move |result| done(wiring.ended(result));
        client.put_field(
            structure,
            &field,
            put_value(put.value),
            options,
            ticket,
            ended,
        );
    }

    /// A put by the relay itself has ended. An accepted one shows that the PV can be written. A refused one shows
    /// nothing to others: the server doesn't report when its rules change, so only the next put can show it.
    pub(super) fn has_tried(&self, outcome: Outcome) {
        let is_accepted = match outcome {
            Outcome::Done => true,
            Outcome::NoAccess => false,
            _ => return,
        };
        if self.was_accepted.swap(is_accepted, Ordering::AcqRel) != is_accepted {
            self.line.event(if is_accepted {
                Event::Access {
                    read: true,
                    write: true,
                }
            } else {
                Event::AccessUntried
            });
        }
    }

    /// Whether a put may be sent now.
    pub(super) fn begin(&self, expected: Option<Expected>) -> bool {
        let newest = self.line.newest();
        self.last_put.begin(newest, expected, Instant::now())
    }

    /// The outcome of a put.
    fn ended(&self, result: Result<Option<pva::Node>, OpError>) -> OpEnd {
        let end = match result {
            Ok(None) => OpEnd::DONE,
            Ok(Some(held)) => OpEnd::holds(node(&held)),
            Err(error) => op_end(&error),
        };
        let unsure = !matches!(
            end.outcome,
            Outcome::BadValue | Outcome::Failed | Outcome::NoAccess | Outcome::NotConnected
        );
        self.last_put.end(unsure, Instant::now());
        end
    }

    fn metadata(&self, metadata: &pva::Metadata) {
        let (value_type, element_count) = match metadata.kind {
            ValueKind::Scalar(element) => (value_type(element), 1),
            ValueKind::Array(element) => (value_type(element), metadata.element_count),
            ValueKind::Enum => (ValueType::Enum, 1),
            ValueKind::Structure => (ValueType::Structure, 1),
        };
        self.line.event(Event::Metadata(Box::new(Metadata {
            value_type,
            element_count,
            units: metadata.units.clone(),
            precision: metadata.precision,
            choices: metadata.choices.clone(),
            display: limits(metadata.display),
            control: limits(metadata.control),
            warning: limits(metadata.warning),
            alarm: limits(metadata.alarm),
            description: metadata.description.clone(),
            epoch: self.line.epoch(),
            type_id: metadata.type_id.clone(),
            form: metadata.form.clone().unwrap_or_default(),
            missing_field: String::new(),
        })));
    }

    fn update(&self, update: &pva::Update<'_>) {
        match &update.value {
            pva::Value::Structure(root) if self.is_field() => self.update_field(root, update),
            value => {
                let value = self.value(value, &update.changed);
                let alarm = (update.severity, update.status, update.message);
                self.row(value, update, alarm, (update.time_ns, update.user_tag));
            }
        }
    }

    /// Looks the field up in the current structure.
    fn update_field(&self, root: &pva::Node, update: &pva::Update<'_>) {
        let mut shown = self.shown();
        let field = match Field::find(root, &self.path) {
            Ok(field) => field,
            Err(why) => {
                if shown.missing.as_ref() != Some(&why) {
                    self.sent().row = None;
                    self.line.missing(why.to_string());
                    shown.missing = Some(why);
                    shown.metadata = None;
                }
                return;
            }
        };
        let metadata = field.metadata();
        let kind = (metadata.value_type, metadata.element_count);
        let is_writable = field.is_writable();
        let is_other = shown.kind.is_some_and(|before| before != kind) || shown.missing.is_some();
        if shown.metadata.is_none() || is_other || shown.is_writable != is_writable {
            self.was_accepted.store(false, Ordering::Release);
            self.line.event(if is_writable {
                Event::AccessUntried
            } else {
                Event::Access {
                    read: true,
                    write: false,
                }
            });
            let is_changed = std::mem::take(&mut shown.is_changed);
            if is_changed || is_other {
                self.sent().row = None;
            }
            self.line.connected(is_changed || is_other);
            shown.metadata = None;
            shown.missing = None;
        }
        (shown.kind, shown.is_writable) = (Some(kind), is_writable);
        if shown.metadata.as_ref() != Some(&metadata) {
            let epoch = self.line.epoch();
            shown.metadata = Some(metadata.clone());
            let told = Metadata { epoch, ..metadata };
            self.line.event(Event::Metadata(Box::new(told)));
        }
        drop(shown);
        self.row(field.value(), update, field.alarm(), field.stamp());
    }

    fn row(
        &self,
        value: RowValue,
        update: &pva::Update<'_>,
        (severity, status, message): (Option<u16>, u16, &str),
        (time_ns, user_tag): (i64, i32),
    ) {
        let condition = CONDITIONS.iter().position(|name| *name == message);
        let message = if condition.is_some() { "" } else { message };
        let status = match condition {
            Some(condition) => condition as u16,
            None if severity == Some(0) && status == 0 => 0,
            None if status < CLASSES => CLASS + status,
            None => CLASS + UNDEFINED,
        };
        let detail = self.detail(user_tag, message);
        let alarm = severity.map_or(Alarm::NONE, |severity| Alarm {
            // Severity 4 is "undefined", which is shown as INVALID.
            severity: u8::try_from(severity).map_or(Severity::Invalid, Severity::from_number),
            status,
        });
        if let RowValue::Blob(blob) = &value
            && let BlobValue::Array(array) = &**blob
        {
            self.line.shared(array.data.len());
        }
        let row = (value, time_ns, alarm, detail);
        let mut sent = self.sent();
        if sent.repeats(&row) {
            return;
        }
        sent.row = Some((row.0.clone().into_whole(), time_ns, alarm, row.3.clone()));
        drop(sent);
        let (value, _, _, detail) = row;
        if update.squashed > 0 {
            let squashed = u32::try_from(update.squashed).unwrap_or(u32::MAX);
            self.line.squashed(squashed);
        }
        self.line.update_with(time_ns, value, alarm, detail);
    }

    fn detail(&self, user_tag: i32, message: &str) -> Option<Arc<Detail>> {
        let some = user_tag != 0 || !message.is_empty();
        // Most PVs never have one, and need no lock.
        if !some && !self.has_detail.load(Ordering::Relaxed) {
            return None;
        }
        self.has_detail.store(some, Ordering::Relaxed);
        let mut last = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
        let same = match last.as_deref() {
            None => user_tag == 0 && message.is_empty(),
            Some(last) => last.user_tag == user_tag && last.message == message,
        };
        if !same {
            let message = message.to_owned();
            *last = some.then(|| Arc::new(Detail { user_tag, message }));
        }
        last.clone()
    }

    /// The value of a whole PV.
    fn value(&self, value: &pva::Value<'_>, changed: &[String]) -> RowValue {
        match value {
            pva::Value::Structure(root) if self.is_plain.load(Ordering::Relaxed) => {
                // The update is a structure because a field of it is subscribed too.
                let value = root.step("value").unwrap_or(root);
                field(value.step("index").unwrap_or(value))
            }
            pva::Value::Structure(root) => structure(root, changed),
            plain => whole(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use pvwire_epics::pva::ElementType;
    use pvwire_schema::types::PvId;

    use super::*;
    use crate::ingest::Intake;
    use crate::ingest::intake::Taken;

    #[test]
    fn equal_value_is_left_out_of_a_reopened_monitor_and_not_of_a_new_connection() {
        let intake = Intake::new();
        let wiring = Arc::new(Wiring::new(Line::open(&intake, PvId(0), false), ""));
        let opened = || Events::new(vec![Arc::clone(&wiring)]);
        let connect = |events: &Events| {
            events.connected(TypeInfo {
                type_id: "epics:nt/NTScalar:1.0".to_owned(),
                kind: ValueKind::Scalar(ElementType::Float64),
                changed: false,
            });
        };
        let rows_of = |events: &Events, value: f64| {
            events.update(pva::Update {
                value: pva::Value::Number(value),
                time_ns: 1,
                squashed: 0,
                user_tag: 0,
                severity: Some(0),
                status: 0,
                message: "",
                changed: Vec::new(),
            });
            let mut rows = 0;
            intake.drain(|taken| rows += usize::from(matches!(taken, Taken::Row(_))));
            rows
        };
        let first = opened();
        connect(&first);
        assert_eq!(rows_of(&first, 8.0), 1);
        // A field is subscribed while an update of the monitor that ends is under way.
        let second = opened();
        assert_eq!(rows_of(&first, 9.0), 1);
        connect(&second);
        assert_eq!(rows_of(&second, 9.0), 0);
        assert_eq!(rows_of(&second, 9.0), 1, "the server has sent it again");
        // A field is subscribed while the server is gone.
        second.disconnected();
        let third = opened();
        connect(&third);
        assert_eq!(rows_of(&third, 9.0), 1);
        third.disconnected();
        connect(&third);
        assert_eq!(rows_of(&third, 9.0), 1);
    }
}
