//! Detection of servers that have stopped answering.
//!
//! libca notices that a server doesn't answer only when `EPICS_CA_CONN_TMO` is over and an echo stays
//! without an answer for another 5 s, pvxs when `EPICS_PVA_CONN_TMO` is over by a third. Until then
//! every value passes for present. So the ca-cmd and the pva-cmd thread look at each circuit, ask its
//! server something when nothing has come for a while, and say which circuits are silent. Only silent
//! circuits with an unanswered question count: an idle server is healthy.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::guard::guard;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Looks without news after which the server is asked: 0.75 to 1 s.
const PROBE_AFTER: u32 = 3;

/// Looks without news after which the server is unresponsive: 2 to 2.25 s, so that people see it
/// within 3 s. Counted in looks and not by the clock: a relay that was suspended has missed nothing.
const UNRESPONSIVE_AFTER: u32 = 8;

/// When something last came from a circuit's server. Written by the thread that receives it.
#[derive(Debug)]
pub(crate) struct Circuit {
    /// Nanoseconds past the POSIX epoch.
    heard_ns: AtomicI64,
}

impl Circuit {
    /// A circuit that was just connected.
    pub(crate) fn new() -> Self {
        Self {
            heard_ns: AtomicI64::new(now_ns()),
        }
    }

    /// Something came.
    pub(crate) fn heard(&self) {
        self.heard_ns.store(now_ns(), Ordering::Relaxed);
    }

    /// When something last came, in nanoseconds past the POSIX epoch.
    pub(crate) fn heard_ns(&self) -> i64 {
        self.heard_ns.load(Ordering::Relaxed)
    }
}

fn now_ns() -> i64 {
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

/// Reports to all that are on a circuit whether its server answers.
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

/// What is to be done about a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Ask something of the channel of this id, or of another one of the circuit, so that the server
    /// answers.
    Probe(u64),
    /// The answer is late: look whether it waits behind other things that come.
    Doubt,
    /// Tell its channels that its server doesn't answer.
    Unresponsive,
    /// Tell them that it does again.
    Responsive,
}

/// The circuits of one context, as the thread that looks after them sees them.
#[derive(Default)]
pub(crate) struct Watch {
    circuits: HashMap<*const Circuit, Watched>,
    next: Option<Instant>,
}

struct Watched {
    circuit: Arc<Circuit>,
    heard_ns: i64,
    /// Looks since something came.
    quiet: u32,
    /// The server was asked and hasn't answered yet.
    is_probed: bool,
    is_unresponsive: bool,
    /// A channel of it.
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

    /// When to look next; never while there is no circuit.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Looks at all circuits if it is time.
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

    /// The server was asked.
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
            return None;
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

    /// A watch of one circuit with the channel 7, and its looks one after the other.
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

        /// Looks `count` times; returns the duties found, each with the number of its look.
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
            // The clock may be too coarse for two stamps.
            self.circuit.heard_ns.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn quiet_circuit_is_asked_and_unresponsive_only_when_it_does_not_answer() {
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
