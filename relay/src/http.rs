//! What does the relay answer to HTTP, and what changes while it runs?

pub mod admin;
pub mod connection;
pub mod reload;
pub mod server;
pub mod tls;
