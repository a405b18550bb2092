//! Who may read, write and connect, and what is put on record?

pub mod audit;
pub mod auth;
pub mod keys;
pub mod rule;
