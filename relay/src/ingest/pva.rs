//! How do pvAccess monitors become rows and events of the relay?
//!
//! `pva://NAME/a/b` is the field `a.b` of the structure `NAME`. All such PVs of one structure share
//! one monitor, which is opened anew when another field is wanted.

mod field;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_epics::UserName;
use pvwire_epics::pva::{self, ElementType, OpError, PvaEvents, TypeInfo, ValueKind};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Detail, Expected, Limits, Metadata, Node, NodeValue, Outcome,
    PutValue, Severity, ValueType,
};

use super::user::{InUse, UserClient, UserClients, UserTicket};
use super::user::{as_user, no_context};
use super::{
    Call, Event, FormAnswer, Forms, LastPut, Line, Monitor, OpDone, OpEnd, OpTicket, Put, Queue,
    RowValue, Sent, Source,
};
use crate::limits::contexts::ContextLimits;
use field::Field;

/// After how long a form that another source asks for is given up.
const FORM_WITHIN: Duration = Duration::from_secs(5);

/// Integers beyond it are not all doubles.
const EXACT: u64 = 1 << 53;

/// Alarm status numbers from here on are classes of pvAccess alarms.
const CLASS: u16 = 100;

/// Conditions of Channel Access by number: what an IOC writes as the message of its records' alarms.
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

/// What servers say when access security refuses a put: QSRV and the gateway of p4p.
const REFUSALS: [&str; 3] = ["not permitted", "permission denied", "access denied"];

/// The one pvAccess client context of the relay, beside those of users that write.
pub struct PvaSource {
    shared: Arc<Shared>,
}

struct Shared {
    client: pva::Client,
    channels: Mutex<HashMap<String, Channel>>,
    next: AtomicU64,
    users: UserClients<PvaUser>,
}

/// A context of pvxs that presents a user.
struct PvaUser(pva::Client);

impl UserClient for PvaUser {
    fn start(user: UserName) -> Result<Self, String> {
        let client = pva::Client::start_as(user).map_err(|error| error.to_string())?;
        Ok(Self(client))
    }

    fn renew(&self) {
        self.0.renew();
    }
}

/// The one monitor of a structure, and the PVs that it serves.
struct Channel {
    _monitor: pva::Monitor,
    wirings: Vec<(u64, Arc<Wiring>)>,
}

impl PvaSource {
    /// Starts pvxs.
    ///
    /// # Errors
    /// When pvxs can't create its context.
    pub fn start() -> Result<Self, pva::StartError> {
        let shared = Shared {
            client: pva::Client::start()?,
            channels: Mutex::default(),
            next: AtomicU64::new(0),
            users: UserClients::new("pva-users", ContextLimits::default()),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }
}

impl PvaSource {
    /// What other sources ask by pvAccess.
    #[must_use]
    pub fn forms(&self) -> Arc<dyn Forms> {
        Arc::clone(&self.shared) as _
    }
}

impl Forms for Shared {
    fn ask(&self, name: &str, answer: FormAnswer) {
        (self.client).get(name, FORM_WITHIN, move |structure| {
            answer(structure.ok().as_ref().and_then(form_of));
        });
    }
}

/// What a structure says of its value's form.
fn form_of(structure: &pva::Node) -> Option<String> {
    if let Some(pva::NodeValue::Text(_)) = structure.get("value").map(|value| &value.value) {
        return Some("String".to_owned());
    }
    let pva::NodeValue::TextArray(choices) = &structure.get("display/form/choices")?.value else {
        return None;
    };
    match &structure.get("display/form/index")?.value {
        pva::NodeValue::Number(_, index) => choices.get(*index as usize).cloned(),
        _ => None,
    }
}

impl Shared {
    fn channels(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        // Each change below is whole.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for PvaSource {
    fn scheme(&self) -> &'static str {
        "pva"
    }

