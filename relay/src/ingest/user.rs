//! Through which context does a user write, and when is it closed?
//!
//! IOCs decide by the name that a client's context presents, so whoever has a name writes through a
//! context that presents it. A thread of its own starts these contexts when somebody writes, and
//! closes them when they are idle: neither is quick.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pvwire_epics::{Phase, Ticket, UserName};
use pvwire_schema::types::Outcome;

use super::{OpEnd, OpTicket};
use crate::limits::contexts::ContextLimits;

/// A context that presents a user.
pub(super) trait UserClient: Sized + 'static {
    /// Creates one.
    fn start(user: UserName) -> Result<Self, String>;

    /// Begins anew with the servers' names looked up again.
    fn renew(&self);
}

/// Keeps a context, or something in it, from being closed.
pub(super) type InUse = Arc<()>;

/// What is to be done with a user's context, or why there is none.
type Job<C> = Box<dyn FnOnce(Result<(&mut C, InUse), String>) + Send>;

/// The contexts of one protocol.
pub(super) struct UserClients<C: UserClient> {
    name: &'static str,
    limits: ContextLimits,
    thread: OnceLock<Result<Thread<C>, String>>,
}

struct Thread<C> {
    /// Contexts that there are by now are to begin anew before the next look or job.
    renew: Arc<AtomicBool>,
    jobs: Option<SyncSender<(String, Job<C>)>>,
    handle: Option<JoinHandle<()>>,
}

impl<C: UserClient> UserClients<C> {
    /// None yet, and no thread. The thread will have this name.
    pub(super) fn new(name: &'static str, limits: ContextLimits) -> Self {
        Self {
            name,
            limits,
            thread: OnceLock::new(),
        }
    }

    /// Does something with the context of a user. Never waits: the job runs in the thread.
    pub(super) fn run(&self, user: &str, job: Job<C>) {
        let thread = match self.thread.get_or_init(|| self.start()) {
            Ok(thread) => thread,
            Err(why) => return job(Err(why.clone())),
        };
        let jobs = thread.jobs.as_ref().expect("taken only when it is dropped");
        match jobs.try_send((user.to_owned(), job)) {
            Ok(()) => {}
            Err(TrySendError::Full((_, job))) => {
                job(Err("too many operations of users wait already".into()));
            }
            Err(TrySendError::Disconnected((_, job))) => {
                job(Err("the thread of users' contexts has ended".into()));
            }
        }
    }

    /// Has all contexts begin anew. Never waits.
    pub(super) fn renew(&self) {
        if let Some(Ok(Thread { renew, .. })) = self.thread.get() {
            renew.store(true, Ordering::Release);
        }
    }

    fn start(&self) -> Result<Thread<C>, String> {
        let (jobs, received) = sync_channel(self.limits.waiting);
        let limits = self.limits;
        let renew = Arc::<AtomicBool>::default();
        let asked = Arc::clone(&renew);
        let handle = thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(move || serve(&received, limits, &asked))
            .map_err(|error| format!("no thread for users' contexts: {error}"))?;
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

struct Open<C> {
    client: C,
    in_use: InUse,
    used: Instant,
}

impl<C> Open<C> {
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
    let mut open = HashMap::<String, Open<C>>::new();
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
    open: &'a mut HashMap<String, Open<C>>,
    user: &str,
    most: usize,
) -> Result<&'a mut Open<C>, String> {
    if !open.contains_key(user) {
        let name = UserName::new(user).map_err(|error| error.to_string())?;
        if open.len() >= most {
            let free = open.iter().filter(|(_, each)| each.is_free());
            let oldest = free.min_by_key(|(_, each)| each.used);
            let Some(oldest) = oldest.map(|(user, _)| user.clone()) else {
                return Err(format!("{most} other users are writing: try again later"));
            };
            log::debug!("the context of user {oldest:?} is closed: another user needs one");
            open.remove(&oldest);
        }
        log::debug!("a context of user {user:?} is opened");
        let new = Open {
            client: C::start(name)?,
            in_use: InUse::default(),
            used: Instant::now(),
        };
        open.insert(user.to_owned(), new);
    }
    Ok(open.get_mut(user).expect("it is there or was just made"))
}

/// An operation that didn't get as far as a user's context.
pub(super) fn no_context(user: &str, why: &str) -> OpEnd {
    let message = format!("IOCs can't be asked as user {user:?}, so nothing was sent: {why}");
    OpEnd::failed(Outcome::NotConnected, message)
}

/// What became of a user's operation; where the IOC refused it, with the name that it was told.
pub(super) fn as_user(user: &str, mut end: OpEnd) -> OpEnd {
    if matches!(end.outcome, Outcome::NoAccess | Outcome::Failed) {
        end.message = format!("as user {user:?}: {}", end.message);
    }
    end
}

/// A user's put that may still be stopped; clones are of the same put.
#[derive(Clone, Default)]
pub(super) struct UserTicket(Arc<Progress>);

#[derive(Default)]
struct Progress {
    ticket: Ticket,
    /// What it keeps open.
    uses: Mutex<Vec<InUse>>,
}

impl UserTicket {
    /// Its turn has come: whether it is to be sent.
    pub(super) fn begin(&self) -> bool {
        self.0.ticket.begin()
    }

