//! Who owns libca's context, channels and subscriptions, and in which order do they end?

use std::ffi::{CStr, c_int, c_long, c_ulong, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::Once;

use ca_sys::{
    DBE_ALARM, DBE_PROPERTY, DBE_VALUE, DBR_CTRL_STRING, DBR_TIME_STRING, ECA_NORMAL,
    ca_add_exception_event, ca_clear_channel, ca_clear_subscription, ca_context_create,
    ca_context_destroy, ca_create_channel, ca_create_subscription, ca_enable_preemptive_callback,
    ca_flush_io, ca_get_host_name, ca_message, ca_name, ca_replace_access_rights_event,
    caEventCallBackFunc, chid, chtype, eltc, errlogAddListener, evid,
};

use super::callback;
use super::channel_state::ChannelState;
use super::dbr;
use super::event::text;

/// Channels of equal priority share a circuit; nothing in pvwire needs another one.
const PRIORITY: u32 = 0;

/// Why libca refused, in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(c_int);

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

/// The calling thread's context of libca. It stays on that thread, as do its channels.
pub(super) struct Context {
    _on_its_thread: PhantomData<*mut ()>,
}

impl Context {
    /// Creates a context whose callbacks come from libca's threads. Messages of the EPICS
    /// libraries go to our log from now on and not to standard error.
    pub(super) fn create() -> Result<Self, Refused> {
        static LISTEN: Once = Once::new();
        // SAFETY: the listener is static and needs no private pointer.
        LISTEN.call_once(|| unsafe {
            errlogAddListener(Some(callback::on_message), ptr::null_mut());
            eltc(0);
        });
        // SAFETY: no requirement but that the thread has no context, which libca checks.
        checked(unsafe { ca_context_create(ca_enable_preemptive_callback) })?;
        let context = Self {
            _on_its_thread: PhantomData,
        };
        // SAFETY: this thread has a context, and the handler needs no argument.
        checked(unsafe { ca_add_exception_event(Some(callback::on_exception), ptr::null_mut()) })?;
        Ok(context)
    }

    /// Sends what the calls so far have left in buffers.
    pub(super) fn flush(&self) {
        // SAFETY: this thread has a context.
        let _ = checked(unsafe { ca_flush_io() });
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `create` on this same thread, and the channels, which borrow it, are
        // cleared.
        unsafe { ca_context_destroy() };
    }
}

/// A channel of libca with its two subscriptions.
///
/// When it is dropped, its last callback has returned.
pub(super) struct OpenChannel<'context> {
    channel: chid,
    update: evid,
    metadata: evid,
    /// What `channel` and the subscriptions point to.
    state: Arc<ChannelState>,
    _context: PhantomData<&'context Context>,
}

impl<'context> OpenChannel<'context> {
    /// Opens a channel; libca searches it from now on.
    pub(super) fn open(
        _context: &'context Context,
        name: &CStr,
        state: Arc<ChannelState>,
    ) -> Result<Self, Refused> {
        let mut channel = ptr::null_mut();
        // SAFETY: the name is copied by libca; the state lives until the channel is cleared.
        checked(unsafe {
            ca_create_channel(
                name.as_ptr(),
                Some(callback::on_connection),
                Arc::as_ptr(&state).cast_mut().cast(),
                PRIORITY,
                &raw mut channel,
            )
        })?;
        let open = Self {
            channel,
            update: ptr::null_mut(),
            metadata: ptr::null_mut(),
            state,
            _context: PhantomData,
        };
        // SAFETY: the channel was just made and its state is in place.
        checked(unsafe {
            ca_replace_access_rights_event(channel, Some(callback::on_access_rights))
        })?;
        Ok(open)
    }

    /// Subscribes, or subscribes anew when the channel came back with another type.
    pub(super) fn subscribe(&mut self) -> Result<(), Refused> {
        let Some(shape) = self.state.shape_to_subscribe() else {
            return Ok(());
        };
        for subscription in [&mut self.update, &mut self.metadata] {
            if !subscription.is_null() {
                // SAFETY: made below for this channel, and set to null when cleared. This thread
                // holds no lock, as libca asks: the call waits for a running callback.
                checked(unsafe { ca_clear_subscription(*subscription) })?;
                *subscription = ptr::null_mut();
            }
        }
        // No callback of the old subscriptions runs or comes any more.
        self.state.set_subscribed(shape);
        let native = shape.native as chtype;
        let count = if shape.is_scalar() { 1 } else { 0 };
        self.update = self.create_subscription(
            DBR_TIME_STRING + native,
            count,
            DBE_VALUE | DBE_ALARM,
            callback::on_update,
        )?;
        if let Some(metadata) = dbr::metadata_type(shape.native) {
            self.metadata = self.create_subscription(
                DBR_CTRL_STRING + metadata as chtype,
                1,
                DBE_PROPERTY,
                callback::on_metadata,
            )?;
        }
        Ok(())
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
        // SAFETY: the channel is ours and open. The callback takes the state, which lives until
        // the channel, and with it the subscription, is cleared.
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

    /// The name that it was opened with.
    pub(super) fn name(&self) -> String {
        // SAFETY: the channel is ours and open, and owns its name.
        text(unsafe { CStr::from_ptr(ca_name(self.channel)) }.to_bytes())
    }

    /// Host and port of its server, for the log.
    pub(super) fn host(&self) -> String {
        let mut host = [0_u8; 128];
        // SAFETY: the channel is ours and open; libca writes at most the length that is given.
        unsafe { ca_get_host_name(self.channel, host.as_mut_ptr().cast(), host.len() as u32) };
        text(host.split(|&byte| byte == 0).next().unwrap_or_default())
    }
}

impl Drop for OpenChannel<'_> {
    fn drop(&mut self) {
        // SAFETY: the channel is ours, and no other call uses it from now on. The call ends its
        // subscriptions too and waits for a running callback; this thread holds no lock.
        if let Err(refused) = checked(unsafe { ca_clear_channel(self.channel) }) {
            // libca may still call back, so the state must not go.
            std::mem::forget(Arc::clone(&self.state));
            log::error!("libca did not close a channel: {refused}");
        }
    }
}
