//! The thread that asks archivers, so that neither their delays nor their answers reach other clients.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout_at};

use super::exchange::{Exchange, ExchangeShared};
use super::places::Places;
use super::{Fetching, Limits};
use crate::ops::metrics::Metrics;
use crate::session::question::{Page, Pages, Reply};

/// Name of the thread.
const THREAD: &str = "archiver";

/// Bytes of a page, unless the answer ends before.
const PAGE_BYTES: usize = 60_000;

/// A page that waits for the archiver this long is given as it is: other questions of its client take their turns.
const PAGE_WAIT: Duration = Duration::from_millis(100);

/// What the thread does.
pub(super) enum Task {
    /// Makes a request.
    Exchange(Exchange),
    /// Makes the next page of an answer.
    Page(Fetching, Reply),
}

/// The thread. Dropping it ends it; what is under way gets no answer.
pub struct ArchiverThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ArchiverThread {
    /// Starts the thread, which does what it is sent.
    pub(super) fn start(
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> io::Result<(UnboundedSender<Task>, Self)> {
        let (tasks, waiting) = unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = run(waiting, limits, metrics) => {}
                    // The other end is dropped, too, when the relay stops.
                    _ = stopped => {}
                }
            });
            // Doesn't wait for a name that is being resolved.
            runtime.shutdown_background();
        })?;
        let thread = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        Ok((tasks, thread))
    }
}

impl Drop for ArchiverThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}

async fn run(mut tasks: UnboundedReceiver<Task>, limits: Limits, metrics: Arc<Metrics>) {
    let shared = Rc::new(ExchangeShared {
        limits,
        places: Places::new(limits.max_requests),
        metrics,
    });
    while let Some(task) = tasks.recv().await {
        match task {
            Task::Exchange(exchange) => {
                let shared = Rc::clone(&shared);
                spawn_local(async move { exchange.run(&shared).await });
            }
            Task::Page(fetching, reply) => {
                spawn_local(give_page(fetching, reply));
            }
        }
    }
}

/// Gives a page of what arrives, at most for a moment.
async fn give_page(mut fetching: Fetching, reply: Reply) {
    let until = Instant::now() + PAGE_WAIT;
    let mut content = Vec::new();
    loop {
        let room = PAGE_BYTES - content.len();
        let fits = fetching.left.len().min(room);
        content.extend_from_slice(&fetching.left.split_to(fits));
        if content.len() == PAGE_BYTES {
            break;
        }
        match timeout_at(until, fetching.next()).await {
            Err(_) => break,
            Ok(Ok(Some(bytes))) => fetching.left = bytes,
            Ok(Ok(None)) => {
                let rest = None;
                return reply.give(Ok(Page { content, rest }));
            }
            Ok(Err(problem)) => return reply.give(Err(problem)),
        }
    }
    let rest: Box<dyn Pages> = Box::new(fetching);
    reply.give(Ok(Page {
        content,
        rest: Some(rest),
    }));
}
