//! What do operators see of the relay, and how does it end?

pub mod file_reads;
pub mod latency;
pub mod log_queue;
pub mod metrics;
pub mod pulse;
pub mod shutdown;
