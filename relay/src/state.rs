//! The state of all PVs: filters, the registry of PVs and holders, the table of values, and the tick.

pub mod filter;
pub mod registry;
pub mod table;
pub mod tick;
