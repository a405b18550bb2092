//! The functions that the shim calls.
//!
//! Each function only passes its arguments on to the state of its monitor or operation. For a
//! scalar it takes no lock and allocates nothing. Its body is one `guard`, so that a panic never
//! unwinds into C++.

use std::ffi::c_void;
use std::slice;
use std::sync::Arc;

use pvxs_sys::{
    PVS_ARRAY, PVS_DISCONNECTED, PVS_DONE, PVS_ENUM, PVS_REMOTE, PVS_SCALAR, PVS_UNSURE, pvs_item,
    pvs_metadata, pvs_monitor_calls, pvs_operation_calls, pvs_server_calls, pvs_text, pvs_type,
    pvs_update,
};

use super::array::ElementType;
use super::event::{Limits, Metadata, Update, ValueKind};
use super::items::{Items, bytes, owned, readable};
use super::monitor_state::MonitorState;
use super::operation::OperationState;
use super::questions::Answer;
use super::request::OpError;
use super::servers::{ServerFound, Servers};
use crate::guard::guard;

/// The functions that a monitor calls; their user pointer is an [`Arc`] of a [`MonitorState`].
pub(super) static MONITOR: pvs_monitor_calls = pvs_monitor_calls {
    connected: on_connected,
    disconnected: on_disconnected,
    broken: on_broken,
    metadata: on_metadata,
    update: on_update,
    unreadable: on_unreadable,
    failed: on_failed,
    release: on_monitor_release,
};

/// The functions that an operation calls; their user pointer is an [`Arc`] of an
/// [`OperationState`].
pub(super) static OPERATION: pvs_operation_calls = pvs_operation_calls {
    sending: on_sending,
    done: on_done,
    release: on_operation_release,
};

/// The functions that a question calls; their user pointer is an [`Arc`] of an [`Answer`].
pub(super) static QUESTION: pvs_operation_calls = pvs_operation_calls {
    sending: on_asking,
    done: on_answer,
    release: on_question_release,
};

/// The functions that a discovery calls; their user pointer is an [`Arc`] of [`Servers`].
pub(super) static SERVERS: pvs_server_calls = pvs_server_calls {
    found: on_found,
    release: on_discovery_release,
};

/// # Safety
///
/// Must be called only by the shim, with the user pointer of a monitor, before its release.
unsafe fn monitor<'a>(user: *mut c_void) -> &'a MonitorState {
    // SAFETY: the shim holds a reference to the state until the release.
    unsafe { &*user.cast::<MonitorState>() }
}

/// # Safety
///
/// As for [`monitor`], with a type that is valid during the call.
unsafe extern "C" fn on_connected(user: *mut c_void, of: *const pvs_type) {
    guard("connected", || {
        // SAFETY: as the caller promises.
        let (state, of) = unsafe { (monitor(user), &*of) };
        let element = |code| ElementType::from_code(code);
        let kind = match of.kind {
            PVS_SCALAR => element(of.code).map(ValueKind::Scalar),
            PVS_ARRAY => element(of.code & !0x08).map(ValueKind::Array),
            PVS_ENUM => Some(ValueKind::Enum),
            _ => None,
        };
        // SAFETY: valid during the call.
        let (type_id, peer) = unsafe { (owned(of.id), owned(of.peer)) };
        let kind = kind.unwrap_or(ValueKind::Structure);
        state.on_connected(type_id, kind, of.signature, &peer);
    });
}

/// # Safety
///
/// As for [`monitor`].
unsafe extern "C" fn on_disconnected(user: *mut c_void) {
    guard("disconnected", || {
        // SAFETY: as the caller promises.
        unsafe { monitor(user) }.on_disconnected();
    });
}

/// # Safety
///
/// As for [`monitor`], with a text that is valid during the call.
unsafe extern "C" fn on_broken(user: *mut c_void, peer: pvs_text, had_values: u8) {
    guard("broken", || {
        // SAFETY: as the caller promises.
        let (state, peer) = unsafe { (monitor(user), owned(peer)) };
        state.on_broken(peer, had_values != 0);
    });
}

