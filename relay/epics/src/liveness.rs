//! Detects servers that have stopped answering.
//!
//! libca notices an unresponsive server only after `EPICS_CA_CONN_TMO` and another 5 s without an
//! answer to an echo, pvxs only after `EPICS_PVA_CONN_TMO` and another third of it. Until then
//! every value looks current. Therefore the ca-cmd and pva-cmd threads check each circuit, probe
//! its server if nothing has arrived for a while, and report the silent circuits. Only silent
//! circuits with an unanswered probe count: an idle server is healthy. A probe touches no record: it
//! is an echo by Channel Access, and asks for the types of structures by pvAccess, where gateways pass
//! it on (`pva/questions.rs`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::guard::guard;

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(250);

/// Checks without new data after which the server is probed: 0.75 to 1 s.
const PROBE_AFTER: u32 = 3;

/// Checks without new data after which the server is unresponsive: 2 to 2.25 s, so that users see
/// it within 3 s. Checks are counted instead of time, because a relay that was suspended has missed
/// nothing.
const UNRESPONSIVE_AFTER: u32 = 8;

/// Checks of an unresponsive server between two doubts: 1 s.
const DOUBT_EVERY: u32 = 4;

/// The time when data last arrived from a circuit's server. Written by the thread that receives.
#[derive(Debug)]
pub(crate) struct Circuit {
    /// Nanoseconds past the POSIX epoch.
    heard_ns: AtomicI64,
}

impl Circuit {
    /// A circuit that has just been connected.
    pub(crate) fn new() -> Self {
        Self {
            heard_ns: AtomicI64::new(now_ns()),
        }
    }

    /// Records that data arrived.
    pub(crate) fn heard(&self) {
        self.heard_ns.store(now_ns(), Ordering::Relaxed);
    }

    /// The time when data last arrived, in nanoseconds past the POSIX epoch.
    pub(crate) fn heard_ns(&self) -> i64 {
        self.heard_ns.load(Ordering::Relaxed)
    }
}

/// The time in nanoseconds past the POSIX epoch.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}

/// A channel or monitor that is connected by a circuit.
pub(crate) trait OnCircuit {
    /// The circuit, while it is connected.
    fn circuit(&self) -> Option<Arc<Circuit>>;
    /// Reports that the server has stopped answering, and when it was last heard from.
    fn unresponsive(&self, heard_ns: i64);
    /// Reports that the server answers again.
    fn responsive(&self);

    fn is_on(&self, circuit: &Arc<Circuit>) -> bool {
        self.circuit().is_some_and(|own| Arc::ptr_eq(&own, circuit))
    }
}

/// Reports to all channels or monitors of a circuit whether its server answers.
pub(crate) fn report<'a, T: OnCircuit + 'a>(
    all: impl Iterator<Item = &'a T>,
    circuit: &Arc<Circuit>,
    answers: bool,
) {
    for each in all.filter(|each| each.is_on(circuit)) {
        guard("circuit", || {
            if answers {
                each.responsive();
            } else {
                each.unresponsive(circuit.heard_ns());
            }
        });
    }
}

/// The action to take on a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Probe the server of the channel with this id, or of another one of the circuit.
    Probe(u64),
    /// The answer is late: check whether it is queued behind other incoming data.
    Doubt,
    /// Report to its channels that its server doesn't answer.
    Unresponsive,
    /// Report to its channels that its server answers again.
    Responsive,
}

/// The circuits of one context, as seen by the thread that checks them.
#[derive(Default)]
pub(crate) struct Watch {
    circuits: HashMap<*const Circuit, Watched>,
    next: Option<Instant>,
}

struct Watched {
    circuit: Arc<Circuit>,
    heard_ns: i64,
    /// Number of checks since data last arrived.
    quiet: u32,
    /// The server was probed and hasn't answered yet.
    is_probed: bool,
    is_unresponsive: bool,
    /// One of its channels.
    channel: u64,
}

impl Watch {
    /// A channel was connected by this circuit.
    pub(crate) fn add(&mut self, circuit: &Arc<Circuit>, channel: u64, now: Instant) {
        let watched = self.circuits.entry(Arc::as_ptr(circuit));
        let watched = watched.or_insert_with(|| Watched {
            circuit: Arc::clone(circuit),
            heard_ns: circuit.heard_ns(),
            quiet: 0,
            is_probed: false,
            is_unresponsive: false,
            channel,
        });
        watched.channel = channel;
        self.next.get_or_insert(now + LOOK);
    }

