//! Which channels are asked whether they are answered, and which of them stay without an answer.
//!
//! A gateway is one server to pvxs, but passes each question on to the IOC that serves the PV. When such an IOC
//! hangs, the questions for its PVs stay open while those for other PVs are answered. A server that answers its
//! clients itself does so in the order of their questions. So a channel is silent by itself only when a later
//! question of the same connection is answered; otherwise the circuit as a whole is late.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use super::isolation::Side;
use crate::liveness::{Circuit, now_ns};

/// Probes of a quiet circuit, which is probed about once a second, until all its channels have been asked.
const TURN: usize = 4;

/// Channels of a circuit that a probe asks.
const MOST: usize = 32;

/// Channels that probes ask in a second, over all circuits of a context: each has the share of its channels, and asks
/// one at least.
const MOST_IN_ALL: usize = 256;

/// Channels of a circuit in doubt that are asked with each check, to find one that is answered.
const MOST_IN_DOUBT: usize = 64;

/// Channels of a circuit that are asked with each check after one of them was found to be late.
const MOST_AT_ONCE: usize = 512;

/// Checks after which a channel is late: from now on its circuit's other channels are asked too.
const LATE_AFTER: u32 = 2;

/// Checks after which a late channel is silent, as many as for a circuit: 2 to 2.25 s.
const SILENT_AFTER: u32 = 8;

/// Checks after which a channel that was overtaken may be silent. At the first one its answer may lie in the socket
/// behind that of a question that was asked later.
const OVERTAKEN_FOR: u32 = 2;

/// Checks between two times at which all channels of a circuit are asked at once: 10 s.
const SWEEP_EVERY: u32 = 40;

/// The answer to a question; the shim's callback and the pva-cmd thread share it.
pub(super) struct Answer {
    circuit: Weak<Circuit>,
    /// Nanoseconds past the POSIX epoch; 0 before it.
    at_ns: AtomicI64,
}

impl Answer {
    pub(super) fn awaited(circuit: &Arc<Circuit>) -> Arc<Self> {
        Arc::new(Self {
            circuit: Arc::downgrade(circuit),
            at_ns: AtomicI64::new(0),
        })
    }

    /// Called by the thread of pvxs.
    pub(super) fn arrived(&self) {
        self.at_ns.store(now_ns(), Ordering::Release);
        // Afterwards, so that a check that finds the circuit answering finds this answer too.
        if let Some(circuit) = self.circuit.upgrade() {
            circuit.heard();
        }
    }
}

/// Why a circuit's channels are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The circuit is quiet.
    Probe,
    /// The circuit is in doubt.
    Doubt,
    /// Some of its channels are late, and others are answered.
    Late,
}

/// What a check has found about a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It was answered at this time (0: it was updated), and may have been reported as silent before.
    Answered { at_ns: i64, was_silent: bool },
    /// It is not answered while others are.
    Silent,
}

/// The questions of one context. `Operation` is what asks a question, until it is dropped.
pub(super) struct Questions<Operation> {
    circuits: HashMap<*const Circuit, Turns>,
    /// Questions without an answer, by channel.
    open: HashMap<u64, Question<Operation>>,
    /// Number of questions so far.
    count: u64,
    /// Answers of questions that have ended, until the shim has released them: the thread of pvxs frees no memory.
    ended: Vec<Arc<Answer>>,
}

/// The channels of a circuit take turns.
struct Turns {
    circuit: Weak<Circuit>,
    /// Their ids with the bits in reverse order, so that those that follow one another are a sample of all, not of
    /// the PVs that were opened together. A channel that has left the circuit is removed at its turn.
    channels: BTreeSet<u64>,
    /// The last one that was asked.
    last: u64,
    /// A question is open that no other has overtaken.
    is_late: bool,
    /// Channels that remain to be asked at once.
    rest: usize,
    /// Checks until all may be asked at once again.
    sweep_in: u32,
    /// Number of its open questions.
    open: usize,
    /// Bytes received when the circuit was last in doubt since its last probe.
    received: Option<u64>,
}

struct Question<Operation> {
    /// Its place in the order of questions.
    number: u64,
    side: Side,
    answer: Arc<Answer>,
    /// Checks since it was asked.
    looks: u32,
    /// Checks since a later question of the same connection was answered.
    overtaken: u32,
    /// Its circuit's other channels are asked at the same time or later, because of it or of another one.
    is_followed: bool,
    /// Its channel was reported as silent.
    is_silent: bool,
    /// Dropping it cancels it.
    _operation: Operation,
}

