//! How do Channel Access channels become rows and events of the relay?

mod aside;
mod field;
mod look;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_epics::UserName;
use pvwire_epics::ca::{
    self, AccessRights, ChannelEvents, ChannelInfo, Held, NativeType, PutError,
};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Limits, Metadata, Node, NodeValue, Outcome, PutValue, Severity,
    ValueType,
};

use self::aside::Aside;
use self::look::{Look, Looks, What};
use super::user::{InUse, UserClient, UserClients, UserTicket};
use super::user::{as_user, no_context};
use super::{
    Event, Forms, LastPut, Line, Monitor, OpDone, OpEnd, OpTicket, Put, Queue, RowValue, Sent,
    Source,
};
use crate::limits::contexts::ContextLimits;

/// The Channel Access client contexts of the relay.
///
/// There are two, because libca searches all names of a context in turns that get slower with their
/// number: after 10,000 names that nobody has, a good one takes ten seconds to be found. Each starts
/// when it is needed, because libca looks after its search timers 60 times a second. Users that write
/// have contexts of their own beside them.
pub struct CaSource {
    front: Context,
    crowd: Context,
    users: Arc<UserClients<CaUser>>,
    /// Whether those who write have names.
    by_name: bool,
    forms: Arc<dyn Forms>,
}

impl CaSource {
    /// No context yet. With `by_name` what an IOC says of the right to write is not passed on: it
    /// says it of the relay, and another user may have it. `forms` says which arrays of characters
    /// are texts.
    #[must_use]
    pub fn new(by_name: bool, forms: Arc<dyn Forms>) -> Self {
        Self {
            forms,
            front: Context::new(),
            crowd: Context::new(),
            users: Arc::new(UserClients::new("ca-users", ContextLimits::default())),
            by_name,
        }
    }
}

type Context = OnceLock<Result<Client, ca::StartError>>;

/// A context of libca, and what is asked in it beside values.
struct Client {
    libca: ca::Client,
    looks: Arc<Looks>,
}

impl Client {
    fn start() -> Result<Self, ca::StartError> {
        let libca = ca::Client::start()?;
        let looks = Arc::new(Looks::start(libca.opener())?);
        Ok(Self { libca, looks })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.looks.stop();
    }
}

/// A string of Channel Access has so many bytes at most; one that has them may have been cut.
const STRING_BYTES: usize = 39;

/// After how long a name that a long string might have is given up: the string is shown cut then.
const LONG_WITHIN: Duration = Duration::from_secs(2);

/// Elements that an array of characters has that may be a text: one of one element at most looks like a
/// scalar, and those with more are pictures.
const TEXT_ELEMENTS: RangeInclusive<u32> = 2..=1 << 16;

