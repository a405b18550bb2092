//! Owners of the shim's contexts, monitors and operations, which are destroyed in the right order. There is a context for
//! each side of the monitors, and one for checks.

use std::cell::OnceCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use pvxs_sys::{
    pvs_ask, pvs_check, pvs_context, pvs_context_create, pvs_context_destroy, pvs_discover,
    pvs_discovery, pvs_discovery_destroy, pvs_get, pvs_monitor, pvs_monitor_create,
    pvs_monitor_destroy, pvs_operation, pvs_operation_calls, pvs_operation_destroy, pvs_put,
    pvs_range, pvs_received, pvs_rpc,
};

use super::callback;
use super::isolation::Side;
use super::items::{Outgoing, readable, text};
use super::monitor_state::MonitorState;
use super::operation::OperationState;
use super::questions::Answer;
use super::request::Request;
use super::servers::Servers;
use crate::user::ContextError;

/// Size of the buffer for the reason of a failure.
const REASON_BYTES: usize = 256;

/// pvxs refused a call; contains the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(String);

/// Calls a function that returns a pointer, or null and a reason.
fn checked<T>(call: impl FnOnce(*mut c_char, usize) -> *mut T) -> Result<NonNull<T>, Refused> {
    let mut reason = [0_u8; REASON_BYTES];
    NonNull::new(call(reason.as_mut_ptr().cast(), reason.len())).ok_or_else(|| {
        let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default();
        Refused(readable(reason.to_bytes()).into_owned())
    })
}

/// A context of pvxs. It stays on the thread that created it, as do its monitors and operations.
pub(super) struct Context(NonNull<pvs_context>);

impl Context {
    /// Creates a context according to the environment variables of EPICS.
    pub(super) fn create() -> Result<Self, Refused> {
        // SAFETY: the buffer has the given size.
        checked(|reason, size| unsafe { pvs_context_create(reason, size) }).map(Self)
    }

    /// Bytes received from the server with this address and port.
    pub(super) fn received(&self, peer: &str) -> u64 {
        // SAFETY: created by `create`; the text is only read during the call. The thread holds no
        // lock, because the call waits for callbacks.
        unsafe { pvs_received(self.0.as_ptr(), text(peer)) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: created by `create`; the monitors and operations, which borrow it, are already
        // dropped. The thread holds no lock, because the call waits for callbacks.
        unsafe { pvs_context_destroy(self.0.as_ptr()) };
    }
}

/// A subscription. A callback may still run after it is dropped, so the callbacks own the state.
pub(super) struct Subscription<'context> {
    monitor: NonNull<pvs_monitor>,
    _context: PhantomData<&'context Context>,
}

impl<'context> Subscription<'context> {
    pub(super) fn create(
        context: &'context Context,
        name: &str,
        state: Arc<MonitorState>,
    ) -> Result<Self, Refused> {
        let reads: Vec<_> = (state.reads().into_iter())
            .map(|memory| pvs_range {
                start: memory.cast(),
                bytes: memory.len(),
            })
            .collect();
        let whole = c_int::from(state.wants_structure());
        let user: *mut c_void = Arc::into_raw(state).cast_mut().cast();
        // SAFETY: the name and the ranges are copied, and the table is static. The calls take the
        // state, whose reference is passed as `user` to the shim, which returns it by `release`,
        // also on failure.
        let monitor = checked(|reason, size| unsafe {
            pvs_monitor_create(
                context.0.as_ptr(),
                text(name),
                whole,
                &raw const callback::MONITOR,
                user,
                reads.as_ptr(),
                reads.len(),
                reason,
                size,
            )
        })?;
        Ok(Self {
            monitor,
            _context: PhantomData,
        })
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        // SAFETY: owned by us, and its context still exists.
        unsafe { pvs_monitor_destroy(self.monitor.as_ptr()) };
    }
}

/// The callbacks of an operation, and the pointer to its state, which owns a reference.
fn owned_by_callbacks(state: Arc<OperationState>) -> (*const pvs_operation_calls, *mut c_void) {
    let user = Arc::into_raw(state).cast_mut().cast();
    (&raw const callback::OPERATION, user)
}

/// A started get, put or call. Dropping it cancels it unless it is done; as for a [`Subscription`],
/// the callback owns the state.
pub(super) struct Operation<'context> {
    operation: NonNull<pvs_operation>,
    _context: PhantomData<&'context Context>,
}

impl<'context> Operation<'context> {
    /// The operation that `call` has started.
    fn begun(call: impl FnOnce(*mut c_char, usize) -> *mut pvs_operation) -> Result<Self, Refused> {
        let operation = checked(call)?;
        Ok(Self {
            operation,
            _context: PhantomData,
        })
    }

