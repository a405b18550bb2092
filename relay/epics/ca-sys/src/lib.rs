//! The functions, structs and constants of libca that pvwire uses, spelled as in its headers.
//!
//! Declarations only: `cadef.h`, `caerr.h`, `caeventmask.h`, `db_access.h` and two functions of
//! `errlog.h`. They have been stable for decades, so they are written by hand;
//! `tests/layout.rs` compares every size, offset and constant with the C compiler's.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use std::ffi::{c_char, c_double, c_float, c_int, c_long, c_short, c_uint, c_ulong, c_void};
use std::marker::{PhantomData, PhantomPinned};

/// Version of the EPICS base that this crate was built with.
pub const BASE_VERSION: &str = env!("CA_SYS_VERSION");

/// What a channel id points to. Opaque.
#[repr(C)]
pub struct oldChannelNotify {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// What a subscription id points to. Opaque.
#[repr(C)]
pub struct oldSubscription {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Channel id.
pub type chid = *mut oldChannelNotify;
/// Subscription id.
pub type evid = *mut oldSubscription;
/// A `DBR_…` type code.
pub type chtype = c_long;
/// Priority of a channel on its server, 0 to 99.
pub type capri = c_uint;

/// Argument of a connection callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct connection_handler_args {
    /// The channel.
    pub chid: chid,
    /// [`CA_OP_CONN_UP`] or [`CA_OP_CONN_DOWN`].
    pub op: c_long,
}

/// Access rights: in C two bit-fields of one `unsigned`, here that `unsigned`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ca_access_rights {
    /// [`READ_ACCESS`] and [`WRITE_ACCESS`]; the other bits are not initialised by C.
    pub bits: c_uint,
}

/// The bit of [`ca_access_rights::bits`] that says that reading is allowed.
pub const READ_ACCESS: c_uint = if cfg!(target_endian = "little") {
    1
} else {
    1 << 31
};
/// The bit of [`ca_access_rights::bits`] that says that writing is allowed.
pub const WRITE_ACCESS: c_uint = if cfg!(target_endian = "little") {
    1 << 1
} else {
    1 << 30
};

/// Argument of an access-rights callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct access_rights_handler_args {
    /// The channel.
    pub chid: chid,
    /// Its rights now.
    pub ar: ca_access_rights,
}

/// Argument of a subscription callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct event_handler_args {
    /// The `usr` pointer given to [`ca_create_subscription`].
    pub usr: *mut c_void,
    /// The channel.
    pub chid: chid,
    /// The `DBR_…` type of `dbr`.
    pub r#type: c_long,
    /// Elements in `dbr`.
    pub count: c_long,
    /// The data, libca's and valid during the callback only. Null unless `status` is
    /// [`ECA_NORMAL`].
    pub dbr: *const c_void,
    /// `ECA_…` code of the server's answer.
    pub status: c_int,
}

/// Argument of the exception callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct exception_handler_args {
    /// The pointer given to [`ca_add_exception_event`].
    pub usr: *mut c_void,
    /// The channel, or null.
    pub chid: chid,
    /// Type requested.
    pub r#type: c_long,
    /// Count requested.
    pub count: c_long,
    /// Where the result of a get should have been written.
    pub addr: *mut c_void,
    /// `ECA_…` code.
    pub stat: c_long,
    /// `CA_OP_…` code.
    pub op: c_long,
    /// Context as text, or null.
    pub ctx: *const c_char,
    /// Source file inside libca, or null.
    pub pFile: *const c_char,
    /// Line in that file, or 0.
    pub lineNo: c_uint,
}

/// Connection callback.
pub type caCh = unsafe extern "C" fn(args: connection_handler_args);
/// Access-rights callback.
pub type caArh = unsafe extern "C" fn(args: access_rights_handler_args);
/// Subscription callback.
pub type caEventCallBackFunc = unsafe extern "C" fn(args: event_handler_args);
/// Exception callback.
pub type caExceptionHandler = unsafe extern "C" fn(args: exception_handler_args);
/// Callback for each message that an EPICS library logs.
pub type errlogListener = unsafe extern "C" fn(private: *mut c_void, message: *const c_char);

