//! The HTTP side of the relay, and what is reloaded while it runs.

pub mod admin;
pub mod connection;
pub mod reload;
pub mod saved;
pub mod screens;
pub mod server;
pub mod tls;