    pub(super) fn start(
        context: &'context Context,
        name: &str,
        request: &Request,
        state: Arc<OperationState>,
    ) -> Result<Self, Refused> {
        let mut outgoing = Outgoing::default();
        match request {
            Request::Get => {}
            Request::Put { value, .. } => outgoing.add("value", value),
            Request::Call { arguments, .. } => {
                for (name, value) in arguments {
                    outgoing.add(name, value);
                }
            }
        }
        let items = outgoing.as_slice();
        let context_pointer = context.0.as_ptr();
        let (calls, user) = owned_by_callbacks(state);
        // SAFETY: the names, the table and the memory that the items point to are copied. The calls
        // take the state, whose reference is passed as `user` to the shim, which returns it by
        // `release`, also on failure.
        Self::begun(|reason, size| unsafe {
            match request {
                Request::Get => pvs_get(context_pointer, text(name), calls, user, reason, size),
                Request::Put { field, wait, .. } => pvs_put(
                    context_pointer,
                    text(name),
                    text(field),
                    items.as_ptr(),
                    items.len(),
                    c_int::from(*wait),
                    calls,
                    user,
                    reason,
                    size,
                ),
                Request::Call { server, .. } => pvs_rpc(
                    context_pointer,
                    text(name),
                    text(server),
                    items.as_ptr(),
                    items.len(),
                    calls,
                    user,
                    reason,
                    size,
                ),
            }
        })
    }

    /// Fetches the value of a PV from this server without converting it; reports to the state
    /// whether it could be decoded.
    pub(super) fn check(
        context: &'context Context,
        name: &str,
        server: &str,
        state: Arc<OperationState>,
    ) -> Result<Self, Refused> {
        let (calls, user) = owned_by_callbacks(state);
        // SAFETY: the names and the table are copied. The calls take the state, whose reference is
        // passed as `user` to the shim, which returns it by `release`, also on failure.
        Self::begun(|reason, size| unsafe {
            pvs_check(
                context.0.as_ptr(),
                text(name),
                text(server),
                calls,
                user,
                reason,
                size,
            )
        })
    }

    /// Requests the type of a PV from its server; a gateway passes the request on.
    pub(super) fn ask(
        context: &'context Context,
        name: &str,
        answer: Arc<Answer>,
    ) -> Result<Self, Refused> {
        let user: *mut c_void = Arc::into_raw(answer).cast_mut().cast();
        // SAFETY: the name and the table are copied. The calls take the answer, whose reference is
        // passed as `user` to the shim, which returns it by `release`, also on failure.
        Self::begun(|reason, size| unsafe {
            let calls = &raw const callback::QUESTION;
            pvs_ask(context.0.as_ptr(), text(name), calls, user, reason, size)
        })
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        // SAFETY: owned by us, and its context still exists.
        unsafe { pvs_operation_destroy(self.operation.as_ptr()) };
    }
}

/// Reports of servers, until it is dropped. A callback may still run afterwards, so the callbacks own the state.
pub(super) struct Discovery<'context> {
    discovery: NonNull<pvs_discovery>,
    _context: PhantomData<&'context Context>,
}

impl<'context> Discovery<'context> {
    pub(super) fn start(
        context: &'context Context,
        servers: Arc<Servers>,
    ) -> Result<Self, Refused> {
        let user: *mut c_void = Arc::into_raw(servers).cast_mut().cast();
        // SAFETY: the table is static. The calls take the state, whose reference is passed as `user` to the shim,
        // which returns it by `release`, also on failure.
        let discovery = checked(|reason, size| unsafe {
            let calls = &raw const callback::SERVERS;
            pvs_discover(context.0.as_ptr(), calls, user, reason, size)
        })?;
        Ok(Self {
            discovery,
            _context: PhantomData,
        })
    }
}

impl Drop for Discovery<'_> {
    fn drop(&mut self) {
        // SAFETY: owned by us, and its context still exists.
        unsafe { pvs_discovery_destroy(self.discovery.as_ptr()) };
    }
}

/// A context for monitors and operations, and two others that are created when needed: one for
/// isolated monitors, and one for checks.
pub(super) struct Contexts {
    pub(super) main: Context,
    /// For monitors on the second side.
    second: OnceCell<Context>,
    checks: OnceCell<Context>,
}

impl Contexts {
    pub(super) fn create() -> Result<Self, ContextError> {
        let main =
            Context::create().map_err(|refused| ContextError::Library(refused.to_string()))?;
        Ok(Self {
            main,
            second: OnceCell::new(),
            checks: OnceCell::new(),
        })
    }

    /// The context of a side.
    pub(super) fn of(&self, side: Side) -> Result<&Context, Refused> {
        match side {
            Side::First => Ok(&self.main),
            Side::Second => created(&self.second),
        }
    }

    /// A value that breaks a connection of this context affects no monitor.
    pub(super) fn checks(&self) -> Result<&Context, Refused> {
        created(&self.checks)
    }

    /// Bytes received from a server.
    pub(super) fn received(&self, peer: &str) -> u64 {
        let second = self.second.get().map_or(0, |second| second.received(peer));
        self.main.received(peer) + second
    }
}

fn created(context: &OnceCell<Context>) -> Result<&Context, Refused> {
    match context.get() {
        Some(context) => Ok(context),
        None => Context::create().map(|created| context.get_or_init(|| created)),
    }
}
