//! A monitor that the server refuses or ends is tried again, at growing intervals.
//!
//! A busy IOC refuses now and then, no server does so when it is told to. So this one speaks just
//! enough of the protocol to refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pvwire_epics::pva::{Client, ElementType, NodeValue};

use crate::support::in_own_process;
use crate::support::pva::{Event, OwnValue, Recorder};
use testbed::fake_pva::{self, ERROR, FINISH, OK, Script, structure, text};

const FLOAT64: u8 = 0x43;

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
