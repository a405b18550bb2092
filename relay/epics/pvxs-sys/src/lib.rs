//! The shim's functions and structs, spelled as in `shim/pvs.h`.
//!
//! Declarations only. The C++ behind them is in `shim/`; `tests/layout.rs` compares every size,
//! offset and constant with the C compiler's.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

// The shim uses libCom through pvxs; this import links it.
use ca_sys as _;

/// Version of the pvxs that this crate was built with.
pub const PVXS_VERSION: &str = env!("PVXS_SYS_VERSION");

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            _opaque: [u8; 0],
            _not_send: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

opaque! {
    /// A client context of pvxs. Opaque.
    pvs_context,
    /// A subscription. Opaque.
    pvs_monitor,
    /// A get, put or call. Opaque.
    pvs_operation,
    /// Reports of servers. Opaque.
    pvs_discovery
}

/// Text from or for a server: not NUL-terminated, may contain NULs, in no known encoding.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_text {
    /// May be null if the length is 0.
    pub bytes: *const c_char,
    /// Bytes.
    pub length: usize,
}

/// The number of a [`pvs_item`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union pvs_number {
    /// Floating point of any width.
    pub real: f64,
    /// Signed integer of any width.
    pub integer: i64,
    /// Unsigned integer of any width; 0 or 1 for a boolean.
    pub uinteger: u64,
}

/// A field with its value. Its children follow it, each followed by its own children.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_item {
    /// Name of the field in its structure, or of the selected field in its union.
    pub name: pvs_text,
    /// Type id of a structure or union.
    pub id: pvs_text,
    /// Value of a string.
    pub text: pvs_text,
    /// Value of a number or boolean.
    pub number: pvs_number,
    /// For an array of numbers: the argument of [`pvs_array_retain`]. Null if the array is empty.
    pub array: *const c_void,
    /// The elements of an array of numbers.
    pub elements: *const c_void,
    /// Number of elements of an array of any type.
    pub count: usize,
    /// Number of children that follow: the fields, the selected field, the strings or the
    /// structures.
    pub children: u32,
    /// Type code of PVA, [`PVS_ABSENT`] for an absent element of a structure array.
    pub r#type: u8,
    /// Not 0 if the server marks it, its parent or a child of it as changed.
    pub changed: u8,
}

/// [`pvs_item::type`] of an absent element.
pub const PVS_ABSENT: u8 = 0xff;

/// [`pvs_type::kind`]: one number, boolean or string.
pub const PVS_SCALAR: u8 = 0;
/// [`pvs_type::kind`]: an array of scalars.
pub const PVS_ARRAY: u8 = 1;
/// [`pvs_type::kind`]: the index of a choice.
pub const PVS_ENUM: u8 = 2;
/// [`pvs_type::kind`]: anything else.
pub const PVS_STRUCTURE: u8 = 3;

/// The type of a PV.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_type {
    /// Type id.
    pub id: pvs_text,
    /// Equal for equal definitions: names, type ids and types, all the way down.
    pub signature: u64,
    /// One of the `PVS_` kinds.
    pub kind: u8,
    /// Type code of the scalar or of the array.
    pub code: u8,
    /// Address and port of the server.
    pub peer: pvs_text,
}

/// Metadata that a server sends with values. Missing fields are empty or NaN.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "named as in PVA")]
pub struct pvs_metadata {
    pub units: pvs_text,
    pub form: pvs_text,
    pub description: pvs_text,
    pub choices: *const pvs_text,
    pub choice_count: usize,
    pub display_low: f64,
    pub display_high: f64,
    pub control_low: f64,
    pub control_high: f64,
    pub control_min_step: f64,
    pub alarm_low: f64,
    pub warning_low: f64,
    pub warning_high: f64,
    pub alarm_high: f64,
    pub precision: i32,
    pub has_precision: u8,
}

/// One update.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_update {
    /// Nanoseconds past the POSIX epoch; 0 without a time stamp.
    pub time_ns: i64,
    /// `timeStamp.userTag`.
    pub user_tag: i32,
    /// `alarm.severity`; -1 if the structure has no alarm.
    pub severity: i32,
    /// `alarm.status`.
    pub status: i32,
    /// `alarm.message`.
    pub message: pvs_text,
    /// The scalar, the array with its strings, the index of the choice, or the whole structure;
    /// always the whole structure if the monitor was created with `whole`.
    pub items: *const pvs_item,
    /// Number of items, at least 1.
    pub item_count: usize,
    /// Updates squashed into this one or an earlier one, as far as is known.
    pub squashed: u64,
}

/// Functions that a monitor calls, one at a time, from the thread of the context.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_monitor_calls {
    /// Connected; called before metadata and update.
    pub connected: unsafe extern "C" fn(user: *mut c_void, of: *const pvs_type),
    /// Not connected any more.
    pub disconnected: unsafe extern "C" fn(user: *mut c_void),
    /// The connection to this server broke, before or after the first value.
    pub broken: unsafe extern "C" fn(user: *mut c_void, peer: pvs_text, had_values: u8),
    /// Called on connect and when the server reports a change of metadata.
    pub metadata: unsafe extern "C" fn(user: *mut c_void, metadata: *const pvs_metadata),
    /// Called for each value.
    pub update: unsafe extern "C" fn(user: *mut c_void, update: *const pvs_update),
    /// The server sends values that are refused; destroy the monitor.
    pub unreadable: unsafe extern "C" fn(user: *mut c_void, reason: pvs_text),
    /// The monitor is dead: destroy it and create another.
    pub failed: unsafe extern "C" fn(user: *mut c_void, reason: pvs_text),
    /// The last call, from any thread.
    pub release: unsafe extern "C" fn(user: *mut c_void),
}

