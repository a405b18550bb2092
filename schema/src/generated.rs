//! What flatc made of `fbs/`; `make regen` writes the files again.

#[allow(
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    missing_docs,
    unreachable_pub,
    unused_imports,
    dead_code,
    mismatched_lifetime_syntaxes,
    non_snake_case,
    non_camel_case_types,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::use_self,
    clippy::or_fun_call
)]
#[rustfmt::skip]
#[path = "generated/frame_generated.rs"]
mod frame_generated;

#[allow(
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    missing_docs,
    unreachable_pub,
    unused_imports,
    dead_code,
    mismatched_lifetime_syntaxes,
    non_snake_case,
    non_camel_case_types,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::use_self,
    clippy::or_fun_call
)]
#[rustfmt::skip]
#[path = "generated/request_generated.rs"]
mod request_generated;

pub(crate) use frame_generated::pvwire as frame;
pub(crate) use request_generated::pvwire as request;
