//! The state of all PVs, and what batches of requests read of it: filters, the registry of PVs and holders, the table of values, and the tick.

pub mod batch;
pub mod filter;
pub mod found_names;
pub mod history;
pub mod last_writes;
pub mod registry;
pub mod table;
pub mod tick;