/// The channel was connected.
pub const CA_OP_CONN_UP: c_long = 6;
/// The channel was disconnected.
pub const CA_OP_CONN_DOWN: c_long = 7;
/// The exception is about a put.
pub const CA_OP_PUT: c_long = 1;
/// For [`ca_context_create`]: callbacks come from libca's own threads.
pub const ca_enable_preemptive_callback: c_int = 1;

/// Subscribe to value changes (past the record's MDEL).
pub const DBE_VALUE: c_long = 1 << 0;
/// Subscribe to alarm changes.
pub const DBE_ALARM: c_long = 1 << 2;
/// Subscribe to changes of metadata.
pub const DBE_PROPERTY: c_long = 1 << 3;

/// Native type: string of 40 bytes.
pub const DBR_STRING: chtype = 0;
/// Native type: 16-bit signed integer.
pub const DBR_SHORT: chtype = 1;
/// Native type: 32-bit floating point.
pub const DBR_FLOAT: chtype = 2;
/// Native type: index of a choice.
pub const DBR_ENUM: chtype = 3;
/// Native type: 8-bit unsigned integer.
pub const DBR_CHAR: chtype = 4;
/// Native type: 32-bit signed integer.
pub const DBR_LONG: chtype = 5;
/// Native type: 64-bit floating point.
pub const DBR_DOUBLE: chtype = 6;
/// First of the types with alarm and time stamp; add a native type.
pub const DBR_TIME_STRING: chtype = 14;
/// First of the types with metadata; add a native type.
pub const DBR_CTRL_STRING: chtype = 28;
/// Whether alarms that are gone need to be acknowledged, as a number of 16 bits; to write only.
pub const DBR_PUT_ACKT: chtype = 35;
/// The severity that is acknowledged, as a number of 16 bits; to write only.
pub const DBR_PUT_ACKS: chtype = 36;

/// Bytes of a string, the NUL included.
pub const MAX_STRING_SIZE: usize = 40;
/// Bytes of the engineering units; not NUL-terminated when all are used.
pub const MAX_UNITS_SIZE: usize = 8;
/// Bytes of the label of a choice.
pub const MAX_ENUM_STRING_SIZE: usize = 26;
/// Maximum number of choices of an enumeration.
pub const MAX_ENUM_STATES: usize = 16;

/// Bit of an `ECA_…` code that is set when it means success.
pub const CA_M_SUCCESS: c_int = 1;
/// Success.
pub const ECA_NORMAL: c_int = 1;
/// The server accepted the value but didn't write it.
pub const ECA_PUTFAIL: c_int = 20 << 3;
/// More elements than the channel has.
pub const ECA_BADCOUNT: c_int = 22 << 3;
/// The virtual circuit to an IOC was lost.
pub const ECA_DISCONN: c_int = 24 << 3;
/// Several servers have a PV of this name.
pub const ECA_DBLCHNL: c_int = 25 << 3;
/// The channel may not be read.
pub const ECA_NORDACCESS: c_int = 46 << 3;

/// The channel may not be written.
pub const ECA_NOWTACCESS: c_int = 47 << 3;

/// Seconds and nanoseconds since the EPICS epoch, 1990-01-01 UTC.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct epicsTimeStamp {
    /// Seconds.
    pub secPastEpoch: u32,
    /// Nanoseconds of the second.
    pub nsec: u32,
}

macro_rules! dbr_time {
    ($(#[$doc:meta])* $name:ident { [$($pad:ident: $pad_type:ty),*] value: $value:ty }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            /// Alarm status.
            pub status: c_short,
            /// Alarm severity.
            pub severity: c_short,
            /// Time stamp.
            pub stamp: epicsTimeStamp,
            $(
                /// Alignment.
                pub $pad: $pad_type,
            )*
            /// First element; the others follow.
            pub value: $value,
        }
    };
}