    /// pvxs is paced by its own client, so that no crowd holds up the others.
    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, String> {
        let (structure, path) = name.split_once('/').unwrap_or((name, ""));
        let wiring = Arc::new(Wiring {
            line,
            path: path.to_owned(),
            is_connected: AtomicBool::new(false),
            was_connected: AtomicBool::new(false),
            is_plain: AtomicBool::new(false),
            has_detail: AtomicBool::new(false),
            detail: Mutex::default(),
            tried: AtomicU8::new(UNTRIED),
            shown: Mutex::default(),
            last_put: LastPut::default(),
        });
        wiring.line.event(Event::Queued);
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut channels = self.shared.channels();
        let before = channels.get(structure).map(|channel| &channel.wirings);
        let mut wirings = before.cloned().unwrap_or_default();
        wirings.push((id, Arc::clone(&wiring)));
        let events = Arc::new(Events(
            wirings
                .iter()
                .map(|(_, wiring)| Arc::clone(wiring))
                .collect(),
        ));
        // Closed before the other is opened, by the same thread.
        channels.remove(structure);
        let monitor = self
            .shared
            .client
            .open(structure, events)
            .map_err(|error| error.to_string())?;
        let channel = Channel {
            _monitor: monitor,
            wirings,
        };
        channels.insert(structure.to_owned(), channel);
        Ok(Box::new(PvaMonitor {
            shared: Arc::clone(&self.shared),
            structure: structure.to_owned(),
            id,
            wiring,
        }))
    }

    fn call(&self, name: &str, call: Call, done: OpDone) -> Box<dyn OpTicket> {
        let arguments = call.arguments.into_iter();
        let arguments = arguments.map(|(name, value)| (name, put_value(value)));
        let ended = |result: Result<pva::Node, OpError>| match result {
            Ok(answer) => OpEnd {
                result: Some(node(&answer)),
                ..OpEnd::DONE
            },
            Err(error) => op_end(&error),
        };
        let (ticket, arguments) = (CallTicket::default(), arguments.collect());
        let Some(user) = call.user else {
            let client = &self.shared.client;
            let ended = move |result| done(ended(result));
            let stop = client.rpc(name, arguments, call.timeout, ticket.gate(), ended);
            let _ = ticket.stop.set(stop);
            return Box::new(ticket);
        };
        let (name, timeout) = (name.to_owned(), call.timeout);
        let job = {
            let (user, ticket) = (user.clone(), ticket.clone());
            move |client: Result<(&mut PvaUser, InUse), String>| match client {
                Ok((client, in_use)) => {
                    let ended = move |result| {
                        drop(in_use);
                        done(as_user(&user, ended(result)));
                    };
                    let stop = client
                        .0
                        .rpc(&name, arguments, timeout, ticket.gate(), ended);
                    let _ = ticket.stop.set(stop);
                }
                Err(why) => done(no_context(&user, &why)),
            }
        };
        self.shared.users.run(&user, Box::new(job));
        Box::new(ticket)
    }

