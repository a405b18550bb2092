//! What one client, one user, one address and all clients together may use.

pub mod connections;
pub mod descriptors;
pub mod memory;
pub mod rate;