    /// Keeps something open until the put has ended; nothing if it was stopped.
    pub(super) fn keep(&self, uses: Vec<InUse>) -> bool {
        let mut kept = self.0.uses.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: who cancels lets go of what is kept.
        if self.0.ticket.phase() == Phase::Cancelled {
            return false;
        }
        *kept = uses;
        true
    }

    /// The put has ended.
    pub(super) fn end(&self) {
        let mut kept = self.0.uses.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
    }
}

impl OpTicket for UserTicket {
    fn cancel(&self) -> bool {
        let is_cancelled = self.0.ticket.cancel();
        if is_cancelled {
            self.end();
        }
        is_cancelled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    static STARTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static ENDED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static RENEWED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Fake(String);

    impl UserClient for Fake {
        fn start(user: UserName) -> Result<Self, String> {
            let name = format!("{user:?}");
            if name.contains("broken") {
                return Err("no context".into());
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

    /// How often a context of this user was started and ended.
    fn lives(user: &str) -> (usize, usize) {
        let count = |list: &Mutex<Vec<String>>| {
            let list = list.lock().unwrap();
            list.iter().filter(|name| name.contains(user)).count()
        };
        (count(&STARTED), count(&ENDED))
    }

    /// Runs a job and gives what keeps its context open.
    fn run(clients: &UserClients<Fake>, user: &str) -> Result<InUse, String> {
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
    fn user_that_wrote_longest_ago_gives_way_unless_it_is_writing() {
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
        assert_eq!(error, "2 other users are writing: try again later");
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
    fn open_contexts_begin_anew_once_before_the_next_job() {
        let clients = UserClients::<Fake>::new("test-users", limits());
        clients.renew();
        drop(run(&clients, "anew-anna").unwrap());
        clients.renew();
        drop(run(&clients, "anew-anna").unwrap());
        drop(run(&clients, "anew-anna").unwrap());
        let renewed = RENEWED.lock().unwrap();
        let annas = renewed.iter().filter(|name| name.contains("anew-anna"));
        assert_eq!(annas.count(), 1);
    }

    #[test]
    fn user_without_a_context_is_told_why() {
        let clients = UserClients::<Fake>::new("test-users", limits());
        assert_eq!(run(&clients, "broken").unwrap_err(), "no context");
        let error = run(&clients, "a\nb").unwrap_err();
        assert_eq!(error, "the name of the user holds '\\n'");
        assert!(run(&clients, "fine").is_ok());
    }

    #[test]
    fn put_is_stopped_or_sent_and_never_both() {
        let ticket = UserTicket::default();
        let context = InUse::default();
        assert!(ticket.keep(vec![Arc::clone(&context)]));
        assert!(ticket.cancel());
        assert_eq!(Arc::strong_count(&context), 1);
        assert!(!ticket.begin());
        assert!(!ticket.keep(vec![Arc::clone(&context)]));
        let sent = UserTicket::default();
        assert!(sent.begin());
        assert!(sent.keep(vec![Arc::clone(&context)]));
        assert!(!sent.cancel());
        assert_eq!(Arc::strong_count(&context), 2);
        sent.end();
        assert_eq!(Arc::strong_count(&context), 1);
    }
}
