//! Owners of libca's context, channels and subscriptions, which are destroyed in the right order.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_long, c_ulong, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::Once;

use ca_sys::{
    DBE_ALARM, DBE_PROPERTY, DBE_VALUE, DBR_CTRL_STRING, DBR_TIME_STRING, ECA_BADCOUNT,
    ECA_DISCONN, ECA_NORMAL, ECA_NOWTACCESS, ca_add_exception_event, ca_array_get_callback,
    ca_array_put, ca_array_put_callback, ca_clear_channel, ca_clear_subscription,
    ca_context_create, ca_context_destroy, ca_create_channel, ca_create_subscription,
    ca_enable_preemptive_callback, ca_flush_io, ca_get_host_name, ca_message, ca_name,
    ca_replace_access_rights_event, caEventCallBackFunc, chid, chtype, eltc, errlogAddListener,
    evid,
};

use super::callback;
use super::channel_state::ChannelState;
use super::circuit::Place;
use super::command::Purpose;
use super::encode::{Encoded, Target, encode, is_doubtful};
use super::event::FieldKind;
use super::event::{NativeType, text};
use super::lost_circuit;
use super::put::{Job, PutError};
use super::sent_put::SentPut;
use super::shape::Shape;
use super::timers;

/// Maximum number of puts of one channel that wait for its connection.
const MAX_WAITING: usize = 1_000;

/// libca refused a call; contains the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(c_int);

impl Refused {
    fn into_put_error(self) -> PutError {
        match self.0 {
            ECA_NOWTACCESS => PutError::NoAccess,
            ECA_DISCONN => PutError::NotConnected,
            ECA_BADCOUNT => PutError::BadValue(self.to_string()),
            _ => PutError::Failed(self.to_string()),
        }
    }
}

impl std::error::Error for Refused {}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the function takes any code and returns a static string.
        let message = unsafe { CStr::from_ptr(ca_message(self.0.into())) };
        f.write_str(&text(message.to_bytes()))
    }
}

fn checked(status: c_int) -> Result<(), Refused> {
    if status == ECA_NORMAL {
        Ok(())
    } else {
        Err(Refused(status))
    }
}

/// The calling thread's context of libca. It and its channels stay on that thread.
pub(super) struct Context {
    _on_its_thread: PhantomData<*mut ()>,
}

/// Redirects messages of the EPICS libraries, including pvxs, to our log. Standard error would
/// block their threads while it is not read.
pub fn take_messages() {
    static LISTEN: Once = Once::new();
    // SAFETY: the listener is static and needs no private pointer.
    LISTEN.call_once(|| unsafe {
        errlogAddListener(Some(callback::on_message), ptr::null_mut());
        eltc(0);
    });
}

impl Context {
    /// Creates a context whose callbacks come from libca's threads.
    pub(super) fn create() -> Result<Self, Refused> {
        take_messages();
        // SAFETY: the only requirement is that the thread has no context, which libca checks.
        checked(unsafe { ca_context_create(ca_enable_preemptive_callback) })?;
        let context = Self {
            _on_its_thread: PhantomData,
        };
        // SAFETY: this thread has a context, and the handler needs no argument.
        checked(unsafe { ca_add_exception_event(Some(callback::on_exception), ptr::null_mut()) })?;
        Ok(context)
    }

    /// Sends buffered requests.
    pub(super) fn flush(&self) {
        // SAFETY: this thread has a context.
        let _ = checked(unsafe { ca_flush_io() });
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `create` on this same thread; the channels, which borrow it, are already
        // cleared.
        unsafe { ca_context_destroy() };
    }
}

/// A channel of libca with its two subscriptions.
///
/// Dropping it waits until its last callback has returned.
pub(super) struct OpenChannel<'context> {
    channel: chid,
    update: evid,
    metadata: evid,
    purpose: Purpose,
    /// The circuit on which it is counted.
    pub(super) place: Place,
    /// The state that `channel` and the subscriptions point to.
    state: Arc<ChannelState>,
    /// Puts that wait for the channel to be connected.
    waiting: VecDeque<Job>,
    _context: PhantomData<&'context Context>,
}

impl<'context> OpenChannel<'context> {
    /// Opens a channel; libca starts searching for it.
    pub(super) fn open(
        _context: &'context Context,
        purpose: Purpose,
        place: Place,
        name: &CStr,
        state: Arc<ChannelState>,
    ) -> Result<Self, Refused> {
        let mut channel = ptr::null_mut();
        // SAFETY: libca copies the name; the state lives until the channel is cleared.
        checked(unsafe {
            ca_create_channel(
                name.as_ptr(),
                Some(callback::on_connection),
                Arc::as_ptr(&state).cast_mut().cast(),
                place.priority(),
                &raw mut channel,
            )
        })?;
        timers::search_starts();
        if matches!(purpose, Purpose::Watch) {
            lost_circuit::opened(channel, &state);
        }
        let open = Self {
            channel,
            update: ptr::null_mut(),
            metadata: ptr::null_mut(),
            purpose,
            place,
            state,
            waiting: VecDeque::new(),
            _context: PhantomData,
        };
        // SAFETY: the channel was just made and has its state.
        checked(unsafe {
            ca_replace_access_rights_event(channel, Some(callback::on_access_rights))
        })?;
        Ok(open)
    }

