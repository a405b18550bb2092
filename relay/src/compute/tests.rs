//! Order, limits and charges of work for clients.

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
