//! The functions that libca calls.
//!
//! Each function only passes its arguments on to the channel's sink. For a value it takes no lock
//! and allocates nothing. Its body is one `guard`, so that a panic never unwinds into C.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::slice;
use std::sync::Arc;

use ca_sys::{
    CA_M_SUCCESS, CA_OP_CONN_UP, CA_OP_PUT, DBR_CTRL_STRING, DBR_TIME_STRING, ECA_DISCONN,
    ECA_NORDACCESS, ECA_NORMAL, ECA_NOWTACCESS, ECA_PUTFAIL, READ_ACCESS, WRITE_ACCESS,
    access_rights_handler_args, ca_element_count, ca_field_type, ca_get_host_name, ca_message,
    ca_puser, ca_read_access, ca_write_access, chid, connection_handler_args, event_handler_args,
    exception_handler_args,
};

use super::channel_state::ChannelState;
use super::check::Lie;
use super::dbr;
use super::event::{AccessRights, Metadata, NativeType};
use super::lost_circuit;
use super::put::{Held, PutError};
use super::sent_put::SentPut;
use super::shape::Shape;
use super::socket::CircuitSocket;
use super::timers;
use crate::guard::guard;
use crate::throttle::Throttle;

static EXCEPTIONS: Throttle = Throttle::new();
static MESSAGES: Throttle = Throttle::new();

