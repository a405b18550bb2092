//! The IOC that stays healthy, with counters, and large arrays that it sends all the time; and clients that take large
//! values by the stream, through a proxy that fails alone: their other PVs go on within 3 s.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testbed::random::Random;
use testbed::{Fetching, How, Kept, Network, RowSeen, SoftIoc, Wire, eventually, prefix};

use super::World;
use super::waits::{ALLOWED, Waits};
use super::watcher::Address;
use super::withheld::Withheld;

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

/// An address of this machine at which nothing else of the run listens.
pub(super) const HOST: &str = "127.0.0.3";
/// PVs that each client watches.
const COUNTERS: usize = 5;
/// Arrays that change, and constant ones from which they take their values.
const ARRAYS: usize = 2;
const SOURCES: usize = 3;
/// Twice the bytes that make a value large.
const ELEMENTS: usize = 4_000;
/// The arrays are sent twice a second.
const RECENT: Duration = Duration::from_secs(5);

pub(super) struct Healthy {
    ioc: SoftIoc,
    pub(super) counters: Vec<String>,
    pub(super) arrays: Vec<String>,
    /// Of each array the number of its source.
    sources: [usize; ARRAYS],
}

impl Healthy {
    pub(super) fn start(network: Network) -> Self {
        let prefix = prefix();
        let named = |word: &str, count: usize| -> Vec<String> {
            (0..count).map(|n| format!("{prefix}{word}{n}")).collect()
        };
        let (counters, arrays) = (named("", COUNTERS), named("array", ARRAYS));
        let mut database = String::new();
        for name in &counters {
            database += &format!(
                r#"record(calc, "{name}") {{
                    field(INPA, "{name}.VAL") field(CALC, "A+1") field(SCAN, ".1 second")
                }}"#
            );
        }
        let array = r#"field(FTVL, "DOUBLE") field(NELM,"#;
        for (number, name) in named("source", SOURCES).iter().enumerate() {
            let elements = vec![element(number).to_string(); ELEMENTS].join(",");
            database += &format!(
                r#"record(waveform, "{name}") {{ {array} "{ELEMENTS}") field(INP, "[{elements}]") }}"#
            );
        }
        for name in &arrays {
            database += &format!(
                r#"record(waveform, "{name}") {{
                    {array} "{ELEMENTS}") field(INP, "{prefix}source0") field(SCAN, ".5 second")
                }}"#
            );
        }
        Self {
            ioc: SoftIoc::with_prefix(network.at(HOST), &prefix, &database, ""),
            counters,
            arrays,
            sources: [0; ARRAYS],
        }
    }

    pub(super) fn change_arrays(&mut self, random: &mut Random) {
        for (number, source) in self.sources.iter_mut().enumerate() {
            *source = random.below(SOURCES);
            let name = format!("{}source{source}", self.ioc.prefix());
            self.ioc.put(&format!("array{number}.INP"), &name);
        }
    }

    /// In what the arrays that a client holds differ from those of the IOC.
    pub(super) fn differences<'a>(
        &self,
        title: &str,
        held: impl Fn(&str) -> Option<&'a RowSeen>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (name, source) in self.arrays.iter().zip(self.sources) {
            let Some(row) = held(name) else {
                found.push(format!("{title}: {name} has no value"));
                continue;
            };
            let elements = element(source).to_le_bytes().repeat(ELEMENTS);
            if !matches!(&row.value, Kept::Array(_, bytes) if *bytes == elements) {
                found.push(format!("{title}: {name} isn't source {source}"));
            }
            let made = UNIX_EPOCH + Duration::from_nanos(row.time_ns.unsigned_abs());
            let age = SystemTime::now().duration_since(made).unwrap_or_default();
            if age > RECENT {
                let age = age.as_secs_f64();
                found.push(format!("{title}: {name} is {age:.1} s old"));
            }
        }
        found
    }
}

/// The elements of a source.
fn element(source: usize) -> f64 {
    source as f64 + 0.5
}
