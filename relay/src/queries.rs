//! Questions about PVs that are answered once, off the path of updates: reads, writes, streams, batches, and questions to services.
//!
//! This plane is one client within the relay. Whatever protocol a request has come by, its `Caller` says which rules,
//! rates and budgets apply. Requests by plain HTTP are answered on the thread of the HTTP server; batches of shards'
//! clients on a thread of this plane, whose queue the clients' budgets of open requests bound.

pub mod about;
pub mod archiver;
pub mod batch;
pub mod follow;
pub mod history;
pub mod internal;
pub mod moment;
pub mod names;
pub mod plain_clients;
pub mod read;
pub mod service;
pub mod thread;
pub mod watch;
pub mod write;
