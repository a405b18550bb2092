//! A channel's state, shared by its callbacks and the ca-cmd thread. Ignores events of old
//! subscriptions.
//!
//! libca itself restores subscriptions at a reconnect, but with the type that was first requested.
//! If an IOC comes back with another type, events of the old subscription would show element 0 of
//! an array as a scalar. Therefore events are ignored from the connect until the ca-cmd thread has
//! subscribed again.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::command::Command;
use super::encode::Encoded;
use super::event::{AccessRights, ChannelEvents, ChannelInfo, Metadata, NativeType, Update};
use super::event::{FieldKind, FieldQuestion};
use super::follow::follow;
use super::put::{Held, Job, PutError};
use super::sent_put::SentPut;
use super::shape::TextForm;
use super::shape::{AtomicShape, Shape};
use super::socket::CircuitSocket;
use crate::command_thread::Commands;
use crate::liveness::{Circuit, OnCircuit, now_ns};

/// State shared by the callbacks of one channel and the ca-cmd thread.
///
/// All methods may be called from any thread at any time; libca calls for one channel from one
/// thread at a time.
///
/// The fields that an update uses come first, so that they are in one cache line: with thousands of
/// channels each cache line is a wait for memory.
#[repr(C, align(64))]
pub(super) struct ChannelState {
    events: Arc<dyn ChannelEvents>,
    /// Shape while connected.
    connected: AtomicShape,
    /// Shape that the subscriptions were made for.
    subscribed: AtomicShape,
    /// Shape of the latest connection.
    latest: AtomicShape,
    id: u64,
    commands: Commands<Command>,
    /// Whether a [`Command::Connected`] is queued, so that a flapping IOC cannot fill the queue.
    command_waits: AtomicBool,
    /// Whether a [`Command::ResumePuts`] is queued, for the same reason.
    resume_waits: AtomicBool,
    /// Access rights as last reported; see [`rights_bits`].
    rights: AtomicU8,
    /// The circuit of the connection. The lock is taken by the ca-cmd thread and by connection
    /// events.
    circuit: Mutex<Option<Arc<CircuitSocket>>>,
    /// When an update of this connection could not be trusted, in nanoseconds past the POSIX epoch;
    /// 0 if they can.
    unreadable_ns: AtomicI64,
    /// Labels of this connection's choices, once they are known. The lock is taken only by the
    /// ca-cmd thread and by this channel's metadata and connection events.
    choices: Mutex<Option<Arc<[String]>>>,
    /// The type of the field, as far as it was requested. The lock is taken by the ca-cmd thread
    /// and when the channel is connected.
    field: Mutex<Field>,
    /// Puts that libca has and the server hasn't answered, in order. The lock is taken by the
    /// ca-cmd thread and by the answers.
    puts: Mutex<Vec<Arc<SentPut>>>,
    form: TextForm,
}

/// The type of a connection's field.
#[derive(Default)]
struct Field {
    /// Number of questions so far; an answer to a question of an earlier connection is ignored.
    asked: u32,
    /// Whether the last question belongs to this connection.
    is_asked: bool,
    kind: Option<FieldKind>,
}

/// For how long the updates of a channel with one that can't be trusted are ignored.
const TRUST_AFTER_NS: i64 = 1_000_000_000;

const READ: u8 = 1;
const WRITE: u8 = 2;

fn rights_bits(rights: AccessRights) -> u8 {
    u8::from(rights.read) * READ + u8::from(rights.write) * WRITE
}

