//! The relay: it receives EPICS process variables and sends one encoded frame per tick and group.
//!
//! The modules are planes, in the order in which an update passes them. A plane uses only itself and the
//! planes before it; `config` and `ops` come first because all others use them.

#![forbid(unsafe_code)]

pub mod config;

pub mod ops;

pub mod limits;

pub mod compute;

pub mod ingest;

pub mod access;

pub mod state;

pub mod fanout;

pub mod doors;

pub mod session;

pub mod fleet;

pub mod queries;

pub mod http;

pub mod app;

pub mod record;

pub mod demo;