dbr_time!(
    /// A string with alarm and time.
    dbr_time_string { [] value: [c_char; MAX_STRING_SIZE] }
);
dbr_time!(
    /// A 16-bit integer with alarm and time.
    dbr_time_short { [RISC_pad: c_short] value: i16 }
);
dbr_time!(
    /// A float with alarm and time.
    dbr_time_float { [] value: c_float }
);
dbr_time!(
    /// The index of a choice with alarm and time.
    dbr_time_enum { [RISC_pad: c_short] value: u16 }
);
dbr_time!(
    /// An 8-bit integer with alarm and time.
    dbr_time_char { [RISC_pad0: c_short, RISC_pad1: u8] value: u8 }
);
dbr_time!(
    /// A 32-bit integer with alarm and time.
    dbr_time_long { [] value: i32 }
);
dbr_time!(
    /// A double with alarm and time.
    dbr_time_double { [RISC_pad: i32] value: c_double }
);

macro_rules! dbr_ctrl {
    (
        $(#[$doc:meta])*
        $name:ident {
            [$($head:ident: $head_type:ty),*] units,
            limits: $limit:ty,
            [$($pad:ident: $pad_type:ty),*] value
        }
    ) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            /// Alarm status.
            pub status: c_short,
            /// Alarm severity.
            pub severity: c_short,
            $(
                /// Decimal places, or alignment.
                pub $head: $head_type,
            )*
            /// Engineering units.
            pub units: [c_char; MAX_UNITS_SIZE],
            /// Upper end of a display's scale.
            pub upper_disp_limit: $limit,
            /// Lower end of a display's scale.
            pub lower_disp_limit: $limit,
            /// Above it the alarm is HIHI.
            pub upper_alarm_limit: $limit,
            /// Above it the alarm is HIGH.
            pub upper_warning_limit: $limit,
            /// Below it the alarm is LOW.
            pub lower_warning_limit: $limit,
            /// Below it the alarm is LOLO.
            pub lower_alarm_limit: $limit,
            /// Highest value that may be written.
            pub upper_ctrl_limit: $limit,
            /// Lowest value that may be written.
            pub lower_ctrl_limit: $limit,
            $(
                /// Alignment.
                pub $pad: $pad_type,
            )*
            /// First element.
            pub value: $limit,
        }
    };
}

dbr_ctrl!(
    /// Metadata of a 16-bit integer.
    dbr_ctrl_short { [] units, limits: i16, [] value }
);
dbr_ctrl!(
    /// Metadata of a float.
    dbr_ctrl_float { [precision: c_short, RISC_pad: c_short] units, limits: c_float, [] value }
);
dbr_ctrl!(
    /// Metadata of an 8-bit integer.
    dbr_ctrl_char { [] units, limits: u8, [RISC_pad: u8] value }
);
dbr_ctrl!(
    /// Metadata of a 32-bit integer.
    dbr_ctrl_long { [] units, limits: i32, [] value }
);
dbr_ctrl!(
    /// Metadata of a double.
    dbr_ctrl_double { [precision: c_short, RISC_pad0: c_short] units, limits: c_double, [] value }
);

/// Metadata of an enumeration.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dbr_ctrl_enum {
    /// Alarm status.
    pub status: c_short,
    /// Alarm severity.
    pub severity: c_short,
    /// Number of used elements of `strs`.
    pub no_str: c_short,
    /// Labels of the choices.
    pub strs: [[c_char; MAX_ENUM_STRING_SIZE]; MAX_ENUM_STATES],
    /// Index of the chosen one.
    pub value: u16,
}

