//! Access control: rules, authentication, and the record of puts.

pub mod audit;
pub mod auth;
pub mod caller;
pub mod keys;
pub mod rule;
