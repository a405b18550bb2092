//! The client within the relay: what reads, writes and streams share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::watch::WatchQueue;
use crate::compute::PoolHandle;
use crate::ops::pulse::Pulse;
use crate::session::shard::ShardHandle;
use crate::state::registry::Registry;

/// What answers questions.
pub struct Queries {
    pub(super) registry: Arc<Registry>,
    pub(super) watches: Arc<WatchQueue>,
    pub(super) shards: Vec<ShardHandle>,
    pub(super) pool: PoolHandle,
    /// Number of requests to write.
    pub(super) writes: AtomicU64,
    /// Shows that the thread makes progress.
    pub(super) pulse: Pulse,
}

impl Queries {
    /// Reads through `watches`, whose sink the ticker has, and writes through `shards`.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        watches: Arc<WatchQueue>,
        shards: Vec<ShardHandle>,
        pool: PoolHandle,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            watches,
            shards,
            pool,
            writes: AtomicU64::new(1),
            pulse: Pulse::default(),
        })
    }

    /// Time since the thread last made progress.
    #[must_use]
    pub fn idle_for(&self, now: Instant) -> Duration {
        self.pulse.age(now)
    }
}
