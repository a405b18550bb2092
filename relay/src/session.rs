//! How does a client's connection live: its requests, its bytes, its limits?

pub mod operation;
pub mod request;
pub mod shard;
pub mod socket;
pub mod step;
pub mod stream;