fn rights_of(bits: u8) -> AccessRights {
    AccessRights {
        read: bits & READ != 0,
        write: bits & WRITE != 0,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChannelState {
    pub(super) fn new(
        id: u64,
        events: Arc<dyn ChannelEvents>,
        commands: Commands<Command>,
        form: TextForm,
    ) -> Self {
        Self {
            form,
            id,
            events,
            commands,
            connected: AtomicShape::none(),
            latest: AtomicShape::none(),
            subscribed: AtomicShape::none(),
            command_waits: AtomicBool::new(false),
            resume_waits: AtomicBool::new(false),
            rights: AtomicU8::new(0),
            circuit: Mutex::default(),
            unreadable_ns: AtomicI64::new(0),
            choices: Mutex::default(),
            field: Mutex::default(),
            puts: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// libca reports that the channel is connected. It has reported `rights` before, except when
    /// the circuit had only been unresponsive for a while.
    /// Called just before `on_connected`.
    pub(super) fn on_server(&self, server: &str) {
        self.events.server(server);
    }

    pub(super) fn on_connected(
        &self,
        shape: Shape,
        rights: AccessRights,
        circuit: Option<Arc<CircuitSocket>>,
    ) {
        *lock(&self.circuit) = circuit;
        self.unreadable_ns.store(0, Ordering::Release);
        let shape = self.form.shape(shape);
        if self.rights.load(Ordering::Acquire) != rights_bits(rights) {
            self.on_access_rights(rights);
        }
        let previous = self.latest.load();
        *lock(&self.choices) = None;
        let mut field = lock(&self.field);
        (field.is_asked, field.kind) = (false, None);
        drop(field);
        self.latest.store(Some(shape));
        self.connected.store(Some(shape));
        self.events.connected(ChannelInfo {
            native_type: shape.native,
            element_count: shape.count,
            type_changed: previous.is_some_and(|previous| previous != shape),
        });
        if self.metadata_type(shape.native).is_none() {
            self.events.metadata(Metadata::default());
        }
        if !self.command_waits.swap(true, Ordering::AcqRel) {
            // The thread ends only with the client, and then the channel is no longer needed.
            let _ = self.commands.send(Command::Connected(self.id));
        }
    }

    /// libca reports that the channel is no longer connected. It does so also if a server that
    /// answered the search then refused the channel, which was never connected. Returns whether it
    /// was.
    pub(super) fn on_disconnected(&self) -> bool {
        let was_connected = self.connected.load().is_some();
        self.connected.store(None);
        let circuit = lock(&self.circuit).take();
        if was_connected {
            if let Some(circuit) = circuit {
                self.events.heard(circuit.liveness.heard_ns());
            }
            self.events.disconnected();
            // Waiting puts must not be written when the channel is connected again later.
            self.resume_puts();
        }
        was_connected
    }

    /// A server that answered the search has refused the channel.
    pub(super) fn on_channel_refused(&self, server: &str) {
        self.on_reason(&format!(
            "the server {server} knows this name and then refuses it, or gives it an unknown type: check the field \
             and the filter of the name"
        ));
    }

    /// Why there is no value, or no metadata.
    pub(super) fn on_reason(&self, reason: &str) {
        self.events.reason(reason);
    }

    /// An update can't be trusted: the value is unknown until a valid one arrives.
    pub(super) fn on_unreadable(&self, reason: &str) {
        if self.live_shape().is_none() {
            return;
        }
        self.subscribed.store(None);
        self.unreadable_ns.store(now_ns(), Ordering::Release);
        self.events.unreadable(reason);
    }

    /// A valid update of this type arrived while updates are ignored. If the last ones could not be
    /// trusted, the channel is connected again.
    #[cold]
    pub(super) fn on_valid_again(&self, dbr_type: ca_sys::chtype) {
        let since_ns = self.unreadable_ns.load(Ordering::Acquire);
        let Some(shape) = self.connected.load() else {
            return;
        };
        let is_of_type = dbr_type == ca_sys::DBR_TIME_STRING + shape.native as ca_sys::chtype;
        if since_ns == 0 || !is_of_type || now_ns() < since_ns.saturating_add(TRUST_AFTER_NS) {
            return;
        }
        let bits = self.rights.load(Ordering::Acquire);
        self.on_access_rights(rights_of(bits));
        let circuit = lock(&self.circuit).clone();
        self.on_connected(shape, rights_of(bits), circuit);
    }

    /// The channel and its subscriptions are closed and will be reopened; called by the ca-cmd
    /// thread.
    pub(super) fn closed(&self) {
        self.on_disconnected();
        self.subscribed.store(None);
    }

    pub(super) fn on_access_rights(&self, rights: AccessRights) {
        self.rights.store(rights_bits(rights), Ordering::Release);
        self.events.access_rights(rights);
    }

    /// An update has arrived; `is_choice`: its value is the index of a choice.
    pub(super) fn on_update(&self, update: Update<'_>, is_choice: bool) {
        let sink = Arc::as_ptr(&self.events).addr();
        follow(self.id, [ptr::from_ref(self).addr(), sink]);
        if is_choice {
            self.events.choice(update);
        } else {
            self.events.update(update);
        }
    }

    pub(super) fn on_metadata(&self, metadata: Metadata) {
        let is_enum = (self.connected.load()).is_some_and(|shape| shape.native == NativeType::Enum);
        if is_enum {
            let choices = Some(Arc::from(metadata.choices.as_slice()));
            let first = std::mem::replace(&mut *lock(&self.choices), choices).is_none();
            if first {
                // Puts may be waiting for the choices.
                self.resume_puts();
            }
        }
        self.events.metadata(metadata);
    }

    /// The type in which the channel's metadata is requested; `None` if it has none.
    pub(super) fn metadata_type(&self, native: NativeType) -> Option<NativeType> {
        self.form.metadata_type(native)
    }

    /// Whether the channel is a text that is sent as an array of characters.
    pub(super) fn is_long_string(&self) -> bool {
        self.form == TextForm::LongString
    }

    /// The server reported that it can't send the value.
    pub(super) fn on_refused(&self, why: &str) {
        if self.live_shape().is_some() {
            self.events.refused(why);
        }
    }

    /// The server reported that it can't send the metadata. A value is sent without, and puts don't wait for choices.
    pub(super) fn on_metadata_refused(&self) {
        if self.live_shape().is_some() && lock(&self.choices).is_none() {
            self.on_metadata(Metadata::default());
        }
    }

    fn resume_puts(&self) {
        if !self.resume_waits.swap(true, Ordering::AcqRel) {
            // The thread ends only with the client, and then the channel is no longer needed.
            let _ = self.commands.send(Command::ResumePuts(self.id));
        }
    }

    /// The ca-cmd thread is about to check the waiting puts: later changes send another command.
    pub(super) fn puts_resumed(&self) {
        self.resume_waits.swap(false, Ordering::AcqRel);
    }

    /// Whether the channel was connected before and is disconnected now.
    pub(super) fn is_lost(&self) -> bool {
        self.connected.load().is_none() && self.latest.load().is_some()
    }

    /// Whether the server is still processing a put that it answers when it is done. If another
    /// such put for the same channel arrives meanwhile, a server of EPICS base stops reading from
    /// the relay until the first is done: all channels of that IOC would freeze.
    pub(super) fn awaits_answer(&self) -> bool {
        lock(&self.puts).iter().any(|put| put.has_answer)
    }

    /// Shape and choices of the channel if it can be written now; `None` while it isn't connected
    /// or its choices aren't known yet.
    pub(super) fn writable(&self) -> Option<(Shape, Arc<[String]>)> {
        let shape = self.connected.load()?;
        let choices = lock(&self.choices).clone();
        // Without read access the choices never arrive.
        let needed = shape.native == NativeType::Enum && self.readable();
        if needed && choices.is_none() {
            return None;
        }
        Some((shape, choices.unwrap_or_default()))
    }

    /// The type of the field; requests it if it isn't known yet. Called by the ca-cmd thread.
    pub(super) fn field_kind(&self) -> Option<FieldKind> {
        let mut field = lock(&self.field);
        if field.kind.is_none() && !field.is_asked {
            field.asked = field.asked.wrapping_add(1);
            field.is_asked = true;
            let (id, asked, commands) = (self.id, field.asked, self.commands.clone());
            drop(field);
            let question = FieldQuestion::new(move |kind| {
                // Fails if the client was dropped, and its puts with it.
                let _ = commands.send(Command::Field(id, asked, kind));
            });
            self.events.field_wanted(question);
            return None;
        }
        field.kind
    }

    /// A question was answered; an answer for an earlier connection is ignored.
    pub(super) fn field_told(&self, question: u32, kind: FieldKind) {
        let mut field = lock(&self.field);
        if field.is_asked && field.asked == question {
            field.kind = Some(kind);
        }
    }

    /// Asks the server of the connection for a sign of life. Returns whether it must answer.
    pub(super) fn probe(&self) -> bool {
        let circuit = lock(&self.circuit).clone();
        circuit.is_some_and(|circuit| circuit.probe())
    }

    /// Whether the channel is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.connected.load().is_some()
    }

    /// Whether libca has puts that aren't answered.
    pub(super) fn has_puts(&self) -> bool {
        !lock(&self.puts).is_empty()
    }

    /// The subscriptions were ended; the ca-cmd thread makes those of the next connection.
    pub(super) fn unsubscribed(&self) {
        self.subscribed.store(None);
    }

    /// Whether values may be read.
    pub(super) fn readable(&self) -> bool {
        self.rights.load(Ordering::Acquire) & READ != 0
    }

    /// Whether the server has written a put that hasn't been read back yet: a value written now
    /// would be read instead.
    pub(super) fn owes_read(&self) -> bool {
        let due = |put: &Arc<SentPut>| {
            put.written.load(Ordering::Acquire) && !put.read.load(Ordering::Acquire)
        };
        lock(&self.puts).iter().any(due)
    }

    /// Keeps a put until it is answered.
    pub(super) fn keep_put(
        &self,
        job: Job,
        has_answer: bool,
        value: Encoded,
        scalar: bool,
    ) -> Arc<SentPut> {
        let put = Arc::new(SentPut {
            job: Mutex::new(job),
            has_answer,
            failure: Mutex::default(),
            value,
            scalar,
            awaits_call: AtomicBool::new(false),
            written: AtomicBool::new(false),
            is_compared: AtomicBool::new(false),
            read: AtomicBool::new(!has_answer || !self.readable()),
        });
        lock(&self.puts).push(Arc::clone(&put));
        put
    }

    /// The server reported that a put is written: asks the ca-cmd thread to read the channel, or
    /// ends the put if the channel can't be read.
    pub(super) fn on_put_written(&self, put: &Arc<SentPut>) {
        put.written.store(true, Ordering::Release);
        let due = !put.read.load(Ordering::Acquire);
        let asked = due && {
            let command = Command::ReadBack(self.id, Arc::clone(put));
            self.commands.send(command)
        };
        if !asked {
            self.on_put_done(put, Ok(None));
        }
    }

    /// The read-back of the written puts is being sent now.
    pub(super) fn reading(&self, put: &SentPut) {
        put.read.store(true, Ordering::Release);
    }

    /// The server reported the failure of a put that it doesn't answer. It is the oldest one,
    /// because a server processes a channel's requests in order.
    pub(super) fn on_put_exception(&self, error: PutError) {
        let open = |put: &&Arc<SentPut>| !put.has_answer && lock(&put.failure).is_none();
        if let Some(put) = lock(&self.puts).iter().find(open) {
            *lock(&put.failure) = Some(error);
        }
    }

    /// A put was answered, or never will be.
    pub(super) fn on_put_done(&self, put: &Arc<SentPut>, result: Result<Option<Held>, PutError>) {
        lock(&self.puts).retain(|open| !Arc::ptr_eq(open, put));
        if put.has_answer {
            self.resume_puts();
        }
        let failure = lock(&put.failure).take();
        let result = match failure {
            Some(failure) => Err(put.failed(failure, &result)),
            None => result,
        };
        lock(&put.job).finish(result);
    }

    /// The server answered a put with an error. That doesn't prove that nothing was written, so the channel is read
    /// as after a successful put.
    pub(super) fn on_put_failed(&self, put: &Arc<SentPut>, error: PutError) {
        *lock(&put.failure) = Some(error);
        self.on_put_written(put);
    }

    /// Returns the puts that will not be answered because the channel was closed.
    pub(super) fn take_puts(&self) -> Vec<Arc<SentPut>> {
        std::mem::take(&mut *lock(&self.puts))
    }

    /// The shape of the events to pass on; `None` if events are ignored.
    pub(super) fn live_shape(&self) -> Option<Shape> {
        let connected = self.connected.load()?;
        (self.subscribed.load() == Some(connected)).then_some(connected)
    }

    /// The shape to subscribe for, if the channel is connected and its subscriptions are for
    /// another shape. Called by the ca-cmd thread for each [`Command::Connected`].
    pub(super) fn shape_to_subscribe(&self) -> Option<Shape> {
        // Reset before the shape is read: a later connect sends another command.
        self.command_waits.swap(false, Ordering::AcqRel);
        let connected = self.connected.load()?;
        (self.subscribed.load() != Some(connected)).then_some(connected)
    }

    /// From now on events have this shape. Called by the ca-cmd thread after the previous
    /// subscriptions are cleared.
    pub(super) fn set_subscribed(&self, shape: Shape) {
        self.subscribed.store(Some(shape));
    }
}

impl OnCircuit for ChannelState {
    fn circuit(&self) -> Option<Arc<Circuit>> {
        let circuit = lock(&self.circuit);
        circuit
            .as_ref()
            .map(|circuit| Arc::clone(&circuit.liveness))
    }

    fn unresponsive(&self, heard_ns: i64) {
        self.events.unresponsive(heard_ns);
    }

    fn responsive(&self) {
        self.events.responsive();
    }
}

#[cfg(test)]
mod tests;