    fn renew(&self) {
        self.shared.client.renew();
        self.shared.users.renew();
    }
}

/// A call, which waits for its service and then for its answer.
#[derive(Clone, Default)]
struct CallTicket {
    waits: UserTicket,
    /// Nothing while the user's context is awaited.
    stop: Arc<OnceLock<pva::Stop>>,
}

impl CallTicket {
    fn gate(&self) -> pva::Gate {
        let waits = self.waits.clone();
        Box::new(move || waits.begin())
    }
}

impl OpTicket for CallTicket {
    fn cancel(&self) -> bool {
        let is_unsent = self.waits.cancel();
        if let Some(stop) = self.stop.get() {
            stop.stop();
        }
        is_unsent
    }
}

struct PvaMonitor {
    shared: Arc<Shared>,
    structure: String,
    id: u64,
    wiring: Arc<Wiring>,
}

impl Monitor for PvaMonitor {
    fn put(&self, put: Put, done: OpDone) -> Box<dyn OpTicket> {
        let wiring = &self.wiring;
        if let Some(end) = wiring.unfit() {
            done(end);
        } else if wiring.was_connected.load(Ordering::Acquire)
            && !wiring.is_connected.load(Ordering::Acquire)
        {
            done(OpEnd::failed(Outcome::NotConnected, "not connected"));
        } else if let Some(user) = put.user.clone() {
            return self.put_as(user, put, done);
        } else if !wiring.begin(put.expected) {
            done(OpEnd::failed(Outcome::Changed, "the PV has changed since"));
        } else {
            let ticket = UserTicket::default();
            let (structure, of_put) = (self.structure.clone(), ticket.clone());
            let wiring = Arc::clone(wiring);
            let ended = move |end: OpEnd| {
                wiring.has_tried(end.outcome);
                done(end);
            };
            let client = &self.shared.client;
            self.wiring
                .put(client, &structure, put, of_put, Box::new(ended));
            return Box::new(ticket);
        }
        Box::new(Sent)
    }
}

impl PvaMonitor {
    /// Writes through the context of a user.
    fn put_as(&self, user: String, put: Put, done: OpDone) -> Box<dyn OpTicket> {
        let ticket = UserTicket::default();
        let (structure, wiring) = (self.structure.clone(), Arc::clone(&self.wiring));
        let (whom, of_put) = (user.clone(), ticket.clone());
        let job = move |client: Result<(&mut PvaUser, InUse), String>| {
            let (client, in_use) = match client {
                Ok(client) => client,
                Err(why) => return done(no_context(&user, &why)),
            };
            if !wiring.begin(put.expected) {
                return done(OpEnd::failed(Outcome::Changed, "the PV has changed since"));
            }
            let ended = move |end| {
                drop(in_use);
                done(as_user(&user, end));
            };
            wiring.put(&client.0, &structure, put, of_put, Box::new(ended));
        };
        self.shared.users.run(&whom, Box::new(job));
        Box::new(ticket)
    }
}

impl Drop for PvaMonitor {
    fn drop(&mut self) {
        let mut channels = self.shared.channels();
        if let Some(channel) = channels.get_mut(&self.structure) {
            channel.wirings.retain(|(id, _)| *id != self.id);
            if channel.wirings.is_empty() {
                channels.remove(&self.structure);
            }
        }
    }
}

/// One structure's callbacks, wired to the lines of all its PVs.
struct Events(Vec<Arc<Wiring>>);

/// Whether a put by the relay itself was taken, as far as it was tried since the PV connected.
const UNTRIED: u8 = 0;
const TAKEN: u8 = 1;
const REFUSED: u8 = 2;

/// What was last told of a field.
#[derive(Default)]
struct Shown {
    /// The structure's type differs from that of the connection before.
    is_changed: bool,
    /// Why there is no such field.
    missing: Option<String>,
    /// Of this connection.
    metadata: Option<Metadata>,
    /// Of whichever connection.
    kind: Option<(ValueType, u32)>,
    /// Whether pvAccess can write it.
    is_writable: bool,
}

/// One PV: the structure, or a field of it.
struct Wiring {
    line: Line,
    /// Names on the way to the field, empty for the structure.
    path: String,
    is_connected: AtomicBool,
    was_connected: AtomicBool,
    /// Whether the structure is that of a scalar, an array or an enumeration.
    is_plain: AtomicBool,
    /// Whether `detail` is something.
    has_detail: AtomicBool,
    /// As last told, so that it is not made again for every update. Taken by the callback alone.
    detail: Mutex<Option<Arc<Detail>>>,
    tried: AtomicU8,
    /// Of a field. Taken by the callback, and by puts for a moment.
    shown: Mutex<Shown>,
    last_put: LastPut,
}

impl PvaEvents for Events {
    fn searched(&self) {
        for wiring in &self.0 {
            wiring.line.event(Event::Searched);
        }
    }

    fn connected(&self, info: TypeInfo) {
        for wiring in &self.0 {
            wiring.connected(&info);
        }
    }

    fn disconnected(&self) {
        for wiring in &self.0 {
            wiring.is_connected.store(false, Ordering::Release);
            wiring.line.event(Event::Disconnected);
        }
    }

    fn heard(&self, at_ns: i64) {
        for wiring in &self.0 {
            wiring.line.event(Event::Heard(at_ns));
        }
    }

    fn unresponsive(&self, heard_ns: i64) {
        for wiring in &self.0 {
            wiring.line.event(Event::Unresponsive { heard_ns });
        }
    }

    fn responsive(&self) {
        for wiring in &self.0 {
            wiring.line.event(Event::Responsive);
        }
    }

    fn wants_structure(&self) -> bool {
        let of_part = |wiring: &Arc<Wiring>| !["", "value"].contains(&wiring.path.as_str());
        self.0.iter().any(of_part)
    }

    fn metadata(&self, metadata: pva::Metadata) {
        for wiring in &self.0 {
            if !wiring.is_field() {
                wiring.metadata(&metadata);
            }
        }
    }

    fn reads(&self) -> Vec<*const [u8]> {
        let of_wirings = self.0.iter().map(|wiring| pva::memory(&**wiring));
        [pva::memory(self), pva::memory(&*self.0)]
            .into_iter()
            .chain(of_wirings)
            .collect()
    }

    fn update(&self, update: pva::Update<'_>) {
        for wiring in &self.0 {
            wiring.update(&update);
        }
    }

