//! Gives the formulas of the source `eq` the values of their inputs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_schema::types::PvId;
use slab::Slab;

use crate::ingest::formula::{FormulaInput, OpenFormula, OpenedFormulas};
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// One input is given in this time; further formulas get theirs in later ticks, so that a client with many formulas
/// doesn't delay the ticks. An input and the result from it cost a tick 3 to 4 µs.
const INPUT_TAKES: Duration = Duration::from_micros(40);

/// At most the inputs of this time are given at once.
const SAVED: Duration = Duration::from_millis(40);

/// Memory of fewer formulas is not worth freeing.
const MANY: usize = 1024;

/// The sink that follows the inputs of all open formulas.
pub struct FormulaInputs {
    opened: OpenedFormulas,
    followed: Slab<Followed>,
    /// By the addresses of formulas.
    by_formula: HashMap<usize, usize>,
    by_input: HashMap<PvId, OfInput>,
    /// The formulas that are to get their inputs and compute nothing now.
    stale: VecDeque<usize>,
    /// Until when the inputs that were given take, see [`INPUT_TAKES`].
    paid_until: Instant,
}

/// A formula and its inputs, which the registry holds for as long as it is open.
struct Followed {
    formula: Arc<OpenFormula>,
    inputs: Vec<PvId>,
    /// An input has changed since it was given its inputs.
    is_stale: bool,
    /// It computes from the inputs that it was given.
    is_computing: bool,
}

/// The formulas of one input.
#[derive(Default)]
struct OfInput {
    /// Number of formulas.
    formulas: usize,
    /// Those that were given the present value. A change visits no others: the time that ticks take for formulas follows
    /// the inputs that are given, which are limited, and not the number of formulas.
    current: HashSet<usize>,
}

fn address(formula: &Arc<OpenFormula>) -> usize {
    Arc::as_ptr(formula).addr()
}

impl FormulaInputs {
    /// A sink that follows the formulas of `opened`.
    #[must_use]
    pub fn new(opened: OpenedFormulas) -> Self {
        Self {
            opened,
            followed: Slab::new(),
            by_formula: HashMap::new(),
            by_input: HashMap::new(),
            stale: VecDeque::new(),
            paid_until: Instant::now(),
        }
    }

    fn follow(&mut self, formula: Arc<OpenFormula>, inputs: Vec<PvId>) {
        let index = self.followed.vacant_key();
        for input in &inputs {
            self.by_input.entry(*input).or_default().formulas += 1;
        }
        self.by_formula.insert(address(&formula), index);
        self.followed.insert(Followed {
            formula,
            inputs,
            is_stale: true,
            is_computing: false,
        });
        self.stale.push_back(index);
    }

    fn forget(&mut self, formula: &Arc<OpenFormula>) {
        // A formula without inputs isn't followed.
        let Some(index) = self.by_formula.remove(&address(formula)) else {
            return;
        };
        for input in self.followed.remove(index).inputs {
            if let Some(of) = self.by_input.get_mut(&input) {
                of.current.remove(&index);
                of.formulas -= 1;
                if of.formulas == 0 {
                    self.by_input.remove(&input);
                }
            }
        }
    }

    /// The formulas of a PV that has changed are to get their inputs.
    fn changed(&mut self, pv: PvId) {
        let Some(of) = self.by_input.get_mut(&pv) else {
            return;
        };
        for index in of.current.drain() {
            let followed = &mut self.followed[index];
            if !mem::replace(&mut followed.is_stale, true) && !followed.is_computing {
                self.stale.push_back(index);
            }
        }
    }

    /// A formula has used the inputs that it was given.
    fn computed(&mut self, formula: &Arc<OpenFormula>) {
        let Some(&index) = self.by_formula.get(&address(formula)) else {
            return;
        };
        let followed = &mut self.followed[index];
        followed.is_computing = false;
        if followed.is_stale {
            self.stale.push_back(index);
        }
    }

    /// Gives formulas their inputs, those first that have waited longest. One that still computes gets none: it would
    /// only be given newer ones again.
    fn give(&mut self, table: &Table, now: Instant) {
        self.paid_until = self.paid_until.max(now.checked_sub(SAVED).unwrap_or(now));
        while self.paid_until < now
            && let Some(index) = self.stale.pop_front()
        {
            // It may have been closed since, and another one may have its index.
            let Some(followed) = self.followed.get_mut(index) else {
                continue;
            };
            if !followed.is_stale || followed.is_computing {
                continue;
            }
            (followed.is_stale, followed.is_computing) = (false, true);
            for input in &followed.inputs {
                if let Some(of) = self.by_input.get_mut(input) {
                    of.current.insert(index);
                }
            }
            let inputs = followed.inputs.iter().map(|pv| input(table, *pv));
            followed.formula.give(inputs.collect());
            let given = u32::try_from(followed.inputs.len()).unwrap_or(u32::MAX);
            self.paid_until += INPUT_TAKES * given;
        }
    }
}

