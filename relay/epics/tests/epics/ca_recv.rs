//! Paced reads: libca reads a busy circuit in fewer pieces and loses nothing, and updates of a
//! circuit that isn't busy are not delayed.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_epics::ca::{
    AccessRights, ChannelEvents, ChannelInfo, Client, Metadata, Update, Value, paced_reads_total,
    reads_total,
};

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
