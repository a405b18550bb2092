//! Threads that compute for clients: they read what clients write and write large values as text.
//!
//! The time of such work depends on a client's input, so it never runs on a thread that serves other clients. Each
//! client has a queue. The client that has used least of its CPU budgets has the next turn, and one whose budget is
//! used up waits until it has refilled, see [`crate::limits::cpu`]. Work that may take long never occupies the last
//! free thread. The threads yield to all others of the relay, so that values reach clients first.

mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{io, mem};

use crossbeam_queue::SegQueue;
use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::turns::{Job, Next, Turns};
use crate::limits::cpu::CpuShare;
use crate::ops::shutdown::Indispensable;

/// Number of threads: half of the cores, but in this range. One is always free for short work.
const THREADS: (usize, usize) = (2, 4);

/// How far the threads yield to others (`nice`): of a core that both want, they get a tenth. Without it thousands of
/// formulas delay the updates of all clients.
const NICE: i32 = 10;

/// Input of up to this many bytes is read where it arrives, because that takes far less than a millisecond.
const AT_ONCE_BYTES: usize = 1 << 10;

/// Input of more bytes, or output of more elements, may take more than a few milliseconds.
const LONG_FROM: usize = 32 << 10;

/// A client's turn lasts so long, unless its one piece of work takes longer.
const TURN: Duration = Duration::from_millis(1);

/// Time that an HTTP request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a piece of work is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Far less than a millisecond.
    Tiny,
    /// A few milliseconds.
    Short,
    /// Longer.
    Long,
}

impl Size {
    /// That of input with this many bytes, or of output with this many elements.
    #[must_use]
    pub fn of(count: usize) -> Self {
        if count <= AT_ONCE_BYTES {
            Self::Tiny
        } else if count <= LONG_FROM {
            Self::Short
        } else {
            Self::Long
        }
    }
}

/// A request is not computed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotComputed {
    /// The client's budget is used up, or that of its user or address.
    #[error(
        "your requests take more CPU time than they may: send fewer or simpler ones, or the relay's operator raises \
         max_cpu_per_client_ms_per_s, max_cpu_per_user_ms_per_s or max_cpu_per_address_ms_per_s"
    )]
    UsedUp,
    /// Other clients' requests came first.
    #[error("the relay has too many requests to compute: try again later")]
    Busy,
    /// The relay failed.
    #[error("the relay failed; see its log")]
    Failed,
}

/// The threads. Dropping it ends them after their present work; what waits is dropped.
#[derive(Debug)]
pub struct Pool {
    handle: PoolHandle,
    threads: Vec<JoinHandle<()>>,
}

/// The threads as others use them. No call waits for them, nor for a lock that they hold.
#[derive(Clone, Debug)]
pub struct PoolHandle(Arc<PoolShared>);

