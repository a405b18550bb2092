//! Which bytes does each set of PVs get at a tick?

pub mod control;
pub mod dirty;
pub mod distributor;
pub mod flat;
pub mod frame;
pub mod large;
pub mod output;
pub mod set;