/// # Safety
///
/// As for [`monitor`], with metadata that is valid during the call.
unsafe extern "C" fn on_metadata(user: *mut c_void, metadata: *const pvs_metadata) {
    guard("metadata", || {
        // SAFETY: as the caller promises.
        let (state, from) = unsafe { (monitor(user), &*metadata) };
        state.on_metadata(|type_id, kind| {
            // SAFETY: as the caller promises.
            unsafe { metadata_of(from, type_id, kind) }
        });
    });
}

/// # Safety
///
/// `from` and everything it points to are valid.
unsafe fn metadata_of(from: &pvs_metadata, type_id: &str, kind: ValueKind) -> Metadata {
    let choices = if from.choices.is_null() {
        &[]
    } else {
        // SAFETY: there are `choice_count` labels, as the caller promises.
        unsafe { slice::from_raw_parts(from.choices, from.choice_count) }
    };
    // SAFETY: all texts are currently valid.
    let owned = |text| unsafe { owned(text) };
    let is_float = match kind {
        ValueKind::Scalar(element) | ValueKind::Array(element) => element.is_float(),
        ValueKind::Enum | ValueKind::Structure => false,
    };
    let limits = |low, high| Limits { low, high };
    Metadata {
        type_id: type_id.to_owned(),
        kind,
        element_count: u32::from(!matches!(kind, ValueKind::Array(_))),
        units: owned(from.units),
        precision: (is_float && from.has_precision != 0).then(|| {
            let most = from.precision.clamp(i16::MIN.into(), i16::MAX.into());
            most as i16
        }),
        form: Some(owned(from.form)).filter(|form| !form.is_empty()),
        description: owned(from.description),
        choices: choices.iter().map(|&label| owned(label)).collect(),
        display: limits(from.display_low, from.display_high),
        control: limits(from.control_low, from.control_high),
        min_step: from.control_min_step,
        warning: limits(from.warning_low, from.warning_high),
        alarm: limits(from.alarm_low, from.alarm_high),
    }
}

/// # Safety
///
/// As for [`monitor`], with an update that is valid during the call.
unsafe extern "C" fn on_update(user: *mut c_void, update: *const pvs_update) {
    guard("update", || {
        // SAFETY: as the caller promises.
        let (state, from) = unsafe { (monitor(user), &*update) };
        // SAFETY: the items and texts are valid during the call.
        let (items, message) =
            unsafe { (Items::new(from.items, from.item_count), bytes(from.message)) };
        let Some((value, changed)) = items.value() else {
            return;
        };
        let small = |number: i32| number.min(u16::MAX.into()) as u16;
        state.on_update(Update {
            value,
            time_ns: from.time_ns,
            squashed: from.squashed,
            user_tag: from.user_tag,
            severity: (from.severity >= 0).then(|| small(from.severity)),
            status: small(from.status),
            message: &readable(message),
            changed,
        });
    });
}

/// # Safety
///
/// As for [`monitor`], with a text that is valid during the call.
unsafe extern "C" fn on_unreadable(user: *mut c_void, reason: pvs_text) {
    guard("unreadable", || {
        // SAFETY: as the caller promises.
        let (state, reason) = unsafe { (monitor(user), owned(reason)) };
        state.on_unreadable(reason);
    });
}

/// # Safety
///
/// As for [`monitor`], with a text that is valid during the call.
unsafe extern "C" fn on_failed(user: *mut c_void, reason: pvs_text) {
    guard("failed", || {
        // SAFETY: as the caller promises.
        let (state, reason) = unsafe { (monitor(user), bytes(reason)) };
        state.on_failed(&readable(reason));
    });
}

/// # Safety
///
/// Must be called only by the shim, as the last call, with the user pointer of a monitor.
unsafe extern "C" fn on_monitor_release(user: *mut c_void) {
    // The caller's sink may be dropped here and may panic.
    guard("monitor release", || {
        // SAFETY: the reference that the shim has held since `Subscription::create`.
        drop(unsafe { Arc::from_raw(user.cast::<MonitorState>()) });
    });
}

