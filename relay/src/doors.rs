//! Doors: the protocols of other servers, so that their clients use this relay unchanged.
//!
//! A door is an encoding with a separate path. Its protocol is in a crate under `doors/`; the modules here
//! connect that crate to the relay.

pub mod coniql;
pub mod pvws;
