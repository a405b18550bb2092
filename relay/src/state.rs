//! What is the latest of each PV, and who wants it?

pub mod filter;
pub mod registry;
pub mod table;
pub mod tick;