    /// When the next check is due; `None` while there is no circuit.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Checks all circuits if it is time.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<(Arc<Circuit>, Duty)> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        // Its thread has ended and no channel is connected by it.
        self.circuits
            .retain(|_, watched| Arc::strong_count(&watched.circuit) > 1);
        self.next = (!self.circuits.is_empty()).then(|| now + LOOK);
        let looked = self.circuits.values_mut();
        looked.filter_map(Watched::look).collect()
    }

    /// Records that the server was probed.
    pub(crate) fn probed(&mut self, circuit: &Arc<Circuit>) {
        if let Some(watched) = self.circuits.get_mut(&Arc::as_ptr(circuit)) {
            watched.is_probed = true;
        }
    }
}

impl Watched {
    fn look(&mut self) -> Option<(Arc<Circuit>, Duty)> {
        let duty = self.duty()?;
        Some((Arc::clone(&self.circuit), duty))
    }

    fn duty(&mut self) -> Option<Duty> {
        let heard_ns = self.circuit.heard_ns();
        if heard_ns != self.heard_ns {
            self.heard_ns = heard_ns;
            self.quiet = 0;
            self.is_probed = false;
            let was_unresponsive = std::mem::take(&mut self.is_unresponsive);
            return was_unresponsive.then_some(Duty::Responsive);
        }
        self.quiet = self.quiet.saturating_add(1);
        if !self.is_probed {
            return (self.quiet >= PROBE_AFTER).then_some(Duty::Probe(self.channel));
        }
        if self.is_unresponsive {
            // Behind a gateway others may be served, which were not asked.
            let is_doubted = self.quiet.is_multiple_of(DOUBT_EVERY);
            return is_doubted.then_some(Duty::Doubt);
        }
        if self.quiet < UNRESPONSIVE_AFTER {
            return (self.quiet > PROBE_AFTER + 1).then_some(Duty::Doubt);
        }
        self.is_unresponsive = true;
        Some(Duty::Unresponsive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch of one circuit with the channel 7, and its consecutive checks.
    struct Bench {
        watch: Watch,
        circuit: Arc<Circuit>,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let (now, mut watch) = (Instant::now(), Watch::default());
            let circuit = Arc::new(Circuit::new());
            watch.add(&circuit, 7, now);
            Self {
                watch,
                circuit,
                now,
            }
        }

        fn look(&mut self) -> Option<Duty> {
            self.now += LOOK;
            let mut duties = self.watch.look(self.now);
            assert!(duties.len() < 2);
            duties.pop().map(|(_, duty)| duty)
        }

        /// Checks `count` times; returns the actions found, each with the number of its check.
        fn looks(&mut self, count: u32) -> Vec<(u32, Duty)> {
            let mut found = Vec::new();
            for number in 1..=count {
                let Some(duty) = self.look().filter(|duty| *duty != Duty::Doubt) else {
                    continue;
                };
                if matches!(duty, Duty::Probe(_)) {
                    self.watch.probed(&self.circuit.clone());
                }
                found.push((number, duty));
            }
            found
        }

        fn bytes_come(&self) {
            // The clock may be too coarse to distinguish two times.
            self.circuit.heard_ns.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn quiet_circuit_is_probed_and_unresponsive_without_an_answer() {
        let mut bench = Bench::new();
        assert_eq!(bench.looks(5), [(PROBE_AFTER, Duty::Probe(7))]);
        bench.bytes_come();
        let unresponsive = 1 + UNRESPONSIVE_AFTER;
        assert_eq!(
            bench.looks(20),
            [
                (1 + PROBE_AFTER, Duty::Probe(7)),
                (unresponsive, Duty::Unresponsive)
            ]
        );
        let doubts = (0..8).filter_map(|_| bench.look());
        assert_eq!(doubts.collect::<Vec<_>>(), [Duty::Doubt, Duty::Doubt]);
        bench.bytes_come();
        assert_eq!(bench.look(), Some(Duty::Responsive));
        assert_eq!(bench.look(), None);
    }

    #[test]
    fn circuit_that_nothing_can_be_asked_of_is_never_unresponsive() {
        let mut bench = Bench::new();
        for _ in 0..50 {
            assert_ne!(bench.look(), Some(Duty::Unresponsive));
        }
    }

    #[test]
    fn busy_circuit_is_not_asked() {
        let mut bench = Bench::new();
        for _ in 0..50 {
            bench.bytes_come();
            assert_eq!(bench.look(), None);
        }
    }

    #[test]
    fn circuit_without_thread_and_channels_is_forgotten() {
        let mut bench = Bench::new();
        bench.circuit = Arc::new(Circuit::new());
        assert_eq!(bench.look(), None);
        assert_eq!(bench.watch.next(), None);
    }
}