impl Source for CaSource {
    fn scheme(&self) -> &'static str {
        "ca"
    }

    fn open(&self, name: &str, line: Line, queue: Queue) -> Result<Box<dyn Monitor>, String> {
        let context = match queue {
            Queue::Front => &self.front,
            Queue::Crowd => &self.crowd,
        };
        let client = (context.get_or_init(Client::start).as_ref())
            .map_err(|error| format!("the relay has no client of Channel Access: {error}"))?;
        let wiring = Arc::new_cyclic(|me| Wiring {
            line,
            shape: Mutex::new((ValueType::Unknown, 0)),
            last_put: LastPut::default(),
            by_name: self.by_name,
            lost: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
            is_readable: AtomicBool::new(false),
            name: name.into(),
            looks: Arc::clone(&client.looks),
            me: Weak::clone(me),
            channel: OnceLock::new(),
            aside: Mutex::default(),
            forms: Arc::clone(&self.forms),
        });
        match client.libca.open(name, Arc::clone(&wiring) as _) {
            Ok(channel) => {
                let channel = Arc::new(channel);
                let _ = wiring.channel.set(Arc::downgrade(&channel));
                Ok(Box::new(CaMonitor {
                    channel,
                    wiring,
                    users: Arc::clone(&self.users),
                }))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn renew(&self) {
        for context in [&self.front, &self.crowd] {
            if let Some(Ok(client)) = context.get() {
                client.libca.renew();
            }
        }
        self.users.renew();
    }
}

struct CaMonitor {
    channel: Arc<ca::Channel>,
    wiring: Arc<Wiring>,
    users: Arc<UserClients<CaUser>>,
}

impl Drop for CaMonitor {
    fn drop(&mut self) {
        self.wiring.closed();
    }
}

impl Monitor for CaMonitor {
    fn describe(&self) -> bool {
        self.wiring.describe();
        true
    }

    fn put(&self, put: Put, done: OpDone) -> Box<dyn OpTicket> {
        let value = match put_value(put.value) {
            Ok(value) => value,
            Err(why) => {
                done(OpEnd::failed(Outcome::BadValue, why));
                return Box::new(Sent);
            }
        };
        let (wiring, expected) = (Arc::clone(&self.wiring), put.expected);
        let condition = move || {
            let newest = wiring.line.newest();
            wiring.last_put.begin(newest, expected, Instant::now())
        };
        let order = PutOrder {
            value,
            wait: put.wait,
            user: put.user,
            wiring: Arc::clone(&self.wiring),
            users: Arc::clone(&self.users),
            done,
        };
        let Some(user) = order.user.clone() else {
            let (value, wait) = (order.value.clone(), order.wait);
            let done = Box::new(move |result| order.ended(result));
            let ticket = (self.channel).put(value, wait, Some(Box::new(condition)), done);
            return Box::new(CaTicket(ticket));
        };
        if self.wiring.lost.load(Ordering::Acquire) {
            (order.done)(put_end(&PutError::NotConnected));
            return Box::new(Sent);
        }
        let ticket = UserTicket::default();
        let (users, name) = (Arc::clone(&order.users), self.wiring.name.to_string());
        order.put_as(&users, &user, name, ticket.clone(), Box::new(condition));
        Box::new(ticket)
    }
}

/// A put, with all that it takes to end it, or to send it by another name.
struct PutOrder {
    value: ca::PutValue,
    wait: bool,
    user: Option<String>,
    wiring: Arc<Wiring>,
    users: Arc<UserClients<CaUser>>,
    done: OpDone,
}

impl PutOrder {
    /// Sends it in the context of its user, to the PV of this name.
    fn put_as(
        self,
        users: &UserClients<CaUser>,
        user: &str,
        name: String,
        ticket: UserTicket,
        condition: ca::Condition,
    ) {
        let whom = user.to_owned();
        let job = move |client: Result<(&mut CaUser, InUse), String>| {
            let looks = &self.wiring.looks;
            let opened = client.and_then(|(client, in_use)| {
                let channel = client.channel(&name, looks)?;
                let uses = vec![in_use, Arc::clone(&channel.in_use)];
                Ok((channel, uses))
            });
            let (channel, uses) = match opened {
                Ok(opened) => opened,
                Err(why) => return (self.done)(no_context(&whom, &why)),
            };
            if !ticket.keep(uses) {
                return;
            }
            let of_condition = ticket.clone();
            let condition = Box::new(move || of_condition.begin() && condition());
            let (value, wait) = (self.value.clone(), self.wait);
            let done = Box::new(move |result| {
                ticket.end();
                self.ended(result);
            });
            // Stopping it is up to the ticket, by the condition.
            let _ = (channel.channel).put(value, wait, Some(condition), done);
        };
        users.run(user, Box::new(job));
    }

    /// Tells what became of it; a text that is too long for a string of Channel Access is put by the
    /// name that a long string has.
    fn ended(self, result: Result<Option<Held>, PutError>) {
        if let Err(PutError::LongText { length }) = result
            && let Some(name) = field::long_name(&self.wiring.name)
        {
            let looks = Arc::clone(&self.wiring.looks);
            looks.ask(Look {
                name: name.clone(),
                what: What::Shape,
                within: LONG_WITHIN,
                is_urgent: true,
                answer: Box::new(move |found| match found.map(|found| found.count) {
                    // One byte is for the NUL at the end.
                    Some(count) if (length as u64) < u64::from(count) => self.put_long(name),
                    Some(count) => {
                        let room = count.saturating_sub(1);
                        let why = format!("{length} bytes of text, but the PV holds {room}");
                        self.told(Err(PutError::BadValue(why)));
                    }
                    None => self.told(Err(PutError::LongText { length })),
                }),
            });
            return;
        }
        self.told(result);
    }

    /// Sends it to the name that takes a text of any length.
    fn put_long(self, name: String) {
        if let Some(user) = self.user.clone() {
            let users = Arc::clone(&self.users);
            let ticket = UserTicket::default();
            return self.put_as(&users, &user, name, ticket, Box::new(|| true));
        }
        let state = UserChannelState::new(&name, &self.wiring.looks);
        let opener = self.wiring.looks.opener().clone();
        let channel = match opener.open_to_put(&name, Arc::new(state)) {
            Ok(channel) => Arc::new(channel),
            Err(bad) => return self.told(Err(PutError::BadValue(bad.to_string()))),
        };
        let (value, wait) = (self.value.clone(), self.wait);
        // Open until the put has ended.
        let open = Arc::clone(&channel);
        let done = Box::new(move |result| {
            drop(open);
            self.told(result);
        });
        let _ = channel.put(value, wait, None, done);
    }

    fn told(self, result: Result<Option<Held>, PutError>) {
        let end = match result {
            Ok(None) => OpEnd::DONE,
            Ok(Some(held)) => OpEnd::holds(held_value(held, &self.value)),
            Err(error) => put_end(&error),
        };
        let unsure = matches!(end.outcome, Outcome::Done | Outcome::Interrupted);
        if end.outcome != Outcome::Changed {
            self.wiring.last_put.end(unsure, Instant::now());
        }
        (self.done)(match &self.user {
            Some(user) => as_user(user, end),
            None => end,
        });
    }
}

/// Most channels of one user.
const MAX_USER_CHANNELS: usize = 256;

/// A context of libca that presents a user, with the channels that the user has written to.
struct CaUser {
    channels: HashMap<String, UserChannel>,
    client: ca::Client,
}

struct UserChannel {
    channel: ca::Channel,
    state: Arc<UserChannelState>,
    in_use: InUse,
    used: Instant,
}

impl UserClient for CaUser {
    fn start(user: UserName) -> Result<Self, String> {
        Ok(Self {
            channels: HashMap::new(),
            client: ca::Client::start_as(user).map_err(|error| error.to_string())?,
        })
    }

    fn renew(&self) {
        self.client.renew();
    }
}

impl CaUser {
    /// The user's channel to a PV, opened if need be; it is connected soon, or is found to be lost.
    fn channel(&mut self, name: &str, looks: &Arc<Looks>) -> Result<&mut UserChannel, String> {
        let is_lost = |open: &UserChannel| open.state.lost.load(Ordering::Acquire);
        if self.channels.get(name).is_some_and(is_lost) {
            // libca looks for a server that was lost ever more seldom, and for a new channel at once.
            self.channels.remove(name);
        }
        if !self.channels.contains_key(name) {
            if self.channels.len() >= MAX_USER_CHANNELS {
                let free = self.channels.iter();
                let free = free.filter(|(_, open)| Arc::strong_count(&open.in_use) == 1);
                let oldest = free.min_by_key(|(_, open)| open.used);
                let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                    let why = format!("{MAX_USER_CHANNELS} PVs are being written to already");
                    return Err(why);
                };
                self.channels.remove(&oldest);
            }
            let state = Arc::new(UserChannelState::new(name, looks));
            let channel = (self.client.open_to_put(name, Arc::clone(&state) as _))
                .map_err(|error| error.to_string())?;
            let open = UserChannel {
                channel,
                state,
                in_use: InUse::default(),
                used: Instant::now(),
            };
            self.channels.insert(name.to_owned(), open);
        }
        let open = self.channels.get_mut(name);
        let open = open.expect("it is there or was just made");
        open.used = Instant::now();
        Ok(open)
    }
}

/// All that is to be known of a channel that is only written to.
struct UserChannelState {
    /// Whether it was connected and isn't any more.
    lost: AtomicBool,
    name: String,
    looks: Arc<Looks>,
}

impl UserChannelState {
    fn new(name: &str, looks: &Arc<Looks>) -> Self {
        Self {
            lost: AtomicBool::new(false),
            name: name.to_owned(),
            looks: Arc::clone(looks),
        }
    }
}

impl ChannelEvents for UserChannelState {
    fn connected(&self, _: ChannelInfo) {
        self.lost.store(false, Ordering::Release);
    }

    fn disconnected(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn access_rights(&self, _: AccessRights) {}

    fn metadata(&self, _: ca::Metadata) {}

    fn update(&self, _: ca::Update<'_>) {}

    fn field_wanted(&self, question: ca::FieldQuestion) {
        field::find(&self.looks, &self.name, question);
    }
}

struct CaTicket(pvwire_epics::Ticket);

impl OpTicket for CaTicket {
    fn cancel(&self) -> bool {
        self.0.cancel()
    }
}

fn put_end(error: &PutError) -> OpEnd {
    let outcome = match error {
        PutError::BadValue(_) | PutError::LongText { .. } => Outcome::BadValue,
        PutError::NoAccess => Outcome::NoAccess,
        PutError::NotConnected => Outcome::NotConnected,
        PutError::Moved => Outcome::Changed,
        PutError::Failed(_) => Outcome::Failed,
        PutError::Interrupted => Outcome::Interrupted,
        _ => Outcome::Unknown,
    };
    OpEnd::failed(outcome, error.to_string())
}

/// A value as Channel Access knows it: every number is a double there.
fn put_value(value: PutValue) -> Result<ca::PutValue, String> {
    let exact = |integer: i128| {
        let number = integer as f64;
        if number as i128 == integer {
            Ok(number)
        } else {
            Err(format!(
                "{integer} is more than Channel Access can carry exactly; write it by pva://"
            ))
        }
    };
    Ok(match value {
        PutValue::Number(number) => ca::PutValue::Number(number),
        PutValue::Int64(integer) => ca::PutValue::Number(exact(integer.into())?),
        PutValue::UInt64(integer) => ca::PutValue::Number(exact(integer.into())?),
        PutValue::Text(text) => ca::PutValue::Text(text),
        PutValue::TextArray(texts) => ca::PutValue::Texts(texts),
        PutValue::Array(array) => ca::PutValue::Numbers(match array.value_type {
            ValueType::Int64 => integers(&array, |word| i64::from_le_bytes(word).into())
                .map(exact)
                .collect::<Result<_, _>>()?,
            ValueType::UInt64 => integers(&array, |word| u64::from_le_bytes(word).into())
                .map(exact)
                .collect::<Result<_, _>>()?,
            _ => array.numbers(),
        }),
    })
}

fn integers(array: &Array, read: fn([u8; 8]) -> i128) -> impl Iterator<Item = i128> + '_ {
    let words = array.data.chunks_exact(8);
    words.map(move |word| read(word.try_into().expect("chunks of eight")))
}

/// One channel's callbacks, wired to its line. Aligned so that an update looks at one line of the
/// cache here: with thousands of channels each is a wait for memory.
#[repr(C, align(64))]
struct Wiring {
    line: Line,
    /// Type and element count of this connection; a lock that only connection and metadata events
    /// of this channel take.
    shape: Mutex<(ValueType, u32)>,
    last_put: LastPut,
    by_name: bool,
    /// Whether it was connected and isn't any more.
    lost: AtomicBool,
    is_connected: AtomicBool,
    /// Whether the IOC lets the relay read it.
    is_readable: AtomicBool,
    name: Box<str>,
    looks: Arc<Looks>,
    /// For answers that come later.
    me: Weak<Self>,
    /// The channel that all this belongs to.
    channel: OnceLock<Weak<ca::Channel>>,
    /// What is known beside the channel's values; a lock that no update of a number takes.
    aside: Mutex<Aside>,
    forms: Arc<dyn Forms>,
}

impl ChannelEvents for Wiring {
    fn connected(&self, info: ChannelInfo) {
        self.lost.store(false, Ordering::Release);
        self.is_connected.store(true, Ordering::Release);
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) =
            (value_type(info.native_type), info.element_count);
        let is_readable = self.is_readable.load(Ordering::Acquire);
        // What was read before the connection was lost may not be read any more.
        self.line.connected(info.type_changed || !is_readable);
        if !is_readable {
            self.tell_shape();
        }
        self.begin_connection();
        if info.native_type == NativeType::Char && TEXT_ELEMENTS.contains(&info.element_count) {
            self.ask_for_form();
        }
    }

    fn disconnected(&self) {
        self.lost.store(true, Ordering::Release);
        self.is_connected.store(false, Ordering::Release);
        self.end_connection();
        self.line.event(Event::Disconnected);
    }

    fn heard(&self, at_ns: i64) {
        self.line.event(Event::Heard(at_ns));
    }

    fn unresponsive(&self, heard_ns: i64) {
        self.line.event(Event::Unresponsive { heard_ns });
    }

    fn responsive(&self) {
        self.line.event(Event::Responsive);
        self.look_again_for_description();
    }

    fn access_rights(&self, rights: AccessRights) {
        let was_readable = self.is_readable.swap(rights.read, Ordering::AcqRel);
        if was_readable != rights.read {
            self.may_read(rights.read);
        }
        if was_readable && !rights.read && self.is_connected.load(Ordering::Acquire) {
            self.line.withdraw();
            self.tell_shape();
        }
        self.line.event(Event::Access {
            read: rights.read,
            write: rights.write || self.by_name,
        });
    }

    fn metadata(&self, metadata: ca::Metadata) {
        let (value_type, element_count) =
            *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_metadata(Metadata {
            value_type,
            element_count,
            units: metadata.units,
            precision: metadata.precision,
            choices: metadata.choices,
            display: limits(metadata.display),
            control: limits(metadata.control),
            warning: limits(metadata.warning),
            alarm: limits(metadata.alarm),
            epoch: self.line.epoch(),
            ..Metadata::default()
        });
    }

    fn update(&self, update: ca::Update<'_>) {
        let alarm = alarm_of(&update);
        let value = match update.value {
            ca::Value::Number(number) => RowValue::Number(number),
            ca::Value::Text(bytes) => return self.text(bytes, update.time_ns, alarm),
            ca::Value::Array(array) => {
                self.line.copied(array.bytes.len());
                RowValue::Blob(Arc::new(array_value(array)))
            }
        };
        self.line.update(update.time_ns, value, alarm);
    }

    fn field_wanted(&self, question: ca::FieldQuestion) {
        field::find(&self.looks, &self.name, question);
    }
}

impl Wiring {
    /// Type and element count, which are told without the right to read.
    fn tell_shape(&self) {
        self.metadata(ca::Metadata::default());
    }
}

fn alarm_of(update: &ca::Update<'_>) -> Alarm {
    Alarm {
        severity: u8::try_from(update.severity).map_or(Severity::Invalid, Severity::from_number),
        status: update.status,
    }
}

/// The text in an array of characters: up to its NUL.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    ca::text(&bytes[..end.unwrap_or(bytes.len())])
}

