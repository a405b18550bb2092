//! Client contexts of users: an authenticated user writes through a context that presents the
//! user's name to IOCs.
//!
//! A separate thread starts these contexts when a user writes and closes them when they are idle,
//! because neither is fast.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pvwire_epics::UserName;
use pvwire_schema::types::Outcome;

use super::OpEnd;
use super::operation::InUse;
use crate::limits::ContextLimits;

/// Why an operation didn't get a user's context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContextError {
    /// The system gave no thread.
    #[error("no thread for users' contexts: {0}")]
    NoThread(String),
    /// The queue of the thread is full.
    #[error("too many operations of users wait already")]
    QueueFull,
    /// The thread has ended.
    #[error("the thread of users' contexts has ended")]
    Ended,
    /// A context can't present this name.
    #[error("{0}")]
    Name(String),
    /// All contexts are in use.
    #[error("{0} other users are writing: try again later")]
    TooManyUsers(usize),
    /// The library gave no context, or no channel in it.
    #[error("{0}")]
    Library(String),
    /// All channels of the user's context are in use.
    #[error("{0} PVs are being written to already")]
    TooManyPvs(usize),
}

/// A context that presents a user.
pub(super) trait UserClient: Sized + 'static {
    /// Creates a context.
    fn start(user: UserName) -> Result<Self, ContextError>;

    /// Resolves the names of the servers again and reconnects.
    fn renew(&self);
}

/// A job for a user's context. It is also called if there is no context.
type Job<C> = Box<dyn FnOnce(Result<(&mut C, InUse), ContextError>) + Send>;

/// The contexts of one protocol.
pub(super) struct UserClients<C: UserClient> {
    name: &'static str,
    limits: ContextLimits,
    thread: OnceLock<Result<Thread<C>, ContextError>>,
}

struct Thread<C> {
    /// The open contexts must reconnect before the next job.
    renew: Arc<AtomicBool>,
    jobs: Option<SyncSender<(String, Job<C>)>>,
    handle: Option<JoinHandle<()>>,
}

impl<C: UserClient> UserClients<C> {
    /// No contexts and no thread yet. The thread will have this name.
    pub(super) fn new(name: &'static str, limits: ContextLimits) -> Self {
        Self {
            name,
            limits,
            thread: OnceLock::new(),
        }
    }

    /// Runs a job with the context of a user, on the thread. Doesn't block.
    pub(super) fn run(&self, user: &str, job: Job<C>) {
        let thread = match self.thread.get_or_init(|| self.start()) {
            Ok(thread) => thread,
            Err(why) => return job(Err(why.clone())),
        };
        let jobs = thread.jobs.as_ref().expect("present until it is dropped");
        match jobs.try_send((user.to_owned(), job)) {
            Ok(()) => {}
            Err(TrySendError::Full((_, job))) => {
                job(Err(ContextError::QueueFull));
            }
            Err(TrySendError::Disconnected((_, job))) => {
                job(Err(ContextError::Ended));
            }
        }
    }

    /// Makes all contexts reconnect. Doesn't block.
    pub(super) fn renew(&self) {
        if let Some(Ok(Thread { renew, .. })) = self.thread.get() {
            renew.store(true, Ordering::Release);
        }
    }

    fn start(&self) -> Result<Thread<C>, ContextError> {
        let (jobs, received) = sync_channel(self.limits.waiting);
        let limits = self.limits;
        let renew = Arc::<AtomicBool>::default();
        let asked = Arc::clone(&renew);
        let handle = thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(move || serve(&received, limits, &asked))
            .map_err(|error| ContextError::NoThread(error.to_string()))?;
        Ok(Thread {
            renew,
            jobs: Some(jobs),
            handle: Some(handle),
        })
    }
}

impl<C> Drop for Thread<C> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

struct OpenContext<C> {
    client: C,
    in_use: InUse,
    used: Instant,
}

impl<C> OpenContext<C> {
    fn is_free(&self) -> bool {
        Arc::strong_count(&self.in_use) == 1
    }
}

/// Body of the thread.
fn serve<C: UserClient>(
    jobs: &Receiver<(String, Job<C>)>,
    limits: ContextLimits,
    renew: &AtomicBool,
) {
    let mut open = HashMap::<String, OpenContext<C>>::new();
    loop {
        let next = if open.is_empty() {
            jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            jobs.recv_timeout(limits.check)
        };
        if renew.swap(false, Ordering::AcqRel) {
            open.values().for_each(|each| each.client.renew());
        }
        match next {
            Ok((user, job)) => match client(&mut open, &user, limits.users) {
                Ok(found) => {
                    found.used = Instant::now();
                    let in_use = Arc::clone(&found.in_use);
                    job(Ok((&mut found.client, in_use)));
                }
                Err(why) => job(Err(why)),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        open.retain(|user, each| {
            let keep = !each.is_free() || each.used.elapsed() < limits.idle;
            if !keep {
                log::debug!("the context of user {user:?} is closed: it was idle");
            }
            keep
        });
    }
}

fn client<'a, C: UserClient>(
    open: &'a mut HashMap<String, OpenContext<C>>,
    user: &str,
    most: usize,
) -> Result<&'a mut OpenContext<C>, ContextError> {
    if !open.contains_key(user) {
        let name = UserName::new(user).map_err(|error| ContextError::Name(error.to_string()))?;
        if open.len() >= most {
            let free = open.iter().filter(|(_, each)| each.is_free());
            let oldest = free.min_by_key(|(_, each)| each.used);
            let Some(oldest) = oldest.map(|(user, _)| user.clone()) else {
                return Err(ContextError::TooManyUsers(most));
            };
            log::debug!("the context of user {oldest:?} is closed: another user needs one");
            open.remove(&oldest);
        }
        log::debug!("a context of user {user:?} is opened");
        let new = OpenContext {
            client: C::start(name)?,
            in_use: InUse::default(),
            used: Instant::now(),
        };
        open.insert(user.to_owned(), new);
    }
    Ok(open.get_mut(user).expect("it was found or inserted"))
}

