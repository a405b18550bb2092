//! A PV that pvxs can't decode, or that has millions of parts, doesn't disturb its server's other PVs. A monitor that
//! the server refuses or ends is tried again, at growing intervals. A call is ended while it waits for its service, and
//! while the service works on it.
//!
//! Topology: a server of the test's own that speaks just enough of the protocol to do what no real one does when it is
//! told to; one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use pvwire_epics::Ticket;
use pvwire_epics::pva::{Client, ElementType, NodeValue, OpError};
use testbed::fake_pva::{self, ERROR, FINISH, OK, Script, structure, text};

use crate::support::pva::{Event, OwnValue, Recorder};
use crate::support::{DEADLINE, eventually, in_own_process};

const FLOAT64: u8 = 0x43;
const STRING: u8 = 0x60;
const NO_TYPE: u8 = 0x1f;
const ANY_ARRAY: u8 = 0x8a;

/// Elements that aren't there: a byte each on the wire.
const ABSENT: u32 = 4_000_000;

/// One PV's type doesn't exist, another's string is longer than its message, a third's array has
/// millions of elements that aren't there; all others are good.
struct Sloppy;

impl Script for Sloppy {
    fn init(&self, name: &str) -> Vec<u8> {
        structure(
            "fake:1.0",
            match name {
                "type" => NO_TYPE,
                "text" => STRING,
                "parts" => ANY_ARRAY,
                _ => FLOAT64,
            },
        )
    }

    fn value(&self, name: &str) -> Vec<u8> {
        match name {
            "text" => vec![1, 1, 200, b'x'],
            "parts" => {
                let mut value = vec![1, 1, 254];
                value.extend(ABSENT.to_le_bytes());
                value.resize(value.len() + ABSENT as usize + 1, 0);
                value
            }
            _ => [&[1, 1], &1_f64.to_le_bytes()[..], &[0]].concat(),
        }
    }