    fn unreadable(&self, reason: &str) {
        for wiring in &self.0 {
            wiring.line.missing(reason.to_owned());
        }
    }

    fn failed(&self, reason: &str) {
        log::warn!("a pvAccess monitor failed and is tried again: {reason}");
    }
}

impl Wiring {
    /// Whether the PV is a field that is looked up in the structure.
    fn is_field(&self) -> bool {
        match self.path.as_str() {
            "" => false,
            "value" => !self.is_plain.load(Ordering::Relaxed),
            _ => true,
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        // Each change of it is whole.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(&self, info: &TypeInfo) {
        self.is_connected.store(true, Ordering::Release);
        self.was_connected.store(true, Ordering::Release);
        let is_plain = info.kind != ValueKind::Structure;
        self.is_plain.store(is_plain, Ordering::Relaxed);
        self.tried.store(UNTRIED, Ordering::Release);
        if self.is_field() {
            // The first update says whether there is such a field.
            let mut shown = self.shown();
            shown.metadata = None;
            shown.is_changed |= info.changed;
            return;
        }
        // pvAccess tells of no rights.
        self.line.event(Event::AccessUntried);
        self.line.connected(info.changed);
    }

    /// Why nothing can be put to it, whatever the value.
    fn unfit(&self) -> Option<OpEnd> {
        if !self.is_field() || !self.is_connected.load(Ordering::Acquire) {
            return None;
        }
        let shown = self.shown();
        if let Some(why) = &shown.missing {
            return Some(OpEnd::failed(Outcome::BadName, why.clone()));
        }
        let why = "only fields that are scalars, arrays of these or enumerations can be written, and \
                   that lie in structures alone";
        (shown.metadata.is_some() && !shown.is_writable)
            .then(|| OpEnd::failed(Outcome::NotSupported, why))
    }

    /// Sends a put that may begin.
    fn put(
        self: &Arc<Self>,
        client: &pva::Client,
        structure: &str,
        put: Put,
        ticket: UserTicket,
        done: OpDone,
    ) {
        let options = pva::PutOptions {
            wait: put.wait,
            timeout: put.timeout,
        };
        let wiring = Arc::clone(self);
        let gate = Box::new(move || ticket.begin());
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
            gate,
            ended,
        );
    }

    /// A put by the relay itself has ended: whether one is allowed is known now.
    fn has_tried(&self, outcome: Outcome) {
        let (now, write) = match outcome {
            Outcome::Done => (TAKEN, true),
            Outcome::NoAccess => (REFUSED, false),
            _ => return,
        };
        if self.tried.swap(now, Ordering::AcqRel) != now {
            self.line.event(Event::Access { read: true, write });
        }
    }

    /// Whether a put may be sent now.
    fn begin(&self, expected: Option<Expected>) -> bool {
        let newest = self.line.newest();
        self.last_put.begin(newest, expected, Instant::now())
    }

    /// What became of it.
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