/// # Safety
///
/// Must be called only by the shim, with the user pointer of an operation, before its release.
unsafe extern "C" fn on_sending(user: *mut c_void) -> u8 {
    let mut may_send = false;
    guard("sending", || {
        // SAFETY: the shim holds a reference to the state until the release.
        may_send = unsafe { &*user.cast::<OperationState>() }.begin_to_send();
    });
    may_send.into()
}

/// # Safety
///
/// Must be called only by the shim, with the user pointer of an operation, before its release, and
/// with text and items that are valid during the call.
unsafe extern "C" fn on_done(
    user: *mut c_void,
    outcome: u8,
    reason: pvs_text,
    items: *const pvs_item,
    item_count: usize,
) {
    guard("done", || {
        // SAFETY: the shim holds a reference to the state until the release.
        let state = unsafe { &*user.cast::<OperationState>() };
        // SAFETY: as the caller promises.
        let (reason, mut items) = unsafe { (owned(reason), Items::new(items, item_count)) };
        state.complete(match outcome {
            PVS_DONE => Ok(items.node()),
            PVS_DISCONNECTED => Err(OpError::Disconnected),
            PVS_REMOTE => Err(OpError::Remote(reason)),
            PVS_UNSURE => Err(OpError::Unsure(reason)),
            _ => Err(OpError::Invalid(reason)),
        });
    });
}

/// # Safety
///
/// Must be called only by the shim, as the last call, with the user pointer of an operation.
unsafe extern "C" fn on_operation_release(user: *mut c_void) {
    guard("operation release", || {
        // SAFETY: the reference that the shim has held since `Operation::start`.
        drop(unsafe { Arc::from_raw(user.cast::<OperationState>()) });
    });
}

/// A question changes nothing, so it may always be sent.
unsafe extern "C" fn on_asking(_user: *mut c_void) -> u8 {
    1
}

/// # Safety
///
/// Must be called only by the shim, with the user pointer of a question, before its release.
unsafe extern "C" fn on_answer(
    user: *mut c_void,
    outcome: u8,
    _reason: pvs_text,
    _items: *const pvs_item,
    _item_count: usize,
) {
    guard("answer", || {
        // A refusal also shows that the server is alive.
        if outcome == PVS_DONE || outcome == PVS_REMOTE {
            // SAFETY: the shim holds the reference of `Operation::ask` until the release.
            unsafe { &*user.cast::<Answer>() }.arrived();
        }
    });
}

/// # Safety
///
/// Must be called only by the shim, as the last call, with the user pointer of a question.
unsafe extern "C" fn on_question_release(user: *mut c_void) {
    guard("question release", || {
        // SAFETY: the reference that the shim has held since `Operation::ask`.
        drop(unsafe { Arc::from_raw(user.cast::<Answer>()) });
    });
}

/// # Safety
///
/// Must be called only by the shim, with the user pointer of a discovery, before its release, and with texts that are
/// valid during the call.
unsafe extern "C" fn on_found(user: *mut c_void, server: pvs_text, guid: pvs_text, is_online: u8) {
    guard("server found", || {
        // SAFETY: the shim holds a reference to the state until the release.
        let servers = unsafe { &*user.cast::<Servers>() };
        // SAFETY: as the caller promises.
        let (address, guid) = unsafe { (owned(server), bytes(guid).to_vec()) };
        servers.found(ServerFound {
            address,
            guid,
            is_online: is_online != 0,
        });
    });
}

/// # Safety
///
/// Must be called only by the shim, as the last call, with the user pointer of a discovery.
unsafe extern "C" fn on_discovery_release(user: *mut c_void) {
    guard("discovery release", || {
        // SAFETY: the reference that the shim has held since `Discovery::start`.
        drop(unsafe { Arc::from_raw(user.cast::<Servers>()) });
    });
}
