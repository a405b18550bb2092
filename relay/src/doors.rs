//! Doors: the protocols of other servers, so that their clients use this relay unchanged.
//!
//! A door is an encoding of its own path. What its protocol says is in a crate under `doors/`; what the relay
//! adds is here.

pub mod pvws;
