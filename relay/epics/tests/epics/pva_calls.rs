//! A call is ended while it waits for its service, and while the service works on it.
//!
//! A service of the test's own says what it was asked and when a call was ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use pvwire_epics::Ticket;
use pvwire_epics::pva::{Client, OpError};

use crate::support::{DEADLINE, eventually, in_own_process};
use testbed::fake_pva::{self, OK, Script};

/// Works on every call for ever.
#[derive(Default)]
struct Slow {
    called: AtomicU32,
    ended: AtomicU32,
}

impl Script for Slow {
    fn init(&self, _: &str) -> Vec<u8> {
        vec![OK]
    }

    fn value(&self, _: &str) -> Vec<u8> {
        Vec::new()
    }

    fn called(&self) {
        self.called.fetch_add(1, Ordering::Release);
    }

    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn call_that_is_not_wanted_any_more_ends_at_its_service() {
    in_own_process!(
        "call_that_is_not_wanted_any_more_ends_at_its_service",
        || {
            let service = Arc::new(Slow::default());
            fake_pva::start(crate::support::pva_search_port(), Arc::clone(&service) as _);
            let client = Client::start().unwrap();
            let (sender, results) = channel();
            let call = |timeout, ticket: Ticket| {
                let sender = sender.clone();
                client.rpc("service", Vec::new(), timeout, ticket, move |result| {
                    sender.send(result.map(|_| ())).unwrap();
                })
            };
            let said = || results.recv_timeout(DEADLINE).unwrap();

            let stop = call(DEADLINE, Ticket::default());
            eventually("called", || service.called.load(Ordering::Acquire) == 1);
            stop.stop();
            assert_eq!(said(), Err(OpError::Disconnected));
            eventually("ended", || service.ended.load(Ordering::Acquire) == 1);

            let _late = call(Duration::from_secs(3), Ticket::default());
            assert_eq!(said(), Err(OpError::TimedOut));
            eventually("ended", || service.ended.load(Ordering::Acquire) == 2);

            let unwanted = Ticket::default();
            assert!(unwanted.cancel());
            let _unwanted = call(Duration::from_secs(1), unwanted);
            assert_eq!(said(), Err(OpError::NotConnected));
            assert_eq!(service.called.load(Ordering::Acquire), 2);
        }
    );
}

#[test]
fn stopped_call_that_waits_for_its_service_is_not_sent() {
    in_own_process!(
        "stopped_call_that_waits_for_its_service_is_not_sent",
        || {
            let client = Client::start().unwrap();
            let (sender, results) = channel();
            let ticket = Ticket::default();
            let of_call = ticket.clone();
            let stop = client.rpc("service", Vec::new(), DEADLINE, of_call, move |result| {
                sender.send(result.map(|_| ())).unwrap();
            });
            assert!(ticket.cancel());
            stop.stop();
            assert_eq!(
                results.recv_timeout(DEADLINE).unwrap(),
                Err(OpError::NotConnected)
            );
        }
    );
}
