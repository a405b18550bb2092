//! The relay: EPICS process variables in, one encoded frame per tick and group out.
//!
//! Planes in the order an update passes them: each uses its own modules and the planes before it.
//! `config` and `ops` come first, because all others read settings and count.

#![forbid(unsafe_code)]

pub mod config;

pub mod ops;

pub mod limits;

pub mod ingest;

pub mod access;

pub mod state;

pub mod fanout;

pub mod session;

pub mod http;

pub mod app;