/// What a channel held after a put of `value`, as it travels.
fn held_value(held: Held, value: &ca::PutValue) -> Node {
    let array = array_value(ca::Array {
        element: held.element,
        count: held.count,
        bytes: &held.bytes,
    });
    let value = match array {
        BlobValue::TextArray(mut texts) if held.scalar => {
            NodeValue::Text(texts.pop().unwrap_or_default())
        }
        BlobValue::TextArray(texts) => NodeValue::TextArray(texts),
        BlobValue::Array(array) if held.scalar => {
            let number = array.numbers().first().copied();
            NodeValue::Number(array.value_type, number.unwrap_or(f64::NAN))
        }
        // A text that was put to an array of characters is a text in the answer.
        BlobValue::Array(_)
            if held.element == NativeType::Char && matches!(value, ca::PutValue::Text(_)) =>
        {
            NodeValue::Text(text_of(&held.bytes))
        }
        BlobValue::Array(array) => NodeValue::Array(array),
        _ => NodeValue::Empty,
    };
    Node {
        value,
        ..Node::default()
    }
}

fn array_value(array: ca::Array<'_>) -> BlobValue {
    if array.element == NativeType::String {
        // Each of 40 bytes, ended by a NUL unless it fills them.
        let texts = array
            .bytes
            .chunks(40)
            .take(array.count as usize)
            .map(|bytes| {
                let end = bytes
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(bytes.len());
                ca::text(&bytes[..end])
            });
        return BlobValue::TextArray(texts.collect());
    }
    let data = Bytes::copy_from_slice(array.bytes);
    BlobValue::array(value_type(array.element), array.count, data)
}

fn value_type(native: NativeType) -> ValueType {
    match native {
        NativeType::String => ValueType::String,
        NativeType::Short => ValueType::Int16,
        NativeType::Float => ValueType::Float32,
        NativeType::Enum => ValueType::Enum,
        NativeType::Char => ValueType::UInt8,
        NativeType::Long => ValueType::Int32,
        NativeType::Double => ValueType::Float64,
    }
}

fn limits(limits: ca::Limits) -> Limits {
    Limits {
        low: limits.low,
        high: limits.high,
    }
}
