//! A PV that pvxs can't decode, or that has millions of parts, doesn't disturb its server's other
//! PVs.
//!
//! Topology: one server of the test's own whose PVs all share a connection, one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use pvwire_epics::pva::Client;

use crate::support::in_own_process;
use crate::support::pva::{Event, Recorder};
use testbed::fake_pva::{self, Script, structure};

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
        assert_eq!(server.bad.load(Ordering::Relaxed), bad);
    });
}
