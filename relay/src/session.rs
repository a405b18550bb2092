//! Sessions: the connections of clients, their requests and their bytes.

pub mod errand;
pub mod neighbours;
pub mod operation;
pub mod request;
pub mod shard;
pub mod socket;
pub mod step;
pub mod stream;
pub mod transport;