impl<Operation> Default for Questions<Operation> {
    fn default() -> Self {
        Self {
            circuits: HashMap::new(),
            open: HashMap::new(),
            count: 0,
            ended: Vec::new(),
        }
    }
}

impl<Operation> Questions<Operation> {
    /// A channel was connected by this circuit.
    pub(super) fn add(&mut self, circuit: &Arc<Circuit>, id: u64) {
        let turns = self.circuits.entry(Arc::as_ptr(circuit));
        let turns = turns.or_insert_with(|| Turns {
            circuit: Arc::downgrade(circuit),
            channels: BTreeSet::new(),
            last: 0,
            is_late: false,
            rest: 0,
            sweep_in: 0,
            open: 0,
            received: None,
        });
        turns.channels.insert(id.reverse_bits());
    }

    /// The channels to ask next. `is_on` says whether a channel is still on the circuit.
    pub(super) fn next(
        &mut self,
        circuit: &Arc<Circuit>,
        why: Why,
        is_on: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let all = match why {
            Why::Probe => self
                .circuits
                .values()
                .map(|turns| turns.channels.len())
                .sum(),
            Why::Doubt | Why::Late => 0,
        };
        let Some(turns) = self.circuits.get_mut(&Arc::as_ptr(circuit)) else {
            return Vec::new();
        };
        let most = turns.most(why, all);
        let (from, mut last) = (turns.last, turns.last);
        let after = (turns.channels).range((Bound::Excluded(from), Bound::Unbounded));
        let (mut next, mut gone) = (Vec::new(), Vec::new());
        for &turn in after.chain(turns.channels.range(..=from)) {
            if next.len() == most {
                break;
            }
            let id = turn.reverse_bits();
            if self.open.contains_key(&id) {
                continue;
            }
            if is_on(id) {
                next.push(id);
                last = turn;
            } else {
                gone.push(turn);
            }
        }
        turns.last = last;
        for turn in gone {
            turns.channels.remove(&turn);
        }
        next
    }

    /// A channel was asked.
    pub(super) fn asked(
        &mut self,
        id: u64,
        side: Side,
        why: Why,
        answer: Arc<Answer>,
        operation: Operation,
    ) {
        self.count += 1;
        let question = Question {
            number: self.count,
            side,
            answer,
            looks: 0,
            overtaken: 0,
            is_followed: why == Why::Late,
            is_silent: false,
            _operation: operation,
        };
        if let Some(turns) = self.circuits.get_mut(&question.circuit()) {
            turns.open += 1;
        }
        self.open.insert(id, question);
    }

    /// Whether a question for a channel of this circuit is open.
    pub(super) fn are_open(&self, circuit: &Arc<Circuit>) -> bool {
        let turns = self.circuits.get(&Arc::as_ptr(circuit));
        turns.is_some_and(|turns| turns.open > 0)
    }

    /// Counts a check, and finds channels that were answered or are silent. An update is a sign of life of its circuit,
    /// as an answer is. `is_updated` says whether a channel was
    /// updated after it was asked, and is `None` if it isn't on the circuit any more: when a connection is lost, pvxs
    /// would ask again on the next one.
    pub(super) fn look(
        &mut self,
        is_updated: impl Fn(u64, &Arc<Circuit>) -> Option<bool>,
    ) -> Vec<(u64, Finding)> {
        let mut found = Vec::new();
        let mut answered: HashMap<_, u64> = HashMap::new();
        self.ended.retain(|answer| Arc::strong_count(answer) > 1);
        self.circuits.retain(|_, turns| {
            turns.is_late = false;
            turns.sweep_in = turns.sweep_in.saturating_sub(1);
            turns.open = 0;
            turns.circuit.strong_count() > 0
        });
        let (ended, circuits) = (&mut self.ended, &mut self.circuits);
        self.open.retain(|&id, question| {
            let circuit = question.answer.circuit.upgrade();
            let known = circuit.and_then(|circuit| Some((is_updated(id, &circuit)?, circuit)));
            let Some((is_updated, circuit)) = known else {
                ended.push(Arc::clone(&question.answer));
                return false;
            };
            let at_ns = question.answer.at_ns.load(Ordering::Acquire);
            if at_ns != 0 {
                let last = answered.entry((question.circuit(), question.side));
                let last = last.or_default();
                *last = question.number.max(*last);
            } else if is_updated {
                circuit.heard();
            } else {
                question.looks += 1;
                if let Some(turns) = circuits.get_mut(&question.circuit()) {
                    turns.open += 1;
                }
                return true;
            }
            ended.push(Arc::clone(&question.answer));
            let was_silent = question.is_silent;
            found.push((id, Finding::Answered { at_ns, was_silent }));
            false
        });
        for (&id, question) in &mut self.open {
            let last = answered.get(&(question.circuit(), question.side));
            if question.overtaken > 0 || last.is_some_and(|&last| last > question.number) {
                question.overtaken += 1;
            }
            if let Some(turns) = self.circuits.get_mut(&question.circuit())
                && question.is_found_silent(turns)
            {
                found.push((id, Finding::Silent));
            }
        }
        found
    }

