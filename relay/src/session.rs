//! Sessions: the connections of clients, their requests and their bytes.

pub mod batch;
pub mod operation;
pub mod peers;
pub mod question;
pub mod request;
pub mod shard;
pub mod socket;
pub mod step;
pub mod stream;
pub mod transport;