    /// Looks the field up in what its structure is now.
    fn update_field(&self, root: &pva::Node, update: &pva::Update<'_>) {
        let mut shown = self.shown();
        let field = match Field::find(root, &self.path) {
            Ok(field) => field,
            Err(why) => {
                if shown.missing.as_ref() != Some(&why) {
                    self.line.missing(why.clone());
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
            self.line.event(if is_writable {
                Event::AccessUntried
            } else {
                Event::Access {
                    read: true,
                    write: false,
                }
            });
            let is_changed = std::mem::take(&mut shown.is_changed);
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
            None => CLASS.saturating_add(status),
        };
        let detail = self.detail(user_tag, message);
        let alarm = severity.map_or(Alarm::NONE, |severity| Alarm {
            // Severity 4 is "undefined": such a value can't be trusted.
            severity: u8::try_from(severity).map_or(Severity::Invalid, Severity::from_number),
            status,
        });
        if let RowValue::Blob(blob) = &value
            && let BlobValue::Array(array) = &**blob
        {
            self.line.shared(array.data.len());
        }
        if update.squashed > 0 {
            let squashed = u32::try_from(update.squashed).unwrap_or(u32::MAX);
            self.line.squashed(squashed);
        }
        self.line.update_with(time_ns, value, alarm, detail);
    }

    fn detail(&self, user_tag: i32, message: &str) -> Option<Arc<Detail>> {
        let some = user_tag != 0 || !message.is_empty();
        // Most PVs have none ever, and need no lock.
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

    /// What the whole PV shows.
    fn value(&self, value: &pva::Value<'_>, changed: &[String]) -> RowValue {
        match value {
            pva::Value::Structure(root) if self.is_plain.load(Ordering::Relaxed) => {
                // The structure comes because a field of it is shown too.
                let value = root.step("value").unwrap_or(root);
                field(value.step("index").unwrap_or(value))
            }
            pva::Value::Structure(root) => structure(root, changed),
            plain => whole(plain),
        }
    }
}

/// A structure, and apart the fields at its top that changed if those aren't all.
fn structure(root: &pva::Node, changed: &[String]) -> RowValue {
    let whole = node(root);
    let NodeValue::Structure(fields) = &whole.value else {
        return RowValue::Blob(Arc::new(BlobValue::Structure(whole)));
    };
    let part: Vec<_> = (fields.iter())
        .filter(|field| changed.contains(&field.name))
        .cloned()
        .collect();
    if part.is_empty() || part.len() == fields.len() {
        return RowValue::Blob(Arc::new(BlobValue::Structure(whole)));
    }
    let part = Node {
        value: NodeValue::Structure(part),
        ..Node {
            name: String::new(),
            type_id: whole.type_id.clone(),
            value: NodeValue::Empty,
        }
    };
    RowValue::Structure {
        part: Arc::new(BlobValue::StructurePart(part)),
        whole: Arc::new(BlobValue::Structure(whole)),
    }
}

fn whole(value: &pva::Value<'_>) -> RowValue {
    let blob = match value {
        pva::Value::Number(number) => return RowValue::Number(*number),
        pva::Value::Boolean(flag) => return RowValue::Number(u8::from(*flag).into()),
        pva::Value::Int64(integer) => return int64(*integer),
        pva::Value::UInt64(integer) => return uint64(*integer),
        pva::Value::Text(bytes) => BlobValue::Text(pvwire_epics::ca::text(bytes)),
        pva::Value::TextArray(texts) => BlobValue::TextArray(texts.clone()),
        pva::Value::Array {
            element,
            count,
            data,
        } => BlobValue::Array(array(*element, *count, data)),
        pva::Value::Structure(root) => BlobValue::Structure(node(root)),
    };
    RowValue::Blob(Arc::new(blob))
}

/// A field as a PV of its own.
fn field(found: &pva::Node) -> RowValue {
    let blob = match &found.value {
        pva::NodeValue::Number(_, number) => return RowValue::Number(*number),
        pva::NodeValue::Boolean(flag) => return RowValue::Number(u8::from(*flag).into()),
        pva::NodeValue::Int64(integer) => return int64(*integer),
        pva::NodeValue::UInt64(integer) => return uint64(*integer),
        pva::NodeValue::Text(text) => BlobValue::Text(text.clone()),
        pva::NodeValue::TextArray(texts) => BlobValue::TextArray(texts.clone()),
        pva::NodeValue::Array {
            element,
            count,
            data,
        } => BlobValue::Array(array(*element, *count, data)),
        // What a union holds is what people want to see of it.
        pva::NodeValue::Union(Some(held)) => return field(held),
        _ => BlobValue::Structure(Node {
            name: String::new(),
            ..node(found)
        }),
    };
    RowValue::Blob(Arc::new(blob))
}

fn int64(integer: i64) -> RowValue {
    if integer.unsigned_abs() <= EXACT {
        RowValue::Number(integer as f64)
    } else {
        RowValue::Blob(Arc::new(BlobValue::Int64(integer)))
    }
}

fn uint64(integer: u64) -> RowValue {
    if integer <= EXACT {
        RowValue::Number(integer as f64)
    } else {
        RowValue::Blob(Arc::new(BlobValue::UInt64(integer)))
    }
}

/// Shares the elements that pvxs received: nothing is copied.
fn array(element: ElementType, count: usize, data: &pva::SharedArray) -> Array {
    Array {
        value_type: value_type(element),
        count: count as u32,
        data: Bytes::from_owner(data.clone()),
    }
}

fn node(from: &pva::Node) -> Node {
    let held = |held: &pva::Node| Some(Box::new(node(held)));
    let nothing = Node::default;
    let value = match &from.value {
        pva::NodeValue::Number(element, number) => NodeValue::Number(value_type(*element), *number),
        pva::NodeValue::Boolean(flag) => {
            NodeValue::Number(ValueType::Boolean, u8::from(*flag).into())
        }
        pva::NodeValue::Int64(integer) => NodeValue::Int64(*integer),
        pva::NodeValue::UInt64(integer) => NodeValue::UInt64(*integer),
        pva::NodeValue::Text(text) => NodeValue::Text(text.clone()),
        pva::NodeValue::TextArray(texts) => NodeValue::TextArray(texts.clone()),
        pva::NodeValue::Array {
            element,
            count,
            data,
        } => NodeValue::Array(array(*element, *count, data)),
        pva::NodeValue::Structure(fields) => {
            NodeValue::Structure(fields.iter().map(node).collect())
        }
        pva::NodeValue::Union(None) => NodeValue::Union(None),
        // A union of any type selects a field without a name.
        pva::NodeValue::Union(Some(any)) if any.name.is_empty() => NodeValue::Any(held(any)),
        pva::NodeValue::Union(Some(selected)) => NodeValue::Union(held(selected)),
        pva::NodeValue::StructureArray(elements) => NodeValue::StructureArray(
            elements
                .iter()
                .map(|element| element.as_ref().map_or_else(nothing, node))
                .collect(),
        ),
        pva::NodeValue::UnionArray(elements) => NodeValue::UnionArray(
            elements
                .iter()
                .map(|element| Node {
                    value: NodeValue::Union(element.as_ref().and_then(held)),
                    ..Node::default()
                })
                .collect(),
        ),
        pva::NodeValue::Null => NodeValue::Empty,
    };
    Node {
        name: from.name.clone(),
        type_id: from.type_id.clone(),
        value,
    }
}

fn put_value(value: PutValue) -> pva::PutValue {
    match value {
        PutValue::Number(number) => pva::PutValue::Number(number),
        PutValue::Int64(integer) => pva::PutValue::Int64(integer),
        PutValue::UInt64(integer) => pva::PutValue::UInt64(integer),
        PutValue::Text(text) => pva::PutValue::Text(text),
        PutValue::TextArray(texts) => pva::PutValue::TextArray(texts),
        PutValue::Array(array) => pva::PutValue::Array {
            element: element_type(array.value_type),
            bytes: array.data.to_vec(),
        },
    }
}

fn op_end(error: &OpError) -> OpEnd {
    let outcome = match error {
        OpError::Disconnected => Outcome::Interrupted,
        OpError::TimedOut => Outcome::TimedOut,
        OpError::NotConnected => Outcome::NotConnected,
        OpError::Invalid(_) => Outcome::BadValue,
        OpError::Remote(why) if is_refusal(why) => Outcome::NoAccess,
        OpError::Remote(_) => Outcome::Failed,
        _ => Outcome::Unknown,
    };
    OpEnd::failed(outcome, error.to_string())
}

/// Whether a server's reason is that access security forbids it.
fn is_refusal(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    REFUSALS.iter().any(|refusal| why.contains(refusal))
}

fn value_type(element: ElementType) -> ValueType {
    match element {
        ElementType::Bool => ValueType::Boolean,
        ElementType::Int8 => ValueType::Int8,
        ElementType::Int16 => ValueType::Int16,
        ElementType::Int32 => ValueType::Int32,
        ElementType::Int64 => ValueType::Int64,
        ElementType::UInt8 => ValueType::UInt8,
        ElementType::UInt16 => ValueType::UInt16,
        ElementType::UInt32 => ValueType::UInt32,
        ElementType::UInt64 => ValueType::UInt64,
        ElementType::Float32 => ValueType::Float32,
        ElementType::Float64 => ValueType::Float64,
        ElementType::Text => ValueType::String,
    }
}

fn element_type(value_type: ValueType) -> ElementType {
    match value_type {
        ValueType::Boolean => ElementType::Bool,
        ValueType::Int8 => ElementType::Int8,
        ValueType::Int16 => ElementType::Int16,
        ValueType::Int32 => ElementType::Int32,
        ValueType::Int64 => ElementType::Int64,
        ValueType::UInt8 => ElementType::UInt8,
        ValueType::UInt16 | ValueType::Enum => ElementType::UInt16,
        ValueType::UInt32 => ElementType::UInt32,
        ValueType::UInt64 => ElementType::UInt64,
        ValueType::Float32 => ElementType::Float32,
        // What has no packed elements never gets here.
        _ => ElementType::Float64,
    }
}

fn limits(limits: pva::Limits) -> Limits {
    Limits {
        low: limits.low,
        high: limits.high,
    }
}