    /// The circuits whose channels are to be asked at once.
    pub(super) fn hurried(&mut self) -> Vec<Arc<Circuit>> {
        let circuits = self.circuits.values_mut().filter(|turns| turns.rest > 0);
        circuits
            .filter_map(|turns| {
                turns.rest = turns.rest.saturating_sub(MOST_AT_ONCE);
                turns.circuit.upgrade()
            })
            .collect()
    }

    /// A circuit's server answers again: its channels whose questions are open, which are returned, are silent by
    /// themselves until they are answered.
    pub(super) fn answers_again(&mut self, circuit: &Arc<Circuit>) -> Vec<u64> {
        let open = self.open.iter_mut();
        open.filter(|(_, question)| question.circuit() == Arc::as_ptr(circuit))
            .map(|(&id, question)| {
                question.is_silent = true;
                id
            })
            .collect()
    }

    /// Whether a channel was reported as silent.
    pub(super) fn is_silent(&self, id: u64) -> bool {
        (self.open.get(&id)).is_some_and(|question| question.is_silent)
    }

    /// Whether these bytes received show that something arrived since the circuit was last in doubt.
    pub(super) fn is_receiving(&mut self, circuit: &Arc<Circuit>, received: u64) -> bool {
        let turns = self.circuits.get_mut(&Arc::as_ptr(circuit));
        let before = turns.and_then(|turns| turns.received.replace(received));
        before.is_some_and(|before| before != received)
    }
}

impl Turns {
    /// How many channels are asked at most.
    fn most(&mut self, why: Why, all: usize) -> usize {
        match why {
            Why::Doubt => MOST_IN_DOUBT,
            Why::Late => MOST_AT_ONCE,
            Why::Probe => {
                self.received = None;
                let own = self.channels.len();
                // A server that is late isn't asked much more.
                let share = if self.is_late {
                    1
                } else {
                    MOST_IN_ALL * own / all.max(1)
                };
                own.div_ceil(TURN).min(MOST).min(share).max(1)
            }
        }
    }
}

impl<Operation> Question<Operation> {
    fn circuit(&self) -> *const Circuit {
        self.answer.circuit.as_ptr()
    }

