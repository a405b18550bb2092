//! The thread that answers shards' clients, so that no shard waits for a PV.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::internal::Queries;
use crate::ops::shutdown::Indispensable;
use crate::session::batch::ClientBatch;

/// Name of the thread.
const THREAD: &str = "queries";

/// Interval of the thread's pulse.
const PULSE_EVERY: Duration = Duration::from_secs(2);

impl Queries {
    async fn keep_pulse(&self) {
        loop {
            self.pulse.turned(Instant::now());
            sleep(PULSE_EVERY).await;
        }
    }

    /// Carries out a batch of a shard's client, and lets the shard answer.
    async fn answer(&self, batch: ClientBatch) {
        let ClientBatch {
            client,
            caller,
            batch,
            respond,
        } = batch;
        let number = batch.number;
        let result = self.run(&caller, Some(client), batch).await;
        if let Some(shard) = self.shards.get(client.shard) {
            shard.respond(&self.pool, &caller.owner, (client, number), respond, result);
        }
    }
}

/// The thread for shards' clients. Dropping it ends the thread; what is under way gets no answer.
pub struct QueryThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl QueryThread {
    /// Starts the thread, which carries out what comes from `batches`.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(
        queries: Arc<Queries>,
        mut batches: UnboundedReceiver<ClientBatch>,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let answer_all = async move {
            let alive = Arc::clone(&queries);
            spawn_local(async move { alive.keep_pulse().await });
            while let Some(batch) = batches.recv().await {
                let queries = Arc::clone(&queries);
                spawn_local(async move { queries.answer(batch).await });
            }
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let _alive = Indispensable(THREAD);
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = answer_all => {}
                    // The other end is dropped, too, when the relay stops.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for QueryThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}