/// Outcome: done.
pub const PVS_DONE: u8 = 0;
/// Outcome: the connection broke after the request may have been sent.
pub const PVS_DISCONNECTED: u8 = 1;
/// Outcome: the server refused.
pub const PVS_REMOTE: u8 = 2;
/// Outcome: the value cannot be sent to this PV.
pub const PVS_INVALID: u8 = 3;
/// Outcome of a put: the server reported a failure, but the PV holds the value or could not be read afterwards.
pub const PVS_UNSURE: u8 = 4;

/// Functions that an operation calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_operation_calls {
    /// Called right before a request with side effects is sent; if it returns 0, nothing is sent.
    pub sending: unsafe extern "C" fn(user: *mut c_void) -> u8,
    /// Called at most once, from the thread of the context. The items are the fetched value or the
    /// answer.
    pub done: unsafe extern "C" fn(
        user: *mut c_void,
        outcome: u8,
        reason: pvs_text,
        items: *const pvs_item,
        item_count: usize,
    ),
    /// The last call, from any thread, also after a cancel.
    pub release: unsafe extern "C" fn(user: *mut c_void),
}

/// Functions that a discovery calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pvs_server_calls {
    /// A server (address and port) is there, or is not there any more; called from the thread of the context. The
    /// identifier changes at each restart of the server; it is empty for a name server.
    pub found:
        unsafe extern "C" fn(user: *mut c_void, server: pvs_text, guid: pvs_text, is_online: u8),
    /// The last call, from any thread.
    pub release: unsafe extern "C" fn(user: *mut c_void),
}

/// A range of memory that a call reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pvs_range {
    /// Its first byte.
    pub start: *const c_void,
    /// Its length.
    pub bytes: usize,
}

unsafe extern "C" {
    /// Creates a context according to the `EPICS_PVA_` environment variables. Returns null on
    /// failure, with the reason, NUL-terminated, in `reason`.
    pub fn pvs_context_create(reason: *mut c_char, size: usize) -> *mut pvs_context;
    /// Destroys a context without monitors and operations. Waits for the last call.
    pub fn pvs_context_destroy(context: *mut pvs_context);
    /// Subscribes. Returns null on failure; `release` is called in that case too. The calls must
    /// live as long as the monitor. The memory in `reads` is only prefetched before an `update` and
    /// may have been freed. With `whole`, updates of scalars, arrays and enumerations also contain
    /// the whole structure.
    pub fn pvs_monitor_create(
        context: *mut pvs_context,
        name: pvs_text,
        whole: c_int,
        calls: *const pvs_monitor_calls,
        user: *mut c_void,
        reads: *const pvs_range,
        read_count: usize,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_monitor;
    /// Ends a subscription. Does not wait for a running call.
    pub fn pvs_monitor_destroy(monitor: *mut pvs_monitor);
    /// Requests the type of a PV, to see whether its server answers. Returns null on failure;
    /// `release` is called in that case too.
    pub fn pvs_ask(
        context: *mut pvs_context,
        name: pvs_text,
        calls: *const pvs_operation_calls,
        user: *mut c_void,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_operation;
    /// Fetches a value from this server, to see whether it can be decoded. Returns null on failure;
    /// `release` is called in that case too.
    pub fn pvs_check(
        context: *mut pvs_context,
        name: pvs_text,
        server: pvs_text,
        calls: *const pvs_operation_calls,
        user: *mut c_void,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_operation;
    /// Bytes received from a server. Waits for the thread of the context.
    pub fn pvs_received(context: *mut pvs_context, peer: pvs_text) -> u64;
    /// Fetches a whole structure. Returns null on failure; `release` is called in that case too.
    pub fn pvs_get(
        context: *mut pvs_context,
        name: pvs_text,
        calls: *const pvs_operation_calls,
        user: *mut c_void,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_operation;
    /// Puts the first item to a field, given as a path of names separated by dots. With `wait`, the
    /// put is done when the record has finished processing. Returns null on failure; `release` is
    /// called in that case too.
    pub fn pvs_put(
        context: *mut pvs_context,
        name: pvs_text,
        field: pvs_text,
        items: *const pvs_item,
        item_count: usize,
        wait: c_int,
        calls: *const pvs_operation_calls,
        user: *mut c_void,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_operation;
    /// Calls with an NTURI whose query contains the items, at this server if it is not empty. Returns null on
    /// failure; `release` is called in that case too.
    pub fn pvs_rpc(
        context: *mut pvs_context,
        name: pvs_text,
        server: pvs_text,
        items: *const pvs_item,
        item_count: usize,
        calls: *const pvs_operation_calls,
        user: *mut c_void,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_operation;
    /// Cancels an operation unless it is done. Does not wait for a running call.
    pub fn pvs_operation_destroy(operation: *mut pvs_operation);
    /// Reports servers: all that answer one search, those that send beacons from then on, and the name servers of
    /// the configuration. Returns null on failure; `release` is called in that case too.
    pub fn pvs_discover(
        context: *mut pvs_context,
        calls: *const pvs_server_calls,
        user: *mut c_void,
        reason: *mut c_char,
        size: usize,
    ) -> *mut pvs_discovery;
    /// Ends a discovery. Does not wait for a running call.
    pub fn pvs_discovery_destroy(discovery: *mut pvs_discovery);
    /// Adds an owner of an array's elements; returns null if there is no memory.
    pub fn pvs_array_retain(array: *const c_void) -> *const c_void;
    /// Removes an owner.
    pub fn pvs_array_release(array: *const c_void);
}
