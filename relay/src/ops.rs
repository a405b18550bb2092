//! What operators see of the relay: log, metrics, liveness and readiness.

pub mod file_reads;
pub mod http_client;
pub mod latency;
pub mod log_queue;
pub mod metrics;
pub mod pulse;
pub mod rhythm;
pub mod shutdown;
pub mod thread_cache;
