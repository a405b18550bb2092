//! Which bytes does each set of PVs get at a tick?

pub mod dirty;
pub mod frame;
pub mod group;
pub mod large;
pub mod set;