unsafe extern "C" {
    /// Bytes of each `DBR_…` type with one element.
    pub static dbr_size: [u16; 39];
    /// Creates the calling thread's context.
    pub fn ca_context_create(select: c_int) -> c_int;
    /// Destroys the calling thread's context, after its last callback has returned.
    pub fn ca_context_destroy();
    /// Installs the callback for errors that no other callback reports.
    pub fn ca_add_exception_event(pfunc: Option<caExceptionHandler>, pArg: *mut c_void) -> c_int;
    /// Opens a channel; libca starts searching for its server.
    pub fn ca_create_channel(
        pChanName: *const c_char,
        pConnStateCallback: Option<caCh>,
        pUserPrivate: *mut c_void,
        priority: capri,
        pChanID: *mut chid,
    ) -> c_int;
    /// Closes a channel with its subscriptions, after its running callback has returned.
    pub fn ca_clear_channel(chanId: chid) -> c_int;
    /// Installs the access-rights callback, and calls it when the channel is connected.
    pub fn ca_replace_access_rights_event(chan: chid, pfunc: Option<caArh>) -> c_int;
    /// Subscribes. Count 0 means the server's current count in each event.
    pub fn ca_create_subscription(
        r#type: chtype,
        count: c_ulong,
        chanId: chid,
        mask: c_long,
        pFunc: Option<caEventCallBackFunc>,
        pArg: *mut c_void,
        pEventID: *mut evid,
    ) -> c_int;
    /// Ends a subscription, after its running callback has returned.
    pub fn ca_clear_subscription(eventID: evid) -> c_int;
    /// Writes without an answer; a failure is reported as an exception of the operation
    /// [`CA_OP_PUT`].
    pub fn ca_array_put(
        r#type: chtype,
        count: c_ulong,
        chanId: chid,
        pValue: *const c_void,
    ) -> c_int;
    /// Writes; the callback is called when the record has finished processing, or on failure.
    pub fn ca_array_put_callback(
        r#type: chtype,
        count: c_ulong,
        chanId: chid,
        pValue: *const c_void,
        pFunc: Option<caEventCallBackFunc>,
        pArg: *mut c_void,
    ) -> c_int;
    /// Reads once.
    pub fn ca_array_get_callback(
        r#type: chtype,
        count: c_ulong,
        chanId: chid,
        pFunc: Option<caEventCallBackFunc>,
        pArg: *mut c_void,
    ) -> c_int;
    /// Sends buffered requests.
    pub fn ca_flush_io() -> c_int;
    /// Native `DBR_…` type, or -1 when not connected.
    pub fn ca_field_type(chan: chid) -> c_short;
    /// Native element count (the maximum), or 0 when not connected.
    pub fn ca_element_count(chan: chid) -> c_ulong;
    /// Not 0 when the channel is connected and may be read.
    pub fn ca_read_access(chan: chid) -> c_uint;
    /// Not 0 when the channel is connected and may be written.
    pub fn ca_write_access(chan: chid) -> c_uint;
    /// The pointer given to [`ca_create_channel`] as `pUserPrivate`.
    pub fn ca_puser(chan: chid) -> *mut c_void;
    /// The name that the channel was created with; owned by the channel.
    pub fn ca_name(chan: chid) -> *const c_char;
    /// Writes the server's host and port as text to `pBuf` and returns the length.
    pub fn ca_get_host_name(pChan: chid, pBuf: *mut c_char, bufLength: c_uint) -> c_uint;
    /// The text of an `ECA_…` code, a static string.
    pub fn ca_message(errorCode: c_long) -> *const c_char;
    /// Passes every message of the EPICS libraries to `listener`, from a separate thread.
    pub fn errlogAddListener(listener: Option<errlogListener>, pPrivate: *mut c_void);
    /// With 0, the EPICS libraries' messages no longer go to standard error.
    pub fn eltc(yesno: c_int) -> c_int;
}

#[cfg(feature = "interpose")]
unsafe extern "C" {
    /// The calling thread has created a channel, so its context must search. For
    /// `shim/timer_queue.cpp`.
    pub fn ca_sys_search_starts();
    /// A channel was disconnected and will be searched again. For `shim/timer_queue.cpp`.
    pub fn ca_sys_circuit_lost();
}