    /// Whether its channel has just become silent.
    fn is_found_silent(&mut self, turns: &mut Turns) -> bool {
        if self.overtaken == 0 {
            turns.is_late = true;
            return false;
        }
        if self.looks >= LATE_AFTER && turns.sweep_in == 0 && !self.is_followed {
            self.is_followed = true;
            turns.rest = turns.channels.len();
            turns.sweep_in = SWEEP_EVERY;
        }
        let is_silent = self.looks >= SILENT_AFTER && self.overtaken >= OVERTAKEN_FOR;
        is_silent && !std::mem::replace(&mut self.is_silent, true)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    /// A circuit with channels, those that the server doesn't answer, and questions asked of it in their order.
    struct Bench {
        questions: Questions<()>,
        circuit: Arc<Circuit>,
        hung: HashSet<u64>,
        waiting: RefCell<BTreeMap<u64, Arc<Answer>>>,
        asked: usize,
    }

    impl Bench {
        fn new(channels: u64, hung: impl IntoIterator<Item = u64>) -> Self {
            let (mut questions, circuit) = (Questions::default(), Arc::new(Circuit::new()));
            (0..channels).for_each(|id| questions.add(&circuit, id));
            Self {
                questions,
                circuit,
                hung: hung.into_iter().collect(),
                waiting: RefCell::default(),
                asked: 0,
            }
        }

        fn ask(&mut self, why: Why) -> Vec<u64> {
            let next = self.questions.next(&self.circuit, why, |_| true);
            for &id in &next {
                let answer = Answer::awaited(&self.circuit);
                self.waiting.borrow_mut().insert(id, Arc::clone(&answer));
                self.questions.asked(id, Side::First, why, answer, ());
            }
            self.asked += next.len();
            next
        }

        fn answer(&self) {
            self.waiting.borrow_mut().retain(|id, answer| {
                let is_hung = self.hung.contains(id);
                if !is_hung {
                    answer.arrived();
                }
                is_hung
            });
        }

        /// Checks `count` times, with a probe at every fourth; returns the channels that became silent and those that
        /// are not any more.
        fn looks(&mut self, count: u32) -> (HashSet<u64>, HashSet<u64>) {
            let (mut silent, mut back) = (HashSet::new(), HashSet::new());
            for number in 0..count {
                self.answer();
                for (id, finding) in self.questions.look(|_, _| Some(false)) {
                    match finding {
                        Finding::Silent => silent.insert(id),
                        Finding::Answered { was_silent, .. } => was_silent && back.insert(id),
                    };
                }
                if number % 4 == 0 {
                    self.ask(Why::Probe);
                }
                for _ in self.questions.hurried() {
                    self.ask(Why::Late);
                }
            }
            (silent, back)
        }
    }

    #[test]
    fn channels_of_a_hung_ioc_are_silent_and_no_others_until_it_goes_on() {
        for (channels, hung) in [(6, 3..6), (2, 0..1), (100, 0..10), (1_000, 100..600)] {
            let mut bench = Bench::new(channels, hung.clone());
            let (silent, back) = bench.looks(24);
            assert_eq!(silent, hung.clone().collect(), "of {channels}");
            assert!(back.is_empty());
            bench.hung.clear();
            let (silent, back) = bench.looks(4);
            assert!(silent.is_empty());
            assert_eq!(back, hung.collect());
        }
    }

    #[test]
    fn server_that_is_late_as_a_whole_has_no_silent_channels_and_is_not_flooded() {
        let mut bench = Bench::new(100, 0..100);
        assert!(bench.looks(40).0.is_empty());
        // The first probe, and one more channel each time.
        assert_eq!(bench.asked, 25 + 9);
    }

    #[test]
    fn every_channel_has_its_turn_and_the_number_is_bounded() {
        let mut bench = Bench::new(1_000, []);
        let turns = 1_000_usize.div_ceil(MOST);
        let mut asked = HashSet::new();
        for _ in 0..turns {
            let next = bench.ask(Why::Probe);
            assert!(next.len() <= MOST, "{}", next.len());
            asked.extend(next);
            bench.answer();
            bench.questions.look(|_, _| Some(false));
        }
        assert_eq!(asked.len(), 1_000);
        let other = Arc::new(Circuit::new());
        (1_000..100_000).for_each(|id| bench.questions.add(&other, id));
        assert_eq!(bench.ask(Why::Probe).len(), 2, "its share of 256");
    }

    #[test]
    fn channel_that_is_updated_or_gone_is_not_silent() {
        for state in [Some(true), None] {
            let mut bench = Bench::new(2, 0..2);
            let before_ns = bench.circuit.heard_ns();
            bench.ask(Why::Doubt);
            bench.questions.look(|_, _| state);
            let is_heard = bench.circuit.heard_ns() > before_ns;
            assert_eq!(is_heard, state == Some(true), "an update is a sign of life");
            bench.hung.remove(&1);
            bench.ask(Why::Doubt);
            for _ in 0..20 {
                bench.answer();
                bench.ask(Why::Probe);
                let found = bench
                    .questions
                    .look(|id, _| if id == 0 { state } else { Some(false) });
                assert!(found.iter().all(|(_, finding)| *finding != Finding::Silent));
            }
        }
    }

    #[test]
    fn channels_without_an_answer_stay_silent_when_their_circuit_answers_again() {
        let mut bench = Bench::new(4, 0..4);
        bench.ask(Why::Doubt);
        bench.hung.remove(&3);
        bench.answer();
        bench.questions.look(|_, _| Some(false));
        bench.questions.answers_again(&bench.circuit.clone());
        let silent = (0..4).filter(|&id| bench.questions.is_silent(id));
        assert_eq!(silent.collect::<Vec<_>>(), [0, 1, 2]);
        assert!(bench.questions.are_open(&bench.circuit));
    }

    #[test]
    fn circuit_in_doubt_receives_when_its_bytes_increase() {
        let mut bench = Bench::new(1, []);
        let circuit = bench.circuit.clone();
        assert!(!bench.questions.is_receiving(&circuit, 5));
        assert!(!bench.questions.is_receiving(&circuit, 5));
        assert!(bench.questions.is_receiving(&circuit, 6));
        bench.ask(Why::Probe);
        assert!(!bench.questions.is_receiving(&circuit, 7));
    }
}