/// The outcome of an operation that got no user's context.
pub(super) fn no_context(user: &str, why: &ContextError) -> OpEnd {
    let message = format!("IOCs can't be asked as user {user:?}, so nothing was sent: {why}");
    OpEnd::failed(Outcome::NotConnected, message)
}

/// Adds the user's name to the message of a refused or failed operation.
pub(super) fn as_user(user: &str, mut end: OpEnd) -> OpEnd {
    if matches!(end.outcome, Outcome::NoAccess | Outcome::Failed) {
        end.message = format!("as user {user:?}: {}", end.message);
    }
    end
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    static STARTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static ENDED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static RENEWED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Fake(String);

    impl UserClient for Fake {
        fn start(user: UserName) -> Result<Self, ContextError> {
            let name = format!("{user:?}");
            if name.contains("broken") {
                return Err(ContextError::Library("no context".into()));
            }
            STARTED.lock().unwrap().push(name.clone());
            Ok(Self(name))
        }

        fn renew(&self) {
            RENEWED.lock().unwrap().push(self.0.clone());
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            ENDED.lock().unwrap().push(self.0.clone());
        }
    }

    fn limits() -> ContextLimits {
        ContextLimits {
            users: 2,
            idle: Duration::from_secs(3600),
            check: Duration::from_millis(1),
            waiting: 10,
        }
    }

    /// Number of starts and ends of contexts of this user.
    fn lives(user: &str) -> (usize, usize) {
        let count = |list: &Mutex<Vec<String>>| {
            let list = list.lock().unwrap();
            list.iter().filter(|name| name.contains(user)).count()
        };
        (count(&STARTED), count(&ENDED))
    }

    /// Runs a job and returns what keeps its context open.
    fn run(clients: &UserClients<Fake>, user: &str) -> Result<InUse, ContextError> {
        let (sender, receiver) = channel();
        clients.run(
            user,
            Box::new(move |client| {
                let _ = sender.send(client.map(|(_, in_use)| in_use));
            }),
        );
        receiver.recv().unwrap()
    }

    #[test]
    fn least_recently_used_context_is_closed_for_another_user() {
        let clients = UserClients::<Fake>::new("test-users", limits());
        let anna = run(&clients, "lru-anna").unwrap();
        drop(run(&clients, "lru-ben").unwrap());
        drop(run(&clients, "lru-ben").unwrap());
        assert_eq!(lives("lru-ben"), (1, 0), "kept for the next put");
        drop(run(&clients, "lru-carl").unwrap());
        assert_eq!(lives("lru-anna"), (1, 0), "used longer ago but in use");
        assert_eq!(lives("lru-ben"), (1, 1));
        let carl = run(&clients, "lru-carl").unwrap();
        let error = run(&clients, "lru-dora").unwrap_err();
        assert_eq!(error, ContextError::TooManyUsers(2));
        drop(carl);
        drop(run(&clients, "lru-dora").unwrap());
        assert_eq!(lives("lru-carl"), (1, 1));
        drop((anna, clients));
        assert_eq!((lives("lru-anna"), lives("lru-dora")), ((1, 1), (1, 1)));
    }

    #[test]
    fn idle_context_is_closed_and_one_in_use_is_not() {
        let idle = Duration::from_millis(1);
        let clients = UserClients::<Fake>::new("test-users", ContextLimits { idle, ..limits() });
        let in_use = run(&clients, "idle-anna").unwrap();
        drop(run(&clients, "idle-ben").unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while lives("idle-ben") != (1, 1) {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
        assert_eq!(lives("idle-anna"), (1, 0));
        drop(in_use);
        while lives("idle-anna") != (1, 1) {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
    }

    #[test]
    fn open_contexts_reconnect_once_before_the_next_job() {
        let clients = UserClients::<Fake>::new("test-users", limits());
        clients.renew();
        drop(run(&clients, "renewed-anna").unwrap());
        clients.renew();
        drop(run(&clients, "renewed-anna").unwrap());
        drop(run(&clients, "renewed-anna").unwrap());
        let renewed = RENEWED.lock().unwrap();
        let annas = renewed.iter().filter(|name| name.contains("renewed-anna"));
        assert_eq!(annas.count(), 1);
    }

    #[test]
    fn user_without_a_context_is_told_why() {
        let clients = UserClients::<Fake>::new("test-users", limits());
        assert_eq!(
            run(&clients, "broken").unwrap_err().to_string(),
            "no context"
        );
        let error = run(&clients, "a\nb").unwrap_err();
        assert_eq!(error.to_string(), "the name of the user holds '\\n'");
        assert!(run(&clients, "fine").is_ok());
    }
}
