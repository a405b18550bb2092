//! The timer thread of libca sleeps while no name is searched, and searches a new name as ever.

use std::fs;
use std::time::Instant;

use pvwire_epics::ca::Client;

use crate::support::ca::open;
use crate::support::{Server, eventually, in_own_process, prefix};

/// libca's own timers wake their thread 62 times a second, on a busy machine less often.
const ASLEEP_HZ: f64 = 15.0;
const AWAKE_HZ: f64 = 25.0;

/// How often the timer threads of this process have waited.
fn timer_waits() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let folders = tasks.map(|task| task.unwrap().path());
    let of_timers = folders.filter(|folder| {
        let name = fs::read_to_string(folder.join("comm"));
        name.is_ok_and(|name| name.trim() == "timerQueue")
    });
    let waits = of_timers.map(|folder| {
        // Nothing is left of a thread that has just ended.
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    });
    waits.sum()
}

/// How often a second they wait during ten updates of ten a second.
fn waits_per_second(update: impl Fn()) -> f64 {
    let (waits, from) = (timer_waits(), Instant::now());
    (0..10).for_each(|_| update());
    (timer_waits() - waits) as f64 / from.elapsed().as_secs_f64()
}

#[test]
fn timer_thread_sleeps_unless_a_name_is_searched() {
    in_own_process!("timer_thread_sleeps_unless_a_name_is_searched", || {
        let prefix = prefix();
        let database =
            "record(calc, \"$(P)pv\") { field(CALC, \"VAL+1\") field(SCAN, \".1 second\") }";
        let _ioc = Server::soft_ioc(&prefix, database.as_bytes());
        let pv = format!("{prefix}pv");
        // Each context has its own timers, and they end with it.
        let ended = Client::start().unwrap();
        let (recorder, channel) = open(&ended, &pv);
        recorder.wait_update(0, |_| true);
        drop((channel, ended));
        eventually("its timer thread ends", || timer_waits() == 0);

        let client = Client::start().unwrap();
        let (recorder, _channel) = open(&client, &pv);
        let update = || drop(recorder.wait_update(recorder.len(), |_| true));
        eventually("the thread sleeps", || waits_per_second(update) < ASLEEP_HZ);
        eventually("the thread is awake again", || {
            let _unknown = open(&client, &format!("{prefix}unknown"));
            waits_per_second(update) > AWAKE_HZ
        });
    });
}
