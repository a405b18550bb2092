//! Fan-out: the bytes that each set of PVs gets at a tick.

pub mod control;
pub mod dirty;
pub mod distributor;
pub mod door_session;
pub mod encoding;
pub mod flat;
pub mod frame;
pub mod large;
pub mod output;
pub mod set;