    fn run(&self, name: &str, send: &dyn Fn(u8, &[u8]) -> bool) {
        while send(0, &self.value(name)) {
            // A server sends at its own rate.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn pv_that_cannot_be_decoded_is_held_back_and_the_others_go_on() {
    in_own_process!(
        "pv_that_cannot_be_decoded_is_held_back_and_the_others_go_on",
        || {
            fake_pva::start(crate::support::pva_search_port(), Arc::new(Sloppy));
            let client = Client::start().unwrap();
            let open = |name: &str| {
                let recorder = Recorder::new();
                let monitor = client.open(name, recorder.clone()).unwrap();
                (recorder, monitor)
            };
            let good: Vec<_> = ["a", "b", "c", "d"].into_iter().map(open).collect();
            for (recorder, _) in &good {
                recorder.wait_connected(0);
            }
            let bad: Vec<_> = ["type", "text"].into_iter().map(open).collect();

            for (recorder, _) in &bad {
                let (_, reason) = recorder.wait(0, "reason", |event| match event {
                    Event::Unreadable(reason) => Some(reason.clone()),
                    _ => None,
                });
                assert!(reason.contains("can't be decoded"), "{reason}");
                assert!(reason.contains("127.0.0.1:"), "{reason}");
                let is_value =
                    |event: &Event| matches!(event, Event::Connected(_) | Event::Update(_));
                assert!(!recorder.events().iter().any(is_value));
            }
            // More than pvxs waits before it connects again.
            const MORE: usize = 150;
            for (recorder, _) in &good {
                let (from, _) = recorder.wait_connected(0);
                let mut connected = from;
                let events = recorder.events();
                for (number, event) in events.iter().enumerate() {
                    if matches!(event, Event::Connected(_)) {
                        connected = number;
                    }
                }
                let mut updates = 0;
                recorder.wait(connected, "many updates in one connection", |event| {
                    match event {
                        Event::Update(_) => updates += 1,
                        Event::Disconnected => updates = 0,
                        _ => {}
                    }
                    (updates > MORE).then_some(())
                });
            }
        }
    );
}

#[test]
fn value_of_millions_of_absent_parts_is_refused_with_the_reason() {
    in_own_process!(
        "value_of_millions_of_absent_parts_is_refused_with_the_reason",
        || {
            fake_pva::start(crate::support::pva_search_port(), Arc::new(Sloppy));
            let client = Client::start().unwrap();
            let good = Recorder::new();
            let _good = client.open("good", good.clone()).unwrap();
            good.wait_connected(0);
            let recorder = Recorder::new();
            let _monitor = client.open("parts", recorder.clone()).unwrap();
            let (_, reason) = recorder.wait(0, "reason", |event| match event {
                Event::Unreadable(reason) => Some(reason.clone()),
                _ => None,
            });
            assert!(reason.contains("more than 1000000"), "{reason}");
            assert!(reason.contains("administrator"), "{reason}");
            // Its connection holds.
            let from = good.len();
            let mut updates = 0;
            good.wait(from, "more updates", |event| {
                assert!(!matches!(event, Event::Disconnected));
                updates += u32::from(matches!(event, Event::Update(_)));
                (updates > 10).then_some(())
            });
        }
    );
}

/// All PVs are good, but the later updates of one can't be decoded.
#[derive(Default)]
struct SloppyLater {
    /// Updates of that one that were bad.
    bad: AtomicU32,
}

impl Script for SloppyLater {
    fn init(&self, name: &str) -> Vec<u8> {
        structure("fake:1.0", if name == "late" { STRING } else { FLOAT64 })
    }

    fn value(&self, name: &str) -> Vec<u8> {
        if name == "late" {
            vec![1, 1, 1, b'x', 0]
        } else {
            [&[1, 1], &1_f64.to_le_bytes()[..], &[0]].concat()
        }
    }

    fn run(&self, name: &str, send: &dyn Fn(u8, &[u8]) -> bool) {
        for number in 0.. {
            let is_bad = name == "late" && number == 10;
            let value = if is_bad {
                self.bad.fetch_add(1, Ordering::Relaxed);
                vec![1, 1, 200, b'x']
            } else {
                self.value(name)
            };
            if !send(0, &value) {
                return;
            }
            // A server sends at its own rate.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn pv_whose_later_updates_cannot_be_decoded_is_found() {
    in_own_process!("pv_whose_later_updates_cannot_be_decoded_is_found", || {
        let server = Arc::new(SloppyLater::default());
        fake_pva::start(crate::support::pva_search_port(), Arc::clone(&server) as _);
        let client = Client::start().unwrap();
        let open = |name: &str| {
            let recorder = Recorder::new();
            let monitor = client.open(name, recorder.clone()).unwrap();
            (recorder, monitor)
        };
        let good: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().map(open).collect();
        let (late, _late) = open("late");

        let (_, reason) = late.wait(0, "reason", |event| match event {
            Event::Unreadable(reason) => Some(reason.clone()),
            _ => None,
        });

        assert!(reason.contains("updates that can't be decoded"), "{reason}");
        assert!(reason.contains("127.0.0.1:"), "{reason}");
        let bad = server.bad.load(Ordering::Relaxed);
        assert!((4..20).contains(&bad), "found after {bad} bad updates");
        // More than pvxs waits before it connects again, and each without a loss of the connection.
        for (recorder, _) in &good {
            let mut updates = 0;
            recorder.wait(recorder.len(), "many updates in one connection", |event| {
                match event {
                    Event::Update(_) => updates += 1,
                    Event::Disconnected => updates = 0,
                    _ => {}
                }
                (updates > 150).then_some(())
            });
        }
        // One may have been under way when the monitor was closed.
        let last = server.bad.load(Ordering::Relaxed);
        assert!(
            last <= bad + 1,
            "{last} bad updates, {bad} when it was found"
        );
    });
}

/// The first `refusals` monitors are refused, the next is ended after its first value, and all
/// others get a value and stay.
struct Busy {
    refusals: u32,
    monitors: AtomicU32,
}

impl Busy {
    fn last(&self) -> u32 {
        self.monitors.load(Ordering::Relaxed) - 1
    }
}

impl Script for Busy {
    fn init(&self, _: &str) -> Vec<u8> {
        if self.monitors.fetch_add(1, Ordering::Relaxed) < self.refusals {
            [&[ERROR], &text("too busy")[..], &text("")].concat()
        } else {
            structure("fake:1.0", FLOAT64)
        }
    }

    fn value(&self, _: &str) -> Vec<u8> {
        [&[1, 1], &f64::from(self.last()).to_le_bytes()[..], &[0]].concat()
    }

    fn run(&self, name: &str, send: &dyn Fn(u8, &[u8]) -> bool) {
        let last = self.last();
        send(0, &self.value(name));
        if last == self.refusals {
            send(FINISH, &[OK]);
        }
    }
}

#[test]
fn refused_or_ended_monitor_is_tried_again() {
    in_own_process!("refused_or_ended_monitor_is_tried_again", || {
        let server = Arc::new(Busy {
            refusals: 2,
            monitors: AtomicU32::new(0),
        });
        fake_pva::start(crate::support::pva_search_port(), Arc::clone(&server) as _);
        let client = Client::start().unwrap();
        let recorder = Recorder::new();
        let start = Instant::now();
        let _monitor = client.open("any", recorder.clone()).unwrap();

        let value = |wanted: f64| {
            recorder.wait_update(0, |update| match &update.value {
                OwnValue::Structure(node) => {
                    node.get("value").unwrap().value
                        == NodeValue::Number(ElementType::Float64, wanted)
                }
                _ => false,
            })
        };
        value(2.0);
        // 1 s and then 2 s between the tries.
        assert!(start.elapsed() > Duration::from_millis(2_900));
        let (last, _) = value(3.0);
        assert!(start.elapsed() > Duration::from_millis(3_900));
        let events = recorder.events();
        let told: Vec<_> = events[..=last]
            .iter()
            .map(|event| match event {
                Event::Failed(reason) | Event::Unreadable(reason) => &**reason,
                Event::Connected(info) if info.changed => "changed",
                Event::Connected(_) => "connected",
                Event::Disconnected => "disconnected",
                Event::Metadata(_) => "metadata",
                Event::Update(_) => "update",
            })
            .collect();
        let expected = [
            "too busy",
            "too busy",
            "connected",
            "metadata",
            "update",
            "the server ended the monitor",
            "disconnected",
            "connected",
            "metadata",
            "update",
        ];
        assert_eq!(told, expected);
        assert_eq!(server.monitors.load(Ordering::Relaxed), 4);
    });
}

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
