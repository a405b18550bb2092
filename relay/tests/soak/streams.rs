//! Clients that take large values by the stream, through a proxy that fails alone: their other PVs go on within 3 s.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::World;
use super::healthy::Healthy;
use super::waits::{ALLOWED, Waits};
use super::watcher::Address;
use super::withheld::Withheld;
use testbed::{Fetching, How, Wire, eventually};

/// A stream that fails may delay the other PVs of its client for this time, beside what any fault may.
const GOES_ON_WITHIN: Duration = Duration::from_secs(3);

/// The faults of the stream.
pub(super) const FAULTS: [&str; 3] = [
    "the stream of large values is held back",
    "the stream of large values trickles",
    "the stream of large values is cut",
];

pub(super) struct Streams {
    /// Between the clients' streams and the relay; nothing else passes it.
    wire: Wire,
    pub(super) waits: Waits,
}

impl Streams {
    pub(super) fn start(healthy: &Healthy, address: &Address, withheld: &Arc<Withheld>) -> Self {
        let relay = address.clone();
        let wire = Wire::lay_to(move || *relay.lock().unwrap());
        let packed = How {
            lz4: true,
            ..How::default()
        };
        let fetching = Some(Fetching::new(wire.address()));
        let clients = [How::default(), packed].map(|how| (how, fetching));
        Self {
            waits: Waits::start(
                healthy,
                &clients,
                ALLOWED + GOES_ON_WITHIN,
                address,
                withheld,
            ),
            wire,
        }
    }

    /// A client that requests its streams by the proxy.
    pub(super) fn fetching(&self) -> Fetching {
        Fetching::new(self.wire.address())
    }

    /// Waits until each client gets its large values by a stream.
    fn wait_in_use(&self) {
        eventually("the clients' large values come by streams", || {
            let mut clients = self.waits.clients.iter();
            clients.all(|client| client.book().by_stream.is_in_use)
        });
    }

    /// Fails when a client got no large value by a stream, or had no stream that broke.
    pub(super) fn check_used(&self) {
        for client in &self.waits.clients {
            let (values, broken) = {
                let by_stream = &client.book().by_stream;
                (by_stream.values, by_stream.broken)
            };
            println!("client with a stream: {values} values by it, it broke {broken} times");
            assert!(values > 0 && broken > 0, "no stream was in use and broke");
        }
    }
}

impl World {
    /// The stream of large values fails alone, while other things go on.
    pub(super) fn break_stream(&mut self, fault: usize) {
        // Under an attack a client may not be able to reconnect.
        self.end_attacks();
        self.streams.wait_in_use();
        self.say(FAULTS[fault]);
        let begin = SystemTime::now();
        let end = Instant::now() + self.random.millis(500, 4_500);
        match fault {
            0 => self.streams.wire.set(true),
            1 => self.streams.wire.slow(self.random.millis(100, 1_500)),
            _ => self.streams.wire.sever(),
        }
        while Instant::now() < end {
            match self.random.below(6) {
                0 => self.cut(),
                1 => self.hold_up(),
                2 => self.renew(),
                3 => self.change_metadata(),
                _ => self.burst(),
            }
            thread::sleep(self.random.millis(10, 500));
            if fault == 2 && self.random.one_in(4) {
                self.streams.wire.sever();
            }
        }
        self.streams.wire.set(false);
        self.streams.wire.slow(Duration::ZERO);
        let waits = &mut self.streams.waits;
        waits.add_window(FAULTS[fault], begin, SystemTime::now());
    }
}
