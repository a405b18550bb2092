//! Gives the formulas of the source `eq` the values of their inputs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;

use pvwire_schema::types::PvId;
use slab::Slab;

use crate::ingest::formula::{FormulaInput, OpenFormula, OpenedFormulas};
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// Maximum number of inputs that are given in one tick; further formulas get theirs in the next ones, so that a client
/// with many formulas doesn't delay the ticks.
const INPUTS_PER_TICK: usize = 4_096;

/// The sink that follows the inputs of all open formulas.
pub struct FormulaInputs {
    opened: OpenedFormulas,
    followed: Slab<Followed>,
    /// By the addresses of formulas.
    by_formula: HashMap<usize, usize>,
    by_input: HashMap<PvId, HashSet<usize>>,
    /// The formulas that are to get their inputs, each once.
    stale: VecDeque<usize>,
}

/// A formula and its inputs, which the registry holds for as long as it is open.
struct Followed {
    formula: Arc<OpenFormula>,
    inputs: Vec<PvId>,
    is_stale: bool,
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
        }
    }

    fn follow(&mut self, formula: Arc<OpenFormula>, inputs: Vec<PvId>) {
        let index = self.followed.vacant_key();
        for input in &inputs {
            self.by_input.entry(*input).or_default().insert(index);
        }
        self.by_formula.insert(address(&formula), index);
        self.followed.insert(Followed {
            formula,
            inputs,
            is_stale: true,
        });
        self.stale.push_back(index);
    }

    fn forget(&mut self, formula: &Arc<OpenFormula>) {
        // A formula without inputs isn't followed.
        let Some(index) = self.by_formula.remove(&address(formula)) else {
            return;
        };
        for input in self.followed.remove(index).inputs {
            if let Some(formulas) = self.by_input.get_mut(&input) {
                formulas.remove(&index);
                if formulas.is_empty() {
                    self.by_input.remove(&input);
                }
            }
        }
    }

    /// The formulas of a PV that has changed are to get their inputs.
    fn changed(&mut self, pv: PvId) {
        for &index in self.by_input.get(&pv).into_iter().flatten() {
            if !mem::replace(&mut self.followed[index].is_stale, true) {
                self.stale.push_back(index);
            }
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
        while let Some(formula) = self.opened.next_closed() {
            self.forget(&formula);
        }
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, _now: Now) {
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
        let mut given = 0;
        while given < INPUTS_PER_TICK
            && let Some(index) = self.stale.pop_front()
        {
            // It may have been closed since, and another one may have its index.
            if let Some(followed) = self.followed.get_mut(index)
                && mem::take(&mut followed.is_stale)
            {
                given += followed.inputs.len();
                let inputs = followed.inputs.iter().map(|pv| input(table, *pv));
                followed.formula.give(inputs.collect());
            }
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
