//! The bus on NATS core, by the official client on a thread with a runtime for each connection.
//!
//! When a connection is lost, its runtime ends with all that was not sent: a request whose outcome was reported is
//! never sent later by the next connection.

mod connect;
mod inbox;
mod requests;
mod session;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use connect::{Servers, ServersError};

use crate::bus::{Answer, Bus, Kind, Receiver};
use crate::member::{MemberId, Site};
use crate::pieces::MAX_MESSAGE;
use crate::refusals::RareLine;
use crate::seal::Seals;
use crate::subject::Subjects;
use requests::Requests;

/// Threads for files and addresses that are slow.
const MAX_BLOCKING_THREADS: usize = 8;

/// Maximum bytes of messages of shards that wait for the connection.
const QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// Reads a file of the operator. Another thread calls it; it must not wait for the other end of a pipe.
pub type ReadFile = fn(&Path) -> io::Result<Vec<u8>>;

/// How this member reaches NATS.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers; one of them is enough.
    pub servers: Servers,
    /// Reads the files below.
    pub read_file: ReadFile,
    /// A credentials file: a JWT with its seed (`.creds`), the seed of an nkey, or `USER:PASSWORD`. It is read for
    /// each connection.
    pub credentials: Option<PathBuf>,
    /// Certificates of the authorities that sign the servers' certificates; those of the system if there is no
    /// such file.
    pub ca: Option<PathBuf>,
    /// The site of the fleet.
    pub site: Site,
    /// Signs announcements, requests and answers, and checks those of other members.
    pub seals: Arc<Seals>,
}

/// What passed between this member and NATS since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages received, announcements and requests included. A message in pieces counts once per piece.
    pub messages_received: AtomicU64,
    /// Their bytes.
    pub bytes_received: AtomicU64,
    /// Messages sent.
    pub messages_sent: AtomicU64,
    /// Their bytes.
    pub bytes_sent: AtomicU64,
    /// Messages of shards that were not sent, because the queue was full or the connection lost.
    pub messages_refused: AtomicU64,
    /// How often the connection was made.
    pub connections: AtomicU64,
    /// Bytes of the unfinished messages in pieces of this connection.
    pub unfinished_bytes: AtomicU64,
}

/// Adds to a counter.
fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// Commands for the bus's thread, carried out in this order.
enum Command {
    Announce(Bytes),
    Ask(u64, MemberId, Kind, Bytes),
    Reply(String, Bytes),
    Publish(u16, Vec<Bytes>),
    Follow(MemberId, u16, bool),
    Rename(MemberId),
    Stop,
}

/// What the bus's thread and its callers share.
struct Shared {
    /// Of the next connection.
    subjects: Mutex<Subjects>,
    seals: Arc<Seals>,
    receiver: Arc<dyn Receiver>,
    commands: UnboundedSender<Command>,
    requests: Requests,
    connected: AtomicBool,
    /// Bytes of messages of shards that wait.
    queued: AtomicUsize,
    counters: Counters,
    /// What the server refuses, such as an answer to a subject that another program has named.
    errors: RareLine,
    /// The bus ends: also while NATS takes nothing.
    stop: Notify,
    /// Set before that: a connection that is lost at this moment takes the command and the notice with it.
    is_stopping: AtomicBool,
}

impl Shared {
    fn subjects(&self) -> Subjects {
        let subjects = self.subjects.lock();
        subjects.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn rename(&self, me: MemberId) {
        let subjects = self.subjects.lock();
        let mut subjects = subjects.unwrap_or_else(PoisonError::into_inner);
        *subjects = subjects.of(me);
    }
}

/// A member's connection to NATS, made again for ever. Dropping it sends what waits and ends it.
pub struct Nats {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Nats {
    /// Starts to connect, and returns at once.
    ///
    /// # Errors
    ///
    /// The operating system refuses a thread.
    pub fn start(
        settings: Settings,
        me: MemberId,
        receiver: Arc<dyn Receiver>,
    ) -> io::Result<Self> {
        let (sender, commands) = unbounded_channel();
        let shared = Arc::new(Shared {
            subjects: Mutex::new(Subjects::new(settings.site.clone(), me)),
            seals: Arc::clone(&settings.seals),
            receiver,
            commands: sender,
            requests: Requests::default(),
            connected: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
            counters: Counters::default(),
            errors: RareLine::default(),
            stop: Notify::new(),
            is_stopping: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("bus".to_owned());
        let thread = thread.spawn(move || run(&settings, &of_thread, commands))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// What has passed so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Whether the connection is there.
    pub fn is_connected(&self) -> bool {
        self.shared.connected.load(Ordering::Relaxed)
    }

    fn send(&self, command: Command) {
        // The thread ends only when this value is dropped.
        let _ = self.shared.commands.send(command);
    }
}

impl Bus for Nats {
    fn announce(&self, presence: Bytes) {
        self.send(Command::Announce(presence));
    }

    fn ask(&self, to: MemberId, kind: Kind, body: Bytes, timeout: Duration, answer: Answer) {
        let request = self.shared.requests.open(timeout, answer);
        self.send(Command::Ask(request, to, kind, body));
    }

    fn publish(&self, shard: u16, message: &[Bytes]) -> bool {
        let bytes = message.iter().map(Bytes::len).sum::<usize>();
        let waiting = self.shared.queued.load(Ordering::Relaxed);
        // A message above the limit passes alone.
        let full = waiting > 0 && waiting + bytes > QUEUE_BYTES;
        if full || bytes > MAX_MESSAGE || !self.is_connected() {
            count(&self.shared.counters.messages_refused, 1);
            return false;
        }
        self.shared.queued.fetch_add(bytes, Ordering::Relaxed);
        self.send(Command::Publish(shard, message.to_vec()));
        true
    }

    fn follow(&self, owner: MemberId, shard: u16, on: bool) {
        self.send(Command::Follow(owner, shard, on));
    }

    fn rename(&self, me: MemberId) {
        self.send(Command::Rename(me));
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.send(Command::Stop);
        self.shared.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// One connection after the other, until the end.
fn run(settings: &Settings, shared: &Arc<Shared>, mut commands: UnboundedReceiver<Command>) {
    let mut follows = session::Follows::new();
    let mut pause = Duration::ZERO;
    loop {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                log::error!("bus: no runtime: {error}");
                thread::sleep(Duration::from_secs(1));
                continue;
            }
        };
        let ended = runtime.block_on(session::run(
            settings,
            shared,
            &mut commands,
            &mut follows,
            pause,
        ));
        runtime.shutdown_background();
        if shared.connected.swap(false, Ordering::Relaxed) {
            shared.receiver.connected(false);
        }
        shared.requests.end_sent();
        match ended {
            ControlFlow::Break(()) => return shared.requests.end_all(),
            ControlFlow::Continue(_) if shared.is_stopping.load(Ordering::Acquire) => {
                return shared.requests.end_all();
            }
            ControlFlow::Continue(lasted) => pause = session::pause_after(lasted, pause),
        }
    }
}