impl TickSink for FormulaInputs {
    fn has_work(&self) -> bool {
        !self.opened.is_empty() || !self.stale.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.followed.is_empty() && self.opened.is_empty()
    }

    fn collect(&mut self) {
        while let Some((formula, inputs)) = self.opened.next() {
            self.follow(formula, inputs);
        }
        while let Some(formula) = self.opened.next_computed() {
            self.computed(&formula);
        }
        let mut any_closed = false;
        while let Some(formula) = self.opened.next_closed() {
            self.forget(&formula);
            any_closed = true;
        }
        if any_closed && self.followed.capacity() > MANY.max(8 * self.followed.len()) {
            self.followed.shrink_to_fit();
            self.by_formula.shrink_to_fit();
            self.stale.shrink_to_fit();
        }
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, now: Now) {
        for row in &changes.rows {
            self.changed(row.pv);
        }
        for row in &changes.large {
            self.changed(row.pv);
        }
        let connections = changes.connections.iter().map(|(pv, _)| *pv);
        let metadata = changes.metadata.iter().map(|(pv, _)| *pv);
        for pv in connections.chain(metadata) {
            self.changed(pv);
        }
        if !self.stale.is_empty() {
            self.give(table, now.instant);
            self.opened.compute();
        }
    }
}

/// The value of a connected PV.
fn input(table: &Table, pv: PvId) -> Option<FormulaInput> {
    let entry = table.get(pv).filter(|entry| entry.is_complete())?;
    let latest = entry.latest.as_ref()?;
    Some(FormulaInput {
        metadata: Arc::clone(entry.metadata.as_ref()?),
        value: latest.value.clone(),
        alarm: latest.alarm,
        detail: latest.detail.clone(),
        time_ns: latest.time_ns,
        heard_ns: entry.connection.heard_ns,
    })
}

#[cfg(test)]
mod tests {
    use pvwire_schema::types::Alarm;

    use super::*;
    use crate::compute::{Pool, cpu_time};
    use crate::ingest::formula::FormulaSource;
    use crate::ingest::{Event, Intake, Line, Queue, RowValue, Source};

    const FORMULAS: u32 = 4_000;
    const FAST: PvId = PvId(FORMULAS);

    /// The tick's side of a relay with one input and many formulas.
    struct Bench {
        intake: Arc<Intake>,
        table: Table,
        line: Line,
        inputs: FormulaInputs,
        tick: u64,
    }

    impl Bench {
        fn new(source: &FormulaSource) -> Self {
            let intake = Intake::new();
            let line = Line::open(&intake, FAST, false);
            line.connected(false);
            line.event(Event::Metadata(Box::default()));
            Self {
                table: Table::new(Duration::from_secs(5)),
                line,
                inputs: FormulaInputs::new(source.opened()),
                intake,
                tick: 0,
            }
        }

        fn tick(&mut self, at: Instant) {
            self.tick += 1;
            let now = Now {
                instant: at,
                wall_ns: 0,
            };
            let mut changes = Changes {
                tick: self.tick,
                ..Changes::default()
            };
            self.inputs.collect();
            self.intake
                .drain(|taken| self.table.apply(&mut changes, now, taken));
            self.inputs.tick(&self.table, &Arc::new(changes), now);
        }

        fn update(&self, count: u32) {
            for n in 0..count {
                let value = RowValue::Number(f64::from(n));
                self.line.update(i64::from(n) + 1, value, Alarm::NONE);
            }
        }
    }

    #[test]
    fn changes_of_an_input_cost_nothing_for_formulas_that_still_compute() {
        let pool = Pool::start().unwrap();
        let source = FormulaSource::start("ca", pool.handle()).unwrap();
        // What is given from now on is never computed.
        drop(pool);
        let mut bench = Bench::new(&source);
        let open = |n: u32| {
            let line = Line::open(&bench.intake, PvId(n), false);
            let monitor = source.open(&format!("`A` + {n}"), line, Queue::Front);
            let monitor = monitor.unwrap();
            monitor.follow(vec![FAST]);
            monitor
        };
        let _formulas: Vec<_> = (0..FORMULAS).map(open).collect();
        bench.update(1);
        let mut now = Instant::now();
        // All of them are given the first value, some in each tick.
        for _ in 0..100 {
            now += SAVED;
            bench.tick(now);
        }
        assert!(bench.inputs.stale.is_empty());
        bench.update(1);
        bench.tick(now);
        let begun = cpu_time();
        for _ in 0..200 {
            now += Duration::from_millis(20);
            bench.update(10);
            bench.tick(now);
        }
        let took = cpu_time() - begun;
        assert!(took < Duration::from_millis(200), "{took:?}");
        assert!(!bench.inputs.has_work(), "nothing can be given");
    }
}
