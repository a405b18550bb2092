//! Paced reads: libca reads a busy circuit in fewer pieces and loses nothing, and updates of a circuit that isn't busy are
//! not delayed. libca's timer thread sleeps while no name is searched, and searches a new name as ever.

use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pvwire_epics::ca::{
    AccessRights, ChannelEvents, ChannelInfo, Client, Metadata, Update, Value, paced_reads_total,
    reads_total,
};

use crate::support::ca::open;
use crate::support::{Server, eventually, in_own_process, prefix};

/// Counts updates, and those whose value is not the one after the last.
#[derive(Default)]
struct Counter {
    updates: AtomicU64,
    out_of_order: AtomicU64,
}

impl Counter {
    fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }
}

impl ChannelEvents for Counter {
    fn connected(&self, _: ChannelInfo) {}
    fn disconnected(&self) {}
    fn access_rights(&self, _: AccessRights) {}
    fn metadata(&self, _: Metadata) {}

    fn update(&self, update: Update<'_>) {
        let expected = self.updates.fetch_add(1, Ordering::Relaxed) as f64;
        if !matches!(update.value, Value::Number(number) if number == expected) {
            self.out_of_order.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn every_update_of_bursts_arrives_in_order_by_fewer_reads() {
    in_own_process!(
        "every_update_of_bursts_arrives_in_order_by_fewer_reads",
        || {
            let mut database = String::from("record(event, \"$(P)all\") { field(VAL, \"7\") }\n");
            for number in 0..2_000 {
                writeln!(
                    database,
                    "record(calc, \"$(P){number}\") {{
                        field(CALC, \"VAL+1\") field(SCAN, \"Event\") field(EVNT, \"7\")
                    }}"
                )
                .unwrap();
            }
            let prefix = prefix();
            let mut ioc = Server::soft_ioc(&prefix, database.as_bytes());
            let client = Client::start().unwrap();
            let opened: Vec<_> = (0..2_000)
                .map(|number| {
                    let counter = Arc::new(Counter::default());
                    let channel = client.open(&format!("{prefix}{number}"), counter.clone());
                    (counter, channel.unwrap())
                })
                .collect();
            let all_have = |updates| {
                eventually("all updates", || {
                    opened
                        .iter()
                        .all(|(counter, _)| counter.updates() >= updates)
                });
            };
            all_have(1);
            let mut bursts = 0;
            let mut burst = || {
                ioc.put(&format!("{prefix}all.PROC"), "1");
                bursts += 1;
                all_have(bursts + 1);
            };
            (0..20).for_each(|_| burst());
            eventually("a read that waited for more", || {
                burst();
                paced_reads_total() > 0
            });

            for (counter, _) in &opened {
                assert_eq!(counter.out_of_order.load(Ordering::Relaxed), 0);
                assert_eq!(counter.updates(), bursts + 1);
            }
            // A server sends some forty in a piece.
            assert!(reads_total() < bursts * 2_000 / 40 + 500);
        },
    );
}

#[test]
fn circuit_with_rare_updates_is_never_waited_for() {
    in_own_process!("circuit_with_rare_updates_is_never_waited_for", || {
        let prefix = prefix();
        let _ioc = Server::soft_ioc(
            &prefix,
            b"record(calc, \"$(P)slow\") { field(CALC, \"VAL+1\") field(SCAN, \".5 second\") }",
        );
        let client = Client::start().unwrap();
        let counter = Arc::new(Counter::default());
        let _channel = client.open(&format!("{prefix}slow"), counter.clone());
        // The answers to a connect may come in quick succession.
        eventually("the connect is over", || counter.updates() >= 2);
        let (reads, paced, updates) = (reads_total(), paced_reads_total(), counter.updates());

        eventually("more updates", || counter.updates() >= updates + 6);

        assert!(reads_total() >= reads + 6);
        assert_eq!(paced_reads_total(), paced);
    },);
}

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
