//! A build without the feature `interpose`: libca calls the C library's own `recv` and `send`, and
//! every update still arrives, in order.

use std::sync::Arc;
use std::sync::mpsc::channel;

use pvwire_epics::Ticket;
use pvwire_epics::ca::{Client, PutValue, circuits_cut_total, paced_reads_total, reads_total};

use crate::support::ca::{OwnValue, Recorder};
use crate::support::{Server, in_own_process, prefix};

#[test]
fn updates_and_puts_need_no_recv_and_send_of_ours() {
    in_own_process!("updates_and_puts_need_no_recv_and_send_of_ours", || {
        let prefix = prefix();
        let _ioc = Server::soft_ioc(
            &prefix,
            b"record(ao, \"$(P)set\") {}
              record(calc, \"$(P)count\") { field(CALC, \"VAL+1\") field(SCAN, \".1 second\") }",
        );
        let client = Client::start().unwrap();
        let counter = Recorder::new();
        let _counting = client
            .open(&format!("{prefix}count"), Arc::clone(&counter) as _)
            .unwrap();
        let recorder = Recorder::new();
        let channel_to_put = client
            .open(&format!("{prefix}set"), Arc::clone(&recorder) as _)
            .unwrap();
        recorder.wait_connected(0);

        let (done, result) = channel();
        let done = Box::new(move |outcome| done.send(outcome).unwrap());
        channel_to_put.put(PutValue::Number(7.5), true, Ticket::default(), None, done);

        assert_eq!(result.recv().unwrap(), Ok(None));
        recorder.wait_value(0, &OwnValue::Number(7.5));
        let (mut from, mut number) = (0, None);
        for _ in 0..10 {
            let (next, update) = counter.wait_update(from, |_| true);
            let OwnValue::Number(count) = update.value else {
                panic!("{update:?}");
            };
            assert!(
                number.is_none_or(|last| count == last + 1.0),
                "{number:?}, then {count}"
            );
            (from, number) = (next + 1, Some(count));
        }
        assert_eq!(
            (reads_total(), paced_reads_total(), circuits_cut_total()),
            (0, 0, 0)
        );
    });
}