    /// Subscribes, or subscribes again if the channel came back with another type.
    pub(super) fn subscribe(&mut self) -> Result<(), Refused> {
        let Some(shape) = self.state.shape_to_subscribe() else {
            return Ok(());
        };
        for subscription in [&mut self.update, &mut self.metadata] {
            if !subscription.is_null() {
                // SAFETY: made below for this channel, and set to null when cleared. This thread
                // holds no lock, as libca requires, because the call waits for a running callback.
                checked(unsafe { ca_clear_subscription(*subscription) })?;
                *subscription = ptr::null_mut();
            }
        }
        // No callback of the old subscriptions is running or will be called.
        self.state.set_subscribed(shape);
        let native = shape.native as chtype;
        let count = if shape.is_scalar() { 1 } else { 0 };
        if matches!(
            self.purpose,
            Purpose::Watch | Purpose::Value | Purpose::Text
        ) {
            self.update = self.create_subscription(
                DBR_TIME_STRING + native,
                count,
                DBE_VALUE | DBE_ALARM,
                callback::on_update,
            )?;
        }
        // A channel that is only written to needs nothing but the labels of choices.
        let needed = match self.purpose {
            Purpose::Watch => true,
            Purpose::Put => shape.native == NativeType::Enum,
            Purpose::Value | Purpose::Text | Purpose::Shape => false,
        };
        if needed && let Some(metadata) = self.state.metadata_type(shape.native) {
            self.metadata = self.create_subscription(
                DBR_CTRL_STRING + metadata as chtype,
                1,
                DBE_PROPERTY,
                callback::on_metadata,
            )?;
        }
        Ok(())
    }

    /// Ends the subscriptions until the channel connects again.
    pub(super) fn stop_updates(&mut self) {
        for subscription in [&mut self.update, &mut self.metadata] {
            if !subscription.is_null() {
                // SAFETY: as in `subscribe`.
                let _ = checked(unsafe { ca_clear_subscription(*subscription) });
                *subscription = ptr::null_mut();
            }
        }
        self.state.unsubscribed();
    }

    /// Continues the puts that waited for the type of the field.
    pub(super) fn field_told(&mut self, question: u32, kind: FieldKind) {
        self.state.field_told(question, kind);
        self.send_puts();
    }

    fn create_subscription(
        &self,
        dbr_type: chtype,
        count: c_ulong,
        mask: c_long,
        callback: caEventCallBackFunc,
    ) -> Result<evid, Refused> {
        let state: *mut c_void = Arc::as_ptr(&self.state).cast_mut().cast();
        let mut subscription = ptr::null_mut();
        // SAFETY: the channel is ours and open. The callback uses the state, which lives until the
        // channel, and with it the subscription, is cleared.
        checked(unsafe {
            ca_create_subscription(
                dbr_type,
                count,
                self.channel,
                mask,
                Some(callback),
                state,
                &raw mut subscription,
            )
        })?;
        Ok(subscription)
    }

    /// Queues a put; `send_puts` sends it.
    pub(super) fn put(&mut self, mut job: Job) {
        if self.waiting.len() >= MAX_WAITING {
            let why = format!("{MAX_WAITING} puts wait for this PV already");
            job.finish(Err(PutError::Failed(why)));
            return;
        }
        self.waiting.push_back(job);
    }

    /// Sends the waiting puts if the channel can be written now; ends them if the channel was lost.
    pub(super) fn send_puts(&mut self) {
        self.state.puts_resumed();
        if self.state.is_lost() {
            self.waiting.clear();
        }
        while let Some((shape, choices)) = self.state.writable()
            && let Some(first) = self.waiting.front()
            && !(self.has_answer(first) && self.state.awaits_answer())
            && !self.state.owes_read()
            && let Some(field) = self.field_of(shape, first)
            && let Some(mut job) = self.waiting.pop_front()
        {
            if !job.begin() {
                continue;
            }
            let target = Target {
                native: shape.native,
                count: shape.count,
                choices: &choices,
                long_string: self.state.is_long_string(),
                field,
            };
            match encode(&target, &job.value) {
                Ok(encoded) => self.send_put(job, encoded, shape.is_scalar()),
                Err(error) => job.finish(Err(error)),
            }
        }
    }

    /// The type of the field, if a put depends on it; `None` while the answer is pending.
    fn field_of(&self, shape: Shape, job: &Job) -> Option<FieldKind> {
        if is_doubtful(shape.native, &job.value) {
            self.state.field_kind()
        } else {
            Some(FieldKind::Unknown)
        }
    }

