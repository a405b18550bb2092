//! Safe clients of EPICS process variables.
//!
//! [`ca`] is a Channel Access client over libca, [`pva`] a pvAccess client over pvxs. All `unsafe`
//! code of pvwire is in this crate: the owners of C handles in `ca/handle.rs`, `pva/handle.rs` and
//! `pva/array.rs`, the functions that C calls in `ca/callback.rs`, `ca/recv.rs`,
//! `pva/callback.rs` and `pva/socket_calls.rs`, libca's sockets in `ca/socket.rs`, calls for libca's timers in `ca/timers.rs`, the user's name in `user.rs`,
//! pvxs's values in `pva/items.rs`, and system calls in `environment.rs`, `memory.rs`,
//! `guard.rs` and `descriptors.rs`.
//!
//! A program that links this crate sets its run path in its own build script to the folder named by
//! `DEP_PVWIRE_EPICS_LIBDIR`. It exports the symbols `recv` and `send`
//! (`-Wl,--export-dynamic-symbol=recv`), so that libca uses them, and `osiGetUserName`, so that
//! contexts can identify themselves as users. Without `recv` and `send` a faulty or malicious
//! Channel Access server can crash the program. With `readv`, `recvmsg`, `sendto` and `writev` a
//! pvAccess server that answers searches and connects no channel is named. With `epicsTimerQueueActive::allocate` (as the
//! linker spells it: `_ZN21epicsTimerQueueActive8allocateEbj`) libca's timer threads sleep while no
//! name is searched.

pub mod ca;
mod command_thread;
mod descriptors;
mod environment;
mod guard;
mod liveness;
mod memory;
pub mod pva;
mod silence;
mod throttle;
mod ticket;
mod user;

pub use ca_sys::BASE_VERSION;
pub use command_thread::StartError;
pub use descriptors::raise_descriptor_limit;
pub use environment::{prepare_environment, set_variables};
pub use guard::panics_caught;
pub use memory::{allocate_from_one_arena, give_back_free_memory, give_back_thread_cache};
pub use pvxs_sys::PVXS_VERSION;
pub use ticket::{Phase, Ticket};
pub use user::{BadUserName, ContextError, MAX_USER_BYTES, UserName};
