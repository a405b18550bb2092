//! Whose turn is next: a queue of work for each client, in the order of what the clients have used.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use super::Size;
use crate::limits::cpu::CpuShare;

/// Maximum number of requests that wait; those of clients that have used most are refused first. Other work is
/// bounded by the number of connections and formulas.
const MOST_WAITING: usize = 4_096;

/// A piece of work.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// A piece of work that waits.
pub(super) struct Job {
    pub(super) size: Size,
    pub(super) work: Work,
    /// A request waits for it, and may be refused.
    pub(super) is_request: bool,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// What a thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Work for this client.
    Work(CpuShare, Job),
    /// Nothing before this time.
    At(Instant),
    /// Nothing.
    Idle,
}

/// The work of one client.
#[derive(Debug)]
struct Waiting {
    share: CpuShare,
    jobs: VecDeque<Job>,
    /// Number of its last turn, or of its first work.
    turn: u64,
}

/// The work of all clients.
#[derive(Debug, Default)]
pub(super) struct Turns {
    clients: HashMap<usize, Waiting>,
    turn: u64,
    requests: usize,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Adds work. Returns work that is refused in its place.
    pub(super) fn push(&mut self, share: CpuShare, job: Job) -> Option<Job> {
        self.turn += 1;
        self.requests += usize::from(job.is_request);
        let turn = self.turn;
        let waiting = self
            .clients
            .entry(share.client())
            .or_insert_with(|| Waiting {
                share: share.clone(),
                jobs: VecDeque::new(),
                turn,
            });
        // The client may have logged in since.
        waiting.share = share;
        waiting.jobs.push_back(job);
        (self.requests > MOST_WAITING)
            .then(|| self.refuse())
            .flatten()
    }

    /// Takes the newest request of the client that has used most.
    fn refuse(&mut self) -> Option<Job> {
        let now = Instant::now();
        let clients = self.clients.iter();
        let newest =
            |(_, waiting): &(_, &Waiting)| (waiting.jobs.back()).is_some_and(|job| job.is_request);
        let by_use = |(_, waiting): &(_, &Waiting)| (waiting.share.missing(now), waiting.turn);
        let most = *clients.filter(newest).max_by_key(by_use)?.0;
        let jobs = &mut self.clients.get_mut(&most)?.jobs;
        let job = jobs.pop_back();
        if jobs.is_empty() {
            self.clients.remove(&most);
        }
        self.requests -= 1;
        job
    }

    /// The next work: of the client that has used least, and of those that have used the same of the one whose last
    /// turn was first.
    pub(super) fn next(&mut self, now: Instant, allows_long: bool) -> Next {
        let mut soonest: Option<Duration> = None;
        let mut next: Option<((Duration, u64), usize)> = None;
        for (client, waiting) in &self.clients {
            let is_long = (waiting.jobs.front()).is_some_and(|job| job.size == Size::Long);
            if is_long && !allows_long {
                continue;
            }
            let wait = waiting.share.wait(now);
            if !wait.is_zero() {
                soonest = Some(soonest.map_or(wait, |soonest| soonest.min(wait)));
                continue;
            }
            let order = (waiting.share.missing(now), waiting.turn);
            if next.is_none_or(|(first, _)| order < first) {
                next = Some((order, *client));
            }
        }
        if let Some((_, client)) = next
            && let Some((share, job)) = self.take(client)
        {
            return Next::Work(share, job);
        }
        soonest.map_or(Next::Idle, |wait| Next::At(now + wait))
    }

    /// The next work of a client, unless it is long.
    pub(super) fn next_of(&mut self, share: &CpuShare) -> Option<Job> {
        let front = self.clients.get(&share.client())?.jobs.front()?;
        if front.size == Size::Long {
            return None;
        }
        self.take(share.client()).map(|(_, job)| job)
    }

    fn take(&mut self, client: usize) -> Option<(CpuShare, Job)> {
        self.turn += 1;
        let waiting = self.clients.get_mut(&client)?;
        waiting.turn = self.turn;
        let job = waiting.jobs.pop_front()?;
        let share = waiting.share.clone();
        if waiting.jobs.is_empty() {
            self.clients.remove(&client);
        }
        self.requests -= usize::from(job.is_request);
        Some((share, job))
    }
}