    /// The server doesn't answer a put without completion. It processes a channel's requests in
    /// order. Therefore the answer to a read after the put shows that the put is done and what the
    /// channel holds, and an exception before that answer shows that the put failed.
    fn has_answer(&self, job: &Job) -> bool {
        job.wait || !self.state.readable()
    }

    fn send_put(&self, job: Job, value: Encoded, scalar: bool) {
        let has_answer = self.has_answer(&job) && !value.is_for_alarms();
        let put = self.state.keep_put(job, has_answer, value, scalar);
        let value = put.value();
        let (dbr_type, count) = (value.dbr_type, c_ulong::from(value.count));
        let data = value.bytes.as_ptr().cast();
        let sent = if has_answer {
            // SAFETY: the channel is ours and open; `data` holds `count` elements of the type,
            // which libca copies. The callback takes the put, which `user` keeps alive.
            self.with_count(&put, |user| unsafe {
                ca_array_put_callback(
                    dbr_type,
                    count,
                    self.channel,
                    data,
                    Some(callback::on_put),
                    user,
                )
            })
        } else {
            // SAFETY: as above.
            let sent = checked(unsafe { ca_array_put(dbr_type, count, self.channel, data) });
            if sent.is_ok() && put.value().is_for_alarms() && !self.state.readable() {
                let why = "the IOC gives no read access, so whether the alarm is acknowledged isn't known";
                return self
                    .state
                    .on_put_done(&put, Err(PutError::Unsure(why.to_owned())));
            }
            sent.and_then(|()| self.read(&put))
        };
        if let Err(refused) = sent {
            self.state.on_put_done(&put, Err(refused.into_put_error()));
        }
    }

    /// Reads the channel's value after a put that the server has written.
    pub(super) fn read_back(&self, put: &Arc<SentPut>) {
        self.state.reading(put);
        if self.read(put).is_err() {
            self.state.on_put_done(put, Ok(None));
        }
    }

    fn read(&self, put: &Arc<SentPut>) -> Result<(), Refused> {
        let (dbr_type, count) = (put.value().read_type(), c_ulong::from(put.read_count()));
        // SAFETY: the channel is ours and open. The callback takes the put, which `user` keeps
        // alive.
        self.with_count(put, |user| unsafe {
            ca_array_get_callback(dbr_type, count, self.channel, Some(callback::on_read), user)
        })
    }

    /// Gives libca a reference to a put with a call that has a callback. The reference is returned
    /// by the callback, by this function if libca refuses the call, or when the channel is closed.
    fn with_count(
        &self,
        put: &Arc<SentPut>,
        call: impl FnOnce(*mut c_void) -> c_int,
    ) -> Result<(), Refused> {
        put.set_awaits_call(true);
        let user = Arc::into_raw(Arc::clone(put)).cast_mut().cast();
        checked(call(user)).inspect_err(|_| {
            put.set_awaits_call(false);
            // SAFETY: made above; libca refused it.
            drop(unsafe { Arc::from_raw(user.cast::<SentPut>().cast_const()) });
        })
    }

    /// The name that it was opened with.
    pub(super) fn name(&self) -> String {
        text(self.c_name().to_bytes())
    }

    /// Its name as a C string.
    pub(super) fn c_name(&self) -> CString {
        // SAFETY: the channel is ours and open, and owns its name.
        unsafe { CStr::from_ptr(ca_name(self.channel)) }.to_owned()
    }

    /// What it was opened for.
    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The state that its callbacks share with the ca-cmd thread.
    pub(super) fn state(&self) -> &Arc<ChannelState> {
        &self.state
    }

    /// Host and port of its server, if it is connected.
    pub(super) fn host(&self) -> Option<String> {
        let mut host = [0_u8; 128];
        // SAFETY: the channel is ours and open; libca writes at most the given length.
        unsafe { ca_get_host_name(self.channel, host.as_mut_ptr().cast(), host.len() as u32) };
        let host = host.split(|&byte| byte == 0).next().unwrap_or_default();
        // libca's text for a missing server, which is not a name.
        (host != b"<disconnected>").then(|| text(host))
    }
}

impl Drop for OpenChannel<'_> {
    fn drop(&mut self) {
        lost_circuit::closed(self.channel);
        // SAFETY: the channel is ours and not used by any other call from now on. The call also
        // ends its subscriptions and waits for a running callback; this thread holds no lock.
        if let Err(refused) = checked(unsafe { ca_clear_channel(self.channel) }) {
            // libca may still call back, so the state must not be freed.
            std::mem::forget(Arc::clone(&self.state));
            log::error!("libca did not close a channel: {refused}");
            return;
        }
        for put in self.state.take_puts() {
            self.state.on_put_done(&put, put.cut_off());
            if put.awaits_call() {
                // SAFETY: `with_count` made it for a callback that will never be called.
                drop(unsafe { Arc::from_raw(Arc::as_ptr(&put)) });
            }
        }
    }
}
