//! What may one client, address or user spend, and all of them?

pub mod caller;
pub mod descriptor;
pub mod quota;