/// A thread without work for so long gives back the memory that the allocator keeps for it.
const RESTS_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct PoolShared {
    /// New work, with its client.
    inbox: SegQueue<(CpuShare, Job)>,
    /// Taken by the threads alone.
    state: Mutex<PoolState>,
    /// One bit for each thread that sleeps.
    sleeping: AtomicUsize,
    threads: OnceLock<Vec<Thread>>,
    is_ended: AtomicBool,
    cpu_micros: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct PoolState {
    turns: Turns,
    /// Number of threads that do long work.
    long: usize,
}

/// CPU time of the calling thread so far.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Does `work` on the calling thread and charges its CPU time, which is returned, too.
pub fn charged<T>(share: &CpuShare, work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = cpu_time();
    let done = work();
    let used = cpu_time().saturating_sub(begun);
    share.charge(used, Instant::now());
    (done, used)
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread can't start.
    pub fn start() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::with_threads((cores / 2).clamp(THREADS.0, THREADS.1))
    }

    fn with_threads(count: usize) -> io::Result<Self> {
        let shared = Arc::new(PoolShared {
            inbox: SegQueue::new(),
            state: Mutex::default(),
            sleeping: AtomicUsize::new(0),
            threads: OnceLock::new(),
            is_ended: AtomicBool::new(false),
            cpu_micros: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let mut pool = Self {
            handle: PoolHandle(Arc::clone(&shared)),
            threads: Vec::with_capacity(count),
        };
        for number in 0..count {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(format!("compute-{number}"));
            pool.threads.push(thread.spawn(move || {
                let _alive = Indispensable("compute");
                // On Linux this is the priority of the calling thread. Without it the threads only yield less.
                let _ = setpriority_process(None, NICE);
                shared.run(1 << number, (count - 1).max(1));
            })?);
        }
        let threads = pool.threads.iter().map(|thread| thread.thread().clone());
        let _ = shared.threads.set(threads.collect());
        Ok(pool)
    }

    /// The handle for other threads.
    #[must_use]
    pub fn handle(&self) -> PoolHandle {
        self.handle.clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let shared = &self.handle.0;
        shared.is_ended.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
        // What waits may hold a handle of this pool.
        while shared.inbox.pop().is_some() {}
        let state = mem::take(&mut *shared.lock());
        drop(state);
    }
}

impl PoolShared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Work runs without the lock, and every change under it is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one thread that sleeps, if there is one.
    fn wake(&self) {
        let lowest = |bits: usize| bits.checked_sub(1).map(|less| bits & less);
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let before = self.sleeping.fetch_update(order.0, order.1, lowest);
        if let (Ok(bits), Some(threads)) = (before, self.threads.get())
            && let Some(thread) = threads.get(bits.trailing_zeros() as usize)
        {
            thread.unpark();
        }
    }

    /// The thread whose bit is `own`.
    fn run(&self, own: usize, most_long: usize) {
        let mut worked = None;
        while !self.is_ended.load(Ordering::SeqCst) {
            let mut next = self.next(most_long);
            let slept = !matches!(next, Next::Work(..));
            if slept {
                // Work that comes from now on wakes this thread.
                self.sleeping.fetch_or(own, Ordering::SeqCst);
                next = self.next(most_long);
            }
            match next {
                Next::Work(share, job) => {
                    self.pass_on(own, slept);
                    self.take_turn(&share, job);
                    worked = Some(Instant::now());
                }
                _ if self.is_ended.load(Ordering::SeqCst) => break,
                Next::At(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                Next::Idle => {
                    match worked.map(|at: Instant| RESTS_AFTER.saturating_sub(at.elapsed())) {
                        None => thread::park(),
                        Some(Duration::ZERO) => {
                            worked = None;
                            pvwire_epics::give_back_thread_cache();
                        }
                        Some(rest) => thread::park_timeout(rest),
                    }
                }
            }
        }
    }

    /// A thread that is about to work doesn't sleep any more. If other work was to wake it, another thread has to.
    fn pass_on(&self, own: usize, slept: bool) {
        let before = self.sleeping.fetch_and(!own, Ordering::SeqCst);
        if slept && before & own == 0 {
            self.wake();
        }
    }

    fn next(&self, most_long: usize) -> Next {
        let mut state = self.lock();
        let mut refused = Vec::new();
        while let Some((share, job)) = self.inbox.pop() {
            refused.extend(state.turns.push(share, job));
        }
        let allows_long = state.long < most_long;
        let next = state.turns.next(Instant::now(), allows_long);
        if let Next::Work(_, job) = &next {
            state.long += usize::from(job.size == Size::Long);
        }
        let has_more = !state.turns.is_empty();
        drop(state);
        self.refused
            .fetch_add(refused.len() as u64, Ordering::Relaxed);
        if matches!(next, Next::Work(..)) && has_more {
            self.wake();
        }
        next
    }

    /// Works for one client until its turn is over.
    fn take_turn(&self, share: &CpuShare, first: Job) {
        let (mut next, mut sum) = (Some(first), Duration::ZERO);
        while let Some(Job { size, work, .. }) = next.take() {
            let ((), used) = charged(share, || {
                if catch_unwind(AssertUnwindSafe(work)).is_err() {
                    log::error!("a request of a client made the relay panic; please report it");
                }
            });
            sum += used;
            let micros = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
            self.cpu_micros.fetch_add(micros, Ordering::Relaxed);
            if size == Size::Long {
                self.lock().long -= 1;
            } else if sum < TURN && share.wait(Instant::now()).is_zero() {
                next = self.lock().turns.next_of(share);
            }
        }
    }
}

impl PoolHandle {
    /// Whether work is to be done where it arises, by [`PoolHandle::now`]: it is tiny, and its client has used little
    /// of its budgets.
    #[must_use]
    pub fn is_for_now(&self, share: &CpuShare, size: Size) -> bool {
        size == Size::Tiny && share.is_fresh(Instant::now())
    }

    /// Does tiny work at once and charges it.
    pub fn now<T>(&self, share: &CpuShare, work: impl FnOnce() -> T) -> T {
        charged(share, work).0
    }

    /// Lets `work` run on one of the threads when it is its client's turn. Work that panics or is left over when the
    /// relay ends is dropped.
    pub fn run(&self, share: &CpuShare, size: Size, work: impl FnOnce() + Send + 'static) {
        let work = Box::new(work);
        self.push(
            share,
            Job {
                size,
                work,
                is_request: false,
            },
        );
    }

    fn push(&self, share: &CpuShare, job: Job) {
        self.0.inbox.push((share.clone(), job));
        self.0.wake();
    }

    /// Computes what an HTTP request waits for.
    ///
    /// # Errors
    /// When its turn doesn't come in time.
    pub async fn compute<T: Send + 'static>(
        &self,
        share: &CpuShare,
        size: Size,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotComputed> {
        self.compute_within(PATIENCE, share, size, work).await
    }

    async fn compute_within<T: Send + 'static>(
        &self,
        patience: Duration,
        share: &CpuShare,
        size: Size,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotComputed> {
        if self.is_for_now(share, size) {
            return Ok(self.now(share, work));
        }
        let (begins, begun) = oneshot::channel();
        let (answer, done) = oneshot::channel();
        let work = Box::new(move || {
            // The request may be gone meanwhile.
            if begins.send(()).is_ok() {
                let _ = answer.send(work());
            }
        });
        self.push(
            share,
            Job {
                size,
                work,
                is_request: true,
            },
        );
        if !matches!(timeout(patience, begun).await, Ok(Ok(()))) {
            return Err(if share.wait(Instant::now()).is_zero() {
                NotComputed::Busy
            } else {
                NotComputed::UsedUp
            });
        }
        done.await.map_err(|_| NotComputed::Failed)
    }

    /// CPU time that the threads have used for clients so far.
    #[must_use]
    pub fn used(&self) -> Duration {
        Duration::from_micros(self.0.cpu_micros.load(Ordering::Relaxed))
    }

    /// Requests that were refused so far because too many waited.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::cpu::{CpuBudgets, CpuLimits};
    use std::sync::mpsc::channel;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn spin(time: Duration) {
        let begun = cpu_time();
        while cpu_time() - begun < time {}
    }

    fn budgets(client_ms_per_s: usize) -> CpuBudgets {
        CpuBudgets::new(CpuLimits {
            client_ms_per_s,
            ..CpuLimits::NONE
        })
    }

    fn share(budgets: &CpuBudgets) -> CpuShare {
        budgets.share("127.0.0.1:1", "127.0.0.1", None)
    }

    #[test]
    fn one_piece_of_work_of_a_client_comes_before_all_but_one_of_another() {
        let (pool, budgets) = (Pool::with_threads(1).unwrap(), budgets(1_000_000));
        let (greedy, other) = (share(&budgets), share(&budgets));
        let (done, order) = channel();
        let (begin, begun) = channel::<()>();
        // The thread waits until all work is there.
        pool.handle().run(&greedy, Size::Short, move || {
            begun.recv().unwrap();
            spin(2 * TURN);
        });
        for number in 0..20 {
            let done = done.clone();
            pool.handle().run(&greedy, Size::Short, move || {
                spin(2 * TURN);
                done.send(number).unwrap();
            });
        }
        pool.handle()
            .run(&other, Size::Short, move || done.send(100).unwrap());
        begin.send(()).unwrap();
        let order: Vec<i32> = (0..21)
            .map(|_| order.recv_timeout(DEADLINE).unwrap())
            .collect();
        let place = order.iter().position(|number| *number == 100).unwrap();
        assert!(place <= 1, "{order:?}");
        let rest: Vec<_> = order.into_iter().filter(|number| *number < 100).collect();
        assert!(rest.is_sorted(), "{rest:?}");
    }

    #[test]
    fn long_work_leaves_a_thread_free_for_short_work() {
        let (pool, budgets) = (Pool::with_threads(2).unwrap(), budgets(0));
        let (begin, begun) = channel::<()>();
        let begun = Arc::new(Mutex::new(begun));
        for _ in 0..5 {
            let begun = Arc::clone(&begun);
            pool.handle().run(&share(&budgets), Size::Long, move || {
                begun.lock().unwrap().recv().unwrap();
            });
        }
        let (done, short) = channel();
        pool.handle().run(&share(&budgets), Size::Short, move || {
            done.send(()).unwrap()
        });
        short.recv_timeout(DEADLINE).unwrap();
        (0..5).for_each(|_| begin.send(()).unwrap());
    }

    #[test]
    fn client_whose_budget_is_used_up_waits_and_others_do_not() {
        let (pool, budgets) = (Pool::with_threads(2).unwrap(), budgets(10));
        let (greedy, other) = (share(&budgets), share(&budgets));
        greedy.charge(Duration::from_millis(60), Instant::now());
        let begun = Instant::now();
        let (done, order) = channel();
        for (share, name) in [(&greedy, "greedy"), (&other, "other")] {
            let done = done.clone();
            pool.handle()
                .run(share, Size::Short, move || done.send(name).unwrap());
        }
        assert_eq!(order.recv_timeout(DEADLINE).unwrap(), "other");
        assert_eq!(order.recv_timeout(DEADLINE).unwrap(), "greedy");
        // 60 ms at 10 ms per second are 6 s, of which 5 s may be used at once.
        assert!(
            begun.elapsed() >= Duration::from_millis(900),
            "{:?}",
            begun.elapsed()
        );
        assert!(!pool.handle().is_for_now(&greedy, Size::Tiny));
        assert!(pool.handle().is_for_now(&other, Size::Tiny));
        assert!(!pool.handle().is_for_now(&other, Size::Short));
    }

    #[test]
    fn work_is_charged_by_its_cpu_time_and_not_by_its_waiting() {
        let (pool, budgets) = (Pool::with_threads(1).unwrap(), budgets(1_000));
        let one = share(&budgets);
        let (done, ended) = channel();
        pool.handle().run(&one, Size::Short, || {
            thread::sleep(Duration::from_millis(300))
        });
        pool.handle().run(&one, Size::Short, move || {
            spin(Duration::from_millis(20));
            done.send(()).unwrap();
        });
        ended.recv_timeout(DEADLINE).unwrap();
        drop(pool);
        let missing = one.missing(Instant::now());
        assert!(missing < Duration::from_millis(150), "{missing:?}");
    }

    #[test]
    fn panic_of_one_request_ends_no_thread() {
        let (pool, budgets) = (Pool::with_threads(1).unwrap(), budgets(0));
        let (done, ended) = channel();
        pool.handle().run(&share(&budgets), Size::Short, || {
            panic!("wanted by the test")
        });
        pool.handle().run(&share(&budgets), Size::Short, move || {
            done.send(()).unwrap()
        });
        ended.recv_timeout(DEADLINE).unwrap();
    }

    #[tokio::test]
    async fn request_beyond_its_budget_is_refused_and_says_which_limit_it_is() {
        let (pool, budgets) = (Pool::with_threads(1).unwrap(), budgets(1));
        let one = share(&budgets);
        assert_eq!(pool.handle().compute(&one, Size::Tiny, || 7).await, Ok(7));
        one.charge(Duration::from_secs(60), Instant::now());
        let refused = pool
            .handle()
            .compute_within(TURN, &one, Size::Tiny, || 7)
            .await;
        let refused = refused.unwrap_err();
        assert_eq!(refused, NotComputed::UsedUp);
        assert!(refused.to_string().contains("max_cpu_per_client_ms_per_s"));
    }
}