/// The channel was connected or disconnected.
///
/// # Safety
///
/// Must be called only by libca, for a channel made by `OpenChannel`.
pub(super) unsafe extern "C" fn on_connection(args: connection_handler_args) {
    guard("connection", || {
        // SAFETY: as the caller promises, the channel is one of `OpenChannel`.
        let state = unsafe { state_of(args.chid) };
        if args.op != CA_OP_CONN_UP {
            timers::circuit_lost();
            if !state.on_disconnected() {
                state.on_channel_refused(&peer());
            }
            return;
        }
        // SAFETY: libca's own channel exists while its callback runs.
        let (code, count) = unsafe { (ca_field_type(args.chid), ca_element_count(args.chid)) };
        let Some(native) = NativeType::from_code(code.into()) else {
            EXCEPTIONS.warn(format_args!("a channel has the unknown native type {code}"));
            return;
        };
        // When an unresponsive circuit answers again, libca calls this function but not
        // `on_access_rights`.
        // SAFETY: as above.
        let rights = unsafe {
            AccessRights {
                read: ca_read_access(args.chid) != 0,
                write: ca_write_access(args.chid) != 0,
            }
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // libca calls from the thread that reads the channel's circuit.
        let circuit = CircuitSocket::of_this_thread();
        let mut host = [0_u8; 128];
        // SAFETY: as above; libca writes at most the given length.
        unsafe { ca_get_host_name(args.chid, host.as_mut_ptr().cast(), host.len() as u32) };
        let host = host.split(|&byte| byte == 0).next().unwrap_or_default();
        state.on_server(&String::from_utf8_lossy(host));
        state.on_connected(Shape { native, count }, rights, circuit);
    });
}

/// The access rights changed.
///
/// # Safety
///
/// Must be called only by libca, for a channel made by `OpenChannel`.
pub(super) unsafe extern "C" fn on_access_rights(args: access_rights_handler_args) {
    guard("access rights", || {
        // SAFETY: as the caller promises, the channel is one of `OpenChannel`.
        let state = unsafe { state_of(args.chid) };
        state.on_access_rights(AccessRights {
            read: args.ar.bits & READ_ACCESS != 0,
            write: args.ar.bits & WRITE_ACCESS != 0,
        });
    });
}

/// A value, alarm or time stamp changed.
///
/// # Safety
///
/// Must be called only by libca, with the `ChannelState` of the channel as `usr`.
pub(super) unsafe extern "C" fn on_update(args: event_handler_args) {
    guard("update", || {
        // SAFETY: `usr` is what `OpenChannel` subscribed with; it keeps the state until the
        // channel is cleared, which waits for this callback.
        let state = unsafe { &*args.usr.cast::<ChannelState>() };
        let of_type = |native| Some(DBR_TIME_STRING + native as ca_sys::chtype);
        let Some((shape, count)) = expected(&args, state, of_type) else {
            if let Some(why) = untrusted(&args) {
                state.on_unreadable(&why);
            } else if let Some(why) = refusal(&args) {
                state.on_refused(&why);
            } else if is_valid(&args) && state.live_shape().is_some() {
                let (peer, sent) = (peer(), args.r#type);
                state.on_unreadable(&format!(
                    "the server {peer} sends what can't be read: values of type {sent}, which was not requested; its \
                     administrator must repair it"
                ));
            } else if is_valid(&args) {
                state.on_valid_again(args.r#type);
            }
            return;
        };
        let size = dbr::update_bytes(shape.native, count);
        // SAFETY: the message had `count` elements of this type, which `recv` checked before libca
        // read it, and libca has just converted them in place. A single string may have had fewer
        // bytes, but libca's buffer has 16 KiB. They stay until the callback returns. In a program
        // that doesn't export `recv`, the count is only the server's claim.
        let bytes = unsafe { slice::from_raw_parts(args.dbr.cast(), size) };
        if let Some(update) = dbr::update(shape.native, shape.is_scalar(), count, bytes) {
            let is_choice = shape.native == NativeType::Enum && shape.is_scalar();
            state.on_update(update, is_choice);
        }
    });
}

/// Metadata changed.
///
/// # Safety
///
/// Must be called only by libca, with the `ChannelState` of the channel as `usr`.
pub(super) unsafe extern "C" fn on_metadata(args: event_handler_args) {
    guard("metadata", || {
        // SAFETY: `usr` is what `OpenChannel` subscribed with; it keeps the state until the
        // channel is cleared, which waits for this callback.
        let state = unsafe { &*args.usr.cast::<ChannelState>() };
        let of_type = |native| {
            let requested = state.metadata_type(native)?;
            Some(DBR_CTRL_STRING + requested as ca_sys::chtype)
        };
        let Some((shape, _)) = expected(&args, state, of_type) else {
            if let Some(why) = untrusted(&args) {
                state.on_metadata(Metadata::default());
                state.on_reason(&why);
            } else if refusal(&args).is_some() {
                state.on_metadata_refused();
            }
            return;
        };
        let Some(requested) = state.metadata_type(shape.native) else {
            return;
        };
        let size = dbr::metadata_bytes(requested);
        // SAFETY: as in `on_update`; the size excludes the value, so it is valid for any count.
        let bytes = unsafe { slice::from_raw_parts(args.dbr.cast(), size) };
        let metadata = match requested {
            NativeType::Char => dbr::text_metadata(bytes),
            _ => dbr::metadata(shape.native, bytes),
        };
        if let Some(metadata) = metadata {
            state.on_metadata(metadata);
        }
    });
}

/// A put with completion was answered.
///
/// # Safety
///
/// Must be called only by libca, once for each put of `OpenChannel`, with its pointer as `usr`.
pub(super) unsafe extern "C" fn on_put(args: event_handler_args) {
    guard("put", || {
        // SAFETY: as the caller promises.
        let (state, put) = unsafe { (state_of(args.chid), given_back(&args)) };
        match put_result(args.status.into()) {
            Ok(()) => state.on_put_written(&put),
            Err(error @ PutError::Failed(_)) => state.on_put_failed(&put, error),
            Err(error) => state.on_put_done(&put, Err(error)),
        }
    });
}

/// The read after a put was answered.
///
/// # Safety
///
/// As for [`on_put`].
pub(super) unsafe extern "C" fn on_read(args: event_handler_args) {
    guard("read", || {
        // SAFETY: as the caller promises.
        let (state, put) = unsafe { (state_of(args.chid), given_back(&args)) };
        let result = match put_result(args.status.into()) {
            Ok(()) => Ok(unlike(&args, &put)),
            Err(PutError::Interrupted) => put.cut_off(),
            // An error of the read does not affect the put.
            Err(_) => Ok(None),
        };
        state.on_put_done(&put, result);
    });
}

/// The value read after a put, if it differs from the one put.
fn unlike(args: &event_handler_args, put: &SentPut) -> Option<Held> {
    let value = put.value();
    if args.dbr.is_null() || args.r#type != value.dbr_type {
        return None;
    }
    let element = NativeType::from_code(args.r#type)?;
    let count = u32::try_from(args.count).ok()?;
    let size = element.element_bytes() * count as usize;
    // SAFETY: as in `on_update`.
    let elements = unsafe { slice::from_raw_parts(args.dbr.cast(), size) };
    put.unlike(count, elements)
}

/// The put that a callback was given.
///
/// # Safety
///
/// As for [`on_put`], and once for each callback.
unsafe fn given_back(args: &event_handler_args) -> Arc<SentPut> {
    // SAFETY: `usr` is what `OpenChannel` made for this one callback.
    let put = unsafe { Arc::from_raw(args.usr.cast::<SentPut>().cast_const()) };
    put.set_awaits_call(false);
    put
}

fn put_result(status: std::ffi::c_long) -> Result<(), PutError> {
    let is = |code: std::ffi::c_int| status == code.into();
    if is(ECA_NORMAL) {
        return Ok(());
    }
    if is(ECA_DISCONN) {
        return Err(PutError::Interrupted);
    }
    if is(ECA_NOWTACCESS) {
        return Err(PutError::NoAccess);
    }
    // SAFETY: the function takes any code and returns a static string.
    let what = unsafe { owned_text(ca_message(status)) };
    Err(PutError::Failed(if is(ECA_PUTFAIL) {
        format!(
            "the IOC didn't take the value ({what}); the record may be disabled for puts (DISP) \
             or refuse such a value"
        )
    } else {
        format!("the IOC answered: {what}")
    }))
}

/// An error occurred that no other callback reports.
///
/// # Safety
///
/// Must be called only by libca.
pub(super) unsafe extern "C" fn on_exception(args: exception_handler_args) {
    guard("exception", || {
        if args.op == CA_OP_PUT && !args.chid.is_null() {
            if let Err(error) = put_result(args.stat) {
                // SAFETY: libca names a channel in a put's exception only while it is open, and
                // every channel is one of `OpenChannel`.
                unsafe { state_of(args.chid) }.on_put_exception(error);
            }
            return;
        }
        // SAFETY: the function takes any code and returns a static string.
        let what = unsafe { owned_text(ca_message(args.stat)) };
        // SAFETY: null or a string of libca that is valid during the callback.
        let context = unsafe { owned_text(args.ctx) };
        if args.stat == ECA_DISCONN.into() {
            // libca calls from the thread that reads the circuit, or would read it.
            lost_circuit::ended(&context, CircuitSocket::of_this_thread().is_some());
        }
        // A disconnect is also reported to each channel.
        let expected = args.stat == ECA_DISCONN.into()
            || args.stat & std::ffi::c_long::from(CA_M_SUCCESS) != 0;
        if expected {
            log::debug!("libca: {what}: {context}");
        } else {
            EXCEPTIONS.warn(format_args!("libca: {what}: {context}"));
        }
    });
}

/// An EPICS library logs a message.
///
/// # Safety
///
/// Must be called only by libCom.
pub(super) unsafe extern "C" fn on_message(_private: *mut c_void, message: *const c_char) {
    guard("message", || {
        // SAFETY: a string of libCom that is valid during the callback.
        let message = unsafe { owned_text(message) };
        MESSAGES.warn(format_args!("{}", message.trim_end()));
    });
}

/// Shape and element count of an event, if it is valid and has the subscribed type.
fn expected(
    args: &event_handler_args,
    state: &ChannelState,
    of_type: impl Fn(NativeType) -> Option<ca_sys::chtype>,
) -> Option<(Shape, u32)> {
    // The status is not normal if there is no read access. The access-rights callback reports that.
    if args.status != ECA_NORMAL || args.dbr.is_null() {
        return None;
    }
    let shape = state.live_shape()?;
    let same_type = of_type(shape.native) == Some(args.r#type);
    Some((shape, u32::try_from(args.count).ok()?)).filter(|_| same_type)
}

/// What is wrong with a message of the server that libca didn't see as it was sent.
#[cold]
fn untrusted(args: &event_handler_args) -> Option<String> {
    let what = Lie::of_status(args.status, args.r#type, args.count)?;
    let peer = peer();
    Some(format!(
        "the server {peer} sends what can't be read: {what}; its administrator must repair it"
    ))
}

/// Whether the event is of an update that libca has read.
fn is_valid(args: &event_handler_args) -> bool {
    args.status == ECA_NORMAL && !args.dbr.is_null()
}

/// Host and port of the server whose circuit the calling thread reads.
fn peer() -> String {
    CircuitSocket::of_this_thread().map_or_else(|| "?".to_owned(), |circuit| circuit.peer.clone())
}

/// Why a server doesn't send what is subscribed, if it said so. The access-rights and connection callbacks report
/// missing rights and lost connections.
#[cold]
fn refusal(args: &event_handler_args) -> Option<String> {
    if [ECA_NORMAL, ECA_NORDACCESS, ECA_DISCONN].contains(&args.status) {
        return None;
    }
    // SAFETY: the function takes any code and returns a static string.
    let what = unsafe { owned_text(ca_message(args.status.into())) };
    Some(format!("the server can't send it: {what}"))
}

/// # Safety
///
/// The channel was made by `OpenChannel` and is not cleared before `'a` ends.
unsafe fn state_of<'a>(channel: chid) -> &'a ChannelState {
    // SAFETY: the channel is not cleared, so libca knows it and `OpenChannel`, which put a
    // pointer to its state there, still keeps the state.
    unsafe { &*ca_puser(channel).cast::<ChannelState>() }
}

/// # Safety
///
/// `text` is null or a NUL-terminated string.
unsafe fn owned_text(text: *const c_char) -> Cow<'static, str> {
    if text.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: not null, so NUL-terminated as the caller promises.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Cow::Owned(super::event::text(bytes))
}
